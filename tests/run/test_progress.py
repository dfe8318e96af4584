"""Progress of a task in real runs: weighed, logged in the home, and nobody's wait."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.run.conftest import House


CONFIG = """
tools: {sandbox: "off"}
goals:
  - {id: task, statement: The tests pass., check: {kind: tests, command: cat result}}
rewards:
  weights: {format: 0.3, execution: 0.25, needs: 0.2, goal: 0.1, exploration: 0.1, progress: 0.05}
"""


def _writes(said: str) -> str:
    return f'TOOL: filesystem(operation="write", path="result", content="{said} in 0.1s")'


def test_a_task_is_paid_step_by_step_and_logged_once_over_two_runs(house: House) -> None:
    """Each act of it has its step in a breakdown that adds up, those after it none; its log has one row a step."""
    house.home.mkdir()
    (house.home / "conch.yaml").write_text(CONFIG)
    (house.workspace / "result").write_text("4 failed in 0.1s")
    house.run("--script", house.script(_writes("2 passed, 2 failed"), "DO_NOTHING: waiting"))
    house.run("--script", house.script(_writes("4 passed"), "DO_NOTHING: done", name="second.txt"))

    rows = house.cycles()
    parts = [next(part for part in row["scores"] if part["component"] == "progress") for row in rows]
    assert [(part["status"], part["value"]) for part in parts] == [
        ("scored", 0.35),
        ("scored", 0.0),
        ("scored", 1.65),
        ("not_applicable", None),
    ]
    assert all(row["complete"] for row in rows)
    shown = json.loads(house.conch("cycle", "show", "2", "--json"))["cycle"]
    assert {line["step"]: line["amount"] for line in shown["breakdown"]}["part:progress"] == 0.05 * 1.65
    assert math.fsum(line["amount"] for line in shown["breakdown"]) == shown["total"]
    log = house.home / "agents" / "echo" / "episodes" / "task" / "rewards.jsonl"
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(step["step"], step["r_step"], step.get("terminal", False)) for step in steps] == [
        (0, 0.35, False),
        (1, 0.0, False),
        (2, 1.65, True),
    ]
