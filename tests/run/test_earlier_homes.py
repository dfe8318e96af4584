"""Homes that earlier versions left, one or two of each layout of the store that a revision wrote: they hold, are shown,
and go on."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch.experience import packing
from conch.experience.schema import COPIED_BY, MIGRATED_BY, OPENED_SINCE, SCHEMA_VERSION
from conch.witness import SEALED_KINDS, is_event, sealed_events
from conch_schemas import Event, Mark, MarkWitnessed, decode, wire_form
from tests.stores import age

if TYPE_CHECKING:
    from tests.run.conftest import House

RECORDED = sorted((Path(__file__).parents[1] / "homes").glob("*.tar.xz"))
"""`<layout>-<revision>.tar.xz`: the home that `conch run --seed 1 --cycles 26` of this revision left, with goals, a
message, a person's score, a pause and alarms, and the witness's key beside it. Without workspace, logs and page."""
LAYOUTS = {int(file.name.partition("-")[0]) for file in RECORDED}
UNSIGNED = "4-d6c4a2b"
"""From before marks were signed."""


@pytest.fixture(params=RECORDED, ids=lambda file: file.name.removesuffix(".tar.xz"))
def recorded(request: pytest.FixtureRequest, house: House) -> str:
    """Unpack a recorded home as the house's; its name."""
    return unpack(request.param, house)


def unpack(file: Path, house: House) -> str:
    """Make the house's home the recorded one."""
    with tarfile.open(file) as archive:
        # Python 3.11.3 and earlier know no filter; 3.12 and 3.13 warn where none is named.
        archive.extractall(house.directory, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    house.environment["XDG_CONFIG_HOME"] = str(house.directory / "config")
    return file.name.removesuffix(".tar.xz")


def verify_marks(house: House, *options: str) -> list[str]:
    """The problems that `conch mark verify` finds."""
    live = house.start("mark", "verify", "--json", *options)
    status = live.ended()
    document = json.loads("\n".join(live.lines))
    assert status == (0 if document["ok"] else 4), live.told()
    return [problem["what"] for problem in document["problems"]]


def schema_of(house: House) -> int:
    """The schema that the store's file says it has."""
    with closing(sqlite3.connect(house.home / "store.db")) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_each_layout_that_is_read_has_a_recorded_home() -> None:
    """No revision wrote layout 7: 7 and 8 came together."""
    assert set(range(OPENED_SINCE, SCHEMA_VERSION + 1)) - {7} == LAYOUTS


def test_a_home_of_an_earlier_version_holds_is_shown_and_goes_on(recorded: str, house: House) -> None:
    """Its marks hold as they are, with its key too; a run adds cycles to it in today's layout, and all of it holds."""
    key = house.directory / "config" / "conch" / "witness.pub"
    assert schema_of(house) == int(recorded[0])
    assert verify_marks(house) == []
    if recorded != UNSIGNED:
        assert verify_marks(house, "--key", str(key)) == []
    before = house.cycles()
    assert json.loads(house.conch("status", "--json"))["figures"]["count"] == len(before)
    shown = json.loads(house.conch("cycle", "show", "7", "--json"))["cycle"]
    assert shown["action_id"] == next(row["action_id"] for row in before if row["cycle"] == 7)
    assert schema_of(house) == int(recorded[0])

    house.run("--cycles", "2", "--seed", "1")

    assert schema_of(house) == SCHEMA_VERSION
    assert house.cycles()[: len(before)] == before
    assert [row["cycle"] for row in house.cycles()[len(before) :]] == [26, 27]
    assert verify_marks(house) == []
    assert verify_marks(house, "--key", str(key)) == []


def test_a_home_of_layout_7_holds_and_goes_on(house: House) -> None:
    """Layout 8 without its index."""
    unpack(RECORDED[-1], house)
    age(house.home / "store.db", 7)

    assert verify_marks(house) == []
    house.run("--cycles", "2", "--seed", "1")

    assert schema_of(house) == SCHEMA_VERSION
    assert verify_marks(house) == []


def test_a_changed_byte_of_an_earlier_act_is_found(recorded: str, house: House) -> None:
    """Before and after a run of today: the act by its id."""
    with closing(sqlite3.connect(house.home / "store.db", isolation_level=None)) as db:
        packing.register(db)
        [(body,)] = db.execute("SELECT unpacked(body) FROM acts ORDER BY cycle LIMIT 1 OFFSET 3")
        act = json.loads(body)
        raw = json.dumps(act["data"]["raw"], ensure_ascii=False).encode()
        flipped = raw[:-2] + bytes([raw[-2] ^ 1]) + raw[-1:]
        changed = body.replace(b'"raw":' + raw, b'"raw":' + flipped)
        assert changed != body
        db.execute(
            "UPDATE acts SET body = packed(?) WHERE unpacked(body) = ?" if recorded[0] > "4"
            else "UPDATE acts SET body = ? WHERE body = ?",
            (changed, body),
        )  # fmt: skip

    problems = verify_marks(house)

    assert any(act["actionid"] in problem and "is not what mark" in problem for problem in problems)
    house.run("--cycles", "1", "--seed", "1")
    assert any(act["actionid"] in problem for problem in verify_marks(house))


FORGERIES = {
    "a score": "UPDATE scores SET value = value + 0.1 WHERE act = ? AND component = 'exploration'",
    "a later version's score": "INSERT INTO scores SELECT act, scorer, '99', component, seq, status, value, low, high, "
    "explanation FROM scores WHERE act = ? LIMIT 1",
    "a total": "UPDATE experiences SET total = 0.99 WHERE act = ?",
    "a later revision": "UPDATE experiences SET total = 0.99, revision = revision + 1 WHERE act = ?",
    "a change of needs": 'UPDATE needs SET body = replace(body, \'"most_pressing":"\', \'"most_pressing":"x\') '
    "WHERE act = ?",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_no_early_mark_seals_is_proven_by_the_stream(forgery: str, house: House) -> None:
    """Marks from before scores and totals were sealed one by one excuse no changed row."""
    [file] = (file for file in RECORDED if file.name.startswith(UNSIGNED))
    unpack(file, house)
    with closing(sqlite3.connect(house.home / "store.db", isolation_level=None)) as db:
        [(act,)] = db.execute("SELECT act FROM experiences ORDER BY seq LIMIT 1 OFFSET 5")
        assert db.execute(FORGERIES[forgery], (act,)).rowcount == 1
        [(action,)] = db.execute("SELECT action_id FROM actions WHERE act = ?", (act,))

    problems = verify_marks(house)

    assert problems
    assert all(action in problem for problem in problems)


async def test_an_event_of_an_earlier_version_is_read_and_written_again_as_it_was_sealed(
    recorded: str, house: House
) -> None:
    """Every event on its stream decodes today, and each sealed one is the sealed event also with today's fields."""
    server = EmbeddedServer(house.home / "bus", token="a-token", strict=False, max_bytes=2**30)
    await server.start()
    try:
        async with JetStreamBus(Access(server.url, token="a-token")) as bus:
            events = [decode(delivery.data) async for delivery in bus.read(["conch.v1.>"])]
    finally:
        await server.stop()

    marks: list[Mark] = [event.mark for event in events if isinstance(event, MarkWitnessed)]
    sealed = dict(pair for mark in marks for pair in sealed_events(mark))
    held = [event for event in events if event.id in sealed and is_event(wire_form(event), sealed[event.id])]
    kinds: set[type[Event]] = {type(event) for event in held}

    assert [event.id for event in events if event.id in sealed] == [event.id for event in held]
    assert len(sealed) == len(held)
    names = {kind.TYPE for kind in kinds & set(SEALED_KINDS)}
    assert names >= {"action.taken", "reward.assigned", "needs.changed", "novelty.measured"}
    if recorded != UNSIGNED:
        assert names >= {"message.received", "goal.set", "goal.dropped", "agent.paused", "agent.resumed"}


@pytest.mark.parametrize("schema", range(1, OPENED_SINCE))
def test_a_home_of_a_layout_before_is_refused_by_a_sentence_that_names_what_migrates_it(
    schema: int, house: House
) -> None:
    """The revision of the repository that can be had, and what to do with it; the home stays as it is."""
    unpack(RECORDED[0], house)
    with closing(sqlite3.connect(house.home / "store.db", isolation_level=None)) as db:
        db.execute(f"PRAGMA user_version = {schema}")

    sentence = house.refused("run", "--cycles", "1", status=1)

    assert f"(schema {schema}, this one knows {SCHEMA_VERSION})" in sentence
    assert f"run it once with Conch 0.1.0 at revision {MIGRATED_BY} (git checkout {MIGRATED_BY} in a clone" in sentence
    assert schema_of(house) == schema


@pytest.mark.parametrize("revision", [MIGRATED_BY, COPIED_BY])
def test_a_revision_that_advice_names_can_be_had(revision: str, lacking: Callable[[str], NoReturn]) -> None:
    """It is in the history of the repository."""
    at = Path(__file__).parents[2]
    git = ["git", "-C", str(at)]
    if subprocess.run([*git, "rev-list", "--count", "HEAD"], capture_output=True, check=False).returncode != 0:
        lacking("these files are no clone of the repository: clone it whole, with its history")

    kind = subprocess.run([*git, "cat-file", "-t", revision], capture_output=True, text=True, check=False)

    assert kind.stdout == "commit\n", kind.stderr
