"""Changes a text in place: an exact text by another one, refused with what helps the next try. Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate

NAMED_LINES = 10
"""Most lines whose numbers a refusal names."""
NEAREST = 3
"""Lines around the nearest line that a refusal shows, on either side, beside as many as the text sought has."""
MOST_SHOWN = 20
"""Most lines that a refusal shows."""
SHOWN_LINE = 300
"""Most characters of such a line."""
MOST_COMPARED = 20_000
"""Most lines of a file that are compared for the nearest one."""
LEAST_ALIKE = 0.5
"""Similarity, 0 to 1 (difflib's ratio), from which a line is a near one."""


@dataclass(frozen=True)
class EditedText:
    """A text after an edit."""

    text: str
    lines: tuple[int, ...]
    """Numbers of the lines, from 1, where a change begins: in the text before."""


@dataclass(frozen=True)
class EditRefusal:
    """Why an edit was refused."""

    why: str
    """One sentence."""
    shown: str = ""
    """Lines of the text as it is, each behind its number and a tab: what the next try can be made from."""


def edited(text: str, old: str, new: str, *, everywhere: bool = False) -> EditedText | EditRefusal:
    """`text` with `new` in the place of `old`, which must stand there once; with `everywhere`, at least once.

    In a text whose lines all end with CR LF, those of `old` and `new` do too, as no reply of the grammar can hold a
    carriage return. Every other character counts. The text before and behind the place is unchanged.
    """
    if not old:
        return EditRefusal("old is empty: give the exact text to replace; write makes a whole file")
    if _ends_with_crlf(text):
        old, new = _with_crlf(old), _with_crlf(new)
    if old == new:
        return EditRefusal("old and new are the same text: nothing would change")
    starts = _places(text, old)
    if len(starts) == 1 and not everywhere and (again := text.find(old, starts[0] + 1)) >= 0:
        starts.append(again)  # it overlaps the first
    if len(starts) == 1 or (starts and everywhere):
        return EditedText(text.replace(old, new), tuple(_line_numbers(text, starts)))
    if starts:
        numbers = _line_numbers(text, starts)
        return EditRefusal(
            f"old stands {len(starts)} times, at {_named(numbers)}: give more of the text around the place, or all=true"
        )
    return _not_there(text, old)


def _not_there(text: str, old: str) -> EditRefusal:
    lines = text.split("\n")
    if (span := _but_for_blanks(lines, old)) is not None:
        first, last = span
        by = "line ends" if _flat_ends(old) in _flat_ends(text) else "blanks, tabs or line ends"
        return EditRefusal(
            f"old is not there as it is given: at {_named(range(first, last + 1))} it differs only by {by}",
            _shown(lines, first, last),
        )
    near = _nearest(lines, old)
    if near is None:
        return EditRefusal("old is not there, and no line is like it: read the file again")
    size = len(old.split("\n"))
    return EditRefusal(
        f"old is not there; the nearest text is at line {near}",
        _shown(lines, max(1, near - NEAREST), min(len(lines), near + size - 1 + NEAREST)),
    )


def _ends_with_crlf(text: str) -> bool:
    """Whether each of its line ends, and there is one, is CR LF."""
    return "\n" in text and text.count("\n") == text.count("\r\n")


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _flat_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _places(text: str, sought: str) -> list[int]:
    """Where `sought` begins, without overlaps."""
    found, at = [], text.find(sought)
    while at >= 0:
        found.append(at)
        at = text.find(sought, at + len(sought))
    return found


def _line_numbers(text: str, places: list[int]) -> list[int]:
    """The numbers of the lines, from 1, in which ascending places stand."""
    found, number, at = [], 1, 0
    for place in places:
        number += text.count("\n", at, place)
        at = place
        found.append(number)
    return found


def _named(numbers: list[int] | range) -> str:
    each = sorted(set(numbers))
    if len(each) > 1 and each == list(range(each[0], each[-1] + 1)):
        return f"lines {each[0]} to {each[-1]}"
    named = ", ".join(map(str, each[:NAMED_LINES])) + (", …" if len(each) > NAMED_LINES else "")
    return f"line {named}" if len(each) == 1 else f"lines {named}"


def _but_for_blanks(lines: list[str], old: str) -> tuple[int, int] | None:
    """The numbers of the first and the last line of the first place where `old` stands if no blank counts."""
    sought = "".join(old.split())
    if not sought:
        return None
    bare = ["".join(line.split()) for line in lines]
    at = "".join(bare).find(sought)
    if at < 0:
        return None
    begins = list(accumulate((len(line) for line in bare), initial=0))
    return bisect_right(begins, at), bisect_right(begins, at + len(sought) - 1)


def _nearest(lines: list[str], old: str) -> int | None:
    """The number of the line that the first long line of `old` is most like, less its place in `old`; None: no line is
    like it."""
    asked = [line.strip()[:SHOWN_LINE] for line in old.split("\n")]
    place, sought = max(enumerate(asked), key=lambda item: len(item[1]))
    if not sought:
        return None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(sought)
    best, found = LEAST_ALIKE, None
    for number, line in enumerate(lines[:MOST_COMPARED], 1):
        matcher.set_seq1(line.strip()[:SHOWN_LINE])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (alike := matcher.ratio()) > best:
            best, found = alike, number
    return None if found is None else max(1, found - place)


def _shown(lines: list[str], first: int, last: int) -> str:
    """The lines of these numbers, MOST_SHOWN at most, each behind its number."""
    numbered = list(enumerate(lines[first - 1 : last], first))[:MOST_SHOWN]
    return "\n".join(f"{number}\t{line.rstrip(chr(13))[:SHOWN_LINE]}" for number, line in numbered)
