"""`ConsumerSpec`: a consumer as a value, with the event types it reads, its function and its state."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from conch.errors import ContractError
from conch_schemas import Event

if TYPE_CHECKING:
    from conch.consumer.services import ServiceContext

Facts = Event | Sequence[Event] | None
"""The return value of a consumer: the facts that follow."""

Handle = Callable[..., Any]
"""`(event) -> Facts`, sync or async; of a fold `(state, event) -> (state, Facts)`, pure (async: a rule's process
answers)."""


@dataclass(frozen=True)
class ConsumerSpec:
    """A consumer: a function from a fact to the facts that follow; with `state`, a pure fold, one state per agent.

    `handle(event)` or, for a fold, `handle(state, event) -> (state, facts)`. Facts are made with `follow`, so that the
    same event handled twice gives the same ids.
    """

    name: str
    """Durable name, one token."""
    version: str
    kinds: tuple[type[Event], ...]
    """The events it reads."""
    handle: Handle
    state: type[BaseModel] | None = None
    """The state's model; None: stateless."""
    initial: Callable[[], BaseModel] | None = None
    """The state of an agent not met before."""
    emits: tuple[type[Event], ...] = ()
    """The events it publishes; empty: not known. After a crash only these are searched for its own."""
    scorer: str | None = None
    """Under which name it scores, and under no other; None: its own."""
    begin: int = 0
    """Sequence behind which it begins when it has no position yet: 0, the start of the stream."""
    linger: float = 0.0
    """Seconds that it waits after an event has come, so that other consumers go first: for work that is not urgent.
    What comes meanwhile is handled with it."""
    batch: int | None = None
    """Events that `handle` is given at once, at most: `(events) -> facts`, of all agents; None: one by one."""
    at_once: int | None = None
    """Most events that are handled side by side, also of one agent: begun in their order, and what follows from each is
    published when it is there; for a stateless consumer that waits for others. None: an agent's one after another."""
    tries: int = 5
    """How often a failing event is handled in all before it becomes a dead letter."""
    again: Callable[[Any, Any, Event], Awaitable[Any]] | None = None
    """For a fold whose function may answer otherwise the next time: `(state, event, published) -> state`, the state
    after an event for which another fact is on the stream than the function returned now. Raises where the state cannot
    be brought to follow that fact: the event is tried again, then becomes a dead letter with the state before it."""
    close: Callable[[], Awaitable[None]] | None = None
    """Lets go of what `handle` holds open, when the consumer ends; asked again it opens that again."""

    def folded(self, result: Any) -> tuple[Any, Facts]:
        """(state, facts) of what a fold's `handle` returned. Raises ContractError for another state than its own."""
        assert self.state is not None
        after, facts = result
        if not isinstance(after, self.state):
            raise ContractError(f"fold {self.name} returned a state that is no {self.state.__name__}")
        return after, facts


@dataclass(frozen=True)
class ConsumerDeclaration:
    """A consumer as declared by `@consumer`. `bind` makes the ConsumerSpec that runs, from it and from the settings."""

    name: str
    """Durable name, one token; of a consumer with `instances`, what their names begin with."""
    kinds: tuple[type[Event], ...]
    """The events it reads."""
    function: Handle
    version: str | Callable[[Any], str] = "1"
    state: type[BaseModel] | None = None
    initial: Callable[..., BaseModel] | None = None
    """None: `state()`."""
    batch: int | None = None
    at_once: int | Callable[[Any], int] | None = None
    linger: float = 0.0
    begin: Literal["start", "weights"] = "start"
    emits: tuple[type[Event], ...] = ()
    setup: Callable[[ServiceContext], Any] | None = None
    again: Callable[[Any, Any, Event], Awaitable[Any]] | None = None
    close: Callable[[Any], Awaitable[None]] | None = None
    enabled_by: tuple[str, ...] = ()
    instances: str | None = None

    def bind(self, context: ServiceContext) -> ConsumerSpec:
        """The consumer with these settings; `setup` is called once. Raises what `setup` raises, and ContractError for
        a version or a number of events at once that cannot be."""
        given = () if self.setup is None else (self.setup(context),)
        version = self.version(*given) if callable(self.version) else self.version
        at_once = self.at_once(*given) if callable(self.at_once) else self.at_once
        if at_once is not None and at_once < 1:
            raise ContractError(f"consumer {self.name}: at_once is at least 1 event, not {at_once}")
        return ConsumerSpec(
            name=f"{self.name}-{context.instance}" if context.instance else self.name,
            version=version,
            kinds=self.kinds,
            handle=_with_last(self.function, *given),
            state=self.state,
            initial=self.state if self.initial is None else partial(self.initial, *given),
            emits=self.emits,
            begin=context.begin if self.begin == "weights" else 0,
            linger=self.linger,
            batch=self.batch,
            at_once=at_once,
            again=self.again,
            close=partial(self.close, *given) if self.close is not None else None,
        )


def _with_last(function: Handle, *given: Any) -> Handle:
    """The function with its last parameter given: by name, as `partial` gives positions from the left."""
    if not given:
        return function
    *_, last = inspect.signature(function).parameters
    return partial(function, **{last: given[0]})
