"""Runs one rule on one subject: the verdict is a value, not applicable, or a failure. A missing score is never 0."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from conch.errors import ContractError
from conch.rules.info import rule_of
from conch.rules.value import WORDS, meaning_of, refusal_of
from conch.text import safe_text
from conch_schemas import ScoreStatus

T = TypeVar("T")

Result = float | tuple[float | None, str] | None
"""What a rule returns: a finite number (True is 1, False is 0; see `conch.rules.value`), None for not applicable, or
(number or None, why)."""
Rule = Callable[[T], Result | Awaitable[Result]]
"""A function from a subject (a trajectory, an act) to a result. Sync or async."""

LARGEST: Final = 1e150
"""Largest absolute value: the square of a larger one would overflow."""
_ANY: Final = (-LARGEST, LARGEST)
NOT_APPLICABLE: Final = "the rule says: not applicable"
"""The explanation of a None of a rule that gives no reason."""


class Verdict(NamedTuple):
    """The result of one rule for one subject."""

    value: float | None
    """Present exactly when `status` is scored."""
    status: ScoreStatus
    explanation: str = ""
    """What the rule said of the value, or why there is none, in a sentence."""


async def verdict(rule: Rule[T], subject: T) -> Verdict:
    """The verdict of `rule` on `subject`. Every failure of the rule becomes a verdict, unless it never returns.

    None is not_applicable. An exception, also SystemExit, is an error, as is a value that is not a finite number,
    exceeds LARGEST or lies outside the range that `@rule` declares; a TimeoutError is a timeout. An awaitable result is
    awaited, also from a plain function. Cancelled, it cancels the rule.
    """
    try:
        found = rule(subject)
        value, why = meaning_of(await found if inspect.isawaitable(found) else found)
        if value is None:
            return Verdict(None, "not_applicable", why or NOT_APPLICABLE)
        if (refusal := refusal_of(value, *_range(rule))) is not None:
            return Verdict(None, "error", refusal)
        return Verdict(float(value), "scored", why)
    except TimeoutError as error:
        return Verdict(None, "timeout", _sentence(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # this task was cancelled, not something that the rule awaited
        return Verdict(None, "error", _sentence(error))


def required(said: Verdict, who: str = "") -> float | None:
    """The value, or None: not applicable. Raises ContractError, or TimeoutError, where the rule failed."""
    if said.status in ("scored", "not_applicable"):
        return said.value
    sentence = f"{who}: {said.explanation}" if who else said.explanation
    raise TimeoutError(sentence) if said.status == "timeout" else ContractError(sentence)


def _range(rule: Rule[Any]) -> tuple[float, float]:
    declared = rule_of(rule)
    return _ANY if declared is None else declared.info.range


def _sentence(error: BaseException) -> str:
    said = safe_text(str(error), one_line=True)[:WORDS]
    return (
        said
        if isinstance(error, ContractError | TimeoutError) and said
        else f"{type(error).__name__}: {said}".rstrip(": ")
    )
