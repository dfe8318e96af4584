"""Fences the judged text against prompt injection: encoded line by line, between marks that it cannot contain."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from conch.rules import Message
from conch.text import cut, well_formed

WHOLE_BYTES: Final = 48 * 1024
"""Most bytes of the judged text, before encoding: each message gets at most an equal share, head and tail."""
ROLE: Final = 32
"""Most characters of a role."""
MOST_MESSAGES: Final = 64
"""Most messages: beyond, the first HEAD and the last are kept, with the number left out."""
HEAD: Final = 8
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U0010ffff]"
)
"""Joiners, fillers, variation selectors, tags, private use: printable to Python, invisible to people, read by models
(Unicode's Default_Ignorable_Code_Point, less what Python does not print either)."""


class FencedText(NamedTuple):
    """A text between the fence's lines, and the fence's mark."""

    mark: str
    """The fence's mark: 16 hex digits that occur nowhere in the text."""
    text: str
    """From the opening line to the closing one."""


def fenced(messages: Sequence[Message]) -> FencedText:
    """The messages as JSON Lines between two marked lines; the same messages give the same bytes.

    The mark is derived from a digest of all that it encloses, so the enclosed text cannot contain it: changing the text
    to contain it changes the mark. Each message is one line, `{"role", "content"}`: a content can end neither its line
    nor its string, and every invisible character (control, direction, tags) is escaped, so that the result is at most
    three times WHOLE_BYTES long.
    """
    shown, number = "\n".join(_lines(messages)), 0
    while (mark := hashlib.sha256(f"{number}\0{shown}".encode()).hexdigest()[:16]) in shown:
        number += 1
    return FencedText(mark, f"<<<{mark}\n{shown}\n{mark}>>>")


def _lines(messages: Sequence[Message]) -> Iterator[str]:
    left_out = max(0, len(messages) - MOST_MESSAGES)
    kept = [*messages[:HEAD], *messages[HEAD + left_out :]] if left_out else messages
    for place, message in enumerate(kept):
        if left_out and place == HEAD:
            yield json.dumps({"left_out": left_out})
        content = cut(message.content, WHOLE_BYTES // len(kept)).text
        told = {"role": well_formed(message.role[:ROLE]), "content": content}
        yield _escaped(json.dumps(told, ensure_ascii=False))


def _escaped(line: str) -> str:
    """A line of JSON with all invisible characters escaped."""
    if line.isprintable() and not _INVISIBLE.search(line):
        return line
    return "".join(map(_shown, line))


def _shown(character: str) -> str:
    if character.isprintable() and not _INVISIBLE.match(character):
        return character
    return json.dumps(character)[1:-1]
