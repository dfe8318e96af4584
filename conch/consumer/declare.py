"""`@rule` and `@consumer`: how a plug-in says what it is. The function stays a plain function."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from conch.consumer.spec import ConsumerSpec, RuleSpec
from conch.errors import ContractError
from conch_schemas import Event

F = TypeVar("F", bound=Callable[..., Any])

NAME = re.compile(r"^[a-z][a-z0-9_-]{0,47}$")
"""Names of rules and consumers: they become durable names and labels."""

LARGEST_BATCH = 1000

SPEC_ATTRIBUTE = "__conch__"


def rule(
    *bare: Any,
    weight: float = 0.0,
    range: tuple[float, float] = (0.0, 1.0),
    version: str = "1",
    timeout: float | None = None,
) -> Callable[[F], F]:
    """Declare a rule: `(action: ActionTaken) -> float | None`, sync or async, pure.

    `weight` is a request, 0..1 (0: watched, not paid). The value is in `range`; None says not applicable. Anything
    else, raising and exiting too, is a score of status error; longer than `timeout` seconds, of status timeout.
    Raises ContractError for a weight or range that cannot be, and for `@rule` without its parentheses.
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
        if timeout is not None and not timeout > 0:
            raise ContractError(f"rule {name}: timeout {timeout} is not more than 0 seconds")
        spec = RuleSpec(name, weight, (low, high), version, timeout, function, function.__doc__ or "")
        setattr(function, SPEC_ATTRIBUTE, spec)
        return function

    return declare


def consumer(
    *kinds: type[Event],
    name: str | None = None,
    version: str = "1",
    state: type[BaseModel] | None = None,
    batch: int | None = None,
) -> Callable[[F], F]:
    """Declare a consumer of `kinds`: `(event) -> facts`, or with `state` a fold `(state, event) -> (state, facts)`.

    `facts` is an event made with `follow`, several, or None. A fold's state starts as `state()` for each agent. With
    `batch` the function is given up to so many events at once, of all agents, each agent's in order: `(events) ->
    facts`; where it raises to the last, each event is tried by itself, and those that fail become dead letters.
    Raises ContractError without kinds, with an unusable name, or for a batch that cannot be.
    """

    if len(kinds) == 1 and inspect.isfunction(kinds[0]):
        raise ContractError(f"consumer {kinds[0].__name__}: name the events it reads, e.g. @consumer(ActionTaken)")

    def declare(function: F) -> F:
        own = name or function.__name__
        if not NAME.match(own):
            raise ContractError(f"consumer {own!r}: a name is small letters, digits, '_' and '-', at most 48")
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, Event) for kind in kinds):
            raise ContractError(f"consumer {own}: name the events it reads, e.g. @consumer(ActionTaken)")
        if state is not None and inspect.iscoroutinefunction(function):
            raise ContractError(f"consumer {own}: a fold is a pure function, it cannot be async")
        if batch is not None and not 1 <= batch <= LARGEST_BATCH:
            raise ContractError(f"consumer {own}: a batch has 1 to {LARGEST_BATCH} events, not {batch}")
        if batch is not None and state is not None:
            raise ContractError(f"consumer {own}: a fold takes its events one by one, it has no batch")
        setattr(function, SPEC_ATTRIBUTE, ConsumerSpec(own, version, kinds, function, state, state, batch=batch))
        return function

    return declare


def spec_of(thing: object) -> RuleSpec | ConsumerSpec | None:
    """What `thing` was declared as, or None."""
    spec = getattr(thing, SPEC_ATTRIBUTE, None)
    return spec if isinstance(spec, RuleSpec | ConsumerSpec) else None
