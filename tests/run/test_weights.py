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


def test_a_weight_whose_rule_is_not_there_is_set_aside_until_it_is(house: House) -> None:
    """The run says so and shows it, the others grow in proportion, and with its rule the weight is in force again."""
    file = house.directory / "rules.py"
    file.write_text(RULE)
    house.conch("init", "--workspace", str(house.workspace))
    house.conch("reward", "weights", "--set", "shape=0.3", "format=0.14", "--rules", str(file))
    live = house.begin("--script", house.endless())
    live.recorded(1)
    [shown] = house.status()["set_aside"]
    live.signal(signal.SIGTERM)
    assert live.ended() == 0, live.told()
    [back] = house.run("--cycles", "1", "--script", house.endless(), "--rules", str(file)).rows
    house.conch("reward", "weights", "--set", "shape=0")
    [without] = house.run("--cycles", "1", "--script", house.endless()).rows

    assert shown["origin"] == "rewards.weights.shape"
    assert f"set aside: rewards.weights.shape: {shown['why']}" in live.said
    assert "nothing scores shape; the other weights share its 0.3" in shown["why"]
    assert math.isclose(weight(live.rows[0], "format"), 0.2)
    assert weight(live.rows[0], "shape") is None
    assert (weight(back, "shape"), weight(back, "format")) == (0.3, 0.14)
    assert math.isclose(weight(without, "format"), 0.2)
