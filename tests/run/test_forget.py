"""`conch forget`: no byte of a person's words is left in the home, and the marks still hold."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.experience import packing
from conch_schemas import ActionTaken, cycle_event_id, decode, wire_form
from tests.run.conftest import House

if TYPE_CHECKING:
    from tests.run.conftest import Live

WORDS = "Roswitha Käsebier"
MESSAGE = f"My name is {WORDS} and I live in Ulm"
REPLIES = (
    f'TOOL: notes(operation="remember", text="{WORDS} lives in Ulm")',
    f'TOOL: filesystem(operation="write", path="people.txt", content="{WORDS}\\nUlm\\n")',
    "DO_NOTHING: resting",
)
"""What the agent does with the message: a note, a file, nothing."""
KILLED = """
import os, signal, sys
from pathlib import Path
import conch.bus.jetstream.bus as bus
import conch.forgetting.remove as remove
from conch.cli import forget
from conch.cli.common import CommonOptions
import asyncio

point, home, words = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

owner, _, name = point.rpartition(".")
if owner == "bus":
    emptied = bus.empty_bucket
    async def purged(connection):
        await emptied(connection)
        die()
    bus.empty_bucket = purged
else:
    setattr(remove, name, die)
asyncio.run(forget.forget(match=words, yes=True, common=CommonOptions(home=Path(home))))
"""
POINTS = (
    "remove.write_request",
    "remove._publish",
    "bus.empty_bucket",
    "remove.record_erased",
    "remove.remove_acts",
    "remove._clean_files",
    "remove.files_left",
    "remove.close_request",
)
"""Calls of a removal, in their order, at which it is killed."""


def holding(home: Path) -> list[str]:
    """The files below the home in which the words stand: in any case, in UTF-8 or as JSON escapes them."""
    forms = {form.encode().lower() for one in (WORDS, "roswitha", "Käsebier") for form in (one, json.dumps(one)[1:-1])}
    return [
        str(file.relative_to(home))
        for file in sorted(home.rglob("*"))
        if file.is_file() and any(form in file.read_bytes().lower() for form in forms)
    ]


def verified(house: House) -> dict[str, object]:
    """What `conch mark verify` finds."""
    found: dict[str, object] = json.loads(house.conch("mark", "verify", "--json"))
    return found


@pytest.fixture
def known(tmp_path: Path) -> Iterator[House]:
    """A home that holds the words in each of its places: the agent was told them, noted them and wrote them down."""
    house = House(tmp_path, furnished=True)
    house.run("--cycles", "2", "--script", house.endless())
    house.conch("tell", MESSAGE)
    house.run("--cycles", "3", "--script", house.script(*REPLIES))
    places = holding(house.home)
    for place in ("memory.db", "notes.db", "people.txt", "CONCH", "KV_conch"):
        assert any(place in one for one in places), (place, places)
    yield house
    house.close()


def test_no_byte_of_the_words_is_left(known: House) -> None:
    """In no file of the home: store, log of the store, stream, bucket, memories, notes, workspace, logs."""
    with (known.home / "logs" / "agent.log").open("a") as log:
        log.write(f'{{"event": "told", "text": "{MESSAGE}"}}\n')

    said = json.loads(known.conch("forget", "--match", WORDS.lower(), "--yes", "--json"))

    assert holding(known.home) == []
    assert said["left"] == []
    assert min(said["acts"], said["events"], said["marks"], said["memories"], said["files"]) > 0
    assert (known.workspace / "people.txt").read_text() == "Ulm\n"


def test_the_marks_hold_and_say_what_was_removed(known: House) -> None:
    """Before the record has its mark and after; the agent goes on behind its last cycle."""
    before = [row["cycle"] for row in known.cycles()]
    known.conch("forget", "--match", WORDS, "--yes")
    first = verified(known)
    known.run("--cycles", "2", "--script", known.endless())
    second = verified(known)

    assert (first["ok"], second["ok"]) == (True, True)
    assert first["forgotten"] == second["forgotten"]
    assert "were removed at a person's request" in known.conch("mark", "verify")
    numbers = [row["cycle"] for row in known.cycles()]
    assert numbers[-2:] == [before[-1] + 1, before[-1] + 2]
    assert set(numbers) < {*before, *numbers[-2:]}


def test_holes_of_erased_events_are_no_damage(known: House) -> None:
    """The next run and `conch doctor` report none."""
    known.conch("forget", "--match", WORDS, "--yes")
    run = known.run("--cycles", "1", "--script", known.endless())

    assert "damaged" not in run.said
    assert "damaged" not in known.conch("bus", "info")


def test_who_takes_an_act_away_cannot_say_that_it_was_asked_for(known: House) -> None:
    """A removed row, a changed mark and a record without a mark are found, also beside what was asked for."""
    known.conch("forget", "--match", WORDS, "--yes")
    known.run("--cycles", "2", "--script", known.endless())
    with sqlite3.connect(known.home / "store.db") as db:
        db.execute("DELETE FROM acts WHERE cycle = 0")
    assert "do not hold" in known.refused("mark", "verify", status=4)


def test_a_record_that_no_mark_seals_is_reported(known: House) -> None:
    """What a record lists is sealed: with another list it is a record that no person asked for."""
    known.conch("forget", "--match", WORDS, "--yes")
    known.run("--cycles", "2", "--script", known.endless())
    with sqlite3.connect(known.home / "store.db") as db:
        changed = "UPDATE meta SET value = replace(CAST(value AS TEXT), ?, ?) WHERE name GLOB 'forgotten/*'"
        assert db.execute(changed, ('"actions":[', '"actions":["another",')).rowcount == 1

    told = known.start("mark", "verify")
    assert told.ended() == 4
    assert any(line.startswith("forged: The record ") for line in told.lines)


def put_back_another(home: Path) -> str:
    """Put the newest act with all its rows in the place of one that was removed, under its ids; the action's id."""
    with closing(sqlite3.connect(home / "store.db")) as db, db:
        packing.register(db)
        [(record,)] = db.execute("SELECT value FROM meta WHERE name GLOB 'forgotten/*'")
        action = next(mark["action_id"] for mark in json.loads(record)["data"]["marks"] if mark["domain"] == "action")
        [(number, body)] = db.execute("SELECT act, unpacked(body) FROM acts ORDER BY cycle DESC LIMIT 1")
        forged = decode(body).model_copy(update={"action_id": action, "id": cycle_event_id(action, ActionTaken)})
        for table in ("acts", "experiences", "scores", "contexts"):
            columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
            copied = ", ".join("-1" if name == "act" else name for name in columns)
            db.execute(f"INSERT INTO {table} SELECT {copied} FROM {table} WHERE act = ?", (number,))
        db.execute("UPDATE acts SET action_id = ?, body = packed(?) WHERE act = -1", (action, wire_form(forged)))
        db.execute("INSERT INTO actions VALUES (?, -1)", (action,))
    return str(action)


def test_what_is_left_of_the_marks_of_a_removed_act_proves_no_other_act(known: House) -> None:
    """A record of a removal excuses what is gone; what stands in its place needs a mark of its own."""
    known.conch("forget", "--match", WORDS, "--yes")
    known.run("--cycles", "2", "--script", known.endless())
    action = put_back_another(known.home)

    told = known.start("mark", "verify")

    assert told.ended() == 4
    assert any(line.startswith(f"unwitnessed: Action {action} has no mark") for line in told.lines)


@pytest.mark.torture
@pytest.mark.parametrize("point", POINTS)
def test_a_removal_that_was_killed_is_finished(known: House, point: str) -> None:
    """By the next run, whatever it was killed at: once, and with nothing left."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, point, str(known.home), WORDS], env=known.environment, check=False
    )
    assert killed.returncode == -9
    assert (known.home / "forget.json").exists()

    known.run("--cycles", "1", "--script", known.endless())

    assert holding(known.home) == []
    assert not (known.home / "forget.json").exists()
    assert verified(known)["ok"]
    assert "damaged" not in known.conch("bus", "info")


@pytest.mark.torture
def test_behind_a_killed_run_no_cycle_gets_a_number_twice(known: House) -> None:
    """The agent's checkpoint was older than the cycles that go: it goes on behind them."""
    known.conch("tell", f"{WORDS} once more")
    run = known.begin("--script", known.endless())
    run.recorded(4)
    run.signal(signal.SIGKILL, group=True)
    run.ended()
    known.assert_nothing_runs()
    last = known.cycles()[-1]["cycle"]

    known.conch("forget", "--match", WORDS, "--yes")
    first = known.run("--cycles", "1", "--script", known.endless()).rows[-1]

    assert first["cycle"] > last
    assert holding(known.home) == []
    assert verified(known)["ok"]


def test_a_run_in_progress_removes_it_and_goes_on(known: House) -> None:
    """The command waits for the run, which begins again by itself and forgets what its processes knew."""
    run: Live = known.begin("--script", known.endless(), interval=0.2)
    run.recorded(2)
    pid = known.status()["pid"]

    said = known.conch("forget", "--match", WORDS, "--yes")
    seen = len(run.lines)
    run.until(lambda: len(run.lines) > seen + 2, "cycles behind the removal")

    assert "removed at a person's request" in said
    assert known.status()["pid"] == pid
    known.conch("stop")
    assert run.ended() == 0
    assert holding(known.home) == []
    assert verified(known)["ok"]


def test_a_message_is_forgotten_by_its_id(house: House) -> None:
    """With the acts that its words stand in; another person's message stays."""
    house.live_through(3)
    house.conch("tell", "The tide is high today")
    message = json.loads(house.conch("tell", MESSAGE, "--json"))["id"]

    house.conch("forget", "--message", message, "--yes")

    assert holding(house.home) == []
    assert "The tide is high today" in house.conch("bus", "tail", "--json", "--after", "0")


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        ((), 2, "name what is to be forgotten"),
        (("--match", "ab"), 2, "at least 3 characters"),
        (("--match", "nowhere to be found"), 1, "nothing in the home holds it"),
        (("--message", "none"), 2, "the stream has no message"),
        (("--match", "resting"), 2, "--yes removes it without asking"),
    ],
)
def test_a_request_that_cannot_be_done_is_one_sentence(
    house: House, options: tuple[str, ...], status: int, sentence: str
) -> None:
    """And nothing is removed."""
    house.live_through(3)

    assert sentence in house.refused("forget", *options, status=status)
    assert len(house.cycles()) == 3
    assert not (house.home / "forget.json").exists()
