"""A text as it was before it was quoted: within JSON, within a call, within the text of a program."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from conch.secrets.forms import Span

_ESCAPE: Final = re.compile(r"(?<!\\)\\+(?:([\"'`/nrt&])|u([0-9a-fA-F]{4}))")
_SIGNS: Final = {"n": "\n", "r": "\n", "t": "\t"}
"""By the letter behind the backslash."""


class UnescapedText:
    """The text with each escape, however often it was escaped, as the character that it stands for."""

    def __init__(self, text: str) -> None:
        self._size = len(text)
        self._places: list[tuple[int, int]] = [(0, 0)]
        """(place in the plain text, place in the text) from which the two go on alike."""
        parts, end, size = list[str](), 0, 0
        for escape in _ESCAPE.finditer(text):
            parts += [text[end : escape.start()], _SIGNS.get(escape[1], escape[1]) or chr(int(escape[2], 16))]
            size += escape.start() - end
            self._places += [(size, escape.start()), (size + 1, escape.end())]
            size, end = size + 1, escape.end()
        self.has_lines = "\n" in parts
        """Whether the end of a line was escaped."""
        self.plain = "".join((*parts, text[end:])) if parts else text
        """The text without escapes."""

    def span(self, plain: Span) -> Span:
        """Where in the text a part of the plain text stands."""
        return self._place(plain[0]), self._place(plain[1])

    def _place(self, at: int) -> int:
        plain, text = self._places[bisect_right(self._places, (at, self._size)) - 1]
        return text + at - plain


def plain_text(text: str) -> str:
    """The text without escapes; itself where it has none."""
    return UnescapedText(text).plain if "\\" in text else text
