"""The tool `device`: what it may say, and what it says of a bridge that does not answer."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from conch.config import ToolSettings
from conch.config.model import ActuatorSettings
from conch.errors import BusError
from conch.tools import Notes, Sandbox, Toolbox, ToolContext
from conch.tools.device import ACTUATE, device_tools
from conch_schemas import Action, Outcome

ACTUATORS = {
    "light": ActuatorSettings(topic="l", payloads=("on", "off")),
    "blind": ActuatorSettings(topic="b", range=(0, 100)),
}


class Bridge:
    """Answers as it is told, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, []

    async def request(self, subject: str, data: bytes, *, timeout: float) -> bytes:
        self.asked.append((subject, json.loads(data)))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.sleep(timeout)
        return json.dumps(self.answer).encode()


async def told(bridge: Bridge, tmp_path: Path, **args: Any) -> Outcome:
    box, settings = Toolbox(device_tools(ACTUATORS, bridge.request)), ToolSettings(sandbox="off", timeout=0.1)
    with Notes(tmp_path / "notes.db") as notes:
        context = ToolContext(tmp_path, Sandbox(settings), notes, settings)
        return await box.run(Action(kind="TOOL", valid=True, tool="device", args=args), context)


async def test_a_command_is_done_when_the_bridge_says_so(tmp_path: Path) -> None:
    """It is asked with a time after which it must not send any more."""
    bridge = Bridge({"ok": True})

    outcome = await told(bridge, tmp_path, name="blind", value=" +7.50 ")

    [(subject, body)] = bridge.asked
    assert (outcome.status, outcome.output.text) == ("success", "blind was told 7.5: its broker has it")
    assert (subject, body["device"], body["payload"]) == (ACTUATE, "blind", "7.5")
    assert 0 < body["until"] - time.time() + 0.1 < 0.2


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [
        ({"error": "the broker is gone"}, "error", "the broker is gone"),
        ({"error": "nobody knows", "timeout": True}, "timeout", "nobody knows"),
        (BusError("nobody answers"), "error", "light was not told: the bridge to the devices does not answer"),
        (None, "timeout", "nobody knows whether light was told"),
    ],
)
async def test_a_command_that_was_not_confirmed_is_no_success(
    answer: Any, status: str, why: str, tmp_path: Path
) -> None:
    """Refused, uncertain, nobody there, no word: each in one sentence."""
    outcome = await told(Bridge(answer), tmp_path, name="light", value="on")

    assert outcome.status == status
    assert why in (outcome.error or "")


@pytest.mark.parametrize(
    "args",
    [
        {"name": "light", "value": "ON"},
        {"name": "oven", "value": "on"},
        {"name": "blind", "value": "-1"},
        {"name": "blind", "value": "1e1"},
        {"name": "blind", "value": "٣"},
        {"name": "light"},
    ],
)
async def test_what_is_not_allowed_is_not_even_asked(args: dict[str, Any], tmp_path: Path) -> None:
    """The agent hears what the device takes."""
    bridge = Bridge({"ok": True})

    outcome = await told(bridge, tmp_path, **args)

    assert (outcome.status, bridge.asked) == ("error", [])


def test_the_mind_is_told_of_the_devices_there_are() -> None:
    """Their names and what each takes stand in the tool's own line; without devices there is no tool."""
    [tool] = device_tools(ACTUATORS, Bridge(None).request)

    assert tool.spec.describe().splitlines()[0] == (
        "- device(name: light|blind, value: string): "
        "Tells a device what to do (light: on, off; blind: a number from 0 to 100)."
    )
    assert device_tools({}, Bridge(None).request) == ()
