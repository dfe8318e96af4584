"""`action.decided` and `action.taken` in, `reward.assigned` out."""

from __future__ import annotations

from conch.consumer.follow import follow
from conch.consumer.service import ServiceContext
from conch.consumer.spec import ConsumerSpec
from conch.errors import JudgeError
from conch.judge import Judge
from conch.log import get_logger
from conch.processes.messages import ConsumerNote
from conch_schemas import ActionDecided, ActionTaken, RewardAssigned

log = get_logger(__name__)

ROUNDS = 8
"""Events in hand for each question that may be asked at once, two of them an act's: so that whenever a question is
answered the next one is asked, while others are waited for, or wait before they are asked again."""


def judge_consumer(context: ServiceContext, name: str) -> ConsumerSpec:
    """The judge `name`: one event with one score per act, many acts judged at once, each said when it is answered.

    It begins where it was first given a weight: to judge the past is another matter, and costs. Raises ConfigError.
    """

    def warn(sentence: str) -> None:
        context.report(ConsumerNote(consumer=f"judge {name}", note=sentence))

    judge = Judge(name, context.settings, context.home, warn=warn)

    async def handle(event: ActionDecided | ActionTaken) -> RewardAssigned | None:
        if isinstance(event, ActionTaken):
            return await _scored(judge, event)
        await _remember(judge, event)
        return None

    return ConsumerSpec(
        name=judge.scorer,
        version=judge.version,
        kinds=(ActionDecided, ActionTaken),
        handle=handle,
        emits=(RewardAssigned,),
        begin=context.begin,
        at_once=ROUNDS * context.settings.rewards.judges[name].concurrency,
        close=judge.close,
    )


async def _remember(judge: Judge, decided: ActionDecided) -> None:
    """What the mind was given, for when its act comes; a judge that cannot write it down judges without it."""
    try:
        if decided.action_id is not None:
            await judge.remember([(decided.action_id, decided.messages)])
    except JudgeError as error:
        log.warning("judge.prompts_not_kept", judge=judge.scorer, why=str(error))


async def _scored(judge: Judge, action: ActionTaken) -> RewardAssigned:
    score = await judge.judge_act(action)
    return follow(
        action, RewardAssigned, consumer=judge.scorer, version=judge.version, scorer=judge.scorer, scores=(score,)
    )
