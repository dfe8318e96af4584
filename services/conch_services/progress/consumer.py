"""`task.progressed`, `action.taken` and `weights.set` in, `reward.assigned` out; and each episode's log."""

from __future__ import annotations

from conch.consumer.follow import follow
from conch.consumer.service import ServiceContext
from conch.consumer.spec import ConsumerSpec
from conch.rewards.progress import SCORER, VERSION, ProgressState, fold
from conch_schemas import ActionTaken, RewardAssigned, TaskProgressed, WeightsSet
from conch_services.progress.log import EpisodeLogs


def progress_consumer(context: ServiceContext) -> ConsumerSpec:
    """The fold of one agent's episodes: a line in the log for each step, and, where progress has a weight, a score for
    each act."""
    logs = EpisodeLogs(context.home, context.report)

    def progress(
        state: ProgressState, fact: TaskProgressed | ActionTaken | WeightsSet
    ) -> tuple[ProgressState, RewardAssigned | None]:
        state, told = fold(state, fact)
        if told.row is not None:
            logs.write(fact.agent, told.row)
        if told.score is None:
            return state, None
        assigned = follow(
            fact, RewardAssigned, consumer=SCORER, version=told.score.version, scorer=SCORER, scores=(told.score,)
        )
        return state, assigned

    return ConsumerSpec(
        name=SCORER,
        version=VERSION,
        kinds=(TaskProgressed, ActionTaken, WeightsSet),
        handle=progress,
        state=ProgressState,
        initial=ProgressState,
        emits=(RewardAssigned,),
    )
