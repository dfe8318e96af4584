"""HTTP connections with time limits, so that a client that sends or reads nothing does not keep one open."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from conch_services.dashboard.security.guard import HEADERS
from conch_services.dashboard.security.refusals import NO_REQUEST

HEAD_SECONDS = 10.0
"""From a connection, or from the first byte of a further request on it, to the last header of the request."""


UNREAD_SECONDS = 30.0
"""Seconds without progress in sending a response, after which the connection is closed."""


class TimedHttpProtocol(H11Protocol):
    """HTTP/1.1 with a time limit on reading a request and on writing an answer: a connection on which a request stays
    incomplete, or an answer unread, is closed. Meanwhile other connections go on."""

    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn's own
        """Start the time limit for the head of the first request."""
        super().connection_made(transport)
        self.access_log = False  # a query holds a link's token: it must not get into a log
        self._late = self.loop.call_later(HEAD_SECONDS, transport.close)
        transport.set_write_buffer_limits(high=0)  # writing is paused whenever the kernel takes no more

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request; the time limit ends once its head is complete."""
        super().data_received(data)
        waits = self.cycle is None or self.cycle.response_complete
        if not waits:
            self._on_time()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def pause_writing(self) -> None:
        """The other side does not read just now."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read all that was kept for it."""
        super().resume_writing()
        self._is_read()

    def send_400_response(self, _: str) -> None:
        """An invalid request never reaches the guard, and is answered as the guard would answer."""
        told = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"), ("Connection", "close")]
        head = h11.Response(status_code=400, headers=[*told, *HEADERS.items()], reason=b"Bad Request")
        for event in (head, h11.Data(data=f"{NO_REQUEST}\n".encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limits."""
        self._on_time()
        self._is_read()
        super().connection_lost(exc)

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _on_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
