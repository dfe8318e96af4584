"""Secrets in columns: tables and lists whose head names them, rows of SQL, lines of a user and a password."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from conch.secrets.forms import Span
from conch.secrets.names import Grade, grade_of
from conch.secrets.values import is_placeholder, is_secret
from conch.secrets.view import SearchedText

_CELL: Final = re.compile(r"[\W_]{0,4}\w[\w .#()-]{0,40}\W{0,4}")
_RULE: Final = re.compile(r"[|\s:+-]+")
_ROWS: Final = 1000
"""Most rows of a table that are looked at."""
_LONGEST: Final = 4000
"""Characters of a table's row, beyond which it is none."""
_INSERT: Final = re.compile(r"\(([^()]{1,2000})\)[\s\0]{0,20}\Z")
_TUPLE_OF_VALUES: Final = re.compile(r"[\s\0,]{0,20}\(([^()\n]{1,4000})\)")
_CHPASSWD: Final = re.compile(r"(?<![\w.-])[a-z_][\w.-]{0,31}:([^\s:\"'`\0|]{6,200})")
_PGPASS: Final = re.compile(r":(?:\d{2,5}|\*):[^:\s]{1,80}:[^:\s]{1,80}:([^\s\"'`]{4,400})(?=[\s\"'`\0]|\Z)")
_KUBERNETES: Final = re.compile(r"[\"']?kind[\"']?\s{0,8}:\s{0,8}[\"']?Secret\b(?!\w)[\"']?")
_DATA: Final = re.compile(r"^([ \t>|]*)(?:data|stringData):[ \t\0]*$", re.MULTILINE)
_JOINED_DATA: Final = re.compile(r" (?:data|stringData):((?: [\w.-]{1,60}: [^\s:]{1,400}(?![^\s])){1,100})")
"""Where line ends became blanks."""
_JOINED_ENTRY: Final = re.compile(r": (\S+)")
_DATA_JSON: Final = re.compile(r"[\"'](?:data|stringData)[\"']\s{0,8}:\s{0,8}\{([^{}]{0,20000})\}")
_ENTRY: Final = re.compile(r"[\w.-]+[\"']?[ \t]*:[ \t]*[\"']?([^\s\"'\0]+(?: [^\s\"'\0]+)*)")
_ENTRY_JSON: Final = re.compile(r":\s{0,8}\0{0,8}[\"']([^\"'\0]{1,20000})")
_JWK: Final = re.compile(r"\"(?:d|p|q|dp|dq|qi|k)\0{0,8}\"\s{0,8}:\s{0,8}\0{0,8}\"([\w-]{16,4000})")
_SCALARS: Final = frozenset(("|", ">", "|-", ">-", "|+", ">+"))
COLUMN_WORDS: Final = frozenset(
    (b"VALUES", b"values", b"Values", b"chpasswd", b"Secret", b"kty", b"Bearer", b"bearer", b"BEARER")
)
_VALUES: Final = frozenset((b"VALUES", b"values", b"Values"))


def column_spans(searched: SearchedText) -> Iterator[Span]:
    """Secrets that stand below, in the order of, or among others of their kind."""
    yield from _below_heads(searched)
    if not _VALUES.isdisjoint(searched.words):
        yield from _inserted(searched)
    if b"chpasswd" in searched.words:
        yield from _users(searched)
    for match in _PGPASS.finditer(searched.view):
        if "://" not in match[0] and is_secret(match[1].replace("\\:", ":"), Grade.PASSWORD, is_literal=True):
            yield match.span(1)
    if b"Secret" in searched.words and _KUBERNETES.search(searched.view):
        yield from _of_kubernetes(searched.view)
    if b"kty" in searched.words:
        yield from (match.span(1) for match in _JWK.finditer(searched.view))


def holds_pgpass(text: str) -> bool:
    """Whether a line may be one of .pgpass."""
    return _PGPASS.search(text) is not None


def _below_heads(searched: SearchedText) -> Iterator[Span]:
    """The cells below each head of a column that is the name of a secret."""
    view, done = searched.view, 0
    for start, name, _ in searched.names():
        if start < done:
            continue
        begin = view.rfind("\n", max(0, start - _LONGEST), start) + 1
        stop = view.find("\n", start + len(name), start + len(name) + _LONGEST)
        delimiter = next((sign for sign in "|\t,;" if sign in view[begin:stop]), "") if stop > 0 else ""
        heads = view[begin:stop].split(delimiter) if delimiter else []
        done = max(done, stop)
        if sum(head.strip() != "" for head in heads) < 2 or not all(
            _CELL.fullmatch(head.strip()) or not head.strip(" >") for head in heads
        ):
            continue
        grades = [grade_of(head.strip(" \"'`*").replace(" ", "_")) for head in heads]
        for _ in range(_ROWS):
            begin = stop + 1
            stop = view.find("\n", begin, begin + _LONGEST)
            stop = min(len(view), begin + _LONGEST) if stop < 0 else stop
            row = view[begin:stop]
            if row.count(delimiter) != len(grades) - 1:
                break
            done = stop
            if not _RULE.fullmatch(row):
                yield from _cells(begin, row.split(delimiter), grades)


def _inserted(searched: SearchedText) -> Iterator[Span]:
    """Values of SQL whose columns are named."""
    for place in searched.places(b"values"):
        names = _INSERT.search(searched.view, max(0, place - 1000), place)
        grades = [grade_of(name.strip(" \"'`\0[]\n")) for name in names[1].split(",")] if names else []
        at = place + len("values")
        while any(grades) and (row := _TUPLE_OF_VALUES.match(searched.view, at)):
            yield from _cells(row.start(1), row[1].split(","), grades)
            at = row.end()


def _cells(at: int, cells: Sequence[str], grades: Sequence[Grade]) -> Iterator[Span]:
    if len(cells) != len(grades):
        return
    for cell, grade in zip(cells, grades, strict=True):
        value = cell.strip(" \t\0\"'`*")
        if is_secret(value, grade, is_literal=True):
            start = at + cell.index(value)
            yield start, start + len(value)
        at += len(cell) + 1


def _users(searched: SearchedText) -> Iterator[Span]:
    """What `chpasswd` reads: a user and a password on each line."""
    for place in searched.places(b"chpasswd"):
        for match in _CHPASSWD.finditer(searched.view, max(0, place - 300), place + 600):
            if is_secret(match[1], Grade.PASSWORD, is_literal=True):
                yield match.span(1)


def _of_kubernetes(view: str) -> Iterator[Span]:
    """The values of a Secret, whatever their names are."""
    done = 0
    for match in _DATA.finditer(view):
        if match.start() >= done:
            done = match.end()
            for span in entry_spans(view, match.end() + 1, len(match[1])):
                yield span
                done = span[1]
    for match in _JOINED_DATA.finditer(view):
        yield from (entry.span(1) for entry in _JOINED_ENTRY.finditer(view, *match.span(1)))
    for match in _DATA_JSON.finditer(view):
        for entry in _ENTRY_JSON.finditer(view, *match.span(1)):
            if not is_placeholder(entry[1]):
                yield entry.span(1)


def entry_spans(view: str, at: int, depth: int) -> Iterator[Span]:
    """The values of the lines that are indented deeper."""
    while at < len(view):
        stop = view.find("\n", at)
        stop = len(view) if stop < 0 else stop
        content = view[at:stop].rstrip()
        indent = len(content) - len(content.lstrip(" \t>|"))
        if content and indent <= depth:
            return
        if match := _ENTRY.match(view, at + indent, stop):
            if match[1] not in _SCALARS and not is_placeholder(match[1]):
                yield match.span(1)
        elif content:
            yield at + indent, stop
        at = stop + 1
