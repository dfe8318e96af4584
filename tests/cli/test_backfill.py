"""`conch reward backfill`: recorded history through a rule, its scores in the cycles at once."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, strategies

from conch.cli.common import CommonOptions, open_bus
from conch.cli.reward.backfill import backfill
from conch.cli.reward.backfilled import above
from conch.cli.reward.history import since
from conch.config import Settings
from conch.errors import StoreError, UsageError
from conch.experience import ScoredSince, SqliteReader, SqliteStore
from conch.experience.assemble import precedence
from conch.home import Home
from conch_schemas import Part, RewardAssigned, consequence_id, decode, subject_filter

if TYPE_CHECKING:
    from tests.cli.conftest import Conch, InProgress, Life


Printed = Callable[[], str]
HEAD = "from conch import rule\nimport os, signal\nfrom pathlib import Path\n"
TONE = (
    HEAD
    + "@rule(version='3', range=(-1, 1))\ndef tone(action):\n    'How it sounds.'\n    return action.cycle / 1000\n"
)
PART = Part(component="tone", weight=0.5, range=(-1, 1), scorer="tone")
CYCLES = 600


@pytest.fixture
def past(home: Home, life: Life) -> None:
    """Many acts of a stream that is gone; the last hundred expected the rule `tone`, and it never came."""
    early = life.weights()
    parts = tuple(part.model_copy(update={"weight": part.weight / 2}) for part in early.parts)
    identity = consequence_id(life.uid, "run", "w2", type(early))
    late = early.model_copy(update={"id": identity, "version": "w2", "parts": (*parts, PART)})
    facts = [early]
    for cycle in range(CYCLES):
        act = life.act(cycle)
        facts += [*([late] if cycle == CYCLES - 100 else []), act, *life.scores(act)]
    with SqliteStore(home.path / "store.db") as store:
        store.set_epoch("of before")
        store.apply(list(enumerate(facts, 1)), upto=len(facts), now=facts[-1].time + timedelta(hours=1))
        while (due := store.next_deadline()) is not None:
            store.expire(due + timedelta(seconds=1))


@pytest.fixture
def rules(tmp_path: Path) -> Callable[..., list[Path]]:
    """The file that holds this text."""

    def write(text: str = TONE) -> list[Path]:
        (tmp_path / "rules.py").write_text(text)
        return [tmp_path / "rules.py"]

    return write


async def said(home: Home) -> list[RewardAssigned]:
    """What stands on the home's stream."""
    async with open_bus(home, Settings()) as bus:
        found = [decode(delivery.data) async for delivery in bus.read([subject_filter(RewardAssigned)])]
    return [event for event in found if isinstance(event, RewardAssigned)]


@pytest.mark.usefixtures("past")
async def test_the_past_has_the_rules_scores_at_once(
    home: Home, common: CommonOptions, rules: Callable[..., list[Path]], printed: Printed
) -> None:
    """Every act has one; a total moves where the weights of then expect it; a second time there is nothing to do."""
    with SqliteReader(home.path / "store.db") as store:
        early, late = store.cycles.get("echo", 10), store.cycles.get("echo", CYCLES - 1)
    assert early is not None
    assert late is not None

    await backfill("tone", rules=rules(), processes=2, common=replace(common, json=True))
    told = json.loads(printed())
    await backfill("rule-tone", rules=rules(), common=common)
    again = printed()

    assert (told["acts"], told["published"], told["left"], told["joined"]) == (CYCLES, CYCLES, 0, True)
    assert (told["version"], told["statuses"]) == ("3", {"scored": CYCLES})
    assert f"nothing to score: all {CYCLES} acts have a score of tone 3" in again
    assert len(await said(home)) == CYCLES
    with SqliteReader(home.path / "store.db") as store:
        early_now, late_now = store.cycles.get("echo", 10), store.cycles.get("echo", CYCLES - 1)
        assert early_now is not None
        assert late_now is not None
        *_, mark = store.chain.marks_of("echo", str(late_now.action_id))
    assert (early_now.revision, early_now.total) == (early.revision + 1, early.total)
    assert [one.weight for one in early_now.scores if one.component == "tone"] == [0.0]
    assert (late.complete, late_now.complete, late_now.revision) == (False, True, late.revision + 1)
    assert late_now.total != late.total
    assert sum(line.amount for line in late_now.breakdown) == pytest.approx(late_now.total)
    assert "tone" in mark.response


@pytest.mark.usefixtures("past")
async def test_versions_stand_beside_each_other(
    home: Home, common: CommonOptions, rules: Callable[..., list[Path]], printed: Printed
) -> None:
    """--version tells an edited function from before: the newest counts, the older ones are kept."""
    await backfill("tone", rules=rules(), since_=str(CYCLES - 2), common=common)
    edited = rules(TONE.replace("/ 1000", "* 0 - 0.5"))
    await backfill("tone", rules=edited, since_=str(CYCLES - 2), common=common)
    await backfill("tone", rules=edited, since_=str(CYCLES - 2), version="10", common=common)

    assert printed().splitlines()[1].startswith("nothing to score: all 2 acts have")
    with SqliteReader(home.path / "store.db") as store:
        experience = store.cycles.get("echo", CYCLES - 1)
        assert experience is not None
        assert store.backfill.versions(str(experience.action_id), "tone", "tone") == ["10", "3"]
    [counted] = [one for one in experience.scores if one.component == "tone"]
    assert (counted.version, counted.value, counted.weight) == ("10", -0.5, 0.5)


@pytest.mark.usefixtures("past")
async def test_scores_that_are_errors_are_scored_again_by_a_higher_version(
    common: CommonOptions, rules: Callable[..., list[Path]], printed: Printed
) -> None:
    """Where every act has a score it is said how many of them failed, and by which option they are scored again."""
    fails = TONE.replace("return action", f"if action.cycle < {CYCLES - 2}: raise ValueError\n    return action")
    await backfill("tone", rules=rules(fails), since_=str(CYCLES - 4), common=common)
    printed()

    await backfill("tone", rules=rules(), since_=str(CYCLES - 4), common=common)
    again = printed()
    await backfill("tone", rules=rules(), since_=str(CYCLES - 2), common=common)

    assert again.endswith(
        "all 4 acts have a score of tone 3\n2 of them are errors: --version 4 scores again and counts\n"
    )
    assert printed() == "nothing to score: all 2 acts have a score of tone 3\n"


@pytest.mark.usefixtures("past")
async def test_a_version_below_one_that_stands_is_told_that_it_will_not_count(
    common: CommonOptions, rules: Callable[..., list[Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    """With one that would; of acts that have no higher one nothing is said."""
    await backfill("tone", rules=rules(), since_=str(CYCLES - 2), version="1.9", common=common)
    await backfill("tone", rules=rules(), since_=str(CYCLES - 2), version="1.10", common=common)
    silent = capsys.readouterr().err
    await backfill("tone", rules=rules(), since_=str(CYCLES - 4), version="1.9", common=common)

    assert "counting" not in silent
    says = "tone 1.10 stands for some of these acts and goes on counting there, it is above 1.9: "
    assert f"{says}--version 1.11 would count" in capsys.readouterr().err


@example("1" + "0" * 30, "9" * 5000)
@given(strategies.text("0129.a-+", max_size=20), strategies.text("0129.a-", max_size=20))
def test_the_version_that_is_named_counts_more(version: str, other: str) -> None:
    """Than any that there is, and so than all that it counts more than."""
    assert precedence(above(version)) > precedence(version)
    highest = max(version, other, key=precedence)
    assert precedence(above(highest)) > max(precedence(version), precedence(other))


@pytest.mark.usefixtures("past")
async def test_the_built_in_scorer_scores_the_past(home: Home, common: CommonOptions, printed: Printed) -> None:
    """Under a version of its own, beside what it said live; its own version is there already."""
    await backfill("reward", since_=str(CYCLES - 1), version="99", common=replace(common, json=True))

    assert json.loads(printed())["published"] == 1
    [event] = await said(home)
    assert {score.version for score in event.scores} == {event.version} == {"99"}
    assert {"format", "execution", "goal"} <= {score.component for score in event.scores}


@pytest.mark.usefixtures("past")
async def test_during_a_run_the_runs_own_rules_are_known(
    common: CommonOptions,
    in_progress: InProgress,
    rules: Callable[..., list[Path]],
) -> None:
    """The scores go onto the run's stream, for its store to take in."""
    async with in_progress() as bus:
        await backfill("tone", rules=rules(), since_=str(CYCLES - 5), common=common)
        found = [decode(one.data) async for one in bus.read([subject_filter(RewardAssigned)])]

    assert [event.cycle for event in found] == list(range(CYCLES - 5, CYCLES))


WAITING = """
def once(name):
    if not Path(name).exists():
        Path(name).write_text("")
        signal.pause()
@rule(version='3', range=(-1, 1), timeout=60.0)
def tone(action):
    for cycle in CYCLES:
        if action.cycle == cycle:
            once(f"DIRECTORY/{cycle}")
    return 0.5
"""


def ended_at(cycle: int, number: signal.Signals, file: Path, home: Home) -> subprocess.CompletedProcess[str]:
    """A backfill of `tone` that is sent a signal when its rule has been given that cycle."""
    command = [sys.executable, "-m", "conch.cli.main", "reward", "backfill", "tone", "--rules", str(file)]
    process = subprocess.Popen(
        [*command, "--home", str(home.path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while not (file.parent / str(cycle)).exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until, f"the rule was not given cycle {cycle}"
        time.sleep(0.01)
    process.send_signal(number)
    output, error = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, output, error)


@pytest.mark.usefixtures("past")
async def test_killed_anywhere_it_goes_on_where_it_was(
    home: Home, rules: Callable[..., list[Path]], conch: Conch, tmp_path: Path
) -> None:
    """Twice killed while its rule scores: in the end each act has one score, on the stream and in the store."""
    cycles = (90, 450)
    [file] = rules(HEAD + WAITING.replace("DIRECTORY", str(tmp_path)).replace("CYCLES", str(cycles)))

    statuses = [ended_at(cycle, signal.SIGKILL, file, home).returncode for cycle in cycles]
    last = conch("reward", "backfill", "tone", "--rules", str(file), "--json")

    assert statuses == [-signal.SIGKILL] * 2
    assert last.returncode == 0, last.stderr
    told = json.loads(last.stdout)
    assert 0 < told["published"] < CYCLES
    assert told["before"] + told["published"] == CYCLES
    events = await said(home)
    assert len(events) == len({event.id for event in events}) == CYCLES
    with SqliteReader(home.path / "store.db") as store:
        assert store.backfill.unscored("echo", "tone", "3", ScoredSince()).missing == 0


@pytest.mark.usefixtures("past")
async def test_ctrl_c_ends_it_in_order(home: Home, rules: Callable[..., list[Path]], tmp_path: Path) -> None:
    """It says how many are left and how to go on; what was published is published, nothing else is left running."""
    [file] = rules(HEAD + WAITING.replace("DIRECTORY", str(tmp_path)).replace("CYCLES", "(400,)"))

    ended = ended_at(400, signal.SIGINT, file, home)
    events = await said(home)

    assert ended.returncode == 1, ended.stderr
    [left] = re.findall(r"conch: the backfill of tone was ended, (\d+) acts are left: the same command", ended.stderr)
    assert len(events) == CYCLES - int(left)
    assert 0 < len(events) <= 400


async def test_where_nothing_was_recorded_there_is_nothing_to_score(
    home: Home, common: CommonOptions, rules: Callable[..., list[Path]], printed: Printed
) -> None:
    """An empty store is no error, a missing one is; a damaged one is named."""
    with pytest.raises(StoreError, match="there are no experiences at"):
        await backfill("tone", rules=rules(), common=common)
    SqliteStore(home.path / "store.db").close()

    await backfill("tone", rules=rules(), common=common)
    assert "nothing to score: there is no act" in printed()

    (home.path / "store.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="is damaged"):
        await backfill("tone", rules=rules(), common=common)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("tome", {}, "there is no rule tome; the nearest name is tone"),
        ("needs", {}, "needs cannot be scored again by itself: conch reward backfill reward"),
        ("format", {}, "format cannot be scored again by itself"),
        ("tone", {"version": "a b"}, "--version a b: letters, digits"),
        ("tone", {"since_": "yesterday"}, "--since yesterday: neither a cycle's number"),
        ("tone", {"agent": "fox"}, "there is no agent 'fox' here"),
    ],
)
@pytest.mark.usefixtures("past")
async def test_what_cannot_be_is_said(
    name: str, options: Any, says: str, common: CommonOptions, rules: Callable[..., list[Path]]
) -> None:
    """In one sentence, with what there is instead."""
    with pytest.raises(UsageError, match=re.escape(says)):
        await backfill(name, rules=rules(), **options, common=common)


def test_from_when_on() -> None:
    """A cycle's number, a time back, or an ISO time, which is UTC where it names no zone."""
    assert since(None) == ScoredSince()
    assert since("12") == ScoredSince(cycle=12)
    assert since("2026-11-21T09:30") == ScoredSince(time=datetime(2026, 11, 21, 9, 30, tzinfo=UTC))
    assert since("2026-11-21T09:30+02:00").stamp == datetime(2026, 11, 21, 7, 30, tzinfo=UTC).timestamp()
    for text, back in (("90m", timedelta(minutes=90)), ("12h", timedelta(hours=12)), ("7d", timedelta(days=7))):
        time = since(text).time
        assert time is not None
        assert abs(datetime.now(UTC) - back - time) < timedelta(minutes=1)
    assert since("999999w") == ScoredSince()
    for text in ("", "-3", "7 days", "12x", "NaN", "٣"):
        with pytest.raises(UsageError):
            since(text)
