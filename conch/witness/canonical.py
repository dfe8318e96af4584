"""What a hash is taken over: canonical JSON (RFC 8785)."""

from __future__ import annotations

import hashlib
import json
from typing import Final

import rfc8785

from conch_schemas import Event, Mark

_GREATEST: Final = 2**53 - 1
_DIGITS: Final = 17


def canonical(text: str | bytes) -> bytes:
    """The canonical form of a JSON text. Two texts of equal content have the same bytes.

    A whole number beyond ±(2^53 − 1), which RFC 8785 cannot carry, stands as the text of its digits, as its
    appendix D advises. Raises ValueError for what is no JSON.
    """
    return rfc8785.dumps(json.loads(text, parse_int=_integer))


def content_hash(event: Event) -> str:
    """SHA-256 of the event's canonical wire form, hexadecimal."""
    return _sha256(event.model_dump_json())


def mark_hash(mark: Mark) -> str:
    """SHA-256 of the mark's canonical JSON without its own hash, hexadecimal.

    Of the fields that were said: one that marks gain later leaves the hashes of earlier marks as they are.
    """
    return _sha256(mark.model_dump_json(exclude={"hash"}, exclude_unset=True))


def _sha256(text: str) -> str:
    return hashlib.sha256(canonical(text)).hexdigest()


def _integer(digits: str) -> int | str:
    # Looked at by length first: Python refuses to convert more than 4,300 digits.
    if len(digits) > _DIGITS:
        return digits
    value = int(digits)
    return value if -_GREATEST <= value <= _GREATEST else digits
