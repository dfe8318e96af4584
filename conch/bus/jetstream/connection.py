"""One nats-py connection with its traps disarmed, and an inbox of our own for acknowledgements and replies.

What nats-py 2.16 gets wrong and this works around: a late PONG ends the read loop while `is_connected` stays true, and
an answer that is no NATS ends the reconnecting (the watchdog looks at both tasks itself); reconnecting first waits
until a stopped server has taken what is unsent; any `-ERR` closes the client for ever; `publish` buffers while
disconnected, and a full buffer swallows a cancellation (nothing is buffered here, we wait for the connection instead);
futures of lost replies never end (a disconnect fails them all); 60 reconnects, then closed for ever (here: without
end); a black-holed link goes unnoticed for minutes (here: pings every 2 s).
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
from nats.errors import Error, MaxPayloadError

from conch.bus.access import Access
from conch.config.mask import masked
from conch.errors import BusError, BusUnreachableError

log = structlog.get_logger(__name__)

REPLY_TIMEOUT = 5.0
"""Seconds that a reply may take before it is asked for again."""
PING_SECONDS = 2.0
"""Between two signs of life; after three that were not answered the connection is given up."""


class LostReplyError(Exception):
    """The connection went, or the reply did not come: whether the server took the message is not known."""


class RefusedError(BusError):
    """The server answered with an error. `code` is its err_code (JetStream), or 503 when nobody was there."""

    def __init__(self, message: str, code: int, *, temporary: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.temporary = temporary
        """Whether asking again may help."""


class _Client(Client):
    def __init__(self, lost: Callable[[], None]) -> None:
        super().__init__()
        self._lost = lost

    async def _attempt_reconnect(self) -> None:
        """Tell at once, and drop what is unsent: waiting for a stopped server to take it would never end."""
        self._lost()
        self._drop()
        await super()._attempt_reconnect()

    async def _connect_to_server(self, s: Any) -> None:
        """Nor is a connection that led nowhere left open."""
        self._drop()
        await super()._connect_to_server(s)

    def _drop(self) -> None:
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()

    async def _process_err(self, err_msg: str) -> None:
        """What the server complains of before it hangs up: a reason to come back, not to close for ever."""
        if "permissions violation" in err_msg.lower():
            await super()._process_err(err_msg)
        else:
            await self._error_cb(Error(f"nats: {err_msg}"))
            await self._process_op_err(Error(f"nats: {err_msg}"))


class Connection:
    """A connection that comes back by itself. Entered as a context; cancelled or left, it closes."""

    def __init__(self, access: Access, *, name: str = "conch", connect_timeout: float = 5.0) -> None:
        self._access, self._name, self._connect_timeout = access, name, connect_timeout
        self._shown = masked(access.url)
        """The address without its password: for people and logs."""
        self.client = _Client(self._lost)
        self._up = asyncio.Event()
        self._closed = False
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._numbers = itertools.count(1)
        self._inbox = ""
        self._last_error = ""
        self._watchdog: asyncio.Task[None] | None = None
        self.on_reconnect: set[Callable[[], None]] = set()

    async def __aenter__(self) -> Self:
        try:
            # Client.connect retries a dead address by itself for ever with -1, so the first time is bounded.
            async with asyncio.timeout(self._connect_timeout):
                await self.client.connect(
                    self._access.url.split(","),
                    **self._access.options(),
                    name=self._name,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.05 + random.random() * 0.1,  # type: ignore[arg-type]  # noqa: S311 - any number does
                    ping_interval=PING_SECONDS,  # type: ignore[arg-type]  # any number does
                    max_outstanding_pings=3,
                    connect_timeout=2,
                    pending_size=-1,
                    reconnected_cb=self._reconnected,
                    error_cb=self._error,
                    skip_subject_validation=True,
                )
        except BusUnreachableError:
            await self._close()
            raise
        except (TimeoutError, OSError, Error) as error:
            await self._close()
            why = self._last_error or str(error) or type(error).__name__
            raise BusUnreachableError(
                f"no bus at {self._shown}: {why}. Is the server running, is the address right?"
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
        self._closed = True
        self._up.set()  # whoever waits for the connection hears that there will be none
        self._fail_waiting()
        try:
            async with asyncio.timeout(2):
                await self.client.close()
        except (TimeoutError, Error, OSError):
            log.debug("bus.close_failed")

    @property
    def connected(self) -> bool:
        """Whether the server was there when last heard of."""
        return self._up.is_set() and not self._closed and self.client.is_connected

    async def wait(self) -> None:
        """Until there is a connection. Raises BusError once it was left."""
        await self._up.wait()
        if self._closed:
            raise BusError("the bus was left")

    async def send(self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Hand a message to the connection once there is one. Raises LostReplyError when it goes in that moment."""
        await self.wait()
        try:
            await self.client.publish(subject, data, reply=reply, headers=headers)
        except MaxPayloadError as error:
            raise BusError(f"{subject} has {len(data)} bytes, the server takes {self.client.max_payload}") from error
        except (Error, OSError) as error:
            raise LostReplyError(str(error)) from error

    async def ask(
        self, subject: str, data: bytes, *, headers: dict[str, str] | None = None, timeout: float = REPLY_TIMEOUT
    ) -> Msg:
        """Send and wait for the one reply. Raises LostReplyError, or RefusedError(503) when nobody listens there."""
        token = str(next(self._numbers))
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            async with asyncio.timeout(timeout):
                await self.send(subject, data, reply=f"{self._inbox}.{token}", headers=headers)
                message = await future
        except TimeoutError:
            raise LostReplyError(f"no reply on {subject} within {timeout:g} s") from None
        finally:
            del self._waiting[token]
            future.cancel()
        if message.headers and message.headers.get("Status") == "503":
            raise RefusedError(f"nobody answers on {subject}", 503, temporary=True)
        return message

    async def api(self, call: str, body: dict[str, Any] | None = None, *, patience: float = 30.0) -> dict[str, Any]:
        """One JetStream API call, asked again while the server is away, however long, or not ready.

        Raises RefusedError with the server's words, or BusUnreachableError when a server that is there has not
        answered for `patience` seconds.
        """
        data = json.dumps(body).encode() if body is not None else b""
        loop = asyncio.get_running_loop()
        while patience > 0:
            await self.wait()
            began = loop.time()
            try:
                reply: dict[str, Any] = json.loads((await self.ask(f"$JS.API.{call}", data)).data)
                if (error := reply.get("error")) is None:
                    return reply
                if error.get("code") != 503:
                    raise RefusedError(f"{call}: {error.get('description')}", int(error.get("err_code", 0)))
            except LostReplyError:
                pass
            except RefusedError as refused:
                if not refused.temporary:
                    raise
            await asyncio.sleep(0.05)
            patience -= loop.time() - began
        raise BusUnreachableError(
            f"the server at {self._shown} does not answer JetStream requests ({call}); is JetStream enabled?"
        )

    async def _replied(self, message: Msg) -> None:
        future = self._waiting.get(message.subject.rsplit(".", 1)[-1])
        if future is not None and not future.done():
            future.set_result(message)

    def _fail_waiting(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(LostReplyError("the connection went"))

    def _lost(self) -> None:
        if not self._closed:
            self._up.clear()
            self._fail_waiting()
            log.warning("bus.disconnected", url=self._shown)

    async def _reconnected(self) -> None:
        self._up.set()
        log.info("bus.reconnected", url=self._shown)
        for callback in tuple(self.on_reconnect):
            callback()

    async def _error(self, error: Exception) -> None:
        self._last_error = str(error) or type(error).__name__
        if self._watchdog is None and "authorization" in self._last_error.lower():
            # Raised into `connect`, which would go on asking.
            raise BusUnreachableError(f"the bus at {self._shown} refused the token (bus.token): {self._last_error}")
        log.debug("bus.connection_error", error=self._last_error)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            reading, returning = self.client._reading_task, self.client._reconnection_task
            if self.client.is_connected and reading is not None and reading.done():
                log.warning("bus.read_loop_died", url=self._shown)
                await self.client.force_reconnect()
            elif self.client.is_reconnecting and returning is not None and returning.done():
                log.warning("bus.reconnecting_died", url=self._shown)
                self.client._reconnection_task = asyncio.create_task(self.client._attempt_reconnect())
