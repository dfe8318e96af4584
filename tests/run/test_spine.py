"""A run from its command to its last row."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from conch_schemas import JsonObject

if TYPE_CHECKING:
    from tests.run.conftest import House, Live, MakeHouse


REPLIES = (
    "DO_NOTHING: nothing is urgent",
    "REFLECT: what did I learn",
    'TOOL: filesystem(operation="write", path="made.txt", content="made by the agent")',
    'TOOL: shell(command="echo one line >> log.txt; echo said")',
    'TOOL: filesystem(operation="read", path="there/is/none")',
    "I would rather talk about it.",
)
ROW = [
    *("agent", "cycle", "action_id", "time", "thought", "raw", "action", "output", "outcome", "scores", "total"),
    *("coverage", "complete", "revision", "needs_before", "needs_after", "policy", "ms"),
]
COMPONENTS = (
    *("format", "execution", "needs", "goal", "exploration"),
    *("intrinsic", "alignment", "progress", "diversity", "starving", "repetition", "ethical"),
)


@dataclass(frozen=True)
class LivedHouse:
    """A home whose agent has lived through the script."""

    house: House
    first: Live
    """Its run."""
    left: list[psutil.Process]
    """Processes that the run left."""
    listed: list[JsonObject]
    """The rows of `cycle list`."""


@pytest.fixture(scope="module")
def lived(make_house: MakeHouse, needs: Callable[[str, str], None]) -> LivedHouse:
    """A fresh furnished home whose agent has lived through a script; with its run and the rows of `cycle list`."""
    needs("bwrap", "install bubblewrap")
    house = make_house(furnished=True)
    first = house.run("--script", house.script(*REPLIES), page=True)
    left = house.processes()
    listed = json.loads(house.conch("cycle", "list", "--json"))["cycles"]
    return LivedHouse(house, first, left, listed)


def test_every_reply_becomes_a_cycle(lived: LivedHouse) -> None:
    """The run ends with its script; `cycle list` has each cycle in the public shape, numbers from 0."""
    rows = lived.listed

    assert [row["cycle"] for row in rows] == list(range(len(REPLIES)))
    assert [row["raw"] for row in rows] == list(REPLIES)
    assert [row["action"]["kind"] for row in rows] == ["DO_NOTHING", "REFLECT", "TOOL", "TOOL", "TOOL", "INVALID"]
    assert [row["outcome"] for row in rows] == ["none", "none", "success", "success", "error", "none"]
    assert all(list(row) == ROW for row in rows)
    assert all(set(row["action"]) == {"kind", "valid", "reason", "tool", "args", "text"} for row in rows)
    assert all(set(row["ms"]) == {"think", "ground", "decide", "act", "reflect"} for row in rows)
    assert len({row["action_id"] for row in rows}) == len(rows)


def test_the_acts_were_done(lived: LivedHouse) -> None:
    """What a reply asked for stands in the workspace, once."""
    assert (lived.house.home / "workspace" / "made.txt").read_text() == "made by the agent"
    assert (lived.house.home / "workspace" / "log.txt").read_text() == "one line\n"
    assert lived.listed[3]["output"] == "said\n"


def test_every_experience_is_whole(lived: LivedHouse) -> None:
    """When the run has ended, each cycle is scored by all, and its needs are known."""
    for row in lived.listed:
        scores = {score["component"]: score for score in row["scores"]}
        assert set(scores) == set(COMPONENTS)
        assert all(score["status"] in ("scored", "not_applicable") for score in scores.values()), row
        assert all((score["value"] is not None) == (score["status"] == "scored") for score in scores.values())
        assert sum(score["weight"] for score in scores.values()) == pytest.approx(1.0)
        assert (row["complete"], row["coverage"]) == (True, 1.0)
        assert -1.0 <= row["total"] <= 1.0
        assert set(row["needs_before"]) == set(row["needs_after"]) != set()


def test_json_prints_rows_and_nothing_else(lived: LivedHouse) -> None:
    """One line a recorded cycle, the same rows that `cycle list` has (its reflection came later)."""
    printed, listed = lived.first.rows, lived.listed

    assert [_lasting(row) for row in printed] == [_lasting(row) for row in listed]


def _lasting(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("ms", "revision")}


def test_nothing_is_left_behind(lived: LivedHouse) -> None:
    """No process of the run is there when its command has ended, and nobody thinks that it goes on."""
    assert lived.left == []
    assert not (lived.house.home / "run.json").exists()
    assert json.loads(lived.house.conch("status", "--json"))["running"] is False


def test_a_later_run_goes_on_counting(make_house: MakeHouse) -> None:
    """`--cycles N` means N more; numbers go on, needs too, and each run ends by itself."""
    house = make_house()

    first = house.run("--cycles", "2", "--script", house.endless())
    second = house.run("--cycles", "3", "--script", house.endless())

    assert [row["cycle"] for row in first.rows] == [0, 1]
    assert [row["cycle"] for row in second.rows] == [2, 3, 4]
    assert second.rows[0]["needs_before"] == pytest.approx(first.rows[-1]["needs_after"], abs=0.05)  # a cycle's drift
    house.conch("mark", "verify")


def test_a_script_ends_a_run_before_its_cycles_are_done(make_house: MakeHouse) -> None:
    """A script that is shorter than `--cycles` ends the run, in order."""
    house = make_house()

    live = house.run("--cycles", "50", "--script", house.script("DO_NOTHING: a", "DO_NOTHING: b"))

    assert len(live.rows) == 2


def test_for_a_person_each_cycle_is_a_line(make_house: MakeHouse) -> None:
    """Without --json stdout has a line a cycle, what is hostile in it made safe."""
    house = make_house()

    live = house.start("run", "--interval", "0", "--script", house.script("DO_NOTHING: \x1b[2J[/nope]"))

    assert live.ended() == 0
    [line] = [line for line in live.lines if "do nothing" in line]
    assert line.split()[0] == "0"
    assert "\x1b" not in line
    assert "[/nope]" in line
