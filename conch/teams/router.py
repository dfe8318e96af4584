"""The router of one team: queues, inboxes, epochs. Pure: every function returns the state that follows.

A message is sent in an epoch, waits in its recipient's queue, is delivered to the recipient's inbox in the order in
which it was sent, once, and is taken from there when the recipient has the turn. Both are bounded: a message for a
recipient whose queue is full is refused, and its sender is told; a queue waits while the inbox is full.

A switch of the topology is a change of epoch. From `prepared` on new messages belong to the next epoch and wait; with
every queue of the active epoch delivered it is committed, else aborted: then what waited follows behind what was
queued, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from conch.folds import evolve
from conch.teams.topology import Topology, recipients

T = TypeVar("T")

MOST_QUEUED: Final = 100
"""Messages of one recipient that wait to be delivered, at most."""
MOST_DELIVERED: Final = 100
"""Messages of an inbox at most."""
MESSAGE_BYTES: Final = 4096
"""Bytes of a message's text at most, encoded."""
KNOWN_IDS: Final = 1000
"""Ids of messages that are kept, so that one which comes again is delivered once."""


class RoutedMessage(BaseModel):
    """A message between two roles."""

    model_config = ConfigDict(frozen=True)

    id: str
    sender: str
    to: str
    text: str
    step: int
    """The step in which it was sent."""
    epoch: int
    """The epoch that it belongs to."""


class RouterLimits(NamedTuple):
    """The bounds of a router."""

    queued: int = MOST_QUEUED
    delivered: int = MOST_DELIVERED
    message_bytes: int = MESSAGE_BYTES


DEFAULT_LIMITS: Final = RouterLimits()
Messages = tuple[RoutedMessage, ...]


class RouterState(BaseModel):
    """The router of one team. Bounded by its limits."""

    model_config = ConfigDict(frozen=True)

    topology: Topology = "star"
    epoch: Annotated[int, Field(ge=0)] = 0
    target: Topology | None = None
    """The topology that a switch was prepared for; None: none was."""
    queues: dict[str, Messages] = {}
    """Messages of the active epoch that wait to be delivered, by recipient."""
    buffered: Messages = ()
    """Messages of the next epoch, in the order in which they were sent."""
    inboxes: dict[str, Messages] = {}
    """Delivered messages that the recipient has not taken yet."""
    known: tuple[str, ...] = ()
    """Ids of the last messages."""

    @property
    def sending_epoch(self) -> int:
        """The epoch of a message that is sent now."""
        return self.epoch + (self.target is not None)

    @property
    def is_quiet(self) -> bool:
        """Whether every message of the active epoch is delivered."""
        return not any(self.queues.values())

    def unread(self, role: str) -> int:
        """Messages to this role that it has not taken."""
        return _waiting(self, role) + len(self.inboxes.get(role, ()))


def accepts(active_epoch: int, message_epoch: int, *, accepting_next: bool) -> bool:
    """Whether a message of this epoch is taken: of the active one, and of the next one while that is prepared."""
    return message_epoch == active_epoch or (accepting_next and message_epoch == active_epoch + 1)


def refusal(
    state: RouterState,
    sender: str,
    to: Sequence[str],
    text: str,
    roles: Sequence[str],
    limits: RouterLimits = DEFAULT_LIMITS,
) -> str | None:
    """Why a message that is sent now would not be taken, in one sentence; None: it would be."""
    try:
        reached = recipients(state.topology, sender, to, roles)
    except ValueError as error:
        return str(error)
    size = len(text.encode(errors="replace"))
    if size > limits.message_bytes:
        return f"the message has {size} bytes, more than {limits.message_bytes}: shorten it, or write it to a file"
    full = [role for role in reached if _waiting(state, role) >= limits.queued]
    if full:
        return f"{limits.queued} messages wait for {full[0]}, as many as may: it must take its turn first"
    return None


def sent(state: RouterState, message: RoutedMessage, limits: RouterLimits = DEFAULT_LIMITS) -> RouterState:
    """The state with a message for one recipient. One whose id is known, or of an epoch that is not taken, changes
    nothing."""
    accepting = state.target is not None
    if message.id in state.known or not accepts(state.epoch, message.epoch, accepting_next=accepting):
        return state
    known = (*state.known, message.id)[-KNOWN_IDS:]
    if message.epoch > state.epoch:
        return evolve(state, buffered=(*state.buffered, message), known=known)
    queue = (*state.queues.get(message.to, ()), message)
    return delivered(evolve(state, queues={**state.queues, message.to: queue}, known=known), limits)


def delivered(state: RouterState, limits: RouterLimits = DEFAULT_LIMITS) -> RouterState:
    """The state with every message in its recipient's inbox for which there is room."""
    queues, inboxes = dict(state.queues), dict(state.inboxes)
    for role, queue in state.queues.items():
        inbox = inboxes.get(role, ())
        room = max(0, limits.delivered - len(inbox))
        if queue and room:
            inboxes[role], queues[role] = (*inbox, *queue[:room]), queue[room:]
    return evolve(state, queues={role: queue for role, queue in queues.items() if queue}, inboxes=inboxes)


def taken(state: RouterState, role: str, limits: RouterLimits = DEFAULT_LIMITS) -> tuple[RouterState, Messages]:
    """The state without the messages of this role's inbox, and these, in the order in which they were sent to it."""
    found = state.inboxes.get(role, ())
    inboxes = {other: inbox for other, inbox in state.inboxes.items() if other != role}
    return delivered(evolve(state, inboxes=inboxes), limits), found


def prepared(state: RouterState, target: Topology) -> RouterState:
    """The state with a switch prepared: messages that are sent from now on belong to the next epoch. A state in which
    one is prepared already is unchanged."""
    return state if state.target is not None else evolve(state, target=target)


def committed(state: RouterState, limits: RouterLimits = DEFAULT_LIMITS) -> RouterState:
    """The state after the prepared switch: the next epoch is active. Unchanged where none is prepared, or where a
    message of the active epoch is not delivered."""
    if state.target is None or not state.is_quiet:
        return state
    queues = _by_recipient({}, state.buffered)
    after = evolve(state, topology=state.target, epoch=state.epoch + 1, target=None, queues=queues, buffered=())
    return delivered(after, limits)


def aborted(state: RouterState, limits: RouterLimits = DEFAULT_LIMITS) -> RouterState:
    """The state without the prepared switch: what waited for the next epoch follows what was queued. Unchanged where
    none is prepared."""
    if state.target is None:
        return state
    back = tuple(evolve(message, epoch=state.epoch) for message in state.buffered)
    return delivered(evolve(state, target=None, queues=_by_recipient(state.queues, back), buffered=()), limits)


def order_after_abort(active: Sequence[T], waited: Sequence[T]) -> tuple[T, ...]:
    """The order of one recipient's messages after an aborted switch: the active queue, then what waited."""
    return (*active, *waited)


def _by_recipient(queues: dict[str, Messages], more: Messages) -> dict[str, Messages]:
    found = dict(queues)
    for role in dict.fromkeys(message.to for message in more):
        found[role] = order_after_abort(found.get(role, ()), [one for one in more if one.to == role])
    return found


def _waiting(state: RouterState, role: str) -> int:
    return len(state.queues.get(role, ())) + sum(message.to == role for message in state.buffered)
