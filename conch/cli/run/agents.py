"""The agents of a run: the one agent of the settings, or several named after it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from conch.errors import HomeError, UsageError
from conch.home import Home

MOST_AGENTS = 10_000
"""Agents of one process."""
MOST_NAME = 63
"""Characters of an agent's name."""
WRITERS = 16
"""Ids written side by side: each waits for the disk."""


@dataclass(frozen=True)
class AgentIdentity:
    """One agent of a run."""

    name: str
    agentuid: str
    fresh: bool
    """Whether it was made just now: nothing on any stream is its own."""
    beyond: int = 0
    """All cycles that the store has joined are below this one."""


def names_of(agent: str, number: int | None) -> list[str]:
    """`agent` alone, or `number` names made from it. Raises UsageError for an impossible number."""
    if number is None or number == 1:
        return [agent]
    if not 1 <= number <= MOST_AGENTS:
        raise UsageError(f"--agents {number}: 1 to {MOST_AGENTS} agents")
    if len(f"{agent}-{number}") > MOST_NAME:
        raise UsageError(f"--agents {number}: {agent}-{number} is longer than {MOST_NAME} characters, shorten agent")
    return [f"{agent}-{place}" for place in range(1, number + 1)]


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


def workspace_of(base: Path, name: str, *, alone: bool) -> Path:
    """The directory that an agent works in: `base`, or one beneath it where there are several agents."""
    return base if alone else base / name
