"""What happens on the bus, made ready once and read by every page that is open."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

from conch.bus import Feed
from conch_schemas import ContractViolationError, Event
from conch_services.dashboard.frames import SHOWN, frame

MOST_FRAMES = 4096
"""Frames that are kept: a page that is further behind is told how many it has missed, and goes on with the oldest."""
BATCH = 256
"""Events taken at a time."""


class Hub:
    """The newest frames, in the order of the stream. Every page reads them at its own pace and holds up nobody.

    While no bus is attached, pages wait; `state` says why.
    """

    def __init__(self) -> None:
        self.state = "starting"
        """`live`, or in a sentence why nothing comes."""
        self._frames: deque[tuple[int, bytes]] = deque(maxlen=MOST_FRAMES)
        """(seq, frame), the oldest first."""
        self._news = asyncio.Event()

    async def follow(self, feed: Feed, after: int) -> None:
        """Take facts behind `after` from the bus, for ever."""
        async with feed.tap(SHOWN, after=after) as tap:
            self.say("live")
            while True:
                for arrived in await tap.get(BATCH):
                    with contextlib.suppress(ContractViolationError):
                        self._add(arrived.seq, arrived.event)
                self._wake()
                await asyncio.sleep(0)

    def say(self, state: str) -> None:
        """What the pages are told of the bus."""
        self.state = state
        self._wake()

    def _add(self, seq: int, event: Event) -> None:
        made = frame(event, seq)
        if made is not None:
            self._frames.append((seq, made))

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def frames(self, after: int) -> AsyncIterator[bytes]:
        """Frames behind `after` as they come, several at once where several wait; for ever."""
        while True:
            news = self._news
            fresh = [(seq, made) for seq, made in self._frames if seq > after]
            if fresh:
                after = fresh[-1][0]
                yield b"".join(made for _, made in fresh)
            else:
                await news.wait()
