"""The agents of a run: the one agent of the settings, or several named after it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from conch.errors import HomeError, UsageError
from conch.home import Home

MOST_AGENTS = 10_000
"""Agents of one process."""
MOST_NAME = 63
"""Characters of an agent's name."""
WRITERS = 16
"""Ids written side by side: each waits for the disk."""
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})", re.ASCII)
T = TypeVar("T")


@dataclass(frozen=True)
class AgentIdentity:
    """One agent of a run."""

    name: str
    agentuid: str
    fresh: bool
    """Whether it was made just now: nothing on any stream is its own."""
    beyond: int = 0
    """All cycles that the store has joined are below this one."""


def names_of(agent: str, number: int | None, processes: int = 1) -> list[str]:
    """`agent` alone, or `number` names made from it, for so many processes. Raises UsageError for an impossible
    number."""
    if number is None or number == 1:
        return [agent]
    most = MOST_AGENTS * processes
    if not 1 <= number <= most:
        raise UsageError(f"--agents {number}: 1 to {most} agents")
    return _named(agent, 1, number, f"--agents {number}")


def names_in_range(agent: str, text: str, processes: int = 1) -> list[str]:
    """The names that `FIRST..LAST` stands for, as a run of at least LAST agents has them. Raises UsageError for any
    other text, and for an impossible range."""
    if not (found := _RANGE.fullmatch(text)):
        raise UsageError(f"--agents {text}: two numbers, FIRST..LAST, as 11..20 is")
    first, last = int(found[1]), int(found[2])
    if not 1 <= first <= last:
        raise UsageError(f"--agents {text}: FIRST is 1 or more, and LAST is not below it")
    most = MOST_AGENTS * processes
    if last - first >= most:
        raise UsageError(f"--agents {text}: {last - first + 1} agents, at most {most} run in one worker")
    return _named(agent, first, last, f"--agents {text}")


def _named(agent: str, first: int, last: int, option: str) -> list[str]:
    if len(f"{agent}-{last}") > MOST_NAME:
        raise UsageError(f"{option}: {agent}-{last} is longer than {MOST_NAME} characters, shorten agent")
    return [f"{agent}-{place}" for place in range(first, last + 1)]


def spread(agents: Sequence[T], processes: int) -> list[Sequence[T]]:
    """The agents of each process, in their order; numbers of two processes differ by at most one. No process is
    empty.

    >>> spread(["echo-1", "echo-2", "echo-3"], 2)
    [['echo-1'], ['echo-2', 'echo-3']]
    """
    number = min(processes, len(agents))
    ends = [len(agents) * place // number for place in range(number + 1)]
    return [agents[begin:end] for begin, end in pairwise(ends)]


def members(home: Home, names: Sequence[str]) -> tuple[list[AgentIdentity], dict[str, HomeError]]:
    """The agents of these names, made where they are new, in this order; and why others cannot be had."""
    fresh = {name for name in names if not (home.agent_dir(name) / "agentuid").exists()}
    failed: dict[str, HomeError] = {}

    def one(name: str) -> AgentIdentity | None:
        try:
            return AgentIdentity(name, home.agentuid(name), name in fresh)
        except HomeError as error:
            failed[name] = error
            return None

    with ThreadPoolExecutor(WRITERS) as writers:
        found = list(writers.map(one, names))
    return [identity for identity in found if identity is not None], failed


def agent_processes(number: int) -> list[str]:
    """The names of so many agent processes."""
    return ["agent"] if number == 1 else [f"agent-{place}" for place in range(1, number + 1)]


def workspace_of(base: Path, name: str, *, alone: bool) -> Path:
    """The directory that an agent works in: `base`, or one beneath it where there are several agents."""
    return base if alone else base / name
