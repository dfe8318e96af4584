"""The trial of a plug-in's import in a process of its own: one that hangs, exits or raises stops no other."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from conch.python_child import DIRECTORY, environment

TRIAL_SECONDS = 20.0
"""Seconds that the import of a plug-in may take in its trial."""

T = TypeVar("T")


class TrialError(Exception):
    """There is no answer: the import hung, or ended its process. The message is the reason."""


def tried(
    command: Sequence[str],
    read: Callable[[bytes], T],
    *,
    seconds: float = TRIAL_SECONDS,
    status: Callable[[int], int] = int,
) -> T:
    """What `read` makes of what `command` prints, in a process without settings and secrets. All that it started ends
    with it. `read` raises LookupError, TypeError or ValueError for an output that is not whole. `status`: the exit
    status to name, from that of the process. Raises TrialError."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            cwd=DIRECTORY,
            start_new_session=True,
        )
    except OSError as error:
        raise TrialError(f"there is no process to look at it in ({error.strerror})") from None
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise TrialError(f"it was still being imported after {seconds:g} s") from None
    finally:
        _end(process)
    try:
        return read(output)
    except (LookupError, ValueError, TypeError):
        raise TrialError(f"importing it ended its process with status {status(process.returncode)}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process with all that it started: one that lives on would hold its output open."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def answer_of_trial(answer: Callable[[], str]) -> None:
    """Print what `answer` gives, and end this process at once, without waiting for threads and exit
    handlers of the plug-in. What the plug-in prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answers.write(answer())
    answers.flush()
    os._exit(0)


def error_words(error: BaseException, file: str | None) -> str:
    """`AttributeError: … (brevity.py, line 12)`: the error, and the line of `file` it came from, where it came through
    one. At most 500 characters."""
    try:
        words = f"{type(error).__name__}: {error}"
    except BaseException as worse:
        words = f"{type(error).__name__}, and its words raise {type(worse).__name__}"
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == file]
    place = f" ({Path(str(file)).name[-100:]}, line {lines[-1]})" if lines else ""
    return words[: 500 - len(place)] + place
