"""stdin, stdout and stderr of a command: open, and able to take every character."""

from __future__ import annotations

import codecs
import errno
import os
import sys
from io import TextIOWrapper

_TOTAL = frozenset({"backslashreplace", "ignore", "namereplace", "replace", "xmlcharrefreplace"})
"""The error handlers with which no character is an error: one that a person asked for is kept."""


def open_streams() -> None:
    """Open the streams that were closed (`conch run >&-`) on /dev/null, here and in children: else the next file or
    socket that is opened gets the number of one, and output goes there. What a stream's encoding has no character for
    is replaced, and so are bytes of stdin that it cannot read."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            lead_nowhere(number)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - for as long as the process lives
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper) and (stream.errors not in _TOTAL or mode == "r"):
            stream.reconfigure(errors="replace")


def takes_unicode() -> bool:
    """Whether stdout's encoding has every character."""
    return codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name.startswith("utf")


def flush_output() -> None:
    """Write what is left in stdout's buffer. Raises OSError, BrokenPipeError also for a terminal that is gone."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EIO:
            raise BrokenPipeError from None
        raise


def discard_unwritten() -> None:
    """Discard what stdout and stderr do not take: the interpreter's attempt at exit would be an error of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            lead_nowhere(stream.fileno())


def lead_nowhere(number: int) -> None:
    """Lead a descriptor to /dev/null."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    os.set_inheritable(number, True)
