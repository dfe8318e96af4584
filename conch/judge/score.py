"""One trajectory judged by a model; its cache is a value. Training and the live judge share this."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from conch.errors import JudgeError
from conch.judge.answer import Judgement, read_judgement
from conch.judge.question import VERSION, JudgeQuestion, question_of
from conch.retry import JUDGE_REQUEST
from conch.rules import Trajectory, cache_key

T = TypeVar("T")

Ask = Callable[[JudgeQuestion], Awaitable[str]]
"""Asks a model: its raw answer. Raises JudgeError where there is none, `passing` where another try may bring one."""

MOST_WAIT = 60.0
"""Seconds: an endpoint that asks for a longer wait has its question given up."""


@dataclass(frozen=True)
class JudgeConfig:
    """A judge: whom to ask, by which rubric."""

    rubric: str
    model: str
    """The model's name: another model's scores are others."""
    ask: Ask
    tries: int = 1
    """Times a question is asked in all, where a try fails in passing or its answer cannot be read."""
    version: str = VERSION
    """Of the words of the question."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits, in seconds, between two tries."""


def judge_version(rubric: str, model: str, version: str = VERSION) -> str:
    """What a judge's scores name as their version: that of the words, `+`, 12 hex digits of rubric and model."""
    return f"{version}+{_digest(rubric, model)[:12]}"


def judge_key(trajectory: Trajectory, config: JudgeConfig) -> str:
    """64 hex digits that two trajectories share exactly when this judge is asked the very same about both.

    `cache_key` of the messages with rubric, model and version (REWARDS 7): a changed rubric never serves an old score.
    """
    return _digest(cache_key(trajectory.messages), config.rubric, config.model, config.version)


async def score_with_llm_judge(
    trajectory: Trajectory, config: JudgeConfig, cache: Mapping[str, float]
) -> tuple[float, Mapping[str, float]]:
    """(score in 0..1, cache): on a hit the same mapping, and nothing is asked; on a miss a new one with this score.

    Raises JudgeError where there is no score: a failure is never a zero and never in the cache. `cache` is not changed.
    """
    key = judge_key(trajectory, config)
    if key in cache:
        return cache[key], cache
    score = (await judged(trajectory, config)).score
    return score, {**cache, key: score}


async def judged(trajectory: Trajectory, config: JudgeConfig) -> Judgement:
    """What the model says of this trajectory, asked anew. Raises JudgeError. Cancelled, nothing is left behind."""
    question = question_of(trajectory, config.rubric)
    return await answered(config, question, lambda answer: read_judgement(answer, trajectory.messages))


async def answered(config: JudgeConfig, question: JudgeQuestion, read: Callable[[str], T]) -> T:
    """What `read` makes of the answer, tried again with back-off and jitter, or as the endpoint asked to be waited for.

    Raises the last try's JudgeError, with how many there were.
    """
    failures = 0  # for which the endpoint did not say how long to wait
    for number in range(1, config.tries + 1):
        try:
            return read(await config.ask(question))
        except JudgeError as error:
            wait = error.after
            if wait is None:
                failures += 1
                wait = JUDGE_REQUEST.after(failures)
            if not error.passing or wait > MOST_WAIT or number == config.tries:
                asked = f" (asked {number} times)" if number > 1 else ""
                raise JudgeError(f"{error}{asked}", unreachable=error.unreachable) from None
        await config.sleep(wait)
    raise JudgeError("a judge asks at least once: tries is 0")


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
