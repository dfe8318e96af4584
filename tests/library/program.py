"""A program that acts as `mine` on the bus at an address, and kills itself at a line of it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import conch

LINES = 9
"""Lines at which it can be killed, from 1."""


def main(url: str, token: str, done: Path, fatal: int) -> None:
    """Two cycles; each tool call leaves a line in `done`. `fatal`: the line that kills; 0: none does."""
    at = 0

    def line() -> None:
        nonlocal at
        at += 1
        if at == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    with conch.agent("mine", url, token=token) as agent:
        line()
        for _ in range(2):
            with agent.cycle() as cycle:
                line()
                cycle.thought(f"Cycle {cycle.number} of {os.getpid()}.")
                line()
                cycle.decided(tool="append", args={"cycle": cycle.number})
                line()
                with done.open("a") as file:
                    file.write(f"{cycle.number}\n")
                cycle.taken(output="appended")
                line()
    line()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
