"""The stream that every mode uses: made by Conch, emptied between modes, counted and read when a mode is through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import nats
from nats.aio.client import Client

from bus.child import Child
from bus.server import Server
from conch.bus import Delivery
from conch.bus.checkpoints import position_key
from conch.bus.jetstream import JetStreamBus
from conch.bus.jetstream.names import BUCKET_STREAM, STREAM, key_subject

POLL_SECONDS = 0.05


class StalledError(Exception):
    """What was to come did not come in time."""


class Stream:
    """Entered by `opened`: the stream, by Conch's own client and by a plain nats-py one."""

    def __init__(self, server: Server, bus: JetStreamBus, client: Client) -> None:
        self.server, self.bus, self.client = server, bus, client

    async def api(self, call: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request of the JetStream API; ends the bench where it is refused."""
        data = json.dumps(body).encode() if body is not None else b""
        reply = json.loads((await self.client.request(f"$JS.API.{call}", data, timeout=30)).data)
        if "error" in reply:
            raise SystemExit(f"{call} was refused: {reply['error']}")
        return reply

    async def empty(self) -> None:
        """Drop all events, all durable readers and what Conch's consumers know of their places."""
        for name in (await self.api(f"CONSUMER.NAMES.{STREAM}"))["consumers"] or ():
            await self.api(f"CONSUMER.DELETE.{STREAM}.{name}")
        await self.api(f"STREAM.PURGE.{STREAM}")
        await self.api(f"STREAM.PURGE.{BUCKET_STREAM}", {"filter": key_subject(position_key(">"))})

    async def durable(self, name: str, policy: str, **more: Any) -> None:
        """A pull consumer of everything."""
        config = {"durable_name": name, "ack_policy": policy, "deliver_policy": "all", "max_ack_pending": 1_000_000}
        await self.api(f"CONSUMER.CREATE.{STREAM}.{name}", {"stream_name": STREAM, "config": config | more})

    async def count(self, filter: str) -> int:
        """How many events stand on subjects that match."""
        state = (await self.api(f"STREAM.INFO.{STREAM}", {"subjects_filter": filter}))["state"]
        return sum((state.get("subjects") or {}).values())

    async def until(self, filter: str, count: int, seconds: float, makers: Sequence[Child]) -> None:
        """Until `count` events stand on subjects that match, made by `makers`.

        Raises StalledError when none came for `seconds`; ends the bench when one of the makers has ended.
        """
        loop = asyncio.get_running_loop()
        there, moved = -1, loop.time()
        while there < count:
            await asyncio.sleep(POLL_SECONDS)
            for maker in makers:
                maker.check()
            if (now := await self.count(filter)) != there:
                there, moved = now, loop.time()
            elif loop.time() - moved > seconds:
                raise StalledError(f"{there} of {count} events on {filter}, and none for {seconds:g} s")

    async def until_acknowledged(self, name: str, seconds: float = 10.0) -> None:
        """Until nothing waits for the durable reader's acknowledgement. Ends the bench when that does not come."""
        for _ in range(int(seconds / 0.01)):
            info = await self.api(f"CONSUMER.INFO.{STREAM}.{name}")
            if info["num_ack_pending"] == info["num_pending"] == 0:
                return
            await asyncio.sleep(0.01)
        raise SystemExit(f"{name}: {info['num_ack_pending']} events not acknowledged, {info['num_pending']} not taken")

    async def read(self, filters: Sequence[str]) -> list[Delivery]:
        """What stands on the stream, in order."""
        return [delivery async for delivery in self.bus.read(filters)]


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[Stream]:
    """The stream, made as a run makes it."""
    async with JetStreamBus(server.access, name="bench", strict=server.strict) as bus:
        client = await nats.connect(server.url, pending_size=64 << 20)
        try:
            yield Stream(server, bus, client)
        finally:
            await client.close()


def whole(deliveries: Sequence[Delivery], expected: int, what: str) -> None:
    """End the bench unless there are `expected` events, each once, by their ids."""
    ids = {json.loads(delivery.data)["id"] for delivery in deliveries}
    if len(deliveries) != expected or len(ids) != expected:
        raise SystemExit(f"{what}: {len(deliveries)} events with {len(ids)} ids, {expected} were to come")
