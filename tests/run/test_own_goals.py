"""A run in which the reflex mind sets itself a goal, a person accepts it, and reaching it pays."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.run.conftest import House

NOTES = "# Tides\nHigh water comes twice a day.\nLow water comes six hours after it.\nThe moon makes both of them.\n"
READS = 'TOOL: filesystem(operation="read", path="notes.md")'
PROPOSES = 'TOOL: goal(operation="file", statement="Keep it.", path="kept.md", contains=["High water"])'


def facts(house: House, kind: str) -> list[dict[str, Any]]:
    """The facts of this kind on the stream."""
    lines = house.conch("bus", "tail", "--kind", kind, "--after", "0", "--json").splitlines()
    return [json.loads(line)["event"] for line in lines]


def goal_score(house: House, cycle: int) -> dict[str, Any]:
    """The score *goal* of a cycle."""
    shown = json.loads(house.conch("cycle", "show", str(cycle), "--json"))
    [score] = [one for one in shown["cycle"]["scores"] if one["component"] == "goal"]
    return dict(score)


def test_a_goal_of_the_reflex_minds_own_pays_once_it_is_accepted(house: House) -> None:
    """It read a file twenty times, proposes to keep its lines, is told yes, and is paid for reaching that; a second
    acceptance changes nothing, and each fact has a mark."""
    (house.workspace / "notes.md").write_text(NOTES)
    house.run("--cycles", "20", "--script", house.script(*[READS] * 20))
    writes = {"CONCH_MIND__REFLEX__WRITES": "true"}
    house.run("--cycles", "1", "--mind", "reflex", **writes)
    [row] = json.loads(house.conch("goal", "list", "--json"))["goals"]

    assert (row["own"], row["accepted"], row["check"]["path"]) == (True, False, "journal.md")
    assert row["check"]["contains"] == NOTES.splitlines()[1:]
    assert goal_score(house, 20)["status"] == "not_applicable"
    assert house.conch("goal", "accept", row["id"], "--because", "it is worth it") == f"{row['id']} accepted"
    assert house.conch("goal", "accept", row["id"]) == f"{row['id']} was accepted before"

    for _ in range(5):
        house.run("--cycles", "40", "--mind", "reflex", **writes)
        if reached := facts(house, "goal.reached"):
            break
    assert [one["data"]["goal"] for one in reached] == [row["id"]]
    paid = goal_score(house, reached[0]["cycle"])
    assert (paid["status"], paid["value"]) == ("scored", 2.0)
    marks = [one["data"]["mark"] for one in facts(house, "mark.witnessed")]
    said = [(mark["origin"], mark["response"]) for mark in marks if mark["domain"] == "goal"]
    assert [origin for origin, _ in said[:2]] == ["agent", "user"]
    assert said[1] == ("user", "accepted")
    house.conch("mark", "verify")


def test_a_proposal_is_set_once_through_a_kill(house: House) -> None:
    """kill -9 of the agent's process as soon as its proposal is on the stream: one goal, however often it proposes."""
    live = house.begin("--cycles", "40", "--script", house.script(*[PROPOSES] * 60))
    live.says(r"proposed goal: Keep it\. \(conch goal accept keep-it-[0-9a-f]{8}\)")
    os.kill(house.process("agent")["pid"], signal.SIGKILL)
    assert live.ended() == 0, live.told()

    [fact] = facts(house, "goal.set")
    acts = [one["data"] for one in facts(house, "action.taken")]
    assert [act["outcome"]["proposed"] for act in acts].count(fact["data"]["goal"]["id"]) == 1
    assert sum("it was set before" in (act["outcome"]["error"] or "") for act in acts) >= len(acts) - 3
