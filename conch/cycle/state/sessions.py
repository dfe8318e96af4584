"""The sessions of a conversation in an agent's memory: what people said and what was answered, bounded. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from conch.minds import ConversationTurn
from conch.text import cut
from conch_schemas import AnsweredMessage, AnswerRated

MOST_SESSIONS = 8
"""Sessions that the memory keeps; the one that was quiet longest is dropped first."""
MOST_TURNS = 8
"""Last turns of a session that the memory keeps."""
TURN_BYTES = 1024
"""Bytes of each text of a turn, encoded: beginning and end. All sessions together stay below 256 KiB, as the memory is
written in one piece."""
MESSAGE_BYTES = 4 * 1024
"""Bytes of a person's words in the act that answers them, encoded."""


class AnsweredTurn(BaseModel):
    """A message of a session, its answer, and what people did about that."""

    model_config = ConfigDict(frozen=True)

    message: str
    """The message's id."""
    text: str
    answer: str
    signals: tuple[str, ...] = ()
    """`satisfied`, `unsatisfied`, `corrected`, in the order in which they came, each once."""
    correction: str = ""
    """The last corrected answer."""
    stop: str | None = None
    """The last reason for which a person suggested to stop; None: no person did."""


Sessions = dict[str, tuple[AnsweredTurn, ...]]
"""By id; the session that was answered last is the last one. Of each, the last turns, the oldest first."""


def with_turn(sessions: Sessions, session: str, message: str, text: str, answer: str) -> Sessions:
    """The sessions after an answer. A session that is full drops its oldest turn, a full memory its oldest session."""
    turn = AnsweredTurn(message=message, text=cut(text, TURN_BYTES).text, answer=cut(answer, TURN_BYTES).text)
    others = {id: turns for id, turns in sessions.items() if id != session}
    kept = dict(list(others.items())[1 - MOST_SESSIONS :])
    return kept | {session: (*sessions.get(session, ()), turn)[-MOST_TURNS:]}


def with_rating(sessions: Sessions, rated: AnswerRated) -> Sessions:
    """The sessions after a rating; unchanged where the turn is not kept. The same rating twice is one."""
    turns = sessions.get(rated.session or "", ())
    return sessions | {
        session: tuple(_rated(turn, rated) if turn.message == rated.message else turn for turn in turns)
        for session in ([rated.session] if rated.session is not None and turns else [])
    }


def _rated(turn: AnsweredTurn, rated: AnswerRated) -> AnsweredTurn:
    said = cut(rated.text, TURN_BYTES).text
    if rated.rating == "stop":
        return turn.model_copy(update={"stop": said})
    signals = {"signals": tuple(dict.fromkeys((*turn.signals, rated.rating)))}
    return turn.model_copy(update=signals | ({"correction": said} if rated.rating == "corrected" else {}))


def answered_message(
    sessions: Mapping[str, tuple[AnsweredTurn, ...]], id: str, text: str, sender: str, session: str | None
) -> AnsweredMessage:
    """A message as the act that answers it has it: with what people did about the session's answer before."""
    before = sessions.get(session, ())[-1:] if session is not None else ()
    return AnsweredMessage(
        id=id,
        text=cut(text, MESSAGE_BYTES).text,
        sender=sender,
        session=session,
        signals=before[0].signals if before else (),
        stopping_suggestion=before[0].stop if before else None,
    )


def conversation(sessions: Mapping[str, tuple[AnsweredTurn, ...]], session: str | None) -> tuple[ConversationTurn, ...]:
    """The turns of a session in the form that prompts use, the oldest first; of no session, none."""
    return tuple(
        ConversationTurn(turn.text, turn.answer, turn.signals, turn.correction)
        for turn in (sessions.get(session, ()) if session is not None else ())
    )
