"""Plug-in rules in a real run: each is scored for itself, and nobody waits for it."""

from __future__ import annotations

import json
import math
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch_schemas import JsonObject

if TYPE_CHECKING:
    from tests.run.conftest import House, Live, MakeHouse


TEN_LINES = '''
from conch import rule
from conch_schemas import ActionTaken


@rule(weight=0.2, range=(0.0, 1.0))
def brevity(action: ActionTaken) -> float | None:
    """1.0 for a reply under 40 characters."""
    if not action.raw:
        return None
    return 1.0 if len(action.raw) < 40 else 0.0
'''
BAD_ONES = """
import os, sys, time
from conch import rule
from pydantic import BaseModel

@rule(weight=0.05)
def raises(action):
    raise ValueError("no good")

@rule(weight=0.05)
def exits(action):
    raise SystemExit(0)

@rule(weight=0.05, timeout=0.2)
def blocks(action):
    time.sleep(3600)

@rule(weight=0.05)
def kills(action):
    os._exit(7)

@rule(timeout=0.4)
def floods(action):
    while True:
        print("\\x1b[31m" + "x" * 10_000)

@rule(timeout=0.4)
def spawns(action):
    if os.fork() == 0:
        os.setsid()
    time.sleep(3600)

@rule(weight=0.0, held_out=True)
def watched(action):
    return 0.5

class Count(BaseModel):
    acts: int = 0

@rule(state=Count, range=(0, 9))
def counts(state, action):
    return Count(acts=state.acts + 1), state.acts + 1

@rule(window=2, range=(0, 9))
def window(actions):
    return sum(action.cycle for action in actions)
"""
COUNTS = """
from conch import rule
from pydantic import BaseModel

class Count(BaseModel):
    acts: int = 0

@rule(weight=0.01, state=Count, range=(0, 10_000))
def counts(state, action):
    return Count(acts=state.acts + 1), state.acts + 1
"""
TWIN = """
from conch import rule

@rule(weight=0.5)
def brevity(action):
    return 0.0

@rule(weight=0.5)
def reward(action):
    return 0.0
"""


@dataclass(frozen=True)
class ScoredHouse:
    """A home whose cycles plug-in rules have scored."""

    house: House
    live: Live
    """The run."""
    listed: list[JsonObject]
    """The rows of `cycle list`."""


@pytest.fixture(scope="module")
def scored(make_house: MakeHouse) -> ScoredHouse:
    """A run of three cycles with rules good and bad, and what is listed of it; and one without any."""
    house = make_house()
    files = {
        "good.py": TEN_LINES,
        "bad.py": BAD_ONES,
        "twin.py": TWIN,
        "broken.py": "def half(:\n",
        "empty.py": "x = 1\n",
    }
    for name, text in files.items():
        (house.directory / name).write_text(text)
    named = [word for name in files for word in ("--rules", str(house.directory / name))]
    live = house.run("--script", house.script(*["DO_NOTHING: so be it"] * 3), *named, "--cycles", "3")
    listed = house.cycles()
    return ScoredHouse(house, live, listed)


def parts(row: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {score["component"]: score for score in row["scores"]}


def test_a_rule_takes_its_weight_and_the_built_in_ones_shrink(scored: ScoredHouse) -> None:
    """0.2 and four times 0.05 are asked for: the five share the rest in their own proportions."""
    for row in scored.listed:
        weights = {component: score["weight"] for component, score in parts(row).items()}
        assert weights["brevity"] == 0.2
        assert weights["format"] == pytest.approx(0.30 * 0.6)
        assert weights["exploration"] == pytest.approx(0.10 * 0.6)
        assert weights["watched"] == 0.0
        assert math.fsum(weights.values()) == pytest.approx(1.0)


def test_a_rules_score_stands_with_its_words(scored: ScoredHouse) -> None:
    """Its value, its name as component and scorer, and what its docstring says."""
    for row in scored.listed:
        score = parts(row)["brevity"]
        assert (score["value"], score["status"], score["scorer"]) == (1.0, "scored", "brevity")
        assert score["explanation"] == "1.0 for a reply under 40 characters."


def test_the_breakdown_adds_up_to_the_total_bit_for_bit(scored: ScoredHouse) -> None:
    """What `cycle show` lists is the total, not nearly the total."""
    for row in scored.listed:
        lines = json.loads(scored.house.conch("cycle", "show", str(row["cycle"]), "--json"))["cycle"]["breakdown"]
        assert math.fsum(line["amount"] for line in lines) == row["total"]


@pytest.mark.parametrize(
    ("component", "status", "why"),
    [
        ("raises", "error", "ValueError: no good"),
        ("exits", "error", "SystemExit"),
        ("blocks", "timeout", "0.2 s"),
        ("kills", "error", "status 7"),
        ("floods", "timeout", "0.4 s"),
        ("spawns", "timeout", "0.4 s"),
    ],
)
def test_a_bad_rule_costs_itself_alone(scored: ScoredHouse, component: str, status: str, why: str) -> None:
    """Raising, exiting, blocking and dying: no value, a status and a reason; every other part is scored."""
    for row in scored.listed:
        score = parts(row)[component]
        assert (score["value"], score["status"]) == (None, status)
        assert why in score["explanation"]
        assert all(parts(row)[name]["status"] != "timeout" for name in ("format", "needs", "exploration", "brevity"))
        assert parts(row)["watched"]["value"] == 0.5
        assert row["complete"]
        assert 0.75 < row["coverage"] < 0.85


def test_rules_with_a_state_and_over_a_window_are_scored(scored: ScoredHouse) -> None:
    """Beside all of that, from act to act."""
    assert [parts(row)["counts"]["value"] for row in scored.listed] == [1.0, 2.0, 3.0]
    assert [parts(row)["window"]["value"] for row in scored.listed] == [0.0, 1.0, 3.0]


def test_nothing_that_a_rule_printed_or_started_is_left(scored: ScoredHouse) -> None:
    """Not on the terminal, not among the processes."""
    assert "xxx" not in scored.live.said
    scored.house.assert_nothing_runs()


def test_no_cycle_waits_for_a_rule(scored: ScoredHouse) -> None:
    """The cycles follow each other at once, though a rule blocks on each of them."""
    times = [sum(row["ms"].values()) for row in scored.listed]

    assert max(times) < 1000


def test_what_is_no_plugin_is_set_aside_by_name(scored: ScoredHouse) -> None:
    """A file that does not parse, one that declares nothing, a name that is taken: each is named, and the rest runs."""
    said = [line for line in scored.live.said.splitlines() if line.startswith("set aside: ")]

    assert any("broken.py" in line and "SyntaxError" in line for line in said)
    assert any("empty.py" in line and "declares no" in line for line in said)
    assert any("twin.py" in line and "'brevity'" in line for line in said)
    assert any("twin.py" in line and "'reward'" in line for line in said)
    assert len(said) == 4


def test_a_rules_file_that_is_not_there_is_a_usage_error(scored: ScoredHouse) -> None:
    """What was named must be there."""
    assert "nowhere.py" in scored.house.refused("run", "--cycles", "1", "--rules", "nowhere.py", status=2)


def test_rules_that_ask_for_more_than_there_is_are_refused(scored: ScoredHouse) -> None:
    """Together they cannot have more than the whole reward."""
    (scored.house.directory / "greedy.py").write_text(TEN_LINES.replace("0.2", "0.9").replace("brevity", "greedy"))
    greedy = ["--rules", str(scored.house.directory / "greedy.py"), "--rules", str(scored.house.directory / "good.py")]

    assert "sum to 1.1" in scored.house.refused("run", "--cycles", "1", *greedy, status=2)


def test_without_its_rules_a_later_run_is_as_before(scored: ScoredHouse) -> None:
    """The weight set follows from what runs: without plug-ins the five sum to 1 again."""
    [row] = scored.house.run("--cycles", "1", "--script", scored.house.endless()).rows

    assert {name: score["weight"] for name, score in parts(row).items() if score["weight"]} == {
        "format": 0.30,
        "execution": 0.25,
        "needs": 0.20,
        "goal": 0.15,
        "exploration": 0.10,
    }


def test_a_new_rule_scores_from_when_it_was_added(house: House, tmp_path: Path) -> None:
    """What was done before a rule came is left as it was: no late revision, and no backlog before the first score."""
    house.live_through(5)
    file = tmp_path / "slow.py"
    lines = ["import time", "from conch import rule", "@rule(weight=0.1)", "def slow(action):"]
    file.write_text("\n".join([*lines, "    time.sleep(0.2)", "    return 1.0", ""]))

    rows = house.run("--cycles", "2", "--script", house.endless(), "--rules", str(file)).rows

    assert [[one["status"] for one in row["scores"] if one["component"] == "slow"] for row in rows] == [["scored"]] * 2
    assert [row["revision"] for row in house.cycles()] == [1] * 7


def test_a_rule_with_a_state_is_shared_by_workers_elsewhere(house: House) -> None:
    """`conch consume rule-NAME --workers` beside a run without it: each agent's acts by one worker, in their order."""
    (file := house.directory / "rules.py").write_text(COUNTS)
    options = ["--rules", str(file), "--without", "rule-counts", "--agents", "3", "--script", house.endless()]
    live = house.begin(*options, interval=0.1, CONCH_REWARDS__DEADLINE="600")
    live.until(lambda: (house.home / "run.json").exists() and "agent" in str(house.status()), "the run")
    beside = house.start("consume", "rule-counts", "--workers", "2", "--rules", str(file))
    live.until(lambda: len(live.lines) >= 12, "their scores")
    beside.signal(signal.SIGINT)
    assert beside.ended() == 0, beside.told()
    live.signal(signal.SIGTERM)
    assert live.ended() == 0

    for agent in {row["agent"] for row in live.rows}:
        rows = [row for row in live.rows if row["agent"] == agent]
        assert [parts(row)["counts"]["value"] for row in rows] == [row["cycle"] + 1.0 for row in rows]


def test_a_consumer_that_the_settings_name_is_no_plugins(house: House) -> None:
    """A rule that bears the name of a component that others score is set aside, and the run goes on."""
    (file := house.directory / "rules.py").write_text(COUNTS.replace("def counts", "def thumbs"))
    house.home.mkdir()
    (house.home / "conch.yaml").write_text("rewards:\n  parts:\n    thumbs: {}\n  deadline: 0.5\n")

    live = house.run("--cycles", "1", "--script", house.endless(), "--rules", str(file))

    assert re.search(r"set aside: .*rules.py: the name 'thumbs' is taken", live.said)
    assert parts(live.rows[0])["thumbs"]["status"] == "not_applicable"
