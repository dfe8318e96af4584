"""Checks of subjects, keys and message sizes that every bus implementation makes before it sends anything."""

from __future__ import annotations

import re

from conch.errors import BusError

MAX_PAYLOAD = 1024 * 1024
"""Bytes of a message that a server takes, headers included: `max_payload` of its configuration."""
HEADER_BYTES = 4096
"""Bytes of them that are left to the headers."""
MAX_BYTES = MAX_PAYLOAD - HEADER_BYTES
"""Most bytes of a message."""

LONGEST_NAME = 512
"""Characters of a key or a subject: the server hangs up on a line of more than 4 KiB."""

_WORD = r"[^\s.*>\x00-\x1f\x7f\ud800-\udfff]+"  # a lone surrogate cannot be encoded
_SUBJECT = re.compile(rf"conch\.v1(\.{_WORD})+")
_REQUEST = re.compile(rf"{_WORD}(\.{_WORD})*")
_KEY = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")


def admit(subject: str, data: bytes) -> None:
    """Raises BusError for a subject that the stream does not accept, or data that the server would refuse."""
    if len(subject) > LONGEST_NAME or not _SUBJECT.fullmatch(subject):
        raise BusError(f"no event can stand on the subject {subject[:200]!r}")
    admit_size(subject, data)


def admit_request(subject: str) -> None:
    """Raises BusError for a subject that no request can have: white space in it would be read as protocol commands."""
    if len(subject) > LONGEST_NAME or not _REQUEST.fullmatch(subject):
        raise BusError(f"nobody can be asked on {subject[:200]!r}")


def admit_key(key: str) -> None:
    """Raises BusError for an invalid key of the bucket."""
    if len(key) > LONGEST_NAME or not _KEY.fullmatch(key):
        raise BusError(f"{key[:200]!r} can be no key: letters, digits, `-`, `_`, parts with `/` between them")


def admit_size(name: str, data: bytes) -> None:
    """Raises BusError for data that the server would refuse."""
    if len(data) > MAX_BYTES:
        raise BusError(f"{name[:200]} has {len(data)} bytes, the bus takes {MAX_BYTES}")
