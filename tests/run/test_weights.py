"""Weights that are changed while a run goes on."""

from __future__ import annotations

import json
import math
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.run.conftest import House


RULE = "from conch import rule\n@rule(weight=0.2)\ndef shape(action):\n    return 1.0\n"


def weight(row: dict[str, Any], component: str) -> Any:
    return next((score["weight"] for score in row["scores"] if score["component"] == component), None)


def test_weights_are_changed_at_once_and_for_every_run_after(house: House) -> None:
    """The acts from then on are paid by them, a rule file that is edited leaves them, and so does the next start."""
    file = house.directory / "rules.py"
    file.write_text(RULE)
    options = ["--script", house.endless(), "--rules", str(file)]
    live = house.begin("--reload", *options, interval=0.1)
    live.recorded(2)

    house.conch("reward", "weights", "--set", "shape=0.4", "format=0.04")
    live.until(lambda: weight(live.rows[-1], "shape") == 0.4, "the new weight")
    file.write_text(RULE.replace("1.0", "0.5"))
    live.says("is in force as it is now")
    live.recorded(2)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0, live.told()
    [after] = house.run("--cycles", "1", *options).rows
    refused = house.refused("run", "--cycles", "1", "--script", house.endless(), status=2)

    rows = house.cycles()
    assert [weight(row, "shape") for row in rows] == sorted(weight(row, "shape") for row in rows)
    assert {(weight(row, "shape"), weight(row, "format")) for row in rows} == {(0.2, 0.24), (0.4, 0.04)}
    assert (weight(after, "shape"), weight(after, "format")) == (0.4, 0.04)
    assert all(math.isclose(sum(score["weight"] for score in row["scores"]), 1.0) for row in rows)
    history = json.loads(house.conch("reward", "show", "shape", "--json"))["reward"]["history"]
    assert [(one["weight"], one["why"]) for one in history] == [
        (0.4, "conch reward weights --set shape=0.4 format=0.04"),
        (0.2, "conch run"),
    ]
    assert "rewards.weights names shape, which nothing scores" in refused
    assert "conch reward weights --reset" in refused
