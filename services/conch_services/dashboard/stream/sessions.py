"""The sessions of conversations with an agent, read from the facts of its messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from conch_schemas import AnswerRated, Event, MessageReceived, MessageSent


@dataclass
class SessionTurn:
    """A message of a person, its answer, and what people did about that."""

    id: str
    """The message's."""
    text: str
    answer: str | None = None
    """None: there is none yet."""
    cycle: int | None = None
    """The cycle that answered."""
    action: str | None = None
    """The id of the act that answered."""
    ratings: list[tuple[str, str]] = field(default_factory=list)
    """(rating, reason or corrected answer), the oldest first."""


ALONE = ""
"""In place of a session's name: the messages that belong to none, as `conch tell` sends them."""


def sessions_in(events: Iterable[Event]) -> dict[str, list[SessionTurn]]:
    """The turns by session, the oldest first; the session that was spoken in last is the last one. Messages without a
    session stand under ALONE. An answer whose message is not among the events is left out."""
    sessions: dict[str, list[SessionTurn]] = {}
    by_message: dict[str, SessionTurn] = {}
    for event in events:
        if isinstance(event, MessageReceived) and event.id not in by_message:
            turn, session = SessionTurn(event.id, event.text), event.session or ALONE
            by_message[event.id] = turn
            sessions[session] = [*sessions.pop(session, []), turn]
        elif isinstance(event, MessageSent) and (found := by_message.get(event.answers or "")) is not None:
            found.answer, found.cycle, found.action = event.text, event.cycle, event.action_id
        elif isinstance(event, AnswerRated) and (rated := by_message.get(event.message)) is not None:
            rated.ratings = list(dict.fromkeys([*rated.ratings, (event.rating, event.text)]))
    return sessions
