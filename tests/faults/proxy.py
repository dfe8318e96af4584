"""A TCP proxy between clients and a server: what goes wrong with a network, on command.

What is held or delayed is not lost: like a packet that waits in a router, it may arrive when nobody counts on it any
more, from a connection that its sender has long given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from typing import Self

CHUNK = 64 * 1024
"""Most bytes that are passed on at a time; the proxy itself keeps no more than a few of them a connection."""
_RESET = struct.pack("ii", 1, 0)


class Way:
    """One direction, over all connections."""

    def __init__(self) -> None:
        self.delay = 0.0
        """Seconds that everything takes longer."""
        self.rate = 0
        """Bytes a second; 0: as many as there are."""
        self.passed = 0
        """Bytes so far."""
        self._free = asyncio.Event()
        self._free.set()
        self._left: int | None = None
        self._trap, self._times, self._tail = b"", 0, b""

    def hold(self) -> None:
        """From now on nothing comes out: a black hole."""
        self._free.clear()

    def release(self) -> None:
        """What was held comes out after all."""
        self._free.set()

    def cut_after(self, count: int) -> None:
        """So many bytes more, and the connection that they are on is cut."""
        self._left = count

    def cut_at(self, trap: bytes, times: int = 1) -> None:
        """Cut in the middle of `trap`, at its n-th time from now. For messages of a kind: a part of their subject."""
        self._trap, self._times, self._tail = trap, times, b""

    @property
    def armed(self) -> bool:
        """Whether a cut is still to come."""
        return self._left is not None or self._times > 0

    async def _let_through(self, data: bytes) -> tuple[bytes, bool]:
        """How much of `data` comes out, when its time has come, and whether that is the end."""
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.rate:
            await asyncio.sleep(len(data) / self.rate)
        await self._free.wait()
        allowed = min(self._before_count(data), self._before_trap(data))
        self.passed += min(allowed, len(data))
        return data[:allowed], allowed <= len(data)

    def _before_count(self, data: bytes) -> int:
        if self._left is None:
            return len(data) + 1
        left, self._left = self._left, self._left - len(data)
        if left > len(data):
            return len(data) + 1
        self._left = None
        return left

    def _before_trap(self, data: bytes) -> int:
        """Up to the middle of the trap's last time; the tail of the chunk before counts, it may begin there."""
        if self._times <= 0:
            return len(data) + 1
        seen = self._tail + data
        at = -1
        while self._times > 0 and (at := seen.find(self._trap, at + 1)) >= 0:
            self._times -= 1
        if self._times <= 0:
            return max(0, at + len(self._trap) // 2 - len(self._tail))
        self._tail = seen[len(seen) - len(self._trap) + 1 :]
        return len(data) + 1


class Proxy:
    """Entered, it listens at `url` and passes everything on to the server. Left, it is gone with all connections.

    `room`: of the server's bytes, so many may wait for their turn; when more do, their connection is cut and they are
    lost. 0: the server itself has to wait.
    """

    def __init__(self, target: str, *, room: int = 0) -> None:
        self._port = int(target.rsplit(":", 1)[1])
        self._room = room
        self.up, self.down = Way(), Way()
        """To the server, and from it."""
        self.cuts = 0
        """Connections that were cut so far."""
        self._ends: dict[asyncio.Task[None], list[StreamWriter]] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        tasks = tuple(self._ends)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """That are open now."""
        return len(self._ends)

    def cut(self) -> None:
        """Reset every connection."""
        for ends in tuple(self._ends.values()):
            self.cuts += 1
            for end in ends:
                _reset(end)

    @contextlib.contextmanager
    def held(self, *ways: Way) -> Iterator[None]:
        """A black hole in these ways (both, where none is named) for as long as the context is entered."""
        for way in ways or (self.up, self.down):
            way.hold()
        try:
            yield
        finally:
            for way in ways or (self.up, self.down):
                way.release()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.create_task(self._connection(reader, writer), name="proxy.connection")
        self._ends[task] = [writer]
        # One that is cancelled before its first step runs no `finally`.
        task.add_done_callback(lambda done: [end.close() for end in self._ends.pop(done, ())])

    async def _connection(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ends = self._ends[task]
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self._port, limit=max(CHUNK, self._room))
            ends.append(forth)
            pumps = [
                asyncio.create_task(self._pump(self.up, reader, forth, writer), name="proxy.up"),
                asyncio.create_task(self._pump(self.down, back, writer, forth), name="proxy.down"),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            _reset(writer)  # the server is not there
        finally:
            for end in ends:
                end.close()

    async def _pump(self, way: Way, source: StreamReader, sink: StreamWriter, origin: StreamWriter) -> None:
        """Until either end is gone or the way is cut. What was let through before a cut is delivered, then the sink
        sees an end in order and the origin a reset."""
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                data, last = await way._let_through(data)
                if way is self.down and 0 < self._room < len(source._buffer):  # type: ignore[attr-defined]
                    self.cuts += 1
                    _reset(sink)
                    _reset(origin)
                    return
                sink.write(data)
                if last:
                    self.cuts += 1
                    _reset(origin)
                    return
                await sink.drain()


def _reset(writer: StreamWriter) -> None:
    """Close with a RST instead of an end in order."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
