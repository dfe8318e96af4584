"""One connection to an MQTT broker, from its opening to its loss: publish, acknowledgements, incoming messages."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Callable
from typing import Any, cast

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from conch.text import safe_text

WINDOW = 64
"""Most messages handed over and not yet acknowledged by the broker."""
ANSWER_SECONDS = 5.0
"""Time for the broker to take a connection, to agree on TLS and to answer; each."""
ENVELOPE = 32
"""Most bytes of a PUBLISH packet beside topic and payload."""

_FORBIDDEN, _NOT_NOW = 135, (128, 131, 151)
"""MQTT 5's numbers."""

Heard = Callable[[str, bytes, bool], None]
"""(topic, payload, retained): what to do with a message, at once."""


class BrokerRefusalError(Exception):
    """The broker refuses this one message or subscription; the others go on. The message is one sentence."""

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        """`forbidden`: we may not use its topic."""
        super().__init__(message)
        self.forbidden = forbidden


class BrokerLostError(Exception):
    """The connection is lost, or cannot be used now. The message is one sentence."""


class BrokerConnection:
    """One connection to the broker, until it is lost; made by `conch_services.mqtt.link.BrokerLink`."""

    def __init__(self, client: BrokerClient, proven: Callable[[], None]) -> None:
        """`proven`: called at each message that the broker takes or refuses."""
        self._client, self._proven = client, proven
        self._room = asyncio.Semaphore(client.window)

    async def send(
        self, topic: str, payload: bytes, *, retain: bool = False, expires: float | None = None
    ) -> asyncio.Future[None]:
        """Publish one message at QoS 1, behind those before it; waits while WINDOW are in flight.

        `expires`: seconds after which the broker drops it (MQTT 5 only; ignored in 3.1.1).

        The future is done once the broker has the message. It raises BrokerRefusalError when the broker does not take
        this one, BrokerLostError when it takes none for now. When the connection is lost it is never done: code that
        waits for it inside `BrokerLink.keep` is cancelled then.
        """
        await self._room.acquire()
        handed = self._client.hand_over(topic, payload, retain, expires)
        handed.add_done_callback(self._settled)
        return handed

    def _settled(self, handed: asyncio.Future[None]) -> None:
        self._room.release()
        if not handed.cancelled() and not isinstance(handed.exception(), BrokerLostError):
            self._proven()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False, expires: float | None = None) -> None:
        """Send one message; returns once the broker has it. Raises BrokerRefusalError when it does not take it."""
        await (await self.send(topic, payload, retain=retain, expires=expires))

    async def subscribe(self, filter: str) -> None:
        """Hear what is published on `filter`, at QoS 1. Raises BrokerRefusalError when the broker does not allow it."""
        try:
            [granted] = await self._client.subscribe(filter, qos=1)
        except ValueError as error:
            raise BrokerRefusalError(f"{filter!r} is no topic filter") from error
        code = granted if isinstance(granted, int) else granted.value
        if code >= 128:
            raise BrokerRefusalError(f"the broker does not let us hear {filter!r}: {words(granted)}")
        self._proven()


class BrokerClient(aiomqtt.Client):
    """aiomqtt's client without its queue of incoming messages, and with the broker's answer to each publish.

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
        """See `BrokerConnection.send`."""
        handed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        size = len(topic.encode()) + len(payload) + ENVELOPE
        if self._room_for is not None and size > self._room_for:
            handed.set_exception(BrokerRefusalError(f"it has {size} bytes, the broker takes {self._room_for}"))
            return handed
        try:
            info = self._client.publish(topic, payload, qos=1, retain=retain, properties=self._expiring(expires))
        except ValueError as error:
            handed.set_exception(BrokerRefusalError(words(error)))
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
        """Wait until the connection is lost; returns why."""
        await asyncio.wait([self._end])
        return self._why

    async def leave(self) -> None:
        """Close the connection in order: the broker does not publish our last will."""
        with contextlib.suppress(aiomqtt.MqttError):  # it is lost already, or does not answer
            await self.__aexit__(None, None, None)

    async def drop(self) -> None:
        """Close the connection as if we died; nothing where there is none."""
        line = cast(socket.socket | None, self._client.socket())
        if line is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(Exception):  # it raises different errors at the end
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
            self._why = f"the broker says: {words(reason_code)}"
        elif reason_code == "Keep alive timeout":
            self._why = "the broker says nothing any more"
        super()._on_disconnect(client, userdata, flags, reason_code, properties)

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason_code: Any, properties: Any) -> None:
        handed = self._handed.pop(mid, None)
        if handed is None or handed.done():
            return
        if reason_code.value in _NOT_NOW:
            handed.set_exception(BrokerLostError(f"the MQTT broker takes nothing now: {words(reason_code)}"))
        elif reason_code.is_failure:
            refused = f"the broker does not take it: {words(reason_code)}"
            handed.set_exception(BrokerRefusalError(refused, forbidden=reason_code.value == _FORBIDDEN))
        else:
            handed.set_result(None)

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        if self._heard is not None:
            self._heard(message.topic, bytes(message.payload), bool(message.retain))


def words(what: object) -> str:
    """`what` as part of a sentence: without aiomqtt's numbers, harmless, and not long."""
    return re.sub(r"^\[(code:|Errno )-?\d+\] ", "", safe_text(str(what), one_line=True))[:200]
