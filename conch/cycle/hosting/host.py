"""Agents that live side by side in one process: one reading of the stream, one writing down of memories, and none that
fails harms another.

Two processes that host the same agent (a home that was copied, say) never do a thing twice: an intent is stored under
the cycle's own id before anything is done, and the second one's is another content under that id. Whoever hears a fact
of the agent's that it did not say itself, or finds its memory written by somebody else, stops that agent and says so;
where both hear each other, both stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import structlog

from conch.bus import Feed, Tap
from conch.cycle.hosting.commands import Requests
from conch.cycle.hosting.dormant import Resting
from conch.cycle.hosting.runner import Hosted, said
from conch.cycle.state.checkpoint import Writing
from conch.cycle.state.recover import LIVED_KINDS, Origin, Recovered, recover_all
from conch.errors import ConchError
from conch.processes.child import innermost
from conch_schemas import control_subject

log = structlog.get_logger(__name__)

BATCH = 32
"""Facts that are taken at a time: between two batches everybody else has the loop."""


class Host:
    """Agents of one process. `resting`: those of the home that do not act here, whose memories are kept up."""

    def __init__(self, feed: Feed, hosted: Sequence[Hosted], resting: Mapping[str, Origin] | None = None) -> None:
        self._feed, self._bus = feed, feed.bus
        self.hosted = {one.name: one for one in hosted}
        self._resting = resting or {}
        self._heard: dict[str, Hosted | Resting] = dict(self.hosted)
        self._alone = len(hosted) == 1

    async def run(self) -> None:
        """From the recovery of all to the end of all. An agent that fails is set aside, and the others go on.

        Raises what the only agent fails of, or where all have failed, the first of them.
        """
        origins = {name: one.origin for name, one in self.hosted.items()}
        found = await recover_all(self._bus, {**self._resting, **origins})
        self._begin(found)
        after = min((one.behind for one in self.hosted.values() if one.at is not None), default=self._feed.seq)
        async with (
            AsyncExitStack() as stack,
            self._feed.tap(LIVED_KINDS, after=after, mine=self._heard.__contains__) as tap,
        ):
            for one in self.hosted.values():
                subject = control_subject(one.name, "*")
                await stack.enter_async_context(self._bus.serve(subject, Requests(self.hosted, one).answer))
            resting = [one for one in self._heard.values() if isinstance(one, Resting)]
            writing = Writing(self._bus, tap, list(self.hosted.values()), resting)
            await beside(self._lives(), self._read(tap, writing), writing.keep())
            await writing.finish()
        [first, *others] = self.hosted.values()
        if not others and first.broken is not None:
            raise first.broken

    def _begin(self, found: Mapping[str, Recovered | ConchError]) -> None:
        for name, at in found.items():
            one = self.hosted.get(name)
            if one is not None:
                try:
                    _begun(one, at)
                except Exception as error:
                    self._failed(one, error)
            elif isinstance(at, Recovered):
                self._heard[name] = Resting(name, self._resting[name].agentuid, at)
            else:
                log.warning("agent.rests_unread", agent=name, why=str(at))

    async def _lives(self) -> None:
        """Until all have ended. Raises what the only one fails of, or the first where no other is left."""
        try:
            async with asyncio.TaskGroup() as group:
                for one in self.hosted.values():
                    group.create_task(self._life(one), name=f"conch.agent.{one.name}")
        except BaseExceptionGroup as failed:
            raise innermost(failed) from None

    async def _life(self, one: Hosted) -> None:
        failed = one.error is not None
        while not failed or (not one.control.batch and await one.let_go_on()):
            try:
                if failed:
                    await one.again(self._bus)
                await one.live(at_once=failed)
            except Exception as error:
                self._failed(one, error)
                failed = True
            else:
                if not self._alone:
                    one.control.ended()
                return

    def _failed(self, one: Hosted, error: Exception) -> None:
        """Set it aside. Raises its error where nobody else is left."""
        one.set_aside(error)
        if self._alone or all(other.error is not None for other in self.hosted.values()):
            raise error
        log.error("agent.failed", agent=one.name, error=said(error), exc_info=not isinstance(error, ConchError))

    async def _read(self, tap: Tap, writing: Writing) -> None:
        while True:
            for arrived in await tap.get(BATCH):
                self._heard[arrived.agent].hear(arrived)
                writing.heard()
            await asyncio.sleep(0)


def _begun(one: Hosted, at: Recovered | ConchError) -> None:
    if isinstance(at, ConchError):
        raise at
    one.begin(at)


async def beside(work: Coroutine[Any, Any, None], *endless: Coroutine[Any, Any, None]) -> None:
    """Until `work` is done, or something endless breaks: then its error comes out, as itself. Leaves none behind."""
    tasks = [asyncio.create_task(one, name="conch.agents") for one in (work, *endless)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
