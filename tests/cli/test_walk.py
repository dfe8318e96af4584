"""`conch walk`: a run of marks with a goal is started, shown and closed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from conch.cli import walk
from conch.cli.common import CommonOptions
from conch.errors import HomeError, UsageError
from conch.home import Home
from conch.requests import Walks

if TYPE_CHECKING:
    from tests.cli.conftest import Kept, Life

Printed = Callable[[], str]


def test_a_walk_takes_the_marks_from_its_start_to_its_close(
    filled: Life, life: Life, kept: Kept, home: Home, common: CommonOptions, printed: Printed
) -> None:
    """Neither those before nor those behind; its trace has the acts' totals, discounted."""
    walk.start("Read the parser.", common=common)
    number = printed().split()[0]
    kept(*life.cycle(3), *life.cycle(4))
    walk.close(number, why="It is read.", common=common)
    kept(*life.cycle(5))
    printed()

    walk.show(number, common=replace(common, json=True))
    shown = json.loads(printed())

    assert [one["sequence"] for one in shown["marks"]] == [6, 7, 8, 9]
    assert [one["phase"] for one in shown["marks"]] == ["act", "reflect", "act", "reflect"]
    rewards = [one["reward"] for one in shown["steps"]]
    assert len(rewards) == 2
    assert shown["total"] == pytest.approx(rewards[0] + 0.99 * rewards[1])
    assert (shown["walk"]["status"], shown["walk"]["why"], shown["next"]) == ("complete", "It is read.", "sense")


def test_a_paused_walk_takes_no_marks(
    filled: Life, life: Life, kept: Kept, common: CommonOptions, printed: Printed
) -> None:
    """Those in between are not its own, also after it goes on."""
    walk.start("Read.", common=common)
    number = printed().split()[0]
    walk.pause(number, common=common)
    kept(*life.cycle(3))
    walk.resume(number, common=common)
    kept(*life.cycle(4))
    printed()

    walk.show(number, common=replace(common, json=True))

    assert [one["sequence"] for one in json.loads(printed())["marks"]] == [8, 9]


def test_a_closed_walk_refuses_every_call(home: Home, common: CommonOptions, printed: Printed) -> None:
    """It stays as it was closed; so does one without a store, before the first run."""
    walk.start("Read.", common=common)
    number = printed().split()[0]
    walk.close(number, abandon=True, common=common)

    for call in (walk.pause, walk.resume, walk.close):
        with pytest.raises(UsageError, match=f"walk {number} is abandoned"):
            call(number, common=common)
    walk.list_(common=common)

    assert "abandoned" in printed()


@pytest.mark.parametrize("number", ["", "../../x", "00000000"])
def test_an_unknown_walk_is_a_usage_error(home: Home, common: CommonOptions, number: str) -> None:
    """Whatever stands for an id, no file outside is read."""
    with pytest.raises(UsageError, match="conch walk list shows them"):
        walk.show(number, common=common)


@pytest.mark.parametrize("goal", ["", "  ", "x" * 2001])
def test_a_walk_needs_a_goal_of_a_sentence(home: Home, common: CommonOptions, goal: str) -> None:
    """An empty or endless one is refused, and nothing is written."""
    with pytest.raises(UsageError):
        walk.start(goal, common=common)

    assert Walks(home).all() == []


def test_a_damaged_file_is_named(home: Home, common: CommonOptions) -> None:
    """The sentence says which one and what to do."""
    started = Walks(home).start("echo", "Read.", 0)
    file = home.path / "walks" / f"{started.id}.json"
    file.write_text("{")

    with pytest.raises(HomeError, match=r"holds no walk: it was damaged"):
        walk.show(started.id, common=common)
