"""`action.decided` and `action.taken` in, `reward.assigned` out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from conch.consumer.follow import follow
from conch.consumer.service import ServiceContext
from conch.consumer.spec import ConsumerSpec
from conch.errors import JudgeError
from conch.rewards.judge import Judge
from conch_schemas import ActionDecided, ActionTaken, RewardAssigned

log = structlog.get_logger(__name__)

ROUNDS = 8
"""Events at once for each question that may be asked at once, two of them an act's: while one is waited for, the next
are asked."""


def judge_consumer(context: ServiceContext, name: str) -> ConsumerSpec:
    """The judge `name`: one event with one score per act, many acts judged at once.

    It begins where it was first given a weight: to judge the past is another matter, and costs. Raises ConfigError.
    """

    def warn(sentence: str) -> None:
        context.report(consumer=f"judge {name}", notes=sentence)

    judge = Judge(name, context.settings, context.home, warn=warn)

    async def handle(events: Sequence[ActionDecided | ActionTaken]) -> list[RewardAssigned]:
        await _remember(judge, [event for event in events if isinstance(event, ActionDecided)])
        async with asyncio.TaskGroup() as group:
            scoring = [
                group.create_task(_scored(judge, event), name=f"conch.{judge.scorer}")
                for event in events
                if isinstance(event, ActionTaken)
            ]
        return [task.result() for task in scoring]

    return ConsumerSpec(
        name=judge.scorer,
        version=judge.version,
        kinds=(ActionDecided, ActionTaken),
        handle=handle,
        emits=(RewardAssigned,),
        begin=context.begin,
        batch=ROUNDS * context.settings.rewards.judges[name].concurrency,
        close=judge.close,
    )


async def _remember(judge: Judge, decided: Sequence[ActionDecided]) -> None:
    """What the minds were given, for when their acts come; a judge that cannot write it down judges without it."""
    try:
        await judge.remember([(event.action_id, event.messages) for event in decided if event.action_id is not None])
    except JudgeError as error:
        log.warning("judge.prompts_not_kept", judge=judge.scorer, why=str(error))


async def _scored(judge: Judge, action: ActionTaken) -> RewardAssigned:
    score = await judge.judge_act(action)
    return follow(
        action, RewardAssigned, consumer=judge.scorer, version=judge.version, scorer=judge.scorer, scores=(score,)
    )
