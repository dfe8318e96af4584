"""A text as the search for secrets reads it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Final

from conch.secrets.names import Grade, grade_of

_ESCAPE: Final = re.compile(r"(?<!\\)\\+(?:[\"'`/nrt&]|u00(?:2[267]|3[cdeCDE]|0[adAD]))")
_COLOUR: Final = re.compile(r"(?:\x1b|\\{1,8}(?:u001[bB]|x1[bB]|033|e))\[[0-9;:?]{0,40}[A-Za-z]")
"""A control sequence of a terminal, such as the one that begins a colour; as it is, or as an escape."""
_ENTITY: Final = re.compile(r"&(?:quot|#0?3[49]|#x2[27]|apos|lt|gt);")
_MARGIN: Final = re.compile(r"^(?: {0,7}\d{1,7}\t|\+)", re.MULTILINE)
"""Line numbers as `cat -n` writes them, and the sign of an added line."""
_ESCAPED: Final = {
    "n": "\n",
    "r": "\n",
    "t": "\t",
    "u000a": "\n",
    "u000d": "\n",
    "u0022": '"',
    "u0026": "&",
    "u0027": "'",
    "u003c": "<",
    "u003d": "=",
    "u003e": ">",
}
_NAME: Final = bytes(code if chr(code).isalnum() or chr(code) in "_.$-" else 32 for code in range(128)) + b" " * 128
"""Turns a byte that stands in no name into a blank."""
_LONGEST_NAME: Final = 80
_WORD_BEFORE: Final = re.compile(r"[A-Za-z]{2,20}(?=(?:[ ]|[\"']?:[ \t]?(?:\{|\n)[\s>|]{0,20}[\"']?)\Z)")
"""The word before a name, or the name of the mapping whose first field it is."""
_USER_BEFORE: Final = re.compile(r"user(?:name)?[\"']?[ ]?:[ ]?[\"'][^\"'\n]{1,60}[\"'],\s{0,20}[\"']\Z")


class SearchedText:
    """A text, and its `view`: each escape of JSON, such as backslash and `n`, as blanks (NUL) and the character that it
    stands for, each entity of HTML likewise, colours and line numbers as blanks. Each character keeps its place."""

    def __init__(self, text: str) -> None:
        self.text = text
        view = text
        if "\0" in text or "\r" in text:
            view = view.replace("\0", " ").replace("\r\n", " \n").replace("\r", "\n")
        view = view.replace("\u00a0", " ").replace("\u202f", " ") if not text.isascii() else view
        view = _COLOUR.sub(_emptied, view) if "\x1b" in view or "\\" in view else view
        view = _ESCAPE.sub(_unescaped, view) if "\\" in text else view
        view = _ENTITY.sub(_written_out, view) if "&" in view else view
        self.view = _MARGIN.sub(_blanked, view) if "\t" in view or "+" in view else view
        self._names = b" %b " % self.view.encode("ascii", "replace").translate(_NAME)
        """The view with a blank before it, behind it, and for each character that stands in no name."""
        self.words = frozenset(self._names.split())
        """All names, and all words."""

    @cached_property
    def lower(self) -> bytes:
        """The view in small letters, a byte for each character."""
        return self.view.encode("ascii", "replace").lower()

    @cached_property
    def secret_words(self) -> list[bytes]:
        """The names that say that their value is a secret."""
        return list(filter(grade_of_word, self.words))

    def names(self) -> list[tuple[int, str, Grade]]:
        """(place, name, grade) of each name that says that its value is a secret, in order."""
        places = sorted((at, word) for word in self.secret_words for at in self._places_of_word(word))
        return [(at, name, self._grade(name, at)) for at, word in places for name in [_name_of(word)]]

    def places(self, word: bytes) -> Iterator[int]:
        """Where a text stands, given in small letters, in either case."""
        at = self.lower.find(word)
        while at >= 0:
            yield at
            at = self.lower.find(word, at + len(word))

    def _places_of_word(self, word: bytes) -> Iterator[int]:
        whole = b" %b " % word
        at = self._names.find(whole)
        while at >= 0:
            yield at + len(word) - len(word.lstrip(b".$"))
            at = self._names.find(whole, at + len(word))

    def _grade(self, name: str, start: int) -> Grade:
        grade = grade_of(name)
        if grade is Grade.WEAK:
            if self.view[start - 1 : start] in {"?", "&"}:
                return Grade.STRONG
            if name == "--auth":
                return Grade.STRONG
            if before := _WORD_BEFORE.search(self.view, max(0, start - 46), start):
                return max(grade, grade_of(f"{before[0]}_{name}"))
            if name == "key" and _USER_BEFORE.search(self.view, max(0, start - 100), start):
                return Grade.STRONG
        return grade


def _name_of(word: bytes) -> str:
    return word.decode().lstrip(".$").rstrip(".-$")


@lru_cache(65536)
def grade_of_word(word: bytes) -> Grade:
    """The grade of a name that stands in a text, with the signs that end a sentence."""
    return grade_of(_name_of(word)) if len(word) <= _LONGEST_NAME else Grade.NONE


def backslashes(text: str, at: int) -> int:
    """The backslashes before a place."""
    start = at
    while start > 0 and text[start - 1] == "\\" and at - start < 64:
        start -= 1
    return at - start


def _written_out(entity: re.Match[str]) -> str:
    return "\0" * (len(entity[0]) - 1) + html.unescape(entity[0])


def _blanked(number: re.Match[str]) -> str:
    return " " * len(number[0])


def _emptied(sequence: re.Match[str]) -> str:
    return "\0" * len(sequence[0])


def _unescaped(escape: re.Match[str]) -> str:
    said = escape[0].lstrip("\\")
    return "\0" * (len(escape[0]) - 1) + _ESCAPED.get(said.lower() if said[0] == "u" else said, said)
