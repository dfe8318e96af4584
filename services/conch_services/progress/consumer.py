"""The progress consumer: reads `task.progressed`, `action.taken`, `weights.set`, publishes `reward.assigned`, writes
logs."""

from __future__ import annotations

from conch import consumer, follow
from conch.rewards.progress import SCORER, VERSION, ProgressState, fold
from conch_schemas import ActionTaken, RewardAssigned, TaskProgressed, WeightsSet
from conch_services.progress.log import EpisodeLogs


@consumer(
    TaskProgressed,
    ActionTaken,
    WeightsSet,
    name=SCORER,
    version=VERSION,
    state=ProgressState,
    emits=[RewardAssigned],
    setup=lambda context: EpisodeLogs(context.home, context.report),
)
def progress(
    state: ProgressState, fact: TaskProgressed | ActionTaken | WeightsSet, logs: EpisodeLogs
) -> tuple[ProgressState, RewardAssigned | None]:
    """The fold of one agent's episodes: a line in the log for each step, and, where progress has a weight, a score for
    each act. The score follows from the step, also where the act said it: it is the same event either way."""
    state, told = fold(state, fact)
    if told.row is not None:
        logs.write(fact.agent, told.row)
    if told.score is None:
        return state, None
    step = fact.task_step() if isinstance(fact, ActionTaken) else None
    assigned = follow(
        step or fact, RewardAssigned, consumer=SCORER, version=told.score.version, scorer=SCORER, scores=(told.score,)
    )
    return state, assigned
