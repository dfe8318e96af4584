"""The tool `device`: what it may say, and what it says of a bridge that does not answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conch.config import ToolSettings
from conch.config.model import ActuatorSettings
from conch.errors import BusError, NoResponderError
from conch.tools import Notes, Sandbox, Tool, Toolbox, ToolContext
from conch.tools.device import ACTUATE, device_tools
from conch_schemas import Action, Outcome

ACTUATORS = {
    "light": ActuatorSettings(topic="l", payloads=("on", "off")),
    "blind": ActuatorSettings(topic="b", range=(0, 100)),
}


class Bridge:
    """Answers as it is told, and keeps what it was asked."""

    def __init__(self, answer: Any, absent: int = 0) -> None:
        """`absent`: requests that reach nobody, before it is there."""
        self.answer, self.asked, self.absent = answer, [], absent

    async def request(self, subject: str, data: bytes, *, timeout: float) -> bytes:
        self.asked.append((subject, json.loads(data)))
        if len(self.asked) <= self.absent:
            raise NoResponderError(f"nobody answers on {subject}")
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.sleep(timeout)
        return json.dumps(self.answer).encode()


async def told(
    bridge: Bridge, tmp_path: Path, tools: Sequence[Tool] | None = None, *, seconds: float = 0.1, **args: Any
) -> Outcome:
    box = Toolbox(device_tools(ACTUATORS, bridge.request) if tools is None else tools)
    settings = ToolSettings(sandbox="off", timeout=seconds)
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

    assert (outcome.status, outcome.unavailable) == (status, True)
    assert why in (outcome.error or "")


async def test_a_bridge_that_is_starting_is_waited_for(tmp_path: Path) -> None:
    """No act before the connection stands: a call of the first second is done once somebody answers. A request that
    may have reached the bridge is never sent twice."""
    starting = Bridge({"ok": True}, absent=2)
    failing = Bridge(BusError("the connection went"))

    outcome = await told(starting, tmp_path, seconds=5, name="light", value="on")
    lost = await told(failing, tmp_path, seconds=5, name="light", value="on")

    assert (outcome.status, outcome.unavailable, len(starting.asked)) == ("success", False, 3)
    assert (lost.status, lost.unavailable, len(failing.asked)) == ("error", True, 1)


async def test_a_bridge_that_is_not_there_is_waited_for_once(tmp_path: Path) -> None:
    """The next calls are refused at once, until it has answered."""
    bridge = Bridge({"ok": True}, absent=10**6)
    tools = device_tools(ACTUATORS, bridge.request)
    calls = []
    for _ in range(3):
        asked = len(bridge.asked)
        outcome = await told(bridge, tmp_path, tools, seconds=0.4, name="light", value="on")
        calls.append((outcome.status, outcome.unavailable, len(bridge.asked) - asked > 1))
        bridge.absent = 0 if len(calls) == 2 else bridge.absent

    assert calls == [("error", True, True), ("error", True, False), ("success", False, False)]


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

    assert (outcome.status, outcome.unavailable, bridge.asked) == ("error", False, [])


def test_the_mind_is_told_of_the_devices_there_are() -> None:
    """Their names and what each takes stand in the tool's own line; without devices there is no tool."""
    [tool] = device_tools(ACTUATORS, Bridge(None).request)

    assert tool.spec.describe().splitlines()[0] == (
        "- device(name: light|blind, value: string): "
        "Tells a device what to do (light: on, off; blind: a number from 0 to 100)."
    )
    assert device_tools({}, Bridge(None).request) == ()
