"""Whatever is altered in a store, `conch mark verify` finds it: each column of each table that is shown anywhere."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from conch.cli import mark
from conch.cli.common import CommonOptions
from conch.errors import ConchError
from conch.experience import RetentionLimits, SqliteStore, packing
from conch.experience.queries import prune
from conch.home import Home
from conch.witness import GENESIS, key_file, mark_hash
from conch_schemas import Mark
from tests.cli.conftest import run_of
from tests.run.altered import (
    ALL_MOVES,
    MOVES,
    Alteration,
    alterations_of,
    apply,
    leaves_of,
    live_whole_life,
    tables_of,
)
from tests.run.conftest import House

if TYPE_CHECKING:
    from tests.run.conftest import MakeHouse

Forge = Callable[[sqlite3.Connection], None]

NOT_SHOWN: Final = {
    "acts.started": "the start of the act's deadlines, which are over; retention keeps a cycle by it",
    "contexts.seq": "the place by which the first of twins is kept; the row's words are sealed",
    "experiences.changed": "a counter by which samplers notice a change",
    "scores.seq": "the place by which the first of twins is kept; the row itself is sealed",
    "outbox.place": "the order in which events are published",
    "outbox.id": "an event that is to be published: it proves nothing, and is published under its own id",
    "outbox.body": "the same",
}
"""`table.column` that nothing shows -> why no alteration of it has to be found."""
NOT_SHOWN_META: Final = {
    "changes": "a counter by which samplers notice a change",
    "conch": "the version that wrote the store, named in advice alone",
    "epoch": "which stream was read: of another one the store reads all again",
    "numbered": "the last number that was given to an act",
}
"""Name of a meta value that nothing shows -> the same."""
OF_REMOVED: Final = frozenset(
    {"removals", "removed_totals", "removed_outcomes", "removed_components", "removed_scores"}
)
"""Tables of what retention keeps of removed cycles: nothing proves these sums, as `conch mark verify` says."""
FORGED_UNSHOWN: Final = {
    "actions": "a number of an act that has no rows",
    "meta": "a value that no version reads; those that are read have tests of their own",
}
"""Table -> why a further row of it has not to be found."""


class Altered:
    """A home with rows in every table, whose store is altered again and again."""

    def __init__(self, house: House) -> None:
        self.home = Home(house.home)
        self.store = house.home / "store.db"
        self._pristine = house.directory / "pristine.db"
        config = house.directory / "empty.yaml"
        config.write_text("{}\n")  # half of the time of a check is the reading of the settings
        self.common = CommonOptions(home=house.home, config=config)
        self.keep()

    def keep(self) -> None:
        """Keep the store as it is now: `restore` makes it this one."""
        with closing(sqlite3.connect(self.store)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copyfile(self.store, self._pristine)

    def restore(self) -> None:
        """Make the store what the run has left."""
        for suffix in ("-wal", "-shm"):
            self.store.with_name(f"store.db{suffix}").unlink(missing_ok=True)
        shutil.copyfile(self._pristine, self.store)

    def opened(self) -> contextlib.closing[sqlite3.Connection]:
        """The store's file, as it was left."""
        self.restore()
        db = sqlite3.connect(self.store, isolation_level=None)
        packing.register(db)
        return closing(db)

    def prune(self, kept: int) -> None:
        """Remove the marks and cycles but the last ones, as `store.keep` does; what is left is restored from now on."""
        self.restore()
        with pytest.MonkeyPatch.context() as patch, SqliteStore(self.store) as store:
            patch.setattr(prune, "KEPT_CYCLES", kept)
            assert store.prune(RetentionLimits(seconds=0.0), datetime.now(UTC)).acts > 0
        self.keep()

    async def verify(self, key: Path | None = None, common: CommonOptions | None = None) -> int:
        """The exit status of `conch mark verify`."""
        with contextlib.redirect_stdout(io.StringIO()) as said:
            try:
                await mark.verify(key=key, common=common or self.common)
            except ConchError as error:
                return error.exit_code
        assert "nothing proves them" not in said.getvalue()
        return 0

    async def is_found(self, alteration: Alteration, moves: Sequence[str] = ()) -> bool:
        """Whether the alteration is found, with these moves."""
        self.restore()
        apply(self.store, alteration, moves)
        return await self.verify() == 4


@pytest.fixture(scope="module")
def altered(make_house: MakeHouse) -> Altered:
    """The home of all these tests."""
    house = make_house(furnished=True)
    live_whole_life(house)
    return Altered(house)


def is_shown(alteration: Alteration) -> bool:
    """Whether what is altered is shown anywhere."""
    if alteration.name.endswith(" forged"):
        return alteration.table not in FORGED_UNSHOWN
    if alteration.table == "meta":
        name = alteration.name.split()[1]
        return name not in NOT_SHOWN_META
    return f"{alteration.table}.{alteration.column}" not in NOT_SHOWN


async def test_the_home_holds_as_the_run_has_left_it(altered: Altered) -> None:
    """Exit status 0, and nothing is without a proof; with the key too."""
    altered.restore()

    async with run_of(altered.home):
        assert await altered.verify() == 0
        assert await altered.verify(key_file()) == 0


def test_what_is_exempt_is_there(altered: Altered) -> None:
    """Each column and meta value that no alteration of has to be found exists, and so does each table."""
    with altered.opened() as db:
        tables = tables_of(db)
        names = {name for (name,) in db.execute("SELECT name FROM meta")}

    assert NOT_SHOWN.keys() <= {f"{table}.{column}" for table, columns in tables.items() for column, *_ in columns}
    assert NOT_SHOWN_META.keys() <= names
    assert FORGED_UNSHOWN.keys() | OF_REMOVED <= tables.keys()


async def test_every_altered_column_deleted_row_and_forged_row_is_found(altered: Altered) -> None:
    """One for each type of row, made from the schema: alone, and with one of the moves that might excuse it."""
    with altered.opened() as db:
        alterations = [one for one in alterations_of(db) if is_shown(one)]
    moves = cycle([*(move for name, move in MOVES.items() if name != "none"), ALL_MOVES])
    seen: set[tuple[str, str, bool]] = set()

    async with run_of(altered.home):
        lost = [one.name for one in alterations if not await altered.is_found(one)]
        for one in alterations:
            if (kind := (one.table, one.column, one.name.endswith("deleted"))) not in seen:
                seen.add(kind)
                lost += [f"{one.name}, moved" for move in [next(moves)] if not await altered.is_found(one, move)]

    assert lost == []
    assert len(alterations) > 350


async def test_every_part_of_a_stored_document_is_found(altered: Altered) -> None:
    """Each fourth leaf of one body of each type of row."""
    with altered.opened() as db:
        leaves = [one for one in leaves_of(db) if is_shown(one)][::4]

    async with run_of(altered.home):
        assert [one.name for one in leaves if not await altered.is_found(one)] == []


def _forge_totals(db: sqlite3.Connection) -> None:
    """Each experience: the next revision, and a total of 0.99, in its column and in its verdict."""
    for act, verdict in db.execute("SELECT act, unpacked(verdict) FROM experiences").fetchall():
        forged = json.dumps(json.loads(verdict) | {"total": 0.99}, ensure_ascii=False, separators=(",", ":")).encode()
        db.execute(
            "UPDATE experiences SET revision = revision + 1, total = 0.99, verdict = packed(?) WHERE act = ?",
            (forged, act),
        )


def _add_scores(db: sqlite3.Connection) -> None:
    """Each score: another one of a higher version, and better; the total is left."""
    db.execute(
        """INSERT INTO scores SELECT act, scorer, version || '9', component, seq, 'scored', high, low, high, explanation
        FROM scores WHERE status = 'scored'"""
    )


def _name_another_stream(db: sqlite3.Connection) -> None:
    db.execute("UPDATE meta SET value = 'another' WHERE name = 'epoch'")


def _say_that_a_stream_was_lost(db: sqlite3.Connection) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES ('base', (SELECT max(seq) FROM marks))")


def _say_of_all_that_it_waits(db: sqlite3.Connection) -> None:
    db.execute("UPDATE acts SET due = 4102444800.0")
    db.execute(MOVES["position"][0])


@pytest.mark.parametrize(
    "excuse",
    [lambda _: None, _name_another_stream, _say_that_a_stream_was_lost, _say_of_all_that_it_waits],
    ids=["alone", "epoch", "base", "waiting"],
)
@pytest.mark.parametrize("forge", [_forge_totals, _add_scores])
async def test_forged_totals_and_scores_are_found(altered: Altered, forge: Forge, excuse: Forge) -> None:
    """With and without the key, with and without the stream, whatever the store says of its place in it."""
    with altered.opened() as db:
        forge(db)
        excuse(db)

    async with run_of(altered.home):
        assert await altered.verify() == 4
        assert await altered.verify(key_file()) == 4
    assert await _verify_copy(altered, "bus") == 4


async def _verify_copy(altered: Altered, *without: str) -> int:
    """The exit status of a check of the home without these files."""
    copy = altered.home.path.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(altered.home.path, copy, ignore=shutil.ignore_patterns("workspace", "nats-server.pid", *without))
    assert altered.common.config is not None
    return await altered.verify(common=CommonOptions(home=copy, config=altered.common.config))


def _cut_off_last_acts(db: sqlite3.Connection) -> None:
    """The last three acts with their marks, and all marks behind the first of these."""
    acts = [act for (act,) in db.execute("SELECT act FROM acts ORDER BY cycle DESC LIMIT 3")]
    [(first, place)] = db.execute("SELECT min(sequence), min(seq) FROM marks WHERE act IN (?, ?, ?)", acts)
    db.execute("DELETE FROM marks WHERE sequence >= ?", (first,))
    for table in ("acts", "scores", "contexts", "needs", "experiences", "actions"):
        db.executemany(f"DELETE FROM {table} WHERE act = ?", [(act,) for act in acts])
    for table in ("forks", "training", "reviews", "needs", "weights"):
        db.execute(f"DELETE FROM {table} WHERE seq >= ?", (place,))


def _make_the_chain_anew(db: sqlite3.Connection) -> None:
    """Another answer in the mark of the first act, and every hash after it."""
    previous = GENESIS
    for rowid, body in db.execute("SELECT rowid, unpacked(body) FROM marks ORDER BY sequence").fetchall():
        found = Mark.model_validate_json(body)
        response = "another" if found.domain == "action" else found.response
        found = found.model_copy(update={"previous": previous, "response": response})
        found = found.model_copy(update={"hash": mark_hash(found)})
        previous = found.hash
        db.execute(
            "UPDATE marks SET hash = ?, body = packed(?) WHERE rowid = ?",
            (found.hash, found.model_dump_json().encode(), rowid),
        )


@pytest.mark.parametrize(
    "without", [(), ("bus",), ("bus", "checkpoints.jsonl")], ids=["all", "without the stream", "without checkpoints"]
)
@pytest.mark.parametrize("forge", [_cut_off_last_acts, _make_the_chain_anew])
async def test_a_chain_that_was_cut_or_made_anew_is_found(
    altered: Altered, forge: Forge, without: tuple[str, ...]
) -> None:
    """By the stream, or by the checkpoints and the key of the machine alone."""
    with altered.opened() as db:
        forge(db)

    assert await _verify_copy(altered, *without) == 4


@pytest.mark.parametrize("place", ["before", "another stream"])
async def test_acts_cut_off_with_marks_and_checkpoints_are_found_on_the_stream(altered: Altered, place: str) -> None:
    """With the store's position put before them, or the name of its stream changed: as if they were still to come."""
    with altered.opened() as db:
        _cut_off_last_acts(db)
        [(kept,)] = db.execute("SELECT max(sequence) FROM marks")
        [(last,)] = db.execute("SELECT max(seq) FROM marks")
        db.execute("UPDATE meta SET value = ? WHERE name = 'position'", (last,))
        if place == "another stream":
            _name_another_stream(db)
    checkpoints = altered.home.path / "checkpoints.jsonl"
    whole = checkpoints.read_text()
    lines = [line for line in whole.splitlines() if line and json.loads(line)["count"] <= kept + 1]
    try:
        checkpoints.write_text("".join(f"{line}\n" for line in lines))
        assert lines
        assert await _verify_copy(altered) == 4
    finally:
        checkpoints.write_text(whole)


async def test_removed_checkpoints_are_found(altered: Altered) -> None:
    """The chain itself is as it was."""
    altered.restore()

    assert await _verify_copy(altered) == 0
    assert await _verify_copy(altered, "checkpoints.jsonl") == 4


@pytest.mark.parametrize("change", ["value + 1000", "0", "value / 2", "-1"])
async def test_a_changed_position_is_found(altered: Altered, change: str) -> None:
    """Beyond the stream's end, and before the store's own rows."""
    with altered.opened() as db:
        db.execute(f"UPDATE meta SET value = {change} WHERE name = 'position'")

    async with run_of(altered.home):
        assert await altered.verify() == 4


@pytest.mark.parametrize("named", [("base", "7"), ("ends", "[7]"), ("base", "-1")])
async def test_a_loss_of_the_stream_that_was_made_up_is_found(altered: Altered, named: tuple[str, str]) -> None:
    """What `conch mark verify` would call lost stands on the stream."""
    with altered.opened() as db:
        db.execute("INSERT INTO meta VALUES (?, ?)", named)

    async with run_of(altered.home):
        assert await altered.verify() == 4


async def test_what_retention_left_holds_and_is_compared(altered: Altered) -> None:
    """The last of these tests, as it removes cycles for good: an alteration of each column of what is left is found,
    and so is one of the record of the marks that are gone."""
    altered.prune(kept=8)
    with altered.opened() as db:
        alterations = [one for one in alterations_of(db) if is_shown(one) and one.table not in OF_REMOVED]
        first_of_column = {(one.table, one.column): one for one in alterations if one.table != "marks"}
        gone = ("UPDATE removals SET {} = {} WHERE marks > 0", "first_mark", "last_mark", "hash")

    async with run_of(altered.home):
        altered.restore()
        assert await altered.verify() == 0
        assert [one.name for one in first_of_column.values() if not await altered.is_found(one)] == []
        for column in gone[1:]:
            with altered.opened() as db:
                db.execute(gone[0].format(column, "'x'" if column == "hash" else f"{column} + 1"))
            assert await altered.verify() == 4
