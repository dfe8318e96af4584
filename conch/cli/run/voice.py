"""What a run says: lines about itself, and a line for every cycle."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any

from conch.bus import Bus
from conch.cli.common import emit, say, warn


class Voice:
    """Says things on stdout and stderr. `stop` is set when whoever read stdout has gone."""

    def __init__(self, stop: asyncio.Event, *, as_json: bool) -> None:
        self._stop, self._json = stop, as_json

    def tell(self, text: str) -> None:
        """A line about the run itself: beside the rows with --json."""
        self._write(warn if self._json else say, text)

    def warn(self, text: str) -> None:
        """A line on stderr."""
        self._write(warn, text)

    async def cycles(self, bus: Bus, agent: str, after: int) -> None:
        """A line for every experience when it is first recorded, for ever."""
        from conch.cli.line import cycle_line
        from conch.experience import cycle_row
        from conch_schemas import ExperienceRecorded, decode, subject_filter

        async with bus.follow([subject_filter(ExperienceRecorded, agent)], after=after) as reader:
            while True:
                for delivery in await reader.get():
                    with contextlib.suppress(ValueError):
                        event = decode(delivery.data)
                        if isinstance(event, ExperienceRecorded) and event.revision == 1:
                            if self._json:
                                self._write(emit, cycle_row(event))
                            else:
                                self._write(say, cycle_line(event))

    def _write(self, write: Callable[[Any], None], what: Any) -> None:
        """Whoever read us may have gone (`conch run | head`): then the run ends in order."""
        try:
            write(what)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2 if write is warn else 1)
            os.close(nowhere)
            if write is not warn:
                self._stop.set()
