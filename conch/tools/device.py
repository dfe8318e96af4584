"""The tool `device`: sends a command to an allowed device, through the bridge to its MQTT broker."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Mapping
from typing import Literal, Protocol

from conch.actions import BUILTIN_EFFECTS, Argument, ToolSpec
from conch.config.model import ActuatorSettings
from conch.errors import BusError, NoResponderError, ToolError
from conch.tools.declare import Tool, ToolContext, ToolResult
from conch_schemas import JsonObject, control_subject

ACTUATE = control_subject("_edge", "actuate")
"""Subject that the bridge answers; no agent can have its name. The request is JSON: `device`, `payload`, and `until`
(seconds since the epoch), after which the command must not be sent any more. The reply is `{"ok": true}`, or `{"error":
one sentence}` with `"timeout": true` where the command was sent and it is not known whether it arrived."""
PATIENCE = 0.8
"""Share of the tool's time limit for the broker: the rest is for the reply on the bus."""
AGAIN = 0.1
"""Seconds between two requests to a bridge that is not there yet."""

_NUMBER = re.compile(r"[-+]?\d{1,15}(\.\d{1,15})?", re.ASCII)


class RequestFunction(Protocol):
    """A request function: `Bus.request`."""

    def __call__(self, subject: str, data: bytes, *, timeout: float) -> Awaitable[bytes]:
        """The reply. Raises BusError where there is none."""
        ...


def payload_of(actuators: Mapping[str, ActuatorSettings], device: str, value: str) -> str:
    """The payload for `value`. Raises ToolError for a device or value that the settings do not allow."""
    if (actuator := actuators.get(device)) is None:
        raise ToolError(f"there is no device {device[:60]}; there are {', '.join(actuators)}")
    said = value.strip()
    if actuator.range is None:
        if said in actuator.payloads:
            return said
    elif _NUMBER.fullmatch(said) and actuator.range[0] <= float(said) <= actuator.range[1]:
        return f"{float(said):.15g}"
    raise ToolError(f"{device} takes {_takes(actuator)}, not {said[:60]!r}")


def device_tools(actuators: Mapping[str, ActuatorSettings], ask: RequestFunction) -> tuple[Tool, ...]:
    """The tool, if there is a device; it succeeds when the broker has acknowledged the command.

    A bridge that is starting, and its connection to the broker, are waited for. A device that was not reached is no
    fault of the agent's, and the outcome says so (`unavailable`).
    """
    if not actuators:
        return ()
    missing = False
    """Whether a call has waited for the bridge in vain; the next ones do not wait until it has answered."""

    async def ask_bridge(body: JsonObject, limit: float) -> JsonObject:
        """The bridge's reply. Raises BusError where there is none."""
        nonlocal missing
        while True:
            try:
                reply: JsonObject = json.loads(await ask(ACTUATE, json.dumps(body).encode(), timeout=limit + 1))
            except NoResponderError:
                if missing or time.time() + AGAIN >= body["until"]:
                    missing = True
                    raise
                await asyncio.sleep(AGAIN)
            else:
                missing = False
                return reply

    async def device(context: ToolContext, name: str, value: str) -> ToolResult:
        payload, limit = payload_of(actuators, name, value), context.settings.timeout
        body = {"device": name, "payload": payload, "until": time.time() + PATIENCE * limit}
        try:
            async with asyncio.timeout(limit):
                reply = await ask_bridge(body, limit)
        except TimeoutError:
            why = f"no word from the bridge to the devices within {limit:g} s: nobody knows whether {name} was told"
            return ToolResult(status="timeout", error=why, unavailable=True)
        except BusError as error:
            why = f"{name} was not told: the bridge to the devices does not answer ({error})"
            return ToolResult(status="error", error=why, unavailable=True)
        if (refusal := reply.get("error")) is not None:
            status: Literal["timeout", "error"] = "timeout" if reply.get("timeout") else "error"
            return ToolResult(status=status, error=str(refusal), unavailable=True)
        return ToolResult(f"{name} was told {payload}: its broker has it")

    known = "; ".join(f"{name}: {_takes(actuator)}" for name, actuator in actuators.items())
    spec = ToolSpec(
        "device",
        f"Tells a device what to do ({known}).",
        (Argument("name", choices=tuple(actuators)), Argument("value", doc="what to tell it, as text")),
        effects=BUILTIN_EFFECTS["device"],
    )
    return (Tool(spec, device, wants_context=True),)


def _takes(actuator: ActuatorSettings) -> str:
    if actuator.range is not None:
        return f"a number from {actuator.range[0]:g} to {actuator.range[1]:g}"
    return ", ".join(actuator.payloads)
