"""Reports when the bus takes long to store an agent's events, and when that is over, once each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from conch.bus import SharedSubscription
from conch.cycle.control import Control

SLOW_SECONDS = 2.0
"""Seconds that an event may wait behind a burst of others' events before that is reported, and between two looks at it;
an fsync takes some milliseconds, a stalled disk rarely a second."""
FLOOD = 200
"""Others' events stored while one waits that make a burst. With fewer the disk is slow, and SILENCE_SECONDS applies."""
SILENCE_SECONDS = 8.0
"""Seconds that an event may take to be stored, for any cause, before that is reported."""
QUICK_SECONDS = 0.5
"""Most seconds that storing an event takes where nothing is slow."""
CALM_SECONDS = 5.0
"""Seconds of only quick events after which a burst is over."""


class PublishWatch:
    """Watches one agent's publishes, and reports them as the state `bus`."""

    def __init__(self, shared_events: SharedSubscription, control: Control) -> None:
        self._shared_events, self._control = shared_events, control
        self._said = ""
        """The last report that is not over: one word, or the server's refusal."""
        self._slow = 0.0
        """When an event that was not quick was stored last."""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Enter while an event is being stored. Cancelled or failed, the report stands until events are stored."""
        loop, before = asyncio.get_running_loop(), self._shared_events.seq
        begun = loop.time()
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            self._look(loop.time() - begun, before)
            timer = loop.call_later(SLOW_SECONDS, look)

        timer = loop.call_later(SLOW_SECONDS, look)
        try:
            yield
        finally:
            timer.cancel()
        self._stored(begun, loop.time())

    def gone(self) -> None:
        """Report that there is no connection."""
        self._say("gone", "the bus is gone; the agent waits for it before it goes on")

    def _look(self, waited: float, before: int) -> None:
        """Check an event that has waited that many seconds; the reader was at `before` when it was sent."""
        if not self._shared_events.bus.connected:
            self.gone()
        elif self._shared_events.seq - before >= FLOOD:
            self._say(
                "flood",
                f"an event of this agent has waited {waited:.0f} s to be stored, behind hundreds of others: more is "
                "published than the disk takes. The agent waits its turn; let who publishes so much send batches, or "
                "less (conch bus tail shows who)",
            )
        elif waited >= SILENCE_SECONDS:
            self._say(
                "silence",
                f"the bus has stored nothing of this agent for {waited:.0f} s: is its disk full, or the machine too "
                "busy? The agent waits for it",
            )

    def _say(self, what: str, sentence: str) -> None:
        refusal = self._shared_events.bus.refusal
        if (refusal or what) != self._said:
            self._said = refusal or what
            self._control.trouble("bus", refusal or sentence)

    def _stored(self, begun: float, now: float) -> None:
        if now - begun > QUICK_SECONDS:
            self._slow = now
        if self._said != "flood" or now - self._slow >= CALM_SECONDS:
            self._said = ""
            self._control.over("bus")
