"""Commands to devices: what the settings allow, at once or not at all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any

import structlog

from conch.config.model import ActuatorSettings
from conch.errors import ToolError
from conch.tools.device import payload_of
from conch_services.mqtt.link import LostError, RefusedError, Wire

log = structlog.get_logger(__name__)

MOST_SECONDS = 60.0
"""That a command waits for the broker's acknowledgement, whatever was asked."""


class Actuators:
    """Answers on `conch.tools.device.ACTUATE`. `wire`: the connection there is, else None.

    A command that cannot be sent now is refused, never kept: one that comes late is worse than none. One that the
    broker has not acknowledged in time breaks the connection off (`broken`), so that it is not sent again later.
    """

    def __init__(self, settings: Mapping[str, ActuatorSettings]) -> None:
        self._settings = settings
        self.wire: Wire | None = None
        self.trouble = ""
        """Why there is none."""
        self.broken = asyncio.Event()

    async def answer(self, _: str, data: bytes) -> bytes:
        """The reply to a request. Never raises but for cancellation."""
        try:
            reply = await self._told(*_asked(data))
        except (ToolError, RefusedError, LostError) as error:
            reply = {"error": str(error)}
        return json.dumps(reply).encode()

    async def _told(self, device: str, value: str, until: float) -> dict[str, Any]:
        payload, wire = payload_of(self._settings, device, value), self.wire
        left = min(until - time.time(), MOST_SECONDS)
        if left <= 0:
            raise ToolError(f"{device} was not told: the command came {-left:.1f} s too late")
        if wire is None:
            why = self.trouble or "the connection to the MQTT broker is being made"
            raise ToolError(f"{device} was not told: {why}")
        actuator = self._settings[device]
        try:
            async with asyncio.timeout(left):
                await wire.publish(actuator.topic, payload.encode(), retain=actuator.retain)
        except TimeoutError:
            self.broken.set()
            why = f"the MQTT broker has not acknowledged it within {left:.1f} s: nobody knows whether {device} was told"
            return {"error": why, "timeout": True}
        log.info("device.told", device=device, payload=payload)
        return {"ok": True}


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
