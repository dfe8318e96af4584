"""What a consumer is, as a value: which facts in, which function, which state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from conch.errors import ContractError
from conch_schemas import Event

Facts = Event | Sequence[Event] | None
"""What a consumer returns: the facts that follow."""

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
    """The events it publishes; empty: not known. After a crash only these are looked through for its own."""
    scorer: str | None = None
    """Under which name it scores, and under no other; None: its own."""
    begin: int = 0
    """Sequence behind which it begins when it has no place yet: 0, the start of the stream."""
    linger: float = 0.0
    """Seconds that it lets others go first once something has come: for work that nobody waits for."""
    batch: int | None = None
    """Events that `handle` is given at once, at most: `(events) -> facts`, of all agents; None: one by one."""
    at_once: int | None = None
    """Events in hand side by side, at most, also of one agent: begun in their order, and what follows from each is
    published when it is there; for a stateless consumer that waits for others. None: an agent's one after another."""
    tries: int = 5
    """How often a failing event is handled in all before it becomes a dead letter."""
    again: Callable[[Any, Any, Event], Awaitable[Any]] | None = None
    """Of a fold whose function may answer otherwise the next time: `(state, event, published) -> state`, the state
    after an event of which the stream holds another fact than the function gave now. Raises where the state cannot be
    brought to follow that fact: the event is tried again, then set aside with the state before it."""
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
class RuleSpec:
    """A rule: a pure function to a score in `range`, or None (not applicable).

    It is given an act; with `state`, a state and an act, and returns (the state after it, the score); with `window`,
    the last acts of the agent.
    """

    name: str
    """The component's name: the function's."""
    weight: float
    """Asked for; 0: watched, not paid."""
    range: tuple[float, float]
    version: str
    timeout: float | None
    """Seconds for one action; None: `rewards.rule_timeout`."""
    function: Callable[..., Any]
    doc: str
    held_out: bool = False
    """Never paid, never trained on."""
    state: type[BaseModel] | None = None
    """The state's model; None: it has none."""
    window: int | None = None
    """Acts that it is given at most, the one to be scored among them; None: that one by itself."""
