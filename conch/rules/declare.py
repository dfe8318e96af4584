"""The decorator `@rule`, by which a function is declared as a reward rule. The function stays a plain function."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from conch.errors import ContractError
from conch.rules.info import DeclaredRule, RuleInfo, declare_as
from conch.text import safe_text
from conch_schemas import LARGEST_SCORE

F = TypeVar("F", bound=Callable[..., Any])

NAME = re.compile(r"^[a-z][a-z0-9_-]{0,47}$")
"""Names of rules and consumers: they become durable names and labels."""

VERSION = re.compile(r"[A-Za-z0-9._+-]{1,64}")
"""Versions of rules and consumers: part of a score's key, and of an event's id."""

WINDOW = (2, 50)
"""Least and most acts of a rule's window."""


def rule(
    *bare: Any,
    weight: float = 0.0,
    range: tuple[float, float] = (0.0, 1.0),
    version: str = "1",
    timeout: float | None = None,
    held_out: bool = False,
    state: type[BaseModel] | None = None,
    window: int | None = None,
) -> Callable[[F], F]:
    """Declare a rule: `(action: ActionTaken) -> float | None`, sync or async, pure.

    `weight` is a request, 0..1 (0: watched, not paid). The value is in `range`, True counts as 1 and False as 0; None
    says not applicable. `(value, "why")` explains the value: the text is the score's explanation. Anything else,
    raising and exiting too, is a score of status error; longer than `timeout` seconds, of status timeout. `held_out`:
    never paid and never trained on; its weight is 0.

    With `state`, a pydantic model whose fields all have defaults, it is a fold `(state, action) -> (state, value)`, one
    state per agent, which starts as `state()` and takes at most 256 KiB as JSON. An act whose score is an error or a
    timeout leaves the state as it was. With `window` = 2..50 it is given a sequence of so many acts of the agent at
    most, the one to be scored as the last. In the earlier ones a text of more than 1,000 characters keeps its head and
    tail, and less where an act would take more than 8 KiB.

    `version` is part of a score's key, and scores of one key are kept once: raise it whenever the function changes its
    meaning, so that earlier scores can be told apart, and acts be scored anew.

    Raises ContractError for a declaration that cannot be, and for `@rule` without its parentheses.
    """
    if bare:
        raise ContractError(f"rule {getattr(bare[0], '__name__', bare[0])}: write @rule(), with its parentheses")

    def declare(function: F) -> F:
        name = function.__name__
        try:
            low, high = (float(end) for end in range)
        except (TypeError, ValueError):
            raise ContractError(f"rule {name}: range {range!r} is not two finite numbers, the lesser first") from None
        if not NAME.match(name):
            raise ContractError(f"rule {name!r}: a name is small letters, digits, '_' and '-', at most 48")
        if not 0.0 <= weight <= 1.0:
            raise ContractError(f"rule {name}: weight {weight} is outside 0..1")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ContractError(f"rule {name}: range {range} is not two finite numbers, the lesser first")
        if max(abs(low), abs(high)) > LARGEST_SCORE:
            raise ContractError(f"rule {name}: range {range} goes beyond ±{LARGEST_SCORE:g}: scale its values down")
        refuse_version(f"rule {name}", version)
        if timeout is not None and not timeout > 0:
            raise ContractError(f"rule {name}: timeout {timeout} is not more than 0 seconds")
        if held_out and weight:
            raise ContractError(f"rule {name}: it is held out, its weight must be 0, or it would be trained on")
        _refuse_memory(name, state, window)
        _refuse_arguments(name, function, "state, action" if state else "actions" if window else "action")
        doc = function.__doc__ or ""
        seconds = None if timeout is None else float(timeout)
        info = RuleInfo(
            name, version, float(weight), low, high, seconds, doc, bool(held_out), state is not None, window
        )  # 1 and True are taken as well, and run.json holds numbers and truth values alone
        declare_as(function, DeclaredRule(info, function, state))
        return function

    return declare


def refuse_version(who: str, version: object) -> None:
    """Raises ContractError, which begins with `who`, for a version that is no VERSION."""
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        shown = safe_text(repr(version), one_line=True)[:80]
        raise ContractError(f'{who}: version {shown} is no text of letters, digits, ".", "_", "+", "-", at most 64')


def _refuse_memory(name: str, state: type[BaseModel] | None, window: int | None) -> None:
    if state is not None and window is not None:
        raise ContractError(f"rule {name}: it has a state or a window, not both")
    if window is not None and (not isinstance(window, int) or not WINDOW[0] <= window <= WINDOW[1]):
        raise ContractError(f"rule {name}: a window has {WINDOW[0]} to {WINDOW[1]} acts, not {window!r}")
    if state is None:
        return
    if not (isinstance(state, type) and issubclass(state, BaseModel)):
        raise ContractError(f"rule {name}: state {state!r} is no pydantic model")
    try:
        state()
    except ValidationError as error:
        lacking = ", ".join(str(one["loc"][0]) for one in error.errors() if one["loc"]) or "it"
        raise ContractError(f"rule {name}: {state.__name__}() cannot be made: give {lacking} a default") from None


def _refuse_arguments(name: str, function: Callable[..., Any], arguments: str) -> None:
    try:
        inspect.signature(function).bind(*arguments.split(", "))
    except TypeError:
        raise ContractError(f"rule {name}: write def {name}({arguments})") from None
    except ValueError:
        return  # a function in C has no signature
