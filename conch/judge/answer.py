"""Strict parsing of a judge's answer: an answer that is not exactly in the format gives no score."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from conch.errors import JudgeError
from conch.rules import Message
from conch.text import safe_text
from conch_schemas import JsonObject

MOST_CHARACTERS: Final = 64 * 1024
"""Most characters of an answer; a longer one is refused."""
EXPLANATION: Final = 500
"""Most characters of an explanation; a longer one is cut."""
_COPIED: Final = 16
"""Characters of an explanation, without white space, from which finding it in the judged text is no coincidence."""
_BLOCK: Final = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)
"""The one wrapping that is removed: models put it around JSON unasked."""


class Judgement(NamedTuple):
    """A judge's score of one trajectory, with its explanation."""

    score: float
    """0..1."""
    explanation: str
    """At most 500 characters on one line, harmless to show."""


def read_judgement(answer: str, judged: Sequence[Message]) -> Judgement:
    """The judgement in an answer: one JSON object with `score` and `explanation`, alone or in one Markdown block.

    Raises JudgeError, `passing`, with the reason: no JSON, more than one object, other fields, a score that is not a
    number from 0 to 1, no explanation, or an answer or explanation that occurs verbatim in the judged text.
    """
    found = read_object(answer, ("explanation", "score"))
    score, explanation = number_in(found["score"], "score"), found["explanation"]
    if not isinstance(explanation, str) or not explanation.strip():
        raise unread("it explains nothing", answer)
    refuse_copy(answer, explanation, [message.content for message in judged])
    return Judgement(score, shortened(explanation))


def read_object(answer: str, fields: Sequence[str]) -> JsonObject:
    """The one JSON object that the answer consists of, with exactly these fields. Raises JudgeError."""
    if not answer.strip():
        raise unread("it is empty", answer)
    if len(answer) > MOST_CHARACTERS:
        raise unread(f"it is longer than {MOST_CHARACTERS} characters", answer)
    block = _BLOCK.fullmatch(answer)
    try:
        found = json.loads(block[1] if block else answer, object_pairs_hook=_once, parse_constant=_refused)
    except _DuplicateFieldError as twice:
        raise unread(str(twice), answer) from None
    except (ValueError, RecursionError):
        raise unread("it is not one JSON object", answer) from None
    if not isinstance(found, dict):
        raise unread("it is not one JSON object", answer)
    if sorted(found) != sorted(fields):
        has = ", ".join(sorted(found)) or "none"
        raise unread(f"its fields are {has}, not {' and '.join(sorted(fields))}", answer)
    return found


def number_in(value: object, what: str) -> float:
    """A score from 0 to 1. Raises JudgeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unread(f"its {what} {json.dumps(value)[:80]} is no number", "")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0.0 <= number <= 1.0:
        raise unread(f"its {what} {number:g} is outside 0..1", "")
    return number + 0.0  # −0.0 becomes 0.0


def refuse_copy(answer: str, explanation: str, judged: Sequence[str]) -> None:
    """Raises JudgeError where the judged text dictated the answer: the answer or the whole explanation occurs in it."""
    said, explained = _letters(answer), _letters(explanation)
    for text in map(_letters, judged):
        if said in text:
            raise unread("it stands word for word in the judged text", answer)
        if len(explained) >= _COPIED and explained in text:
            raise unread("its explanation stands word for word in the judged text", answer)


def shortened(explanation: str) -> str:
    """An explanation shortened for storage."""
    return safe_text(explanation, one_line=True).strip()[:EXPLANATION]


def unread(why: str, answer: str) -> JudgeError:
    """The error for an answer without a score."""
    shown = f": {safe_text(answer, one_line=True)[:120]}" if answer.strip() else ""
    why = safe_text(why, one_line=True)[:200]
    return JudgeError(f"the judge's answer cannot be read, {why}{shown}", passing=True)


def _letters(text: str) -> str:
    """The text in lower case without white space: a copy with other line ends counts as a copy."""
    return "".join(text.split()).casefold()


class _DuplicateFieldError(ValueError):
    """A field occurs twice: it is ambiguous which one counts."""


def _once(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateFieldError("a field stands in it twice")
    return found


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no number in JSON")
