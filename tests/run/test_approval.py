"""An act that waits for a person's approval, in a run that is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.run.conftest import House

POLICY = """
tools:
  policy:
    - {tool: filesystem, operation: write, do: ask, because: Files are the person's.}
"""
WRITES = 'TOOL: filesystem(operation="write", path="made.txt", content="made once")'


def test_an_act_waits_through_a_kill_and_is_done_once(house: House) -> None:
    """kill -9 of the agent and of the whole run while it waits: the same act waits, is approved while no agent runs,
    and is done by the next run, which asks nobody again."""
    file = house.directory / "policy.yaml"
    file.write_text(POLICY)
    options = ("--config", str(file), "--cycles", "1")
    live = house.begin(*options, "--script", house.script(WRITES))
    live.says(r"approval: filesystem\.write waits for a person's approval until .*: conch approve [0-9a-f]{8}")
    [before] = json.loads(house.conch("approve", "list", "--json"))["acts"]
    status = json.loads(house.conch("status", "--json"))["agent"]
    os.kill(house.process("agent")["pid"], signal.SIGKILL)
    live.says(r"(?s)approval: .*approval: filesystem\.write waits")
    [again] = json.loads(house.conch("approve", "list", "--json"))["acts"]
    live.signal(signal.SIGKILL, group=True)
    live.ended()

    assert (status["state"], status["approval"]["id"]) == ("approval", before["id"])
    assert again == before
    assert "approved" in house.conch("approve", before["id"], "--because", "it may")
    refused = house.refused("approve", before["id"], "--deny", status=2)
    assert f"the act {before['id']} was approved at" in refused
    house.run(*options, "--script", house.script("DO_NOTHING: resting", name="rest.txt"))
    assert (house.workspace / "made.txt").read_text() == "made once"
    [cycle] = [one for one in house.cycles() if one["cycle"] == before["cycle"]]
    assert cycle["outcome"] == "success"
