"""Scores that come late, into what real runs have left and beside a run in progress: joined, witnessed, once."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.run.conftest import House


RULE = """
from conch import rule

@rule(range=(-1, 1))
def tone(action):
    "How it sounds."
    return action.cycle / 100
"""


def shown(house: Any, cycle: int) -> dict[str, Any]:
    """One cycle, with its scores by component and scorer."""
    found: dict[str, Any] = json.loads(house.conch("cycle", "show", str(cycle), "--json"))["cycle"]
    found["scores"] = {(one["component"], one["scorer"]): one for one in found["scores"]}
    return found


def test_late_scores_are_joined_and_witnessed_with_and_without_a_run(house: House) -> None:
    """A rule over what a run left, a person's score, then both beside a run: every cycle adds up, the chain holds."""
    rules = house.directory / "rules.py"
    rules.write_text(RULE)
    house.run("--script", house.script(*["DO_NOTHING: resting"] * 4))
    before = shown(house, 2)

    house.conch("reward", "backfill", "tone", "--rules", str(rules))
    house.conch("reward", "score", "2", "--name", "kind", "--value", "1", "--why", "it waited for me")
    after = shown(house, 2)

    assert after["revision"] == before["revision"] + 2
    assert after["total"] == before["total"]
    assert (after["scores"]["tone", "tone"]["value"], after["scores"]["kind", "human"]["value"]) == (0.02, 1.0)
    assert len(after["marks"]) == len(before["marks"]) + 4  # each score and the revision that it makes
    assert "hold" in house.conch("mark", "verify")

    live = house.begin("--script", house.endless(), "--rules", str(rules), interval=0.1)
    live.recorded(3)
    told = json.loads(house.conch("reward", "backfill", "tone", "--version", "2", "--json"))
    scored = json.loads(
        house.conch("reward", "score", "2", "--name", "kind", "--value", "-1", "--why", "not so", "--json")
    )
    live.signal(signal.SIGINT)
    assert live.ended() == 0, live.told()

    assert told["joined"]
    assert told["published"] >= 7
    assert (scored["score"]["version"], scored["revision"]) == ("2", after["revision"] + 2)
    for cycle in range(6):
        one = shown(house, cycle)
        assert one["scores"]["tone", "tone"]["version"] == "2"
        assert abs(sum(line["amount"] for line in one["breakdown"]) - one["total"]) < 1e-9
    compared = json.loads(house.conch("reward", "compare", "tone@1", "tone@2", "--json"))
    assert (compared["equal"], compared["apart"]) == (1.0, [])
    assert compared["count"] >= 7
    assert "hold" in house.conch("mark", "verify")
