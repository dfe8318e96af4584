"""The consumer of a judge: reads `action.decided` and `action.taken`, publishes `reward.assigned`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conch import consumer, follow
from conch.consumer import ServiceContext
from conch.errors import JudgeError
from conch.log import get_logger
from conch.processes import ConsumerNote
from conch_schemas import ActionDecided, ActionTaken, RewardAssigned

if TYPE_CHECKING:
    from conch.judge import Judge

log = get_logger(__name__)

ROUNDS = 8
"""Events in hand for each question that may be asked at once, two of them an act's: so that whenever a question is
answered the next one is asked, while others are waited for, or wait before they are asked again."""


def _made(context: ServiceContext) -> Judge:
    """Raises ConfigError for a judge that cannot be made of the settings."""
    from conch.judge import Judge  # late: with it comes an HTTP client, for those that have judges

    def warn(sentence: str) -> None:
        context.report(ConsumerNote(consumer=f"judge {context.instance}", note=sentence))

    return Judge(context.instance, context.settings, context.home, warn=warn)


@consumer(
    ActionDecided,
    ActionTaken,
    name="judge",
    version=lambda own: own.version,
    at_once=lambda own: ROUNDS * own.concurrency,
    begin="weights",
    emits=[RewardAssigned],
    setup=_made,
    close=lambda own: own.close(),
    instances="rewards.judges",
)
async def judge(event: ActionDecided | ActionTaken, own: Judge) -> RewardAssigned | None:
    """One judge: one event with one score per act, many acts judged at once, each published when it is answered.

    It begins where it was first given a weight: earlier acts are judged by a backfill, which costs.
    """
    if isinstance(event, ActionTaken):
        return await _scored(own, event)
    await _remember(own, event)
    return None


async def _remember(judge: Judge, decided: ActionDecided) -> None:
    """Store the mind's input until its act comes; a judge that cannot store it judges without it."""
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
