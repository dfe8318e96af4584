"""One nats-py connection with its traps disarmed, and an inbox of our own for acknowledgements and replies.

What nats-py 2.16 gets wrong and this works around: a late PONG ends the read loop while `is_connected` stays true
(the watchdog looks at the loop itself); `publish` buffers while disconnected and fails at 2 MiB (we wait for the
connection instead); futures of lost replies never end (a disconnect fails them all); 60 reconnects, then closed for
ever (here: without end); a black-holed link goes unnoticed for minutes (here: pings every 2 s).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable
from typing import Any, Self

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, Error, OutboundBufferLimitError

from conch.errors import BusError, BusUnreachableError

log = structlog.get_logger(__name__)

REPLY_TIMEOUT = 5.0
"""Seconds that a reply may take before it is asked for again."""


class LostReplyError(Exception):
    """The connection went, or the reply did not come: whether the server took the message is not known."""


class RefusedError(BusError):
    """The server answered with an error. `code` is its err_code (JetStream), or 503 when nobody was there."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """A connection that comes back by itself. Entered as a context; cancelled or left, it closes."""

    def __init__(
        self, url: str, *, token: str | None = None, name: str = "conch", connect_timeout: float = 5.0
    ) -> None:
        self._url, self._token, self._name, self._connect_timeout = url, token, name, connect_timeout
        self.client = Client()
        self._up = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._numbers = itertools.count(1)
        self._inbox = ""
        self._watchdog: asyncio.Task[None] | None = None
        self.on_reconnect: set[Callable[[], None]] = set()

    async def __aenter__(self) -> Self:
        try:
            # Client.connect retries a dead address by itself for ever with -1, so the first time is bounded.
            async with asyncio.timeout(self._connect_timeout):
                await self.client.connect(
                    self._url,
                    token=self._token,
                    name=self._name,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.05 + random.random() * 0.1,  # type: ignore[arg-type]  # noqa: S311 - any number does
                    ping_interval=2,
                    max_outstanding_pings=3,
                    connect_timeout=2,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                    error_cb=self._error,
                    skip_subject_validation=True,
                )
        except (TimeoutError, OSError, Error) as error:
            await self._close()
            why = str(error) or type(error).__name__
            raise BusUnreachableError(
                f"no bus at {self._url}: {why}. Is the server running, is the address right?"
            ) from error
        self._inbox = self.client.new_inbox()
        await self.client.subscribe(self._inbox + ".*", cb=self._replied, pending_bytes_limit=0)
        self._up.set()
        self._watchdog = asyncio.create_task(self._watch(), name="conch.bus.watchdog")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        await self._close()

    async def _close(self) -> None:
        self._up.clear()
        self._fail_waiting()
        try:
            async with asyncio.timeout(2):
                await self.client.close()
        except (TimeoutError, Error, OSError):
            log.debug("bus.close_failed")

    @property
    def connected(self) -> bool:
        """Whether the server was there when last heard of."""
        return self._up.is_set() and self.client.is_connected

    async def wait(self) -> None:
        """Until there is a connection."""
        await self._up.wait()

    async def send(self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Hand a message to the connection once there is one. Raises LostReplyError when it goes in that moment."""
        await self._up.wait()
        try:
            await self.client.publish(subject, data, reply=reply, headers=headers)
        except (ConnectionClosedError, OutboundBufferLimitError, OSError) as error:
            raise LostReplyError(str(error)) from error

    async def ask(
        self, subject: str, data: bytes, *, headers: dict[str, str] | None = None, timeout: float = REPLY_TIMEOUT
    ) -> Msg:
        """Send and wait for the one reply. Raises LostReplyError, or RefusedError(503) when nobody listens there."""
        token = str(next(self._numbers))
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            await self.send(subject, data, reply=f"{self._inbox}.{token}", headers=headers)
            async with asyncio.timeout(timeout):
                message = await future
        except TimeoutError:
            raise LostReplyError(f"no reply on {subject} within {timeout:g} s") from None
        finally:
            self._waiting.pop(token, None)
        if message.headers and message.headers.get("Status") == "503":
            raise RefusedError(f"nobody answers on {subject}", 503)
        return message

    async def api(self, call: str, body: dict[str, Any] | None = None, *, patience: float = 30.0) -> dict[str, Any]:
        """One JetStream API call, asked again while the server is away or not ready.

        Raises RefusedError with the server's words, or BusUnreachableError after `patience` seconds.
        """
        data = json.dumps(body).encode() if body is not None else b""
        try:
            async with asyncio.timeout(patience):
                while True:
                    try:
                        reply: dict[str, Any] = json.loads((await self.ask(f"$JS.API.{call}", data)).data)
                    except LostReplyError:
                        await asyncio.sleep(0.05)
                        continue
                    except RefusedError:
                        await asyncio.sleep(0.1)  # 503: JetStream is starting, or has no leader yet
                        continue
                    if (error := reply.get("error")) is None:
                        return reply
                    if error.get("code") == 503:
                        await asyncio.sleep(0.1)
                        continue
                    raise RefusedError(f"{call}: {error.get('description')}", int(error.get("err_code", 0)))
        except TimeoutError:
            raise BusUnreachableError(
                f"the server at {self._url} does not answer JetStream requests ({call}); is JetStream enabled?"
            ) from None

    async def _replied(self, message: Msg) -> None:
        future = self._waiting.get(message.subject.rsplit(".", 1)[-1])
        if future is not None and not future.done():
            future.set_result(message)

    def _fail_waiting(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(LostReplyError("the connection went"))

    async def _disconnected(self) -> None:
        self._up.clear()
        self._fail_waiting()
        log.warning("bus.disconnected", url=self._url)

    async def _reconnected(self) -> None:
        self._up.set()
        log.info("bus.reconnected", url=self._url)
        for callback in tuple(self.on_reconnect):
            callback()

    async def _error(self, error: Exception) -> None:
        log.debug("bus.connection_error", error=str(error) or type(error).__name__)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            reading = self.client._reading_task
            if self.client.is_connected and reading is not None and reading.done():
                log.warning("bus.read_loop_died", url=self._url)
                self._up.clear()
                self._fail_waiting()
                await self.client.force_reconnect()
