"""What every implementation refuses before anything is sent."""

from __future__ import annotations

import re

from conch.errors import BusError

MAX_BYTES = 1024 * 1024 - 4096
"""Most bytes of a message: the server takes a megabyte, headers included."""

_SUBJECT = re.compile(r"conch\.v1(\.[^\s.*>\x00-\x1f\x7f]+)+")


def admit(subject: str, data: bytes) -> None:
    """Raises BusError for a subject that the stream does not take, or data that the server would not."""
    if not _SUBJECT.fullmatch(subject):
        raise BusError(f"no event can stand on the subject {subject[:200]!r}")
    admit_size(subject, data)


def admit_size(name: str, data: bytes) -> None:
    """Raises BusError for data that the server would not take."""
    if len(data) > MAX_BYTES:
        raise BusError(f"{name[:200]} has {len(data)} bytes, the bus takes {MAX_BYTES}")
