"""The views of dead letters, for `conch dlq … --json` and the pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import ConsumerFailed


class LetterRow(View):
    """A dead letter without its content."""

    id: str
    subject: str
    """The subject of the event that could not be handled."""
    seq: int
    """Its stream sequence."""
    consumer: str
    version: str
    reason: str
    tries: int
    """How often it was tried."""
    time: str
    agent: str


class WholeLetter(LetterRow):
    """A dead letter with its content."""

    content: str
    """The event's bytes as text; what is no UTF-8 is replaced."""


class Letters(View):
    """Some dead letters, as `conch dlq list --json` prints them."""

    schema_: Literal["conch.v1.letters"] = Field(default="conch.v1.letters", alias="schema")
    letters: tuple[LetterRow, ...]
    """Oldest first."""


class LetterShown(View):
    """One dead letter, as `conch dlq show --json` prints it."""

    schema_: Literal["conch.v1.letter"] = Field(default="conch.v1.letter", alias="schema")
    letter: WholeLetter


class LetterSettled(View):
    """The result of `conch dlq retry --json` or `conch dlq drop --json` for one dead letter."""

    schema_: Literal["conch.v1.letter_settled"] = Field(default="conch.v1.letter_settled", alias="schema")
    id: str
    settled: Literal["retried", "dropped"]


def dead_letters_shown(letters: Sequence[ConsumerFailed]) -> Letters:
    """A row for each dead letter."""
    return Letters(letters=tuple(map(dead_letter_row, letters)))


def dead_letter_row(letter: ConsumerFailed) -> LetterRow:
    """A dead letter without its content."""
    return LetterRow(**_fields(letter))


def whole_letter(letter: ConsumerFailed, content: str) -> WholeLetter:
    """A dead letter with its content."""
    return WholeLetter(**_fields(letter), content=content)


def _fields(letter: ConsumerFailed) -> dict[str, object]:
    return {
        "id": letter.id,
        "subject": letter.letter_subject,
        "seq": letter.letter_seq,
        "consumer": letter.consumer,
        "version": letter.version,
        "reason": letter.reason,
        "tries": letter.tries,
        "time": letter.time.isoformat(),
        "agent": letter.agent,
    }
