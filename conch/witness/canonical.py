"""Canonical JSON (RFC 8785), and the hashes taken over it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, cast

import msgspec
import rfc8785

from conch_schemas import Event, Mark, wire_form

_BARE: Final = {"hash", "facts"}
_GREATEST: Final = 2**53 - 1
_DIGITS: Final = 17


def canonical(text: str | bytes) -> bytes:
    """The canonical form of a JSON text. Two texts with the same content have the same bytes.

    An integer beyond ±(2^53 − 1), which RFC 8785 cannot represent, is written as the text of its digits, as its
    appendix D advises. Raises ValueError for invalid JSON.
    """
    raw = text.encode() if isinstance(text, str) else text
    return _quickly(raw) or rfc8785.dumps(json.loads(raw, parse_int=_integer))


def content_hash(event: Event) -> str:
    """SHA-256 of the event's canonical wire form, hexadecimal."""
    return _sha256(wire_form(event))


def mark_hash(mark: Mark) -> str:
    """SHA-256 of the mark's canonical JSON without its own hash, hexadecimal.

    Only over the fields that were set, and without empty facts: a field that marks gain later leaves the hashes of
    earlier marks unchanged.
    """
    return _sha256(mark.model_dump_json(exclude={"hash"} if mark.facts else _BARE, exclude_unset=True))


def said_hash(said: Mapping[str, object]) -> str:
    """The `mark_hash` of a mark with exactly these fields."""
    fields = dict(said) if said.get("facts") else {name: said[name] for name in said if name != "facts"}
    try:
        # The principles' scores are the only numbers beside the sequence: with these, the serialised form is canonical.
        principles = cast("Mapping[str, float]", said["principles"])
        plain = _write(fields | {"principles": {name: _plain(score) for name, score in principles.items()}})
    except _UnusualNumberError:
        return _sha256(_write(fields))
    return _sha256(plain) if _has_rare_characters(plain) else hashlib.sha256(plain).hexdigest()


def values_hash(values: Sequence[object]) -> str:
    """SHA-256 of the canonical JSON of a list of texts, numbers, truth values, None and such lists, hexadecimal."""
    try:
        return hashlib.sha256(_write(_plain_list(values))).hexdigest()
    except _UnusualNumberError:
        return _sha256(_write(values))


def _plain_list(values: Sequence[object]) -> list[object]:
    return [
        _plain(value) if type(value) is float else _plain_list(value) if isinstance(value, list | tuple) else value
        for value in values
    ]


def _plain(value: float) -> float:
    """The number that msgspec writes as RFC 8785 does. Raises _UnusualNumberError where there is none."""
    size = abs(value)
    if not (size < 1e-6 or 1e-5 <= size <= _GREATEST):
        raise _UnusualNumberError(value)
    return int(value) if value.is_integer() else value


def _sha256(text: str | bytes) -> str:
    return hashlib.sha256(canonical(text)).hexdigest()


def _integer(digits: str) -> int | str:
    # The length is checked first: Python refuses to convert more than 4,300 digits.
    if len(digits) > _DIGITS:
        return digits
    value = int(digits)
    return value if -_GREATEST <= value <= _GREATEST else digits


# A fast path for RFC 8785 at a twentieth of the cost, for texts that need only sorted keys and the shortest digits of
# each number. Any other text is left to the library.


class _CanonicalNumber(dict[str, object]):
    """Cache: a decimal's text -> the number with the canonical shortest digits; the last few thousand met."""

    def __missing__(self, text: str) -> int | float:
        number = _plain(float(text))
        if len(self) >= _NUMBERS:
            self.clear()
        self[text] = number
        return number


class _UnusualNumberError(ValueError):
    """A large number, or one that msgspec writes with an exponent and RFC 8785 without."""


_NUMBERS: Final = 4096
_LONG_INTEGER: Final = re.compile(rb"[-:,\[ \t\r\n]\d{16}")
"""In an object or a list a number follows one of these characters."""
_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 16
_read: Final = msgspec.json.Decoder(float_hook=_CanonicalNumber().__getitem__).decode
_write: Final = msgspec.json.Encoder(enc_hook=attrgetter("__dict__"), order="sorted").encode


def _quickly(raw: bytes) -> bytes | None:
    """The canonical form of an object or a list without large numbers and rare characters; None for any other text."""
    if raw[:1] not in (b"{", b"[") or b"\0" in raw:
        return None
    if _LONG in raw.translate(_ZEROS).replace(b"." + _LONG, b"") and _LONG_INTEGER.search(raw):
        return None
    try:
        found = _write(_read(raw))
    except (ValueError, RecursionError):
        return None
    return None if _has_rare_characters(found) else found


def _has_rare_characters(text: bytes) -> bool:
    """Whether a character lies beyond the basic plane: UTF-16 sorts these differently from code points."""
    return b"\xf0" in text or b"\xf1" in text or b"\xf2" in text or b"\xf3" in text or b"\xf4" in text
