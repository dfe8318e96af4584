"""Shutdown of a run: the agents end first, then each consumer once it has handled all events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conch.config import Settings
from conch.errors import ConchError
from conch.processes import GRACE_SECONDS, ChildProcess, ended, first_fatal
from conch.tasks import background

STOP_SECONDS = 5.0
"""Time, after a request to stop, for what was done to be scored and recorded; the rest is at the next start."""
FINISH_MARGIN = 60.0
"""Time beyond the longest deadline for a set number of cycles to be recorded."""


@dataclass(frozen=True)
class WatchedTask:
    """A child process and the task that restarts it."""

    child: ChildProcess
    living: asyncio.Task[int]


@dataclass(frozen=True)
class RunningChildren:
    """The child processes of a run, and their shutdown."""

    agents: Sequence[WatchedTask]
    """The agent processes; none where programs act, which end by themselves."""
    consumers: WatchedTask | None
    """None: a worker, which has agents alone."""
    plugins: Sequence[WatchedTask]
    """Plug-in consumers, each in a process of its own."""
    page: Sequence[WatchedTask] = ()
    """The dashboard, where there is one."""
    page_is_needed: bool = False
    """Whether the run ends without the page: the settings name its port."""
    engine: Sequence[WatchedTask] = ()
    """The engine of the mind `local`, where that thinks."""

    @property
    def scoring(self) -> tuple[WatchedTask, ...]:
        """All but the agents."""
        return (*self.central, *self.plugins, *self.page, *self.engine)

    @property
    def central(self) -> tuple[WatchedTask, ...]:
        """The process of all consumers that come with Conch, where there is one."""
        return (self.consumers,) if self.consumers is not None else ()

    def fatal(self) -> ConchError | None:
        """Why the agents, the consumers, the engine or a dashboard that is needed cannot go on."""
        needed = [kept.child for kept in (*self.page, *self.engine) if self.page_is_needed or kept in self.engine]
        return first_fatal([kept.child for kept in (*self.agents, *self.central)] + needed)


def agents_are_over(agents: Sequence[WatchedTask], at_rest: Mapping[str, ConchError | None], *, counted: bool) -> bool:
    """Whether no agent goes on, or will: each process has ended, or its agents have. Without agents: no.

    Where all processes were left down and none has ended, the run goes on with its consumers, unless it is `counted`
    (has a set number of cycles). Where the agents of all processes are set aside, that is why the first cannot go on.
    """
    if not agents:
        return False
    errors = [at_rest.get(kept.child.watched.name) for kept in agents]
    if all(error is not None for error in errors) and errors[0] is not None:
        agents[0].child.fatal = (str(errors[0]), errors[0].exit_code)
        return True
    done = [kept.living.done() for kept in agents]
    ended = [
        kept.living.result() == 0 if is_done else kept.child.watched.name in at_rest and error is None
        for kept, is_done, error in zip(agents, done, errors, strict=True)
    ]
    return all(one or other for one, other in zip(done, ended, strict=True)) and (counted or any(ended))


async def shut_down(
    tree: RunningChildren, settings: Settings, stop: asyncio.Event, logs: Path, *, counted: bool
) -> None:
    """End the children in order: plug-in consumers before the rest, so that what they publish is still joined.

    `counted`: the run had a set number of cycles, all to be recorded. Raises for what went wrong.
    """
    fatal, acting = tree.fatal(), [kept.living for kept in tree.agents]
    for kept in tree.agents:
        kept.child.end()
    await ended(acting, settings.tools.timeout + 10.0)
    by_itself = fatal is None and not stop.is_set()
    whole = by_itself and counted
    patience = settings.rewards.longest_deadline + FINISH_MARGIN if whole else STOP_SECONDS
    if fatal is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await _finished(tree.plugins, stop, interruptible=by_itself)
                await _finished(tree.central, stop, interruptible=by_itself)
    unfinished = any(not kept.living.done() or kept.living.result() != 0 for kept in tree.central)
    for kept in tree.scoring:
        kept.child.end()
    await ended([kept.living for kept in tree.scoring], GRACE_SECONDS)
    fatal = fatal or tree.fatal()
    if fatal is not None:
        raise fatal
    for kept in tree.agents:
        if whole and (kept.living.cancelled() or kept.living.result() != 0):
            name = kept.child.watched.name
            raise ConchError(f"the process {name} died again and again: see {logs / f'{name}.log'}")
    if whole and unfinished:
        raise ConchError(f"not every experience was recorded: see {logs / 'consumers.log'}")


async def _finished(several: Sequence[WatchedTask], stop: asyncio.Event, *, interruptible: bool) -> None:
    """Return when these have handled all events, or when a stop is requested."""
    for kept in several:
        kept.child.finish()
    waiting: set[asyncio.Task[Any]] = {kept.living for kept in several}
    async with background(stop.wait(), name="conch.stop") as stopping:
        while waiting and not (interruptible and stop.is_set()):
            done, _ = await asyncio.wait(
                {*waiting, stopping} if interruptible else waiting, return_when=asyncio.FIRST_COMPLETED
            )
            waiting -= done
