"""A home, read from a program."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import conch
from conch.errors import HomeError, StoreError, UsageError
from conch.home import Home
from tests.library.conftest import NOON, FillHome, MakeHome

REPLIES = ("DO_NOTHING: rest", "REFLECT: tides", "DO_NOTHING: rest again")


def numbers(
    home: Path, agent: str | None = None, since: int | datetime | None = None, limit: int | None = None
) -> list[object]:
    """The cycles of the rows."""
    with conch.open(home) as opened:
        return [row["cycle"] for row in opened.cycles(agent, since=since, limit=limit)]


async def test_cycles_are_flat_rows_in_their_order(make_home: MakeHome) -> None:
    """One dict a cycle, and no value in it is a container: a data frame takes them as they are."""
    home = await make_home(REPLIES)

    with conch.open(home) as opened:
        rows = list(opened.cycles())

    assert [row["cycle"] for row in rows] == [0, 1, 2]
    assert [row["kind"] for row in rows] == ["DO_NOTHING", "REFLECT", "DO_NOTHING"]
    assert [value for row in rows for value in row.values() if isinstance(value, dict | list | tuple)] == []
    assert {"score_format", "score_goal", "need_curiosity_before", "need_curiosity_after", "ms_think"} <= set(rows[0])
    assert isinstance(rows[0]["time"], datetime)
    assert rows[0]["time"].tzinfo is UTC


async def test_scores_are_a_row_each_and_weigh_up_to_the_whole(make_home: MakeHome) -> None:
    """Long form: the weights of one cycle's rows sum to 1, as the weight set's do."""
    home = await make_home()

    with conch.open(home) as opened:
        rows = list(opened.scores())

    assert sum(float(str(row["weight"])) for row in rows) == pytest.approx(1.0)
    assert {"format", "execution", "needs", "goal", "exploration"} <= {row["component"] for row in rows}
    assert all((row["value"] is not None) == (row["status"] == "scored") for row in rows)


async def test_marks_are_the_chain_by_sequence(make_home: MakeHome) -> None:
    """Each row's `previous` is the `hash` of the one before."""
    home = await make_home(REPLIES)

    with conch.open(home) as opened:
        rows = list(opened.marks())

    assert [row["sequence"] for row in rows] == list(range(len(rows)))
    assert [row["previous"] for row in rows[1:]] == [row["hash"] for row in rows[:-1]]


async def test_goals_are_a_row_for_each_check_after_an_act(tmp_path: Path) -> None:
    """What a goal's own check measured, cycle by cycle."""
    check = {"kind": "file", "path": "done.txt"}
    settings = conch.Settings.model_validate(
        {"cycle": {"interval": 0}, "goals": [{"id": "file", "statement": "There is a file", "check": check}]}
    )
    async with conch.MemoryBus() as bus, conch.running(bus, mind=REPLIES, settings=settings) as run:
        await run.finished()

        with conch.open(run.home) as opened:
            rows = list(opened.goals())

    assert [(row["cycle"], row["goal"], row["measure"]) for row in rows] == [(n, "file", 0.0) for n in range(3)]


async def test_a_home_is_read_while_a_run_goes_on_in_it(tmp_path: Path) -> None:
    """The reader neither waits for the run nor holds it up."""
    async with conch.MemoryBus() as bus, conch.running(bus, mind=["DO_NOTHING: rest"], home=tmp_path / "home") as run:
        await run.finished()

        assert numbers(run.home) == [0]


def test_a_store_of_several_pages_comes_whole_and_in_order(fill_home: FillHome) -> None:
    """250 cycles are three pages; none is left out or comes twice at their edges."""
    home = fill_home(echo=250)

    assert numbers(home, "echo") == list(range(250))
    assert numbers(home) == list(range(250))


def test_all_agents_come_in_the_order_of_the_stream_and_one_by_its_name(fill_home: FillHome) -> None:
    """Without a name every agent is meant."""
    home = fill_home(echo=120, bee=3)

    assert numbers(home) == [*range(120), *range(3)]
    assert numbers(home, "bee") == [0, 1, 2]
    with conch.open(home) as opened:
        assert opened.agents == ("bee", "echo")


@pytest.mark.parametrize("agent", ["echo", None])
def test_since_is_the_first_cycle_or_the_first_moment(fill_home: FillHome, agent: str | None) -> None:
    """Both ends are included."""
    home = fill_home(echo=10)

    assert numbers(home, agent, since=7) == [7, 8, 9]
    assert numbers(home, agent, since=NOON + timedelta(minutes=8)) == [8, 9]


@pytest.mark.parametrize("agent", ["echo", None])
def test_limit_is_the_last_so_many_oldest_first(fill_home: FillHome, agent: str | None) -> None:
    """As everywhere in Conch; together with `since` both hold."""
    home = fill_home(echo=150)

    assert numbers(home, agent, limit=2) == [148, 149]
    assert numbers(home, agent, limit=120) == list(range(30, 150))
    assert numbers(home, agent, limit=1000) == list(range(150))
    assert numbers(home, agent, since=148, limit=10) == [148, 149]


def test_a_limit_below_one_is_refused(fill_home: FillHome) -> None:
    """Before anything is read."""
    with conch.open(fill_home(echo=1)) as opened, pytest.raises(UsageError, match="at least 1"):
        opened.cycles(limit=0)


def test_an_agent_that_has_not_acted_is_refused_with_those_that_have(fill_home: FillHome) -> None:
    """Not an empty answer: a wrong name would look like an idle agent."""
    with conch.open(fill_home(echo=1)) as opened, pytest.raises(UsageError, match=r"'ecko' has acted .* but echo"):
        opened.scores("ecko")


def test_a_directory_that_is_no_home_is_refused(tmp_path: Path) -> None:
    """And is left as it is."""
    with pytest.raises(HomeError, match="is no home: conch init"):
        conch.open(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_a_home_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """Its layout may mean something else."""
    (tmp_path / "format").write_text("99\n")

    with pytest.raises(HomeError, match="newer version"):
        conch.open(tmp_path)


def test_a_home_in_which_nobody_has_acted_says_so(tmp_path: Path) -> None:
    """There is no store before the first run."""
    Home(tmp_path / "home").make()

    with pytest.raises(StoreError, match="start a run first"):
        conch.open(tmp_path / "home")


def test_a_locked_store_says_who_to_stop(fill_home: FillHome) -> None:
    """Another program that holds the file alone: an error in a sentence, not a traceback of sqlite3."""
    home = fill_home(echo=1)
    other = sqlite3.connect(home / "store.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    other.execute("UPDATE meta SET value = value")
    other.execute("COMMIT")

    try:
        with pytest.raises(StoreError, match="is being written by another process"):
            numbers(home)
    finally:
        other.close()


def test_the_home_is_that_of_the_environment_where_none_is_named(
    fill_home: FillHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for every command."""
    monkeypatch.setenv("CONCH_HOME", str(fill_home(echo=1)))

    with conch.open() as opened:
        assert opened.agents == ("echo",)


async def test_key_figures_name_their_cohort(make_home: MakeHome) -> None:
    """Three cycles, one of them invalid, two of them tool calls of which one fails."""
    replies = ('TOOL: filesystem(operation="list", path=".")', 'TOOL: filesystem(operation="read", path="no")', "???")
    home = await make_home(replies)

    with conch.open(home) as opened:
        cycles = list(opened.cycles())
        rows = {str(row["name"]): row for row in opened.key_figures()}

    def said(name: str) -> tuple[object, ...]:
        return tuple(rows[name][column] for column in ("value", "cohort", "cycles"))

    assert {row["agent"] for row in rows.values()} == {"echo"}
    assert said("format_compliance") == (pytest.approx(2 / 3), "seen", 3)
    assert said("tool_success") == (0.5, "seen", 2)
    assert said("unique_skills") == (2.0, "seen", 2)
    assert said("skill_entropy") == (pytest.approx(1.0), "seen", 2)
    levels = [mean_need(cycle) for cycle in cycles]
    assert said("needs_improvement") == (pytest.approx((levels[2] - levels[0]) / 2), "scored", 3)
    assert said("learning_progress") == (None, "scored", 3)
    assert said("reward_coverage")[1:] == ("scored", 3)


def mean_need(row: dict[str, object]) -> float:
    """The mean satisfaction after a cycle."""
    found = [float(str(value)) for name, value in row.items() if name.startswith("need_") and name.endswith("_after")]
    return sum(found) / len(found)


def test_learning_progress_has_its_interval(fill_home: FillHome) -> None:
    """Of 250 cycles without any score the last 200 rise by nothing, surely."""
    with conch.open(fill_home(echo=250)) as opened:
        [row] = [row for row in opened.key_figures("echo") if row["name"] == "learning_progress"]

    assert (row["value"], row["low"], row["high"], row["cycles"]) == (0.0, 0.0, 0.0, 200)
