"""One trajectory judged by a model, with the cache as a value. Shared by training and the live judge."""

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
"""Asks a model; returns its raw answer. Raises JudgeError on failure, `passing` where a retry may succeed."""

MOST_WAIT = 60.0
"""Seconds: an endpoint that asks for a longer wait ends the question."""


@dataclass(frozen=True)
class JudgeConfig:
    """A judge's rubric, model and function that asks it."""

    rubric: str
    model: str
    """The model's name: scores of different models are kept apart."""
    ask: Ask
    tries: int = 1
    """Most attempts at a question, where one fails temporarily or its answer cannot be parsed."""
    version: str = VERSION
    """Version of the question's wording."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits, in seconds, between two tries."""


def judge_version(rubric: str, model: str, version: str = VERSION) -> str:
    """The version of a judge's scores: that of the wording, `+`, 12 hex digits of rubric and model."""
    return f"{version}+{_digest(rubric, model)[:12]}"


def judge_key(trajectory: Trajectory, config: JudgeConfig) -> str:
    """64 hex digits that are equal for two trajectories exactly when this judge gets the same question about both.

    `cache_key` of the messages with rubric, model and version: a changed rubric never serves an old score.
    """
    return _digest(cache_key(trajectory.messages), config.rubric, config.model, config.version)


async def score_with_llm_judge(
    trajectory: Trajectory, config: JudgeConfig, cache: Mapping[str, float]
) -> tuple[float, Mapping[str, float]]:
    """(score in 0..1, cache): a hit returns the same mapping, without a request; a miss a new one with this score.

    Raises JudgeError where there is no score: a failure is never 0 and never cached. `cache` is not changed.
    """
    key = judge_key(trajectory, config)
    if key in cache:
        return cache[key], cache
    score = (await judged(trajectory, config)).score
    return score, {**cache, key: score}


async def judged(trajectory: Trajectory, config: JudgeConfig) -> Judgement:
    """The model's judgement of this trajectory, without a cache. Raises JudgeError. Cancelling has no side effect."""
    question = question_of(trajectory, config.rubric)
    return await answered(config, question, lambda answer: read_judgement(answer, trajectory.messages))


async def answered(config: JudgeConfig, question: JudgeQuestion, read: Callable[[str], T]) -> T:
    """The answer as `read` parses it, retried with back-off and jitter, or after the wait that the endpoint asked for.

    Raises the last attempt's JudgeError, with the number of attempts.
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
