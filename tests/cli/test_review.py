"""`conch review`: people's decisions on rows of training data."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from conch.cli.common import CommonOptions
from conch.cli.data import export
from conch.cli.review import approve, edit, list_, next_, reject, stats
from conch.errors import UsageError
from conch.experience import SqliteReader, SqliteStore
from conch.home import Home
from conch_schemas import ReviewDecided
from tests.dashboard.life import HOSTILE, Life

Printed = Callable[[], str]
CYCLES = 14


@pytest.fixture
def past(home: Home) -> None:
    """Cycles of `echo` on a stream that is gone; the 13th is full of hostile text."""
    life = Life()
    facts = [
        life.weights(),
        life.policy(),
        *(fact for number in range(1, CYCLES) for fact in life.cycle(hostile=number == 13)),
    ]
    with SqliteStore(home.path / "store.db") as store:
        store.set_epoch("of before")
        store.apply(list(enumerate(facts, 1)), upto=len(facts), now=facts[-1].time + timedelta(hours=1))


@pytest.fixture
def as_json(common: CommonOptions) -> CommonOptions:
    """The home of the test, with JSON."""
    return replace(common, json=True)


def waiting(common: CommonOptions, printed: Printed, reviewer: str = "ada", **options: Any) -> dict[str, Any]:
    """What `conch review list` prints."""
    list_(format="kto", reviewer=reviewer, common=common, **options)
    found: dict[str, Any] = json.loads(printed())
    return found


def decisions(home: Home) -> list[ReviewDecided]:
    """What the store has."""
    with SqliteReader(home.path / "store.db") as store:
        return list(store.reviews.walk())


@pytest.mark.usefixtures("past")
async def test_a_row_is_approved_and_does_not_come_again(home: Home, as_json: CommonOptions, printed: Printed) -> None:
    """By the beginning of its hash, without a run; the same words twice are one decision, joined with its mark."""
    before = waiting(as_json, printed)
    row = before["rows"][0]["row"]
    for _ in range(2):
        await approve(row[:12], reviewer="ada", common=as_json)
        said = json.loads(printed())
    after = waiting(as_json, printed)

    assert (said["row"], said["decision"], said["number"]) == (row, "approved", 1)
    assert (after["open"], after["waiting"]) == (before["open"] - 1, before["waiting"] - 1)
    assert row not in [one["row"] for one in after["rows"]]
    assert waiting(as_json, printed, "bob")["open"] == before["open"]
    (event,) = decisions(home)
    with SqliteReader(home.path / "store.db") as store:
        marks = store.chain.marks_of("echo", str(event.action_id))
    assert [mark.event for mark in marks if mark.domain == "review"] == [event.id]


@pytest.mark.usefixtures("past")
async def test_a_rejection_needs_its_reason_and_an_edit_its_reply(
    home: Home, as_json: CommonOptions, printed: Printed, tmp_path: Path
) -> None:
    """Another decision replaces the first, both are kept; a file with the reply does; what is wrong is one sentence."""
    row = waiting(as_json, printed)["rows"][0]["row"]
    with pytest.raises(UsageError, match="a rejection needs its reason"):
        await reject(row, why=" ", common=as_json)
    for options, says in (
        ({}, "either by --text or by --file"),
        ({"file": tmp_path / "none"}, "cannot be read as text"),
        ({"text": " "}, "a correction needs the reply"),
    ):
        with pytest.raises(UsageError, match=says):
            await edit(row, common=as_json, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no row begins with 000000000000"):
        await approve("0" * 12, common=as_json)
    assert decisions(home) == []

    await reject(row, why="made up", reviewer="ada", common=as_json)
    (tmp_path / "right.txt").write_text("REFLECT: read the tests first\n")
    await edit(row, file=tmp_path / "right.txt", reviewer="ada", common=as_json)

    first, second = decisions(home)
    assert (first.decision, first.reason, second.decision, second.number) == ("rejected", "made up", "edited", 2)
    assert second.text == "REFLECT: read the tests first"
    assert len(second.corrected) == 3


@pytest.mark.usefixtures("past")
async def test_secrets_of_a_reviewer_are_redacted(
    home: Home, as_json: CommonOptions, printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of the environment and personal data are in no decision; the corrected row of an export has the hash that
    the decision names."""
    monkeypatch.setenv("FORGE_TOKEN", "sesame-open-1234")
    row = waiting(as_json, printed)["rows"][0]["row"]
    text = "REFLECT: ask ada@example.org for sesame-open-1234"
    await edit(row, text=text, why="she knows: ada@example.org, sesame-open-1234", reviewer="ada", common=as_json)
    printed()
    export(format="kto", out=tmp_path, snapshot="one", jsonl=True, common=as_json)

    (said,) = decisions(home)
    assert (said.text, said.reason) == (
        "REFLECT: ask [EMAIL] for [secret hidden by Conch]",
        "she knows: [EMAIL], [secret hidden by Conch]",
    )
    lines = [json.loads(line) for path in (tmp_path / "one").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert [one["row_id"] for one in lines if one["origin"] == "corrected"] == [said.corrected[0]]


@pytest.mark.usefixtures("past")
async def test_the_next_row_is_printed_with_all_that_is_known_of_it(
    as_json: CommonOptions, common: CommonOptions, printed: Printed
) -> None:
    """In a pipe one row, then the end; hostile text is quoted, its control characters replaced."""
    await next_(format="kto", reviewer="ada", common=as_json)
    shown = json.loads(printed())["card"]
    await next_(format="kto", reviewer="ada", common=common)
    text = printed()

    assert f"row {shown['row'][:12]}  kto  echo" in text
    assert "prompt, user:" in text
    assert "scores: format" in text
    assert f"policy p1, state {shown['state_key']}, acts {shown['acts'][0]}" in text
    for row in [one["row"] for one in waiting(as_json, printed)["rows"]]:
        await approve(row, reviewer="ada", common=as_json)
        await next_(format="kto", reviewer="ada", common=common)
        assert "\x1b" not in (text := text + printed())
    assert text.splitlines()[-1] == "no row of kto waits for ada"
    assert HOSTILE[:25] in text


@pytest.mark.usefixtures("past")
async def test_a_blind_pair_does_not_say_which_was_chosen(as_json: CommonOptions, printed: Printed) -> None:
    """Two replies in an order by the hash, without reward, margin, scores, or the order of the acts."""
    await next_(format="dpo", reviewer="ada", common=as_json)
    open_ = json.loads(printed())["card"]
    await next_(format="dpo", blind=True, reviewer="ada", common=as_json)
    blind = json.loads(printed())["card"]

    assert [one["name"] for one in open_["replies"]] == ["chosen", "rejected"]
    assert [one["name"] for one in blind["replies"]] == ["first", "second"]
    assert {one["text"] for one in blind["replies"]} == {one["text"] for one in open_["replies"]}
    assert all(one["scores"] == [] and one["cycle"] is None for one in blind["replies"])
    assert (blind["reward"], blind["margin"], blind["acts"]) == (None, None, sorted(open_["acts"]))
    assert any(line.startswith("+ ") for line in open_["diff"])


@pytest.mark.usefixtures("past")
async def test_the_agreement_with_each_rule_is_counted(as_json: CommonOptions, printed: Printed) -> None:
    """Rows that both rated, those they agreed on, and kappa where it is defined."""
    stats(common=as_json)
    assert json.loads(printed())["reviewers"] == []
    rows = [one["row"] for one in waiting(as_json, printed)["rows"]]
    await approve(rows[0], reviewer="ada", common=as_json)
    await reject(rows[1], why="no", reviewer="ada", common=as_json)
    printed()

    stats(common=as_json)
    found = json.loads(printed())

    assert found["reviewers"] == [{"reviewer": "ada", "approved": 1, "rejected": 1, "edited": 0}]
    by_rule = {one["component"]: one for one in found["agreement"]}
    assert all(one["rows"] <= 2 and one["agreed"] <= one["rows"] for one in by_rule.values())
    assert {"execution", "needs"} <= by_rule.keys()


class Terminal(Protocol):
    """`conch review next` on a terminal of its own."""

    def __call__(self, options: str, keys: Sequence[tuple[bytes, str]], makes: str = "'REFLECT: think'") -> None:
        """Send each (key, words) once the words were printed; return when the command has ended in order. `makes`:
        what the editor makes of the reply, in Python; the reply is `old`."""


@pytest.fixture
def terminal(home: Home) -> Iterator[Terminal]:
    running: list[subprocess.Popen[bytes]] = []

    def run(options: str, keys: Sequence[tuple[bytes, str]], makes: str = "'REFLECT: think'") -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        command = [sys.executable, "-m", "conch.cli.main", "review", "next", *options.split(), "--home", str(home.path)]
        code = f"import sys; old = open(sys.argv[1]).read(); open(sys.argv[1], 'w').write({makes})"
        editor = f'{sys.executable} -c "{code}"'
        environment = os.environ | {"EDITOR": editor, "TERM": "xterm"}
        environment.pop("VISUAL", None)
        child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        running.append(child)
        os.close(theirs)
        seen = ""
        for key, after in keys:
            while after not in seen:
                try:
                    seen += os.read(ours, 65536).decode(errors="replace")
                except OSError:
                    pytest.fail(f"ended before {after!r}: {seen[-500:]}")
            seen = seen.split(after, 1)[1]
            os.write(ours, key)
        assert child.wait(30) == 0
        os.close(ours)

    yield run
    for child in running:
        child.kill()


@pytest.mark.usefixtures("past")
def test_keys_decide_on_one_row_after_the_other(home: Home, terminal: Terminal) -> None:
    """a approves, r asks for a reason, e opens the editor, s skips, u goes back to the row before, q ends."""
    asks = "[a approve, r reject, e edit, s skip, u back to the one before, q quit]"
    terminal(
        "--format kto --reviewer ada",
        [(b"s", asks), (b"u", asks), (b"a", asks), (b"r", asks), (b"no\n", "reason: "), (b"e", asks), (b"q", asks)],
    )

    assert [(one.reviewer, one.decision, one.reason) for one in decisions(home)] == [
        ("ada", "approved", ""),
        ("ada", "rejected", "no"),
        ("ada", "edited", ""),
    ]
    assert len({one.row for one in decisions(home)}) == 3


@pytest.mark.usefixtures("past")
def test_a_refused_correction_is_edited_further(home: Home, terminal: Terminal) -> None:
    """It is not typed anew."""
    terminal(
        "--format kto --reviewer ada",
        [(b"e", "q quit]"), (b"e", "a correction needs the reply"), (b"q", "q quit]")],
        makes="old + 'REFLECT: more' if old == '  ' else '  '",
    )

    assert [(one.decision, one.text) for one in decisions(home)] == [("edited", "REFLECT: more")]


@pytest.mark.usefixtures("past")
def test_a_blind_pair_is_decided_by_the_better_reply(home: Home, terminal: Terminal) -> None:
    """The preference is recorded: an approval where it is the chosen one, else a rejection with its reason."""
    asks = "[1 or 2 is better, s skip, u back to the one before, q quit]"
    terminal("--format dpo --blind --reviewer ada", [(b"1", asks), (b"2", asks), (b"q", asks)])

    said = {one.preferred: one.decision for one in decisions(home)}
    assert set(said.items()) <= {("chosen", "approved"), ("rejected", "rejected")}
    assert len(decisions(home)) == 2


@pytest.mark.usefixtures("past")
async def test_an_export_has_what_was_approved_and_counts_the_rest(
    home: Home, as_json: CommonOptions, printed: Printed, tmp_path: Path
) -> None:
    """With --review all each row that no person approved is counted; without it the rejected ones alone are left out,
    and the corrected row is in."""
    rows = [one["row"] for one in waiting(as_json, printed)["rows"]]
    await approve(rows[0], reviewer="ada", common=as_json)
    await reject(rows[1], why="no", reviewer="ada", common=as_json)
    await edit(rows[2], text="REFLECT: read it", reviewer="ada", common=as_json)
    printed()

    found = {}
    for policy in ("all", "none"):
        export(format="kto", out=tmp_path / policy, review=policy, common=as_json)
        found[policy] = json.loads(printed())["manifest"]
    with pytest.raises(UsageError, match="is none of all, none and sample:N%"):
        export(format="kto", out=tmp_path / "some", review="some", common=as_json)

    assert found["all"]["rows_in"] == 2
    assert found["all"]["left_out"]["rejected"] == found["none"]["left_out"]["rejected"] == 2
    assert found["all"]["left_out"]["not_reviewed"] == len(rows) - 3
    assert found["none"]["rows_in"] == len(rows) - 1
    assert not (tmp_path / "some").exists()
