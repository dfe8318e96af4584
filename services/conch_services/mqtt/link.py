"""One connection to the MQTT broker of `edge.bridge`, made again whenever it is lost.

MQTT 5 where the broker speaks it, since only there a broker can say that it refused a message; 3.1.1 elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import secrets
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import aiomqtt
import structlog
from aiomqtt.exceptions import MqttConnectError
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from conch.config.model import EdgeSettings
from conch.text import safe_text

log = structlog.get_logger(__name__)

WINDOW = 64
"""Most messages handed over and not yet acknowledged by the broker."""
KEEPALIVE_SECONDS = 10
"""A link that is silent for longer is asked for a sign of life; without one for as long again it is given up."""
ANSWER_SECONDS = 5.0
"""Time for the broker to take a connection, to agree on TLS and to answer; each."""
REST_SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Waits between tries to connect, give or take half of it; the last one again and again."""
STEADY_SECONDS = 5.0
"""A connection that lasted as long begins with the shortest wait again."""
ENVELOPE = 32
"""Most bytes of a PUBLISH packet beside topic and payload."""

_OLD = {1: 132, 2: 133, 3: 136, 4: 134, 5: 135}
"""MQTT 3.1.1's refusals as MQTT 5's."""
_OTHER_VERSION, _CREDENTIALS, _FORBIDDEN, _NOT_NOW = 132, (134, 135, 138, 140), 135, (128, 131, 151)

_quiet = logging.getLogger("conch.mqtt.paho")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False  # what matters of it is said here, in one sentence

Heard = Callable[[str, bytes, bool], None]
"""(topic, payload, retained): what to do with a message, at once."""


class RefusedError(Exception):
    """The broker refuses this one message or subscription; the others go on. The message is one sentence."""

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        """`forbidden`: we may not use its topic."""
        super().__init__(message)
        self.forbidden = forbidden


class LostError(Exception):
    """The connection is gone, or of no use now. The message is one sentence."""


class Wire:
    """A connection as long as it lasts; made by `Link`."""

    def __init__(self, client: _Client, proven: Callable[[], None]) -> None:
        """`proven`: told at each message that the broker takes or refuses."""
        self._client, self._proven = client, proven
        self._room = asyncio.Semaphore(client.window)

    async def send(
        self, topic: str, payload: bytes, *, retain: bool = False, expires: float | None = None
    ) -> asyncio.Future[None]:
        """Hand one message over at QoS 1, behind those before it; waits while WINDOW are in flight.

        `expires`: seconds after which the broker gives it to nobody any more. Of MQTT 5; 3.1.1 knows no such thing.

        The future is done once the broker has the message. It raises RefusedError when the broker does not take this
        one, LostError when it takes none for now. When the connection is lost it is never done: whoever waits for it
        inside `Link.keep` is cancelled then.
        """
        await self._room.acquire()
        handed = self._client.hand_over(topic, payload, retain, expires)
        handed.add_done_callback(self._settled)
        return handed

    def _settled(self, handed: asyncio.Future[None]) -> None:
        self._room.release()
        if not handed.cancelled() and not isinstance(handed.exception(), LostError):
            self._proven()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False, expires: float | None = None) -> None:
        """Send one message; returns once the broker has it. Raises RefusedError when it does not take it."""
        await (await self.send(topic, payload, retain=retain, expires=expires))

    async def subscribe(self, filter: str) -> None:
        """Hear what is published on `filter`, at QoS 1. Raises RefusedError when the broker does not allow it."""
        try:
            [granted] = await self._client.subscribe(filter, qos=1)
        except ValueError as error:
            raise RefusedError(f"{filter!r} is no topic filter") from error
        code = granted if isinstance(granted, int) else granted.value
        if code >= 128:
            raise RefusedError(f"the broker does not let us hear {filter!r}: {_words(granted)}")
        self._proven()


class Link:
    """Keeps a connection to the broker."""

    def __init__(
        self,
        edge: EdgeSettings,
        name: str,
        *,
        will: aiomqtt.Will | None = None,
        heard: Heard | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """`name`: begins our client id. `will`: what the broker says when we die. `heard`: takes what comes in.

        `report`: is told why there is no connection, and "" once there is one. Several links may be open at once.
        """
        assert edge.bridge is not None
        self._edge, self._will, self._heard, self._report = edge, will, heard, report
        self._url = urlsplit(edge.bridge)
        self._identifier = f"conch-{name}-{secrets.token_hex(4)}"
        self._newest = True
        """Whether MQTT 5 is tried; a broker that does not answer to it is asked in 3.1.1 the next time."""
        self.connected = False
        """Whether there is a connection on which the broker has answered to something."""
        self.trouble, self.since = "", 0.0
        """Why there is none, in one sentence, and since when (monotonic); "" until the first try has failed."""

    @property
    def address(self) -> str:
        """The broker's host and port."""
        host = self._url.hostname or ""
        return f"{f'[{host}]' if ':' in host else host}:{self._port}"

    @property
    def _port(self) -> int:
        return self._url.port or (8883 if self._secure else 1883)

    @property
    def _secure(self) -> bool:
        return self._url.scheme == "mqtts"

    async def keep(self, live: Callable[[Wire], Awaitable[None]]) -> None:
        """Connect and `live` with the connection; whenever it is lost `live` is cancelled, and called with the next.

        Returns when `live` does, with the connection closed in order: no last will. Raises what `live` raises, less
        LostError: then it connects anew. Raising or cancelled, it drops the connection, so that the last will is said.
        Why there is no connection is logged once, however often it is tried.
        """
        tries = 0
        while True:
            begun = time.monotonic()
            try:
                await self._once(live)
                return
            except LostError as lost:
                self._troubled(str(lost))
            finally:
                self.connected = False
            tries = 0 if time.monotonic() - begun > STEADY_SECONDS else tries
            rest = REST_SECONDS[min(tries, len(REST_SECONDS) - 1)]
            await asyncio.sleep(rest * random.uniform(0.5, 1.5))  # noqa: S311 - spreads tries, hides nothing
            tries += 1

    async def _once(self, live: Callable[[Wire], Awaitable[None]]) -> None:
        client = await self._connect()
        living = asyncio.ensure_future(live(Wire(client, self._proven)))
        losing = asyncio.ensure_future(client.lost())
        try:
            await asyncio.wait([living, losing], return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
            else:
                raise LostError(self._lost(losing.result()))
            await client.leave()
        except aiomqtt.MqttError as error:
            raise LostError(self._lost(error)) from None
        finally:
            for task in (living, losing):
                task.cancel()
            await asyncio.wait([living, losing])
            await client.drop()

    def _lost(self, why: object) -> str:
        return f"the connection to the MQTT broker {self.address} is lost: {_words(why)}"

    def _proven(self) -> None:
        if not self.connected:
            self.connected = True
            log.info("mqtt.connected", broker=self.address)
            self._say("")

    def _troubled(self, why: str) -> None:
        if why != self.trouble:
            log.warning("mqtt.unreachable", broker=self.address, why=why)
        self._say(why)

    def _say(self, why: str) -> None:
        if why != self.trouble:
            self.since = self.since if self.trouble else time.monotonic()
            self.trouble = why
            if self._report is not None:
                self._report(why)

    async def _connect(self) -> _Client:
        try:
            client = _Client(self._heard, **await asyncio.to_thread(self._arguments))
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise LostError(f"edge.tls of the MQTT broker {self.address} cannot be used: {_words(error)}") from None
        entering = asyncio.ensure_future(client.__aenter__())
        try:
            await asyncio.shield(entering)
        except aiomqtt.MqttError as error:
            await client.drop()
            raise LostError(self._why(error, answered=client.answered)) from None
        except asyncio.CancelledError:
            await asyncio.wait([entering])  # paho connects in a thread that nothing interrupts
            await client.drop()
            raise
        return client

    def _arguments(self) -> dict[str, Any]:
        edge, url = self._edge, self._url
        user = unquote(url.username) if url.username else edge.user
        secret = edge.password.get_secret_value() if edge.password is not None else None
        version = aiomqtt.ProtocolVersion.V5 if self._newest else aiomqtt.ProtocolVersion.V311
        return {
            "hostname": url.hostname,
            "port": self._port,
            "username": user,
            "password": unquote(url.password) if url.password else secret,
            "identifier": self._identifier,
            "protocol": version,
            "will": self._will,
            "keepalive": KEEPALIVE_SECONDS,
            "timeout": ANSWER_SECONDS,
            "tls_context": self._tls() if self._secure else None,
            "logger": _quiet,
        }

    def _tls(self) -> ssl.SSLContext:
        tls = self._edge.tls
        for file in (tls.ca, tls.certificate, tls.key):
            if file is not None:
                open(file, "rb").close()  # ssl's own errors name no file
        context = ssl.create_default_context(cafile=tls.ca)
        context.sslsocket_class = _Socket
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key, password="")
        return context

    def _why(self, error: aiomqtt.MqttError, *, answered: bool) -> str:
        """Why it could not connect, in one sentence. Where the version may be why, the other one is tried next."""
        broker, cause = f"the MQTT broker {self.address}", error.__context__
        code = _code(error)
        if code in _CREDENTIALS:
            return f"{broker} does not let us in: check edge.user and edge.password"
        if answered and code != _OTHER_VERSION:
            return f"{broker} refuses the connection: {_words(error)}"
        if isinstance(cause, socket.gaierror):
            return f"{broker}: there is no such host ({_words(cause)})"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"{broker} shows a certificate that does not hold: {cause.verify_message} (edge.tls.ca)"
        if isinstance(cause, ssl.SSLError):
            return f"{broker} and we do not agree on TLS: {_words(cause)}"
        if isinstance(cause, OSError) and cause.args:  # one without is of aiomqtt's own waiting for an answer
            return f"{broker} cannot be reached: {_words(cause)}"
        self._newest = not self._newest
        tls = "" if self._secure else "; if the port wants TLS, edge.bridge must say mqtts://"
        return f"{broker} does not answer in MQTT{tls}"


class _Client(aiomqtt.Client):
    """aiomqtt's client, less its queue of what came in, and with what the broker says of each message.

    aiomqtt has a task for each publish, does not say that the broker refused one, and does not close the socket of a
    connection that got no answer.
    """

    def __init__(self, heard: Heard | None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._heard = heard
        self._newest = arguments["protocol"] is aiomqtt.ProtocolVersion.V5
        self._end = self._disconnected
        """aiomqtt forgets the end of a connection that ends while it is entered, and makes a new future."""
        self._handed: dict[int, asyncio.Future[None]] = {}
        self._room_for: int | None = None
        self._why = "the line broke"
        self.window = WINDOW
        self.answered = False
        self._client.connect_timeout = ANSWER_SECONDS
        self._client.max_inflight_messages_set(WINDOW)

    def hand_over(self, topic: str, payload: bytes, retain: bool, expires: float | None = None) -> asyncio.Future[None]:
        """See `Wire.send`."""
        handed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        size = len(topic.encode()) + len(payload) + ENVELOPE
        if self._room_for is not None and size > self._room_for:
            handed.set_exception(RefusedError(f"it has {size} bytes, the broker takes {self._room_for}"))
            return handed
        try:
            info = self._client.publish(topic, payload, qos=1, retain=retain, properties=self._expiring(expires))
        except ValueError as error:
            handed.set_exception(RefusedError(_words(error)))
            return handed
        self._handed[info.mid] = handed
        return handed

    def _expiring(self, seconds: float | None) -> Properties | None:
        if seconds is None or not self._newest:
            return None
        found = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        found.MessageExpiryInterval = max(1, round(seconds))
        return found

    async def lost(self) -> str:
        """Returns why once the connection is gone."""
        await asyncio.wait([self._end])
        return self._why

    async def leave(self) -> None:
        """Close the connection in order: the broker does not say our last will."""
        with contextlib.suppress(aiomqtt.MqttError):  # it is gone already, or does not answer
            await self.__aexit__(None, None, None)

    async def drop(self) -> None:
        """Close the connection as if we died; nothing where there is none."""
        line = cast(socket.socket | None, self._client.socket())
        if line is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(Exception):  # it tells of the end in many ways
                self._client.loop_read()  # finds the end, and closes
        if self._end.done():
            self._end.exception()  # known

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason_code: Any, properties: Any = None) -> None:
        self.answered = True
        if properties is not None:
            self.window = min(WINDOW, getattr(properties, "ReceiveMaximum", WINDOW))
            self._room_for = getattr(properties, "MaximumPacketSize", None)
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason_code: Any, properties: Any = None) -> None:
        if flags.is_disconnect_packet_from_server:
            self._why = f"the broker says: {_words(reason_code)}"
        elif reason_code == "Keep alive timeout":
            self._why = "the broker says nothing any more"
        super()._on_disconnect(client, userdata, flags, reason_code, properties)

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason_code: Any, properties: Any) -> None:
        handed = self._handed.pop(mid, None)
        if handed is None or handed.done():
            return
        if reason_code.value in _NOT_NOW:
            handed.set_exception(LostError(f"the MQTT broker takes nothing now: {_words(reason_code)}"))
        elif reason_code.is_failure:
            refused = f"the broker does not take it: {_words(reason_code)}"
            handed.set_exception(RefusedError(refused, forbidden=reason_code.value == _FORBIDDEN))
        else:
            handed.set_result(None)

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        if self._heard is not None:
            self._heard(message.topic, bytes(message.payload), bool(message.retain))


class _Socket(ssl.SSLSocket):
    """Closes itself when the two do not agree; paho leaves it open."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


def _code(error: aiomqtt.MqttError) -> int | None:
    """MQTT 5's number of a refused connection."""
    if not isinstance(error, MqttConnectError) or error.rc is None:
        return None
    return _OLD.get(error.rc, error.rc) if isinstance(error.rc, int) else error.rc.value


def _words(what: object) -> str:
    return re.sub(r"^\[(code:|Errno )-?\d+\] ", "", safe_text(str(what), one_line=True))[:200]
