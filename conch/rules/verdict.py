"""`verdict`: run one rule on one subject and return a value, not applicable, or a failure. A missing score is never
0."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable
from numbers import Real
from typing import Any, Final, NamedTuple, TypeVar

from conch.errors import ContractError
from conch.rules.info import rule_of
from conch.text import safe_text
from conch_schemas import ScoreStatus

T = TypeVar("T")

Rule = Callable[[T], float | Awaitable[float | None] | None]
"""From what is scored (a trajectory, an act) to a finite number, or None: not applicable. Sync or async."""

LARGEST: Final = 1e150
"""A value beyond is refused: its square is no number any more."""
_ANY: Final = (-LARGEST, LARGEST)
_SHOWN: Final = 80


class Verdict(NamedTuple):
    """The result of one rule on one subject: a value, or a status without one."""

    value: float | None
    """Present exactly when `status` is scored."""
    status: ScoreStatus
    explanation: str = ""
    """Why there is no value, in a sentence."""


async def verdict(rule: Rule[T], subject: T) -> Verdict:
    """The verdict of `rule` on `subject`. Every outcome but an endless wait or a cancellation gives a verdict.

    None is not_applicable. An exception, also SystemExit, is an error, as is a value that is no finite number, lies
    beyond LARGEST or outside the range that `@rule` declares; a TimeoutError is a timeout. An awaitable is awaited,
    also when the function is not declared async. Cancelled, it cancels the rule.
    """
    try:
        found = rule(subject)
        value = await found if inspect.isawaitable(found) else found
        if value is None:
            return Verdict(None, "not_applicable", "the rule says: not applicable")
        return Verdict(_checked(value, rule), "scored")
    except TimeoutError as error:
        return Verdict(None, "timeout", _sentence(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # this task is cancelled, not a task that the rule waited for
        return Verdict(None, "error", _sentence(error))


def required(said: Verdict, who: str = "") -> float | None:
    """The value, or None: not applicable. Raises ContractError, or TimeoutError, where the rule failed."""
    if said.status in ("scored", "not_applicable"):
        return said.value
    sentence = f"{who}: {said.explanation}" if who else said.explanation
    raise TimeoutError(sentence) if said.status == "timeout" else ContractError(sentence)


def _checked(value: Any, rule: Rule[Any]) -> float:
    declared = rule_of(rule)
    low, high = _ANY if declared is None else declared.info.range
    number = float(value) if not isinstance(value, bool) and isinstance(value, Real) else math.nan
    if not math.isfinite(number):
        raise ContractError(f"returned {_shown(value)}, not a finite number or None")
    if not low <= number <= high:
        raise ContractError(f"returned {_shown(value)}, outside its range {low:g}..{high:g}")
    return number


def _shown(value: Any) -> str:
    try:
        return safe_text(repr(value), one_line=True)[:_SHOWN]
    except Exception:  # the value's own repr raised
        return f"a {type(value).__name__}"


def _sentence(error: BaseException) -> str:
    said = safe_text(str(error), one_line=True)[:500]
    return (
        said
        if isinstance(error, ContractError | TimeoutError) and said
        else f"{type(error).__name__}: {said}".rstrip(": ")
    )
