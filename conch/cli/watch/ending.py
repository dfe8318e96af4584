"""Ends the screen's process, also when the terminal is gone or accepts no more output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from threading import Thread

GRACE_SECONDS = 2.0
"""From a signal, or the loss of the terminal, to the end of the process at the latest."""


def end_with_terminal(leave: Callable[[], object]) -> None:
    """Have SIGTERM, SIGHUP and the loss of the terminal call `leave` in the running loop, and end the process.

    A process that is still there GRACE_SECONDS later exits with status 0: the loop itself may be blocked by a terminal
    that takes no more output, and then handles no signal. Called once, in the main thread.
    """
    told, tells = os.pipe()
    Thread(
        target=_wait_and_end, args=(told, asyncio.get_running_loop(), leave), name="conch.watch.end", daemon=True
    ).start()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.write(tells, b"."))


def _wait_and_end(told: int, loop: asyncio.AbstractEventLoop, leave: Callable[[], object]) -> None:
    """Wait for a byte on the descriptor `told` or for the terminal's hang-up; then call `leave`, and exit after the
    grace period."""
    poll = select.poll()
    poll.register(told, select.POLLIN)
    for terminal in (sys.stdin, sys.stdout):
        poll.register(terminal.fileno(), 0)  # that it hung up is reported always
    poll.poll()
    with contextlib.suppress(RuntimeError):  # the loop has ended already
        loop.call_soon_threadsafe(leave)
    time.sleep(GRACE_SECONDS)
    os._exit(0)
