"""A nats-py connection that reconnects for ever, with an own inbox for acknowledgements and replies.

It works around these faults of nats-py 2.16: a late PONG ends the read loop while `is_connected` stays true (handled),
and bytes that are not the NATS protocol end the reconnecting (the watchdog checks both tasks itself); a reconnect first
waits until a stopped server has taken the unsent bytes; any `-ERR` closes the client for ever; `publish` buffers while
disconnected, and a full buffer swallows a cancellation (nothing is buffered here, callers wait for the connection
instead); futures of lost replies never end (a disconnect fails them all); after 60 reconnects the client is closed for
ever (here: no limit); a link that drops all packets goes unnoticed for minutes (here: pings every 2 s).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import re
import ssl
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple, Self

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from conch.bus.access import Access
from conch.bus.admit import HEADER_BYTES, MAX_PAYLOAD
from conch.bus.jetstream.refusal import UnfitServerError, refusal, unfit
from conch.bus.jetstream.wire import Take, WireParser, frame, read_headers
from conch.errors import BusError, BusUnreachableError, ConchError
from conch.log import get_logger
from conch.retry import BUS_REQUEST
from conch.tasks import OwnedTasks, background
from conch_schemas import JsonObject

log = get_logger(__name__)

REPLY_TIMEOUT = 5.0
"""Seconds to wait for a reply before the request is sent again."""
PING_SECONDS = 2.0
"""Seconds between two pings; after three that were not answered the connection is closed and opened again."""
PATIENCE = 30.0
"""Seconds that a reachable server may leave the first requests unanswered: a cluster elects its leader in ten."""
NO_RESPONDERS = "503"
DENIED = 403
"""`code` of a RefusedError: this user has no permission."""
_NO_JETSTREAM = 10039
"""Error code: the server has JetStream, but not for this account."""
_DENIED = re.compile(r"permissions violation for (publish|subscription) to \"?([^\"]+)", re.IGNORECASE)


class LostReplyError(Exception):
    """The connection broke, or the reply did not come: it is not known whether the server took the message."""


class ServerRefusalError(BusError):
    """The server answered with an error. `code` is its err_code (JetStream), or 503 where there is no responder."""

    def __init__(self, message: str, code: int, *, temporary: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.temporary = temporary
        """Whether asking again may help."""


class ServerReply(NamedTuple):
    """A reply to a request: its header fields and data."""

    data: bytes
    headers: dict[str, str]


class _Client(Client):
    def __init__(self, access: Access, lost: Callable[[], None], denied: Callable[[str, str], None]) -> None:
        super().__init__()
        self._access, self._lost, self._denied = access, lost, denied
        self._ps = self.parser = WireParser(self)  # type: ignore[assignment]

    async def _attempt_reconnect(self) -> None:
        """Report the disconnect at once and drop unsent bytes: waiting for a stopped server to take them never ends."""
        self._lost()
        self._drop()
        with contextlib.suppress(asyncio.InvalidStateError):  # its end is reported twice if it is closed meanwhile
            await super()._attempt_reconnect()

    async def _connect_to_server(self, s: Any) -> None:
        """Close a connection attempt that failed, and make no further attempt in a task that was cancelled: a failure
        of the same moment hides the cancellation from it (`asyncio.wait_for`, before Python 3.12)."""
        self._drop()
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError
        await super()._connect_to_server(s)

    def _drop(self) -> None:
        self._pending, self._pending_data_size = [], 0  # the callers that wait for replies send again
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            with contextlib.suppress(AttributeError):  # of a TLS transport that is closed already, in Python 3.11.2
                writer.transport.abort()

    @property
    def has_begun(self) -> bool:
        """Whether it has taken addresses to connect to; before, nats-py cannot close it."""
        return self._flush_queue is not None

    def give_up(self) -> None:
        """Drop a connection that TLS has broken: nats-py would wait for it to close, which never happens."""
        self._drop()
        self._transport = None

    @property
    def server(self) -> str:
        """The address of the present attempt or connection, without the user."""
        return str(self._current_server.uri.geturl()) if self._current_server is not None else ""

    @property
    def heard(self) -> BaseException | None:
        """The exception that ended reading from the server; the one of writing says less."""
        reader = getattr(self._transport, "_io_reader", None)
        return reader.exception() if reader is not None else None

    async def _process_info(self, info: JsonObject, initial_connection: bool = False) -> None:
        """Check the server's INFO before any secret is sent: nats-py would go on without TLS where none is offered."""
        if initial_connection and (why := unfit(info, self._access, self.server)) is not None:
            raise UnfitServerError(why)
        if initial_connection and self._access.secure:
            info["tls_required"] = True  # a server that also accepts plain connections need not announce it
        await super()._process_info(info, initial_connection)

    def _connect_command(self) -> bytes:
        """Treat a credentials file that cannot be read any more as a reason to try again later."""
        if self._server_info.get("tls_required"):
            # As asyncio's own start_tls does; otherwise asyncio logs a complaint about its end.
            self._transport._io_writer._protocol._over_ssl = True  # type: ignore[union-attr]
        try:
            return super()._connect_command()
        except ConchError as error:
            raise UnfitServerError(str(error)) from None

    async def _process_pong(self) -> None:
        """Accept a late PONG with a cancelled waiter, without ending the read loop."""
        if self._pongs:
            waiter = self._pongs.pop(0)
            if not waiter.done():
                waiter.set_result(True)
            self._pongs_received += 1
            self._pings_outstanding = 0

    async def _process_err(self, err_msg: str) -> None:
        """Treat the server's `-ERR` before it hangs up as a reason to reconnect, not to close for ever."""
        if (denied := _DENIED.search(err_msg)) is not None:
            log.error("bus.denied", what=err_msg.strip("'"))
            self._denied(denied[1].lower(), denied[2])
        else:
            await self._error_cb(Error(f"nats: {err_msg}"))
            await self._process_op_err(Error(f"nats: {err_msg}"))


async def _nothing(_: Msg) -> None:
    """A handler that nats-py requires and never calls: the parser delivers our messages itself."""


class Connection:
    """A NATS connection that reconnects by itself. Entered as a context; cancelled or left, it closes."""

    def __init__(self, access: Access, *, name: str = "conch", connect_timeout: float = 5.0) -> None:
        self._access, self._name, self._connect_timeout = access, name, connect_timeout
        self._shown = access.shown
        """The address without its password: for people and logs."""
        self.client = _Client(access, self._lost, self._denied)
        self._up = asyncio.Event()
        self._closed = False
        self._waiting: dict[bytes, tuple[str, asyncio.Future[ServerReply]]] = {}
        self._numbers = itertools.count(1)
        self.inbox = b""
        """Prefix of the reply subjects. A token follows: a number for publish acknowledgements, else `r` and one."""
        self.acknowledged: Callable[[bytes, bytes, bytes], None] = lambda token, header, data: None
        """Takes (token, header, data) of an answer to a publish."""
        self._last_error = ""
        self.refusal = ""
        """Why the server refuses this client, in a sentence; empty once it is accepted."""
        self.patience = PATIENCE
        """Seconds that a reachable server may leave a request unanswered."""
        self._refusals = 0
        self._deaf: set[str] = set()
        """Subjects that this user has no permission to subscribe to."""
        self._tasks = OwnedTasks()
        self._watchdog: asyncio.Task[None] | None = None
        self.on_loss: set[Callable[[], None]] = set()
        self.on_reconnect: set[Callable[[], None]] = set()
        self.on_denied: set[Callable[[str], None]] = set()

    async def __aenter__(self) -> Self:
        options = self._access.options()
        connecting = self.client.connect(
            self._access.servers,
            **options,
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
        try:
            # With -1, Client.connect retries an unreachable address for ever, so the first attempt is bounded.
            async with (
                asyncio.timeout(self._connect_timeout),
                background(connecting, name="conch.bus.connect") as attempt,  # see `_connect_to_server`
            ):
                await attempt
        except BusUnreachableError:
            await self._close()
            raise
        except (TimeoutError, OSError, Error) as error:
            await self._close()
            why = self._last_error or str(error) or type(error).__name__
            raise BusUnreachableError(
                self.refusal or f"no bus at {self._shown}: {why}. Is the server running, is the address right?"
            ) from error
        await self._listen()
        self.refusal = ""  # left over from another server of the cluster
        self._up.set()
        self._watchdog = self._tasks.start(self._watch(), name="conch.bus.watchdog")
        return self

    async def _listen(self) -> None:
        """Subscribe to the inbox. Raises BusUnreachableError when the server hangs up or denies the subscription."""
        inbox = self.client.new_inbox()
        self.inbox = inbox.encode() + b"."
        try:
            await self.subscribe(inbox + ".*", self._replied)
            for _ in range(2):  # nats-py's PING overtakes what is not written yet
                await self.client.flush(timeout=2)
        except (BusError, OSError, Error):
            pass  # it hung up, or will: looked at below
        why = f"it hung up ({self._last_error or 'without a word'})"
        if inbox + ".*" in self._deaf:
            why = f"this user may not listen there to the answers on {inbox}.*: allow it, see conch bus permissions"
        if inbox + ".*" in self._deaf or not self.client.is_connected:
            await self._close()
            raise BusUnreachableError(self.refusal or f"no bus at {self._shown}: {why}")

    async def __aexit__(self, *_: object) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        await self._close()

    async def _close(self) -> None:
        self._closed = True
        self._up.set()  # wakes all that wait for the connection: they raise BusError
        self._fail_waiting()
        if not self.client.has_begun:
            return
        try:
            async with asyncio.timeout(2):
                await self.client.close()
        except (TimeoutError, Error, OSError):
            log.debug("bus.close_failed")
        except asyncio.CancelledError:
            # nats-py's own tasks, cancelled while they wait for the same socket to close, cancel that for all.
            own = asyncio.current_task()
            if own is None or own.cancelling():
                raise
            log.debug("bus.close_failed")

    @property
    def connected(self) -> bool:
        """Whether the connection is up, as far as is known."""
        return self._up.is_set() and not self._closed and self.client.is_connected

    @property
    def said(self) -> JsonObject:
        """The server's INFO: `version`, `jetstream` and more."""
        return self.client._server_info

    async def wait(self) -> None:
        """Wait until there is a connection. Raises BusError once it was left."""
        await self._up.wait()
        if self._closed:
            raise BusError("the bus was left")

    async def subscribe(self, subject: str, take: Take) -> Subscription:
        """Subscribe: `take` is called synchronously with each message of `subject`. The server processes the
        subscription before anything that is sent later. It survives reconnects. Raises BusError once the bus was
        left."""
        try:
            subscription = await self.client.subscribe(subject, cb=_nothing)
        except Error as error:
            raise BusError(f"the bus was left: {error}") from error
        self.client.parser.takes[b"%d" % subscription._id] = take
        return subscription

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End the subscription. A second call does nothing."""
        self.client.parser.takes.pop(b"%d" % subscription._id, None)
        try:
            await subscription.unsubscribe()
        except Exception as error:  # nats-py raises several kinds here when the connection is closing
            log.debug("bus.unsubscribe_failed", error=str(error))

    def write(self, frames: bytes) -> None:
        """Write frames to the connection, in order with all other writes. Raises LostReplyError if there is none."""
        client = self.client
        if not self.connected or client._flush_queue is None:
            raise LostReplyError("there is no connection")
        client._pending.append(frames)
        client._pending_data_size += len(frames)
        if client._flush_queue.empty():
            client._flush_queue.put_nowait(asyncio.get_running_loop().create_future())

    def admit(self, subject: str, size: int) -> None:
        """Raises BusError for a message for which this server would close the connection."""
        most = self.client.max_payload - HEADER_BYTES
        if size > most:
            raise BusError(
                f"{subject} has {size} bytes, this server takes {most}: its max_payload has to be {MAX_PAYLOAD} or more"
            )

    async def send(self, subject: str, data: bytes, *, reply: bytes = b"", headers: bytes = b"") -> None:
        """Send a message once there is a connection. Raises LostReplyError when it breaks in that moment."""
        await self.wait()
        self.admit(subject, len(data))
        self.write(frame(subject, reply, data, headers))

    async def ask(
        self, subject: str, data: bytes, *, headers: bytes = b"", timeout: float = REPLY_TIMEOUT
    ) -> ServerReply:
        """Send a request and wait for its one reply. Raises LostReplyError, RefusedError(503) without a responder, or
        RefusedError(403) when this user has no permission to publish there."""
        token = b"r%d" % next(self._numbers)
        future: asyncio.Future[ServerReply] = asyncio.get_running_loop().create_future()
        self._waiting[token] = (subject, future)
        try:
            async with asyncio.timeout(timeout):
                await self.send(subject, data, reply=self.inbox + token, headers=headers)
                return await future
        except TimeoutError:
            raise LostReplyError(f"no reply on {subject} within {timeout:g} s") from None
        finally:
            del self._waiting[token]
            future.cancel()

    async def api(self, call: str, body: JsonObject | None = None, *, patience: float = inf) -> JsonObject:
        """One JetStream API call, repeated while the server is unreachable, for any time, or not ready.

        Raises RefusedError with the server's words, or BusUnreachableError when a reachable server has not answered for
        `patience` seconds, or for those of this connection.
        """
        data = json.dumps(body).encode() if body is not None else b""
        loop, waited = asyncio.get_running_loop(), 0.0
        for tries in itertools.count(1):
            await self.wait()
            began = loop.time()
            try:
                # The first retry comes soon: in a cluster, the server that was to answer may have died.
                answer = await self.ask(f"$JS.API.{call}", data, timeout=min(tries, REPLY_TIMEOUT))
                reply: JsonObject = json.loads(answer.data)
                if (error := reply.get("error")) is None:
                    return reply
                if error.get("code") != 503 or error.get("err_code") == _NO_JETSTREAM:
                    raise ServerRefusalError(f"{call}: {error.get('description')}", int(error.get("err_code", 0)))
            except LostReplyError:
                pass
            except ServerRefusalError as refused:
                if not refused.temporary:
                    raise
            await asyncio.sleep(BUS_REQUEST.after(tries))
            before, waited = waited, waited + loop.time() - began
            if waited >= min(patience, self.patience):
                break
            if before < PATIENCE <= waited:
                log.warning("bus.request_waits", call=call, seconds=PATIENCE)
        if self.is_cluster:
            raise BusUnreachableError(
                f"the cluster at {self._shown} has no leader ({call} was not answered): more than half of its servers "
                "must be up, and see each other"
            )
        raise BusUnreachableError(
            f"the server at {self._shown} does not answer JetStream requests ({call}); is JetStream enabled?"
        )

    @property
    def is_cluster(self) -> bool:
        """Whether the server is one of several."""
        return bool(self.said.get("cluster"))

    def _replied(self, subject: bytes, _: bytes, header: bytes, data: bytes) -> None:
        token = subject[len(self.inbox) :]
        if token[:1] != b"r":
            self.acknowledged(token, header, data)
            return
        asked, future = self._waiting.get(token, ("", None))
        if future is None or future.done():
            return
        status, _description, headers = read_headers(header)
        if status == NO_RESPONDERS:
            future.set_exception(ServerRefusalError(f"nobody answers on {asked}", 503, temporary=True))
        else:
            future.set_result(ServerReply(data, headers))

    def _denied(self, what: str, subject: str) -> None:
        if what != "publish":
            self._deaf.add(subject)
            return
        for asked, future in self._waiting.values():
            if asked.lower() == subject.lower() and not future.done():
                future.set_exception(ServerRefusalError(f"this user may not publish on {asked}", DENIED))
        for callback in tuple(self.on_denied):
            callback(subject)

    def _fail_waiting(self) -> None:
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(LostReplyError("the connection went"))

    def _lost(self) -> None:
        if not self._closed:
            self._up.clear()
            self._fail_waiting()
            for callback in tuple(self.on_loss):
                callback()
            log.warning("bus.disconnected", url=self._shown)

    async def _reconnected(self) -> None:
        self.refusal = ""
        self._up.set()
        log.info("bus.reconnected", url=self._shown)
        for callback in tuple(self.on_reconnect):
            callback()

    async def _error(self, error: Exception) -> None:
        self._last_error = str(error) or type(error).__name__
        heard = self.client.heard
        cause = heard if isinstance(heard, ssl.SSLError) else error
        if isinstance(cause, ssl.SSLError):
            self.client.give_up()
        why = refusal(cause, self._access, self.client.server)
        if why is None:
            log.debug("bus.connection_error", error=self._last_error)
        elif self._watchdog is not None:
            if why != self.refusal:
                log.warning("bus.refused", why=why)
            self.refusal = why
        else:
            self.refusal, self._refusals = why, self._refusals + 1
            if self._refusals >= len(self._access.servers):
                raise BusUnreachableError(why)  # into `connect`, which would go on trying

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            reading, returning = self.client._reading_task, self.client._reconnection_task
            if self.client.is_connected and reading is not None and reading.done():
                log.warning("bus.read_loop_died", url=self._shown)
                await self.client.force_reconnect()
            elif self.client.is_reconnecting and returning is not None and returning.done():
                log.warning("bus.reconnecting_died", url=self._shown)
                again = self._tasks.start(self.client._attempt_reconnect(), name="conch.bus.reconnect")
                self.client._reconnection_task = again  # nats-py cancels it when it closes
