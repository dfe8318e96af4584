"""A home lost, and its bus put back: the agent goes on, its experiences are joined once more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.run.conftest import MakeHouse


def test_an_agent_goes_on_in_another_home(make_house: MakeHouse) -> None:
    """With its next number and its past, each act scored as it was; the marks of both runs are one chain."""
    first, second = make_house(), make_house()
    first.run("--cycles", "3")
    file = first.directory / "bus.zip"
    first.conch("bus", "snapshot", str(file))
    before = first.cycles()

    second.conch("bus", "restore", str(file))
    second.run("--cycles", "2")

    after = second.cycles()
    assert [row["cycle"] for row in after] == [0, 1, 2, 3, 4]
    assert [(row["action_id"], row["total"]) for row in after[:3]] == [
        (row["action_id"], row["total"]) for row in before
    ]
    assert json.loads(second.conch("mark", "verify", "--json"))["ok"]
