"""Dead letters, as `conch dlq list --json` and the pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conch_schemas import ConsumerFailed


def dead_letters_shown(letters: Sequence[ConsumerFailed]) -> dict[str, Any]:
    """`conch.v1.letters`."""
    return {"schema": "conch.v1.letters", "letters": [dead_letter_row(letter) for letter in letters]}


def dead_letter_row(letter: ConsumerFailed) -> dict[str, Any]:
    """A letter as a row: without what it holds."""
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
