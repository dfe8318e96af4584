"""Finds secrets in a text: by their own form, by the name before them, by the place where they stand.

The text is searched for words and for a few fixed strings; a pattern is tried only where one of them stands, and looks
at a bounded number of characters from there. So the time grows with the length of the text, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from conch.secrets.forms import Span, key_block_spans, token_spans
from conch.secrets.named import NameSearch
from conch.secrets.names import Grade, grade_of
from conch.secrets.places import place_spans
from conch.secrets.tables import column_spans
from conch.secrets.unescaped import UnescapedText
from conch.secrets.values import is_secret
from conch.secrets.view import SearchedText
from conch.secrets.wrapped import with_wrapped_lines

HIDDEN: Final = "[secret hidden by Conch]"
"""What stands in a text in the place of a secret. No code and no prose holds it by chance."""
_SEPARATOR: Final = re.compile(r"[=:>\"']")
_LONG: Final = 12
"""Characters from which a word may become a token of a known service."""
_NEAR: Final = 60
"""Characters before a word in which the name may stand whose value it is."""
_LEAST: Final = 6
"""Characters beside HIDDEN from which a value is a secret again."""


def secret_spans(text: str) -> list[Span]:
    """Where secrets stand in the text, in order and apart."""
    spans = _spans(text)
    if "\\" in text and (unescaped := UnescapedText(text)).plain is not text:
        spans += map(unescaped.span, _spans(unescaped.plain))
        if unescaped.has_lines and '"' in unescaped.plain:  # a quoted text begins a line, and ends one
            spans += map(unescaped.span, _spans(unescaped.plain.replace('"', "\n")))
    return _merged(spans) if spans else []


def _spans(text: str) -> list[Span]:
    """Where secrets stand in a text that is read as it is, in any order."""
    searched = SearchedText(text)
    spans = (
        *key_block_spans(searched.view),
        *with_wrapped_lines(searched.view, token_spans(searched.view)),
        *NameSearch(searched).spans(),
        *place_spans(searched),
        *column_spans(searched),
    )
    return [_trimmed(searched, span) for span in spans]


def hide_secrets(text: str) -> str:
    """The text with HIDDEN in the place of each secret; itself where there is none. Twice gives the same as once."""
    spans = secret_spans(text)
    if not spans:
        return text
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], HIDDEN]
        at = end
    return "".join((*pieces, text[at:]))


def may_become_secret(line: str) -> bool:
    """Whether the last word of a line that still grows may become a secret: it is long, or behind a name of one."""
    line = line.rpartition(HIDDEN)[2]
    before, _, word = line.rpartition(" ")
    return len(word) >= _LONG or bool(SearchedText(line if _SEPARATOR.search(word) else before[-_NEAR:]).secret_words)


def is_secret_of(name: str, value: object) -> bool:
    """Whether the value of a field of this name is a secret."""
    grade = grade_of(name)
    return (
        grade > Grade.WEAK
        and isinstance(value, str)
        and HIDDEN not in value
        and is_secret(value, grade, is_literal=True)
    )


def _trimmed(searched: SearchedText, span: Span) -> Span:
    """A span without blanks at its ends, and without a mask that it begins or ends in."""
    start, end = span
    while start < end and searched.view[start] in "\0 \t\n":
        start += 1
    while end > start and searched.view[end - 1] in "\0 \t\n":
        end -= 1
    text, size = searched.text, len(HIDDEN)
    if (mask := text.find(HIDDEN, max(0, start - size + 1), start + size)) >= 0 and mask <= start:
        start = min(end, mask + size)
    if (mask := text.find(HIDDEN, max(0, end - size + 1), end + size)) >= 0 and mask < end:
        end = max(start, mask)
    value = text[start:end]
    return (start, start) if HIDDEN in value and len(value.replace(HIDDEN, "")) < _LEAST else (start, end)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
