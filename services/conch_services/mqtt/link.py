"""The connection to the MQTT broker of `edge.bridge`, made again whenever it is lost.

MQTT 5 where the broker speaks it, since only there a broker can say that it refused a message; 3.1.1 elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import unquote, urlsplit

import aiomqtt
from aiomqtt.exceptions import MqttConnectError

from conch.clients import is_own_machine, tls_context
from conch.config.model import EdgeSettings
from conch.log import get_logger
from conch.retry import BROKER
from conch.tasks import race, uninterrupted
from conch_services.mqtt.wire import ANSWER_SECONDS, BrokerClient, BrokerConnection, BrokerLostError, Heard, words

log = get_logger(__name__)

KEEPALIVE_SECONDS = 10
"""A link that is silent for longer gets a ping; without an answer for as long again it is closed."""
STEADY_SECONDS = 5.0
"""A connection that lasted as long begins with the shortest wait again."""

_OLD = {1: 132, 2: 133, 3: 136, 4: 134, 5: 135}
"""MQTT 3.1.1's refusals as MQTT 5's."""
_OTHER_VERSION, _CREDENTIALS = 132, (134, 135, 138, 140)

_quiet = logging.getLogger("conch.mqtt.paho")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False  # what matters of it is logged here, in one sentence


class BrokerLink:
    """Keeps a connection to the broker, with back-off between tries."""

    def __init__(
        self,
        edge: EdgeSettings,
        name: str,
        *,
        will: aiomqtt.Will | None = None,
        heard: Heard | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """`name`: the prefix of our client id. `will`: our last will. `heard`: called with each incoming message.

        `report`: called with why there is no connection, and "" once there is one. Several links may be open at once.
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

    async def keep(self, live: Callable[[BrokerConnection], Coroutine[Any, Any, None]]) -> None:
        """Connect and `live` with the connection; whenever it is lost `live` is cancelled, and called with the next.

        Returns when `live` does, with the connection closed in order: no last will. Raises what `live` raises, except
        BrokerLostError: then it connects again. Raising or cancelled, it drops the connection, so that the last will is
        published. Why there is no connection is logged once, however often it is tried.
        """
        failures = 0
        while True:
            begun = time.monotonic()
            try:
                await self._once(live)
                return
            except BrokerLostError as lost:
                self._troubled(str(lost))
            finally:
                self.connected = False
            failures = 1 if time.monotonic() - begun > STEADY_SECONDS else failures + 1
            await asyncio.sleep(BROKER.after(failures))

    async def _once(self, live: Callable[[BrokerConnection], Coroutine[Any, Any, None]]) -> None:
        client = await self._connect()
        connection = BrokerConnection(client, self._proven)
        try:
            why: str | None = await race({"conch.mqtt.live": live(connection), "conch.mqtt.lost": client.lost()})
            if why is not None:
                raise BrokerLostError(self._lost(why))
            await client.leave()
        except aiomqtt.MqttError as error:
            raise BrokerLostError(self._lost(error)) from None
        finally:
            await client.drop()

    def _lost(self, why: object) -> str:
        return f"the connection to the MQTT broker {self.address} is lost: {words(why)}"

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

    async def _connect(self) -> BrokerClient:
        try:
            client = BrokerClient(self._heard, **await asyncio.to_thread(self._arguments))
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise BrokerLostError(
                f"edge.tls of the MQTT broker {self.address} cannot be used: {words(error)}"
            ) from None
        try:
            await uninterrupted(client.__aenter__(), name="conch.mqtt.connect")  # by paho, in a thread that must end
        except aiomqtt.MqttError as error:
            await client.drop()
            raise BrokerLostError(self._why(error, answered=client.answered)) from None
        except asyncio.CancelledError:
            await client.drop()
            raise
        return client

    def _arguments(self) -> dict[str, object]:
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
        context = tls_context(own_machine=is_own_machine(self._url.hostname or ""), ca=tls.ca)
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
            return f"{broker} refuses the connection: {words(error)}"
        if isinstance(cause, socket.gaierror):
            return f"{broker}: there is no such host ({words(cause)})"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"{broker} shows a certificate that does not hold: {cause.verify_message} (edge.tls.ca)"
        if isinstance(cause, ssl.SSLError):
            return f"{broker} and we do not agree on TLS: {words(cause)}"
        if isinstance(cause, OSError) and cause.args:  # one without is of aiomqtt's own waiting for an answer
            return f"{broker} cannot be reached: {words(cause)}"
        self._newest = not self._newest
        tls = "" if self._secure else "; if the port wants TLS, edge.bridge must say mqtts://"
        return f"{broker} does not answer in MQTT{tls}"


class _Socket(ssl.SSLSocket):
    """A TLS socket that closes itself when the handshake fails; paho leaves it open."""

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
