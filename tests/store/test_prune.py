"""Pruning on disk: how large the file gets, what a kill leaves, when the service prunes, what it says."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import string
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from conch.config import RewardSettings, Settings
from conch.config.model import StoreRetentionSettings
from conch.disk import DiskWatch, disk_use
from conch.experience import MemoryStore, RetentionLimits, SqliteReader, SqliteStore
from conch.experience.queries import prune
from conch.views.witness.verification import chain_start
from conch.witness import ChainState, seal, verify
from conch_schemas import ActionTaken, Event, MarkWitnessed, RewardAssigned
from conch_services.store.pruning import PruningSchedule, retention
from tests.witnessed import recorded

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


FACTS_OF_A_CYCLE = 10


def cycles(facts: Any, prompt: str = "what now?") -> Iterator[list[Event]]:
    """Cycle after cycle, with the marks that a witness makes of the act and of its score set."""
    state, number = ChainState(), 0
    while True:
        number += 1
        events: list[Event] = []
        for fact in facts.cycle(number):
            if isinstance(fact, MarkWitnessed):
                continue
            events.append(facts.decided(number, prompt=prompt) if fact.TYPE == "action.decided" else fact)
            if isinstance(fact, ActionTaken):
                act = fact
            if isinstance(fact, ActionTaken | RewardAssigned):
                state, mark = seal(state, fact)
                if isinstance(fact, RewardAssigned):
                    state, mark = seal(state, recorded(act, fact.scores))
                assert mark is not None
                events.append(facts.mark(number).model_copy(update={"id": mark.id, "mark": mark}))
        yield events


def found_wrong(store: SqliteReader) -> list[Any]:
    """What `conch mark verify` finds."""
    start = chain_start(store.retention.removals("echo"))
    acts = [action for action, _ in store.chain.acts("echo")]
    return list(verify(store.chain.marks("echo"), acts, (), {"echo": start} if start else {}))


def test_a_bounded_store_stays_bounded(
    tmp_path: Path, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over 500 cycles of some 25 KB each, 4 MB are kept: in use, and in the file, which uses its free pages again."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 20)
    noise = "".join(random.Random(0).choices(string.printable, k=24_000))  # which packing shortens by a fifth alone
    keep, path, used, size = RetentionLimits(bytes=4_000_000), tmp_path / "store.db", [0], [0]
    with SqliteStore(path) as store:
        shared_events(store, facts.weights())
        for number, events in enumerate(cycles(facts, prompt=noise), start=1):
            store.mark_published([one.id for one in shared_events(store, *events)])
            while number % 10 == 0 and store.prune(keep, facts.now).acts:
                pass
            if number % 10 == 0:
                used.append(store.retention.bytes_used())
                size.append(path.stat().st_size)
            if number == 500:
                break

        assert store.charts.figures("echo", 9999).count == 500
        assert found_wrong(store) == []
    assert max(used) <= keep.bytes
    assert max(size) <= 1.2 * keep.bytes
    assert 100 < len([*SqliteReader(path).chain.acts("echo")]) < 200


def write_and_prune(path: Path, facts: Any, out: int, seed: int) -> None:
    """Join cycle after cycle from where the store stands, and prune in between; say each acknowledged cycle."""
    draw = random.Random(seed)
    prune.KEPT_CYCLES = 5  # type: ignore[misc]
    with SqliteStore(path) as store:
        if store.position() == 0:
            store.apply([(1, facts.weights())], upto=1, now=facts.now)
        done = (store.position() - 1) // FACTS_OF_A_CYCLE
        for number, events in enumerate(cycles(facts), start=1):
            if number <= done:
                continue
            first = store.position() + 1
            store.apply(list(enumerate(events, start=first)), upto=first + len(events) - 1, now=facts.now)
            os.write(out, f"{number}\n".encode())
            if draw.random() < 0.5:
                store.prune(RetentionLimits(seconds=1.0), facts.now + timedelta(days=1))


@pytest.mark.torture
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_kill_while_pruning_leaves_a_whole_store(tmp_path: Path, facts: Facts) -> None:
    """After each kill every acknowledged cycle is there or in the sums, once; the marks verify; the file is whole."""
    path, draw = tmp_path / "store.db", random.Random(3)

    for seed in range(10):
        said, out = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(said)
                write_and_prune(path, facts, out, seed)
            finally:
                os._exit(1)
        os.close(out)
        with os.fdopen(said) as words:
            heard = [words.readline() for _ in range(draw.randint(5, 20))]
            os.kill(child, signal.SIGKILL)
            heard += words.readlines()
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL

        acknowledged = max(int(line) for line in heard if line.endswith("\n"))
        with SqliteReader(path) as store:
            known = (store.position() - 1) // FACTS_OF_A_CYCLE
            kept = [cycle for _, cycle in store.chain.acts("echo")]
            assert known >= acknowledged
            assert store.charts.figures("echo", 99_999).count == known
            assert kept == list(range(kept[0], known + 1))
            assert sum(one.acts for one in store.retention.removals("echo")) == kept[0] - 1
            assert store.retention.came_late() == 0
            assert found_wrong(store) == []
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert kept[0] > 1


def test_a_store_made_anew_from_the_stream_is_pruned_alike(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same facts read once more into an empty store, and pruned: the same rows and the same sums."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 3)
    events = [facts.weights(), *(fact for _, some in zip(range(20), cycles(facts), strict=False) for fact in some)]
    stream = list(enumerate(events, start=1))
    first, second = MemoryStore(), MemoryStore()
    for at in range(0, len(stream), 15):
        some = stream[at : at + 15]
        first.apply(some, upto=some[-1][0], now=facts.now)
        first.prune(RetentionLimits(seconds=1.0), facts.now)
    while first.prune(RetentionLimits(seconds=1.0), facts.now).acts:
        pass

    second.apply(stream, upto=len(stream), now=facts.now)
    while second.prune(RetentionLimits(seconds=1.0), facts.now).acts:
        pass

    assert second.cycles.last("echo", 99) == first.cycles.last("echo", 99)
    assert list(second.chain.marks("echo")) == list(first.chain.marks("echo"))
    assert second.retention.removals("echo") == first.retention.removals("echo")
    assert second.charts.figures("echo", 99) == first.charts.figures("echo", 99)
    first.close()
    second.close()


def test_the_settings_bound_the_store_and_spare_late_scores() -> None:
    """Nothing by default; days and GiB as `bus.keep` spells them; what scores are waited for stays."""
    keep = StoreRetentionSettings(days=2, gib=0.5)
    rewards = RewardSettings(deadline=400.0)
    some = Settings.model_validate({"store": {"keep": keep}, "rewards": rewards})

    assert retention(Settings()) is None
    assert retention(some) == RetentionLimits(seconds=172_800.0, bytes=2**29, grace=400.0)


def test_a_round_says_what_it_removed_and_what_came_late(
    tmp_path: Path, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line for a round, not one for a step; the next round says what came for the acts that are gone."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 3)
    settings = Settings.model_validate({"store": {"keep": {"days": 0.1}}})
    store = MemoryStore()
    shared_events(
        store, facts.weights(), *(fact for _, some in zip(range(20), cycles(facts), strict=False) for fact in some)
    )
    monkeypatch.setattr("conch_services.store.pruning.ROUND_SECONDS", 0.0)
    pruning = PruningSchedule(settings, tmp_path)

    with capture_logs() as log:
        for _ in range(4):
            pruning.step(store)
        shared_events(store, facts.reward(1, facts.score("joy", 1.0, "human"), scorer="human"))
        pruning.step(store)

    said = [line for line in log if line["event"] != "disk.filling"]
    assert [(line["event"], line.get("acts"), line.get("facts")) for line in said] == [
        ("store.pruned", 17, None),
        ("store.came_late", None, 1),
    ]
    store.close()


def test_a_filling_disk_is_warned_of_once_per_crossing() -> None:
    """At 80 %, and again only after it was below 75 %."""
    watch = DiskWatch()

    crossed = [watch.crossed(share) for share in (0.5, 0.81, 0.9, 0.76, 0.85, 0.74, 0.79, 0.80, 0.99)]

    assert crossed == [False, True, False, False, False, False, False, True, False]


def test_the_service_says_what_to_do_about_a_filling_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether retention is on or off: the log names the disk, how full it is, and what bounds it."""
    full = shutil.disk_usage(tmp_path)._replace(used=85 * 2**30, free=15 * 2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    pruning = PruningSchedule(Settings(), tmp_path)

    with capture_logs() as log, MemoryStore() as store:
        pruning.step(store)
        pruning.step(store)

    [line] = log
    assert (line["event"], line["log_level"], line["share"]) == ("disk.filling", "warning", 0.85)
    assert f"the disk of {tmp_path} is 85% full, 15.0 GiB are free" in line["why"]
    assert "store.keep.gib" in line["why"]
    assert "bus.keep.gib" in line["why"]
    assert disk_use(tmp_path / "not" / "there").path == str(tmp_path)
