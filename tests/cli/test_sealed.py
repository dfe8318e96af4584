"""`conch mark verify` against what marks seal: altered and deleted rows, the stream, retention, and signatures."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.cli import mark
from conch.cli.common import CommonOptions
from conch.errors import CheckError, UsageError
from conch.experience import RetentionLimits, SqliteStore, packing
from conch.experience.queries import prune
from conch.home import Home
from conch.witness import GENESIS, CheckpointFile, SignedHead, Signer, key_file, mark_hash, public_key, signing_key
from conch.witness.words import score_sets
from conch_schemas import (
    Goal,
    GoalSet,
    Mark,
    MarkWitnessed,
    MessageReceived,
    NeedsChanged,
    PersonForgotten,
    RewardAssigned,
    source_of,
)
from tests.cli.conftest import PARTS, RECORDED
from tests.cli.test_verify import change
from tests.witnessed import recorded

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Kept, Life, Publish
    from tests.cli.test_reads import Command

Printed = Callable[[], str]
NOW = datetime(2026, 11, 20, 14, tzinfo=UTC)
SECOND = "act = (SELECT act FROM acts WHERE cycle = 1)"


def swapped(table: str, column: str, old: str, new: str) -> str:
    """The statement that replaces one word in a row of the second act."""
    return (
        f"UPDATE {table} SET {column} = CAST(replace(CAST(unpacked({column}) AS TEXT), '{old}', '{new}') AS BLOB) "
        f"WHERE {SECOND}"
    )


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (swapped("acts", "body", "a file", "a fine"), "altered: The act of action "),
        (f"UPDATE acts SET cycle = 7 WHERE {SECOND}", "altered: The act of action "),
        (f"UPDATE acts SET body = 'x' WHERE {SECOND}", "altered: The act of action "),
        (f"DELETE FROM acts WHERE {SECOND}", "gone: The act of action "),
        (
            f"UPDATE scores SET value = 0.4 WHERE component = 'format' AND {SECOND}",
            "altered: The score format by reward",
        ),
        (
            f"UPDATE scores SET explanation = 'who' WHERE component = 'format' AND {SECOND}",
            "altered: The score format by",
        ),
        (
            f"UPDATE scores SET status = 'error' WHERE component = 'needs' AND {SECOND}",
            "altered: The score needs by needs",
        ),
        (
            f"UPDATE scores SET high = 3 WHERE component = 'exploration' AND {SECOND}",
            "altered: The score exploration by",
        ),
        (f"DELETE FROM scores WHERE component = 'execution' AND {SECOND}", "gone: The score execution by reward"),
        (swapped("needs", "body", "0.65", "0.66"), "altered: The change of needs of action "),
        (f"DELETE FROM needs WHERE {SECOND}", "gone: The change of needs of action "),
        (f"UPDATE experiences SET total = total + 1 WHERE {SECOND}", "altered: The total of revision 1 of action "),
        (swapped("experiences", "verdict", '"amount":', '"amount":1'), "altered: The total of revision 1 of action "),
        (swapped("experiences", "verdict", "why", "who"), "altered: The total of revision 1 of action "),
        (f"UPDATE experiences SET revision = 2 WHERE {SECOND}", "altered: Revision 2 of the total of action "),
        *(
            (f"UPDATE experiences SET {column} WHERE {SECOND}", "altered: The row of the experience of action ")
            for column in (
                *("agent = 'other'", "cycle = cycle + 1000", "seq = seq + 1", "outcome = 'failure'"),
                *("kind = 'DO_NOTHING'", "tool = 'shell'", "tool = NULL", "skill = 'shell'", "valid = 0"),
                *("acted = acted + 1", "need = 'curiosity'", "need = NULL"),
            )
        ),
        (f"UPDATE needs SET agent = 'other' WHERE {SECOND}", "altered: The change of needs of action "),
        ("UPDATE marks SET act = NULL WHERE sequence = 3", "altered: The row of a mark of action "),
        (f"DELETE FROM experiences WHERE {SECOND}", "gone: The total of revision 1 of action "),
        *(
            (
                f"INSERT INTO scores SELECT act, scorer, {version}, {component}, seq, status, value, low, high, "
                f"explanation FROM scores WHERE component = 'format' AND {SECOND}",
                f"unwitnessed: The score {name} by reward of action ",
            )
            for version, component, name in (("'2'", "component", "format"), ("version", "'kind'", "kind"))
        ),
        ("DELETE FROM marks WHERE sequence = 3", "missing: Mark 3 is missing."),
    ],
)
async def test_what_was_sealed_and_is_not_so_any_more_is_named(
    filled: Life, home: Home, common: CommonOptions, printed: Printed, sql: str, says: str
) -> None:
    """Each altered or deleted row is found, with its fact and the mark that seals it; exit status 4."""
    change(home, sql)

    with pytest.raises(CheckError) as told:
        await mark.verify(common=common)

    assert any(line.startswith(says) for line in printed().splitlines())
    assert told.value.exit_code == 4


async def test_one_byte_of_any_sealed_body_is_found(
    filled: Life, home: Home, common: CommonOptions, printed: Printed
) -> None:
    """Every 97th byte of the act, the verdict and the mark, one at a time, as it is packed and as it was before."""
    for table, column, where, read in (
        *(("acts", "body", SECOND, read) for read in ("body", "unpacked(body)")),
        *(("experiences", "verdict", SECOND, read) for read in ("verdict", "unpacked(verdict)")),
        *(("marks", "body", "sequence = 3", read) for read in ("body", "unpacked(body)")),
    ):
        with sqlite3.connect(home.path / "store.db") as db:
            packing.register(db)
            (whole,) = db.execute(f"SELECT {read} FROM {table} WHERE {where}").fetchone()
        for at in range(0, len(whole), 97):
            altered = bytes(whole[:at]) + bytes([whole[at] ^ 1]) + bytes(whole[at + 1 :])
            with sqlite3.connect(home.path / "store.db") as db:
                db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (altered,))
            with pytest.raises(CheckError):
                await mark.verify(common=common)
        with sqlite3.connect(home.path / "store.db") as db:
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (whole,))
    printed()

    await mark.verify(common=common)

    assert printed().startswith("6 marks of 3 acts of echo hold")


async def test_a_fact_that_was_said_twice_with_two_contents_is_explained(
    life: Life, kept: Kept, common: CommonOptions, printed: Printed
) -> None:
    """A scorer that was reset may score an act again under its version; the store keeps the first, both have marks."""
    facts = life.cycle(0)
    kept(life.weights(), *facts)
    again = next(fact for fact in life.scores(life.act(0), "another why") if fact.TYPE == "reward.assigned")
    again = again.model_copy(update={"id": "again"})

    kept(again, life.mark(again))
    await mark.verify(common=common)

    assert printed().startswith("3 marks of 1 acts of echo hold")


async def test_a_score_that_came_late_needs_a_mark_of_its_own(
    life: Life, kept: Kept, common: CommonOptions, printed: Printed
) -> None:
    """All marks of an act seal its scores together; a version that none of them seals is named."""
    act = life.act(0)
    scores = life.scores(act, "a file")
    told = [score for fact in scores for score in score_sets(fact)]
    more = told[0].model_copy(update={"version": "2"})
    late = scores[0].model_copy(update={"id": "late", "version": "2", "scores": (more,)})
    assert isinstance(late, RewardAssigned)
    kept(life.weights(), *life.cycle(0))
    kept(late)
    with pytest.raises(CheckError):
        await mark.verify(common=common)
    found = printed()
    kept(life.mark(late), life.mark(recorded(act, [*told, more], PARTS, revision=2, seq=3, time=RECORDED)))
    await mark.verify(common=common)

    assert "unwitnessed: Revision 2 of the total of action" in found
    assert printed().startswith("4 marks of 1 acts of echo hold")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DELETE FROM scores WHERE component = 'starving'", "gone: The score starving by needs of action "),
        ("UPDATE scores SET value = 0.9 WHERE component = 'starving'", "altered: The score starving by needs of"),
    ],
)
async def test_the_score_of_starving_is_sealed(
    life: Life, kept: Kept, home: Home, common: CommonOptions, printed: Printed, sql: str, says: str
) -> None:
    """It comes beside the score of the needs, and a mark seals it like that one."""
    act = life.act(0)
    reward, needs, novelty = life.scores(act)
    assert isinstance(needs, NeedsChanged)
    assert needs.score is not None
    starving = needs.score.model_copy(update={"component": "starving", "value": -0.5})
    scores = [reward, needs.model_copy(update={"beside": (starving,)}), novelty]
    kept(life.weights(), act, *scores, life.mark(act), life.judged(act, scores, seq=2))
    await mark.verify(common=common)
    assert printed().startswith("2 marks of 1 acts of echo hold")
    change(home, sql)

    with pytest.raises(CheckError):
        await mark.verify(common=common)

    assert any(line.startswith(says) for line in printed().splitlines())


async def test_marks_of_pruned_acts_are_reported_and_hold(
    filled: Life,
    life: Life,
    kept: Kept,
    home: Home,
    common: CommonOptions,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mark that stays behind its removed act is no failure; an act that was deleted by hand is."""
    late = life.scores(life.act(0))[0].model_copy(update={"id": "late"})
    kept(life.mark(late))
    monkeypatch.setattr(prune, "KEPT_CYCLES", 1)
    with SqliteStore(home.path / "store.db") as store:
        assert store.prune(RetentionLimits(bytes=1), NOW).acts == 2

    await mark.verify(common=replace(common, json=True))
    found = json.loads(printed())
    assert (found["ok"], found["compared"]["pruned"]) == (True, 3)
    change(home, "DELETE FROM acts WHERE cycle = 2")
    with pytest.raises(CheckError):
        await mark.verify(common=common)


async def test_an_act_whose_rows_a_person_had_removed_has_no_place_to_compare(
    life: Life,
    home: Home,
    kept: Kept,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """The stream has the act's event, and the store's mark of it names an action without rows."""
    act = life.act(1)
    removal = PersonForgotten(
        id="f", source=source_of("echo", life.uid), agent="echo", request="r", actions=(act.action_id,)
    )
    facts = [life.weights(), *life.cycle(0), removal, life.mark(removal), act, life.mark(act)]
    kept(*facts)
    for table in ("acts", "experiences"):
        change(home, f"DELETE FROM {table} WHERE cycle = 1")
    async with in_progress() as bus:
        await publish(bus, *facts)
        with SqliteStore(home.path / "store.db") as store:
            store.set_epoch((await bus.state()).epoch)
        await mark.verify(common=common)

    assert "6 of them with the stream" in printed()


async def test_messages_and_goals_are_compared_with_the_stream(
    filled: Life,
    life: Life,
    home: Home,
    kept: Kept,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """They are on the stream alone: the same event holds, another one under its id is found, a trimmed one is passed
    over."""
    outside = {"source": source_of("echo", life.uid), "agent": "echo"}
    goal = Goal.model_validate({"id": "g", "statement": "All pass.", "check": {"kind": "tests"}})
    message = MessageReceived(id="m", text="Hello", **outside)
    marks = [
        life.mark(message),
        life.mark(GoalSet(id="g", goal=goal, **outside)),
        life.mark(message.model_copy(update={"id": "t"})),
    ]
    kept(*marks)
    async with in_progress() as bus:
        await publish(bus, message)
        await mark.verify(common=common)
        held = printed()
        await publish(bus, GoalSet(id="g", goal=goal.model_copy(update={"statement": "Two pass."}), **outside))
        with pytest.raises(CheckError):
            await mark.verify(common=common)

    assert "1 of them with the stream" in held
    assert "altered: The goal.set g on the stream is not what mark 7 sealed." in printed()


async def test_a_mark_that_differs_from_the_one_on_the_stream_is_found(
    filled: Life,
    life: Life,
    home: Home,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """A chain whose hashes were made anew is told by the marks that the stream still has."""
    with SqliteStore(home.path / "store.db") as store:
        genuine = list(store.chain.marks("echo"))[2]
    rehashed(home)
    async with in_progress() as bus:
        said = {"id": genuine.id, "source": source_of("echo", life.uid), "agent": "echo"}
        await publish(bus, MarkWitnessed(**said, mark=genuine))
        with pytest.raises(CheckError):
            await mark.verify(common=common)

    assert "altered: Mark 2 in the store is not the one on the stream." in printed()


def rehashed(home: Home) -> None:
    """Change a word in the third mark, and make every hash of the chain anew."""
    with sqlite3.connect(home.path / "store.db") as db:
        previous = GENESIS
        packing.register(db)
        for row, body in db.execute("SELECT rowid, unpacked(body) FROM marks ORDER BY sequence").fetchall():
            one = Mark.model_validate_json(body)
            changes = {"previous": previous} | ({"reasoning": "all was well"} if one.sequence == 2 else {})
            one = one.model_copy(update=changes)
            one = one.model_copy(update={"hash": mark_hash(one)})
            previous = one.hash
            db.execute(
                "UPDATE marks SET body = ?, hash = ? WHERE rowid = ?", (one.model_dump_json().encode(), one.hash, row)
            )


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The secret key that the filled home's chain is signed with."""
    return tmp_path / "keys" / "witness.key"


@pytest.fixture
def signed(filled: Life, home: Home, key: Path) -> Path:
    """The file of checkpoints of a home whose chain was signed at its end."""
    with SqliteStore(home.path / "store.db") as store:

        def head(agent: str, sequence: int | None) -> Mark | None:
            marks = list(store.chain.marks(agent))
            return marks[-1 if sequence is None else sequence]

        Signer(signing_key(key), CheckpointFile(home.path), head, lambda: NOW).end(["echo"])
    return home.path / "checkpoints.jsonl"


async def test_a_chain_that_was_made_anew_as_a_whole_is_found_with_the_key(
    signed: Path, key: Path, home: Home, common: CommonOptions, printed: Printed
) -> None:
    """Its hashes link. It is named with the secret or the public key; with no key by the one of this machine's runs,
    and where there is none by the key that the checkpoints name."""
    await mark.verify(key=key, common=common)
    assert "signed up to mark 5 on 2026-11-20T14:00:00+00:00" in printed()
    rehashed(home)

    for one in (key, key.with_suffix(".pub"), None):
        with pytest.raises(CheckError, match="1 found wrong"):
            await mark.verify(key=one, common=common)
        assert "forged: Mark 5 is not the one that was signed on 2026-11-20 14:00:00" in printed()
    make_machine_key(key)
    with pytest.raises(CheckError, match="1 found wrong"):
        await mark.verify(common=common)
    assert "forged: Mark 5 is not the one that was signed on 2026-11-20 14:00:00" in printed()


def make_machine_key(key: Path) -> None:
    """Put the key where runs on this machine have theirs."""
    key_file().parent.mkdir(parents=True, exist_ok=True)
    key_file().write_bytes(key.read_bytes())


async def test_without_a_key_the_one_of_this_machine_is_used(
    signed: Path, key: Path, common: CommonOptions, printed: Printed
) -> None:
    """Checkpoints of another machine's key do not hold without that key: the sentence says which option names it."""
    await mark.verify(common=common)
    assert "by the key that the checkpoints name themselves" in printed()

    make_machine_key(key)
    await mark.verify(common=common)
    assert "signed up to mark 5 on 2026-11-20T14:00:00+00:00 (1 checkpoints)\n" in printed()

    key_file().unlink()
    signing_key(key_file())
    with pytest.raises(CheckError):
        await mark.verify(common=common)
    assert "unsigned: The checkpoints of echo bear another key's signature than" in printed()
    signed.unlink()
    with pytest.raises(CheckError):
        await mark.verify(common=common)
    assert "unsigned: No checkpoint of the chain bears this key's signature." in printed()


async def test_checkpoints_that_were_taken_away_or_altered_are_found(
    signed: Path, key: Path, common: CommonOptions, printed: Printed
) -> None:
    """Without its checkpoint the chain is unsigned; an altered one does not bear the signature."""
    whole = signed.read_text()
    signed.write_text(whole.replace('"count":6', '"count":5'))
    with pytest.raises(CheckError):
        await mark.verify(key=key, common=common)
    assert "forged: The checkpoint at mark 4" in printed()

    signed.unlink()
    with pytest.raises(CheckError):
        await mark.verify(key=key, common=common)
    assert "unsigned: No checkpoint of the chain bears this key's signature." in printed()


async def test_a_tail_that_was_cut_off_with_its_acts_is_found(
    signed: Path, key: Path, home: Home, common: CommonOptions, printed: Printed
) -> None:
    """What is left holds; the checkpoint knows that there was more."""
    for table in ("scores", "needs", "experiences", "acts"):
        change(home, f"DELETE FROM {table} WHERE act = (SELECT act FROM acts WHERE cycle = 2)")
    change(home, "DELETE FROM marks WHERE sequence > 3")

    for one in (key, None):
        with pytest.raises(CheckError):
            await mark.verify(key=one, common=common)

    assert "forged: Mark 5 is missing, which was signed on 2026-11-20 14:00:00." in printed()


def test_a_chain_that_does_not_fit_its_last_checkpoint_is_not_signed_again(signed: Path, key: Path, home: Home) -> None:
    """The next run does not put its signature under a chain that was made anew; a sentence says so once."""
    rehashed(home)
    before = signed.read_text()
    with SqliteStore(home.path / "store.db") as store:
        marks = list(store.chain.marks("echo"))
        signer = Signer(
            signing_key(key), CheckpointFile(home.path), lambda _, at: marks[-1 if at is None else at], lambda: NOW
        )
        signer.end(["echo"])
        signer.end(["echo"])

    assert signed.read_text() == before
    assert len(signer.refused) == 1


def test_the_first_mark_and_every_thousandth_behind_it_are_signed(tmp_path: Path) -> None:
    """Within a run; a mark that does not follow the known head is not taken for one."""
    said: list[SignedHead] = []
    file = CheckpointFile(tmp_path)
    blank = {"id": "i", "agent": "echo", "action_id": None, "origin": "", "domain": "", "stimulus": "", "response": ""}
    blank |= {"reasoning": "", "event": "", "content": ""}
    digests = [GENESIS, *(f"{number + 1:064x}" for number in range(2500))]
    marks = [
        Mark.model_validate(blank | {"sequence": number, "previous": digests[number], "hash": digests[number + 1]})
        for number in range(2500)
    ]
    signer = Signer(signing_key(tmp_path / "witness.key"), file, lambda _, at: marks[0], lambda: NOW)

    signer.stored(marks[:1])
    signer.stored([marks[2000], *marks[1:]])
    said = list(file.read("echo"))

    assert [(one.count, one.hash) for one in said] == [(n, digests[n]) for n in (1, 1001, 2001)]
    assert all(one.is_valid() for one in said)


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """Mode 0600; the second time the same key is read, and the public one beside it is its own."""
    file = tmp_path / "deep" / "witness.key"

    made, again = signing_key(file), signing_key(file)

    assert bytes(made) == bytes(again)
    assert file.stat().st_mode & 0o777 == 0o600
    assert public_key(file) == public_key(file.with_suffix(".pub"))


@pytest.mark.parametrize("text", ["", "conch-witness-secret-key AAAA", "\0\xff", "x" * 5000])
def test_a_key_file_that_holds_none_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    """It is never overwritten: the key that it was meant to hold may have signed chains."""
    file = tmp_path / "witness.key"
    file.write_text(text)

    for read in (signing_key, public_key):
        with pytest.raises(UsageError, match=r"witness\.key"):
            read(file)
    assert file.read_text() == text


def test_a_named_key_that_is_not_there_is_a_usage_error(conch: Command, filled: Life, tmp_path: Path) -> None:
    """Exit status 2, and the place where runs make theirs."""
    found = conch("mark", "verify", "--key", str(tmp_path / "none"))

    assert found.returncode == 2
    assert "there is no such file; conch run makes" in found.stderr
