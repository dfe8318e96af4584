"""Actuators: the agent's commands to devices, as the settings allow; sent at once or refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping

from conch.config.model import ActuatorSettings
from conch.errors import ToolError
from conch.log import get_logger
from conch.tasks import background
from conch.tools import payload_of
from conch_schemas import JsonObject
from conch_services.mqtt.wire import BrokerConnection, BrokerLostError, BrokerRefusalError

log = get_logger(__name__)

MOST_SECONDS = 60.0
"""Longest time that a command waits for the broker's acknowledgement, even where a longer one was asked."""


class Actuators:
    """Answers on `conch.tools.device.ACTUATE`: sends a command to a device.

    A command that cannot be sent now is refused, never kept: one that comes late is worse than none. While the
    connection is being made, a command waits for it as long as the command may be sent. One that the broker does not
    acknowledge in time ends the connection, so that it is not sent again.
    """

    def __init__(self, settings: Mapping[str, ActuatorSettings]) -> None:
        self._settings = settings
        self._wire: BrokerConnection | None = None
        self._over = asyncio.Event()
        self._trouble = ""
        self._settled = asyncio.Event()
        """Set while there is a connection, or it is known why there is none."""

    @property
    def ready(self) -> bool:
        """Whether a command can be sent now."""
        return self._wire is not None

    @property
    def trouble(self) -> str:
        """Why there is no connection; "" where that is not known, as it is being made."""
        return self._trouble

    @trouble.setter
    def trouble(self, why: str) -> None:
        self._trouble = why
        self._settle()

    def _settle(self) -> None:
        if self._wire is not None or self._trouble:
            self._settled.set()
        else:
            self._settled.clear()

    async def command(self, wire: BrokerConnection) -> None:
        """Send by this connection, until cancelled. Raises BrokerLostError once it is of no use."""
        self._wire, self._over = wire, asyncio.Event()
        self._settle()
        try:
            await self._over.wait()
            raise BrokerLostError("the MQTT broker has not acknowledged a command: the connection is made anew")
        finally:
            self._wire = None
            self._settle()
            self._over.set()

    async def answer(self, _: str, data: bytes) -> bytes:
        """The reply to a request. Never raises but for cancellation."""
        try:
            reply = await self._told(*_asked(data))
        except (ToolError, BrokerRefusalError, BrokerLostError) as error:
            reply = {"error": str(error)}
        return json.dumps(reply).encode()

    async def _told(self, device: str, value: str, until: float) -> JsonObject:
        payload = payload_of(self._settings, device, value)
        left = min(until - time.time(), MOST_SECONDS)
        if left <= 0:
            raise ToolError(f"{device} was not told: the command came {-left:.1f} s too late")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._settled.wait()
        left = min(until - time.time(), left)
        if self._wire is None:
            raise ToolError(f"{device} was not told: {self.trouble or 'the MQTT broker is being connected to'}")
        if await self._sent(self._wire, self._settings[device], payload, left):
            log.info("device.told", device=device, payload=payload)
            return {"ok": True}
        why = f"the MQTT broker has not acknowledged it: nobody knows whether {device} was told"
        return {"error": why, "timeout": True}

    async def _sent(self, wire: BrokerConnection, actuator: ActuatorSettings, payload: str, seconds: float) -> bool:
        """Whether the broker acknowledged it in time, and before the connection ended."""
        expires = None if actuator.retain else seconds  # a device that sleeps must not get it long after
        publish = wire.publish(actuator.topic, payload.encode(), retain=actuator.retain, expires=expires)
        over = self._over
        async with (
            background(publish, name="conch.devices.publish") as publishing,
            background(over.wait(), name="conch.devices.over") as ending,
        ):
            await asyncio.wait({publishing, ending}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not publishing.done():
                over.set()
                return False
            publishing.result()
            return True


def _asked(data: bytes) -> tuple[str, str, float]:
    """Raises ToolError for what is no request."""
    try:
        body = json.loads(data)
        device, payload, until = body["device"], body["payload"], float(body["until"])
    except (ValueError, LookupError, TypeError, RecursionError):
        device = None
    if not isinstance(device, str) or not isinstance(payload, str):
        raise ToolError('a command is a JSON object of "device", "payload" and "until"')
    return device, payload, until
