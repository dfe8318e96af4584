"""`conch mark verify`: what is wrong is found, and what only has not come yet is not called wrong."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from conch.cli import mark
from conch.cli.common import CommonOptions
from conch.errors import BusUnreachableError, CheckError
from conch.experience import SqliteReader, packing
from conch.home import Home
from conch.witness import without_words
from conch_schemas import (
    ActionTaken,
    FileCheck,
    Goal,
    GoalSet,
    PersonForgotten,
    consequence_id,
    encode,
    source_of,
    subject_filter,
)
from tests.cli.conftest import NOON, RECORDED, Life
from tests.durables import durable

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Kept, Publish


Printed = Callable[[], str]


def change(home: Home, sql: str) -> None:
    """Tamper with the store's file."""
    db = sqlite3.connect(home.path / "store.db")
    packing.register(db)
    with db:
        db.execute(sql)
    db.close()


async def test_a_whole_chain_holds(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """A chain that nobody touched is counted and found good."""
    await mark.verify(common=common)

    assert printed().splitlines()[:2] == [
        "6 marks of 3 acts of echo hold",
        "33 sealed facts compared with the store; 4 rows were recorded by a version that sealed less, and the stream "
        "has them no more: nothing proves them",
    ]


def test_a_changed_row_is_exit_status_four(
    filled: Life, home: Home, conch: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """A mark whose words were changed is named, in one document, with exit status 4."""
    change(
        home, "UPDATE marks SET body = replace(CAST(unpacked(body) AS TEXT), 'Outcome', 'Income') WHERE sequence = 4"
    )

    result = conch("mark", "verify", "--json")

    found = json.loads(result.stdout)
    assert result.returncode == 4
    assert (found["schema"], found["ok"]) == ("conch.v1.verification", False)
    assert [(one["kind"], one["sequence"]) for one in found["problems"]] == [("changed", 4)]
    assert "do not hold" in result.stderr


async def test_many_problems_of_a_kind_are_counted_after_the_first(
    home: Home, life: Life, kept: Kept, common: CommonOptions, printed: Printed
) -> None:
    """A chain that is wrong throughout is twenty lines and a count; its JSON has them all."""
    kept(life.weights(), *(fact for cycle in range(25) for fact in life.cycle(cycle)))
    change(home, "UPDATE marks SET body = replace(CAST(unpacked(body) AS TEXT), 'Outcome', 'Income')")

    with pytest.raises(CheckError, match="found wrong"):
        await mark.verify(common=common)
    lines = printed().splitlines()
    with pytest.raises(CheckError, match="found wrong"):
        await mark.verify(common=replace(common, json=True))
    count = sum(one["kind"] == "changed" for one in json.loads(printed())["problems"])

    assert count > mark.MOST_OF_A_KIND
    assert sum(line.startswith("changed: ") for line in lines) == mark.MOST_OF_A_KIND + 1
    assert f"changed: {count - mark.MOST_OF_A_KIND} more (conch mark verify --json lists all)" in lines


async def test_a_tail_that_was_cut_off_is_found(
    filled: Life, home: Home, common: CommonOptions, printed: Printed
) -> None:
    """Marks missing at the end are missed because their act is there: nothing on the stream excuses them."""
    change(home, "DELETE FROM marks WHERE sequence >= 4")

    with pytest.raises(CheckError, match="found wrong"):
        await mark.verify(common=common)
    assert printed().startswith("unwitnessed: Action ")


async def test_the_very_last_mark_cut_off_is_found(
    filled: Life, home: Home, common: CommonOptions, printed: Printed
) -> None:
    """The mark of the scores is missed like that of an act: what was scored is there."""
    change(home, "DELETE FROM marks WHERE sequence = (SELECT max(sequence) FROM marks)")

    with pytest.raises(CheckError, match="found wrong"):
        await mark.verify(common=common)
    said = printed()
    assert "unwitnessed: Revision 1 of the total of action " in said
    assert "unwitnessed: The score format by reward of action " in said


@pytest.mark.parametrize(
    "sql", ["UPDATE marks SET hash = '00' WHERE sequence = 3", "UPDATE marks SET sequence = sequence + 1"]
)
async def test_columns_that_no_longer_say_what_the_mark_says_are_found(
    filled: Life, home: Home, common: CommonOptions, sql: str
) -> None:
    """A row is found changed in whichever of its columns."""
    change(home, sql)

    with pytest.raises(CheckError, match="its row was changed"):
        await mark.verify(common=common)


async def test_an_act_that_the_witness_has_not_read_is_no_problem(
    filled: Life,
    common: CommonOptions,
    kept: Kept,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """During a run the newest act may be stored before it is witnessed: it waits, and nothing is wrong."""
    act = filled.act(3)
    async with in_progress() as bus:
        await durable(bus, "witness", [subject_filter(ActionTaken)], after=0)
        await publish(bus, act)
        kept(act)
        await mark.verify(common=common)

    assert printed().startswith("6 marks of 4 acts of echo hold; 1 waits for its mark\n")


async def test_a_mark_that_the_store_has_not_read_is_no_problem(
    filled: Life,
    home: Home,
    common: CommonOptions,
    kept: Kept,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """A mark that stands on the stream behind the store's place is there."""
    act = filled.act(3)
    kept(act)
    async with in_progress() as bus:
        await publish(bus, act)
        await durable(bus, "witness", [subject_filter(ActionTaken)], after=(await bus.state()).last)
        await publish(bus, filled.mark(act))
        await mark.verify(common=replace(common, json=True))

    assert json.loads(printed())["waiting"] == 1


async def test_an_act_that_the_witness_passed_is_a_problem(
    filled: Life,
    common: CommonOptions,
    kept: Kept,
    in_progress: InProgress,
    publish: Publish,
) -> None:
    """An act behind the witness's place has to have its mark, on the stream or in the store."""
    act = filled.act(3)
    kept(act)
    async with in_progress() as bus:
        await publish(bus, act)
        await durable(bus, "witness", [subject_filter(ActionTaken)], after=1)
        with pytest.raises(CheckError):
            await mark.verify(common=common)


@pytest.mark.parametrize(("is_recorded", "status"), [(True, 0), (False, 4)])
async def test_an_event_that_was_erased_on_request_may_be_said_anew(
    filled: Life,
    common: CommonOptions,
    kept: Kept,
    in_progress: InProgress,
    publish: Publish,
    is_recorded: bool,
    status: int,
) -> None:
    """A run sets the goals of its settings again once they were forgotten, under the same ids at another time; without
    a record that names the event, another one under its id is an alteration."""
    goal = Goal(id="g", statement="Write to Roswitha.", check=FileCheck(kind="file", path="letter.txt"))
    lineage = {"source": source_of(filled.agent, filled.uid), "agent": filled.agent}
    identity = consequence_id(filled.uid, "test", "g", GoalSet)
    said = GoalSet(**lineage, id=identity, time=NOON, goal=goal, by="home")
    sealed = filled.mark(said)
    record = PersonForgotten(
        **lineage,
        id=consequence_id(filled.uid, "test", "r", PersonForgotten),
        time=NOON,
        request="r",
        events=(said.id,) if is_recorded else (),
        marks=(without_words(sealed.mark),),
    )
    kept(sealed, record, filled.mark(record))

    async with in_progress() as bus:
        await publish(bus, record, said.model_copy(update={"time": RECORDED}))
        if status:
            with pytest.raises(CheckError):
                await mark.verify(common=common)
        else:
            await mark.verify(common=common)


async def test_a_stream_of_the_home_that_cannot_be_read_is_a_failure(
    filled: Life, home: Home, common: CommonOptions, printed: Printed
) -> None:
    """What it alone proves is not proven, and the one sentence says that the store agrees with its marks."""
    home.bus.write_text("no directory")

    with pytest.raises(CheckError, match=r"agree with the store, and were not compared with the stream: .*bus cannot"):
        await mark.verify(common=replace(common, json=True))

    found = json.loads(printed())
    assert (found["ok"], [problem["kind"] for problem in found["problems"]]) == (False, ["unread"])


async def test_a_bus_elsewhere_that_is_away_is_no_finding(
    filled: Life, common: CommonOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is exit status 3, as for every command that needs it; what is wrong in the store is exit status 4."""
    monkeypatch.setenv("CONCH_BUS__URL", "nats://127.0.0.1:1")

    with pytest.raises(BusUnreachableError, match="were not compared with the stream: no bus at"):
        await mark.verify(common=common)
    change(filled.home, "DELETE FROM scores")
    with pytest.raises(CheckError, match="do not hold"):
        await mark.verify(common=common)


async def test_all_agents_that_have_acted_are_checked(
    filled: Life, home: Home, common: CommonOptions, kept: Kept, printed: Printed
) -> None:
    """Acts under another name are shown and exported too: without a name none of them is passed over."""
    kept(Life(home, "mallory").act(0))

    with pytest.raises(CheckError, match="the marks of mallory do not hold"):
        await mark.verify(common=common)
    assert "6 marks of 3 acts of echo hold" in printed()
    await mark.verify(agent="echo", common=common)


@pytest.mark.parametrize("name", ["position", "positions", "base"])
def test_a_place_that_is_no_number_is_one_sentence(
    filled: Life, home: Home, conch: Callable[..., subprocess.CompletedProcess[str]], name: str
) -> None:
    """The store is damaged: its name is said, and what to do."""
    change(home, f"INSERT OR REPLACE INTO meta VALUES ('{name}', 'abc')")

    found = conch("mark", "verify")

    assert found.returncode == 1
    assert found.stderr.startswith(f"conch: The experience store {home.path / 'store.db'} is damaged ({name} is no ")
    assert found.stderr.count("\n") == 1


SUMS = {
    "totals": "INSERT INTO removed_totals VALUES ('echo', 0, 5, 100, 99.0, 99.0, 0.9, 1.0, 1.0, 0)",
    "outcomes": "INSERT INTO removed_outcomes VALUES ('echo', 0, 'success', 100)",
    "components": """INSERT INTO removed_components
        VALUES ('echo', 0, 'format', 'reward', '1', 1.0, 9, 9, 9.0, 9.0, 1, 1, 0, 0, 0)""",
    "scores": "INSERT INTO removed_scores VALUES ('echo', 'format', 'reward', '1', 9, -1, 1)",
    "removal": """INSERT INTO removals
        VALUES ('echo', '2026-11-01', 'days', 0, 0, 1, 0, '2026-11-01T00:00:00+00:00', NULL, NULL, 0, NULL)""",
}
"""By what is forged: a row of what a store keeps of removed cycles."""


@pytest.mark.parametrize("forged", SUMS)
async def test_sums_over_cycles_that_no_removal_took_are_found(
    filled: Life, home: Home, common: CommonOptions, printed: Printed, forged: str
) -> None:
    """`status` and `reward list` add them up: without a record of a removal, or over cycles that are there, they are
    forged."""
    change(home, SUMS[forged])

    with pytest.raises(CheckError):
        await mark.verify(common=common)

    assert "altered: The sums over removed cycles" in printed()


async def test_a_change_of_needs_that_an_act_made_stands_once(filled: Life, home: Home, common: CommonOptions) -> None:
    """A copy of its row that belongs to no act would be shown by `conch need history` a second time."""
    change(home, "INSERT INTO needs SELECT 0, id, seq, agent, body FROM needs LIMIT 1")

    with pytest.raises(CheckError):
        await mark.verify(common=common)


@pytest.mark.parametrize("forged", ["junk", "another kind", "another total", "a later revision", "another act"])
async def test_an_event_for_the_stream_that_the_store_did_not_record_is_found(
    filled: Life, home: Home, common: CommonOptions, printed: Printed, forged: str
) -> None:
    """Before a run publishes it; what waits as it was recorded is no problem."""
    with SqliteReader(home.path / "store.db") as store:
        waiting = store.cycles.get("echo", 1)
    assert waiting is not None
    weights = filled.weights()
    rows = {
        "junk": ("x", b"junk"),
        "another kind": (weights.id, encode(weights)),
        "another total": (waiting.id, encode(waiting.model_copy(update={"total": 0.99}))),
        "a later revision": (waiting.id, encode(waiting.model_copy(update={"revision": 2}))),
        "another act": (waiting.id, encode(waiting.model_copy(update={"cycle": 9, "action_id": str(uuid4())}))),
    }

    def put(identity: str, body: bytes) -> None:
        with closing(sqlite3.connect(home.path / "store.db")) as db, db:
            db.execute("INSERT OR REPLACE INTO outbox (id, body) VALUES (?, ?)", (identity, body))

    put(waiting.id, encode(waiting))
    await mark.verify(common=common)
    put(*rows[forged])
    with pytest.raises(CheckError):
        await mark.verify(common=common)

    assert "altered: Of the events that wait for their publication, " in printed()
