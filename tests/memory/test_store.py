"""The file of the memory: once is once, bounded, recalled by fit, whole after a kill, a full disk, damage."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conch.errors import StoreError
from conch.memory import LongTermMemory
from conch.memory.models import MOST_SOURCES

if TYPE_CHECKING:
    from tests.memories import MakeMemory

Texts = Callable[[LongTermMemory], list[str]]


def test_the_same_memory_again_changes_nothing(store: LongTermMemory, memory: MakeMemory) -> None:
    """Also in another process, and in any order."""
    some = [memory("The tide is high", number=1), memory("Kelp grows", number=2)]

    assert store.add(some) == 2
    before = store.newest(10)
    assert store.add(reversed(some)) == 0
    assert store.newest(10) == before


def test_a_later_revision_replaces_a_memory_and_an_earlier_one_does_not(
    store: LongTermMemory, memory: MakeMemory, texts: Texts
) -> None:
    """A score that comes late changes what the episode says of its reward."""
    store.add([memory("reward +0.1 of the tide", "episode", 1)])
    store.add([memory("reward +0.9 of the tide", "episode", 1, revision=2)])
    store.add([memory("reward +0.1 of the tide", "episode", 1)])

    assert texts(store) == ["reward +0.9 of the tide"]
    assert [one.memory.text for one in store.recall("tide", 5, now=0)] == ["reward +0.9 of the tide"]
    assert store.text_bytes == len("reward +0.9 of the tide")


def test_the_same_words_again_are_a_further_source_of_one_memory(store: LongTermMemory, memory: MakeMemory) -> None:
    """The first act is named for ever, of the others the newest; the time is that of the newest."""
    store.add([memory("plan.md is a file", "fact", number, at=float(number)) for number in range(40)])

    (found,) = store.newest(10)
    assert (found.count, found.at, len(found.sources)) == (40, 39.0, MOST_SOURCES)
    assert [source.cycle for source in found.sources] == [0, *range(25, 40)]


def test_what_fits_is_recalled_and_what_does_not_is_not(store: LongTermMemory, memory: MakeMemory) -> None:
    """By the words' stems; the best fit first."""
    store.add(
        [
            memory("Hermit crabs change their shells at night", number=1),
            memory("The shell script counts sightings", number=2),
            memory("Kelp grows half a metre a day", number=3),
        ]
    )

    found = store.recall("when does the hermit crab change its shell?", 5, now=0)

    assert [one.memory.sources[0].cycle for one in found] == [1, 2]
    assert found[0].relevance == 1.0
    assert store.recall("what is the and of", 5, now=0) == ()
    assert store.recall("", 5, now=0) == ()


def test_of_two_that_fit_alike_the_recent_and_the_important_come_first(
    store: LongTermMemory, memory: MakeMemory
) -> None:
    """Each of the three factors decides where the others are equal."""
    day = 86_400.0
    store.add([memory("tides rise fast a", number=1, at=0.0), memory("tides rise fast b", number=2, at=60 * day)])
    store.add([memory("crabs walk far c", "fact", 3), memory("crabs walk far d", "note", 4)])

    assert [one.memory.sources[0].cycle for one in store.recall("tides rise", 2, now=61 * day)] == [2, 1]
    assert [one.memory.sources[0].cycle for one in store.recall("crabs walk", 2, now=61 * day)] == [4, 3]


def test_what_the_asker_knows_is_left_out(store: LongTermMemory, memory: MakeMemory) -> None:
    """Memories of this cycle and later ones, and texts that are named."""
    store.add([memory(f"the tide {word}", number=number) for number, word in enumerate(("ebbs", "rises", "turns"))])

    found = store.recall("tide", 5, now=0, before=2, leave_out=["the tide ebbs"])

    assert [one.memory.text for one in found] == ["the tide rises"]


@pytest.mark.parametrize("hostile", ['" OR 1', "NEAR(", "*", "a:b -c ^d", "'; DROP TABLE words", "\0", "é\u202e"])
def test_no_cue_is_a_query_of_its_own(store: LongTermMemory, memory: MakeMemory, hostile: str) -> None:
    """Only words are looked up."""
    store.add([memory("tide or crab", number=1)])

    store.recall(hostile, 5, now=0)
    assert len(store.recall(f"{hostile} tide", 5, now=0)) == 1


def test_a_cue_of_common_words_alone_recalls_the_newest(store: LongTermMemory, memory: MakeMemory) -> None:
    """A word that thousands of memories have is not ranked; the work of a lookup stays bounded."""
    store.add([memory(f"tide number {number}", number=number, at=float(number)) for number in range(4200)])
    store.add([memory("tide of the kraken", number=5000)])

    assert {one.memory.sources[0].cycle for one in store.recall("tide", 3, now=0)} <= set(range(4000, 5001))
    assert store.recall("tide kraken", 3, now=0)[0].memory.text == "tide of the kraken"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["note", "fact", "episode", "message"])), max_size=60),
        min_size=1,
        max_size=6,
    )
)
def test_never_more_than_the_bounds_are_kept_and_the_figures_agree(
    tmp_path_factory: pytest.TempPathFactory, memory: MakeMemory, batches: list[list[tuple[int, str]]]
) -> None:
    """Whatever comes in whatever order: count, bytes and the index belong to the rows."""
    file = tmp_path_factory.mktemp("memory") / "memory.db"
    store = LongTermMemory(file, most=100, most_bytes=4000)
    for batch in batches:
        store.add([memory(f"text {n % 300} " + "x" * (n % 50), kind, n, at=float(n)) for n, kind in batch])  # type: ignore[arg-type]
        assert len(store) <= 100
        assert store.text_bytes <= 4000
    kept = store.newest(1000)
    assert len(store) == len(kept)
    assert store.text_bytes == sum(len(one.text) for one in kept)
    store.close()
    with sqlite3.connect(file) as database:
        database.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        orphans = "SELECT count(*) FROM sources WHERE place NOT IN (SELECT place FROM memories)"
        assert database.execute(orphans).fetchone() == (0,)
    database.close()


def test_the_oldest_of_the_least_important_are_dropped_first(file: Path, memory: MakeMemory, texts: Texts) -> None:
    """A person's words outlast the episodes of a day."""
    store = LongTermMemory(file, most=100)
    store.add([memory("Please water the plants", "message", 1)])
    store.add([memory(f"episode {number}", "episode", number, at=60.0 * number) for number in range(2, 300)])

    assert "Please water the plants" in texts(store)
    assert "episode 299" in texts(store)
    assert "episode 2" not in texts(store)


def test_a_forgotten_memory_does_not_come_back_and_leaves_no_word_in_the_file(
    file: Path, store: LongTermMemory, memory: MakeMemory
) -> None:
    """Not by the same event, not by one that was merged into it."""
    secret = [memory("My number is Zebulon", "message", 1), memory("my number is zebulon!", "message", 2)]
    store.add([*secret, memory("Kelp grows", number=3)])
    (found,) = store.recall("zebulon", 5, now=0)

    assert store.forget([found.memory.id]) == 1
    store.add(secret)

    assert store.recall("zebulon", 5, now=0) == ()
    assert len(store) == 1
    store.close()
    left = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"zebulon" not in left.lower()


def test_duplicates_are_merged_and_contradictions_named_once(
    store: LongTermMemory, memory: MakeMemory, texts: Texts
) -> None:
    """Every memory keeps its sources; the second call of a cycle returns the report of the first."""
    store.add(
        [
            memory("Barnacles live on the wet rock", number=1),
            memory("On the wet rock live barnacles", number=2),
            memory("The tide at noon is 3 metres high", number=3),
            memory("The tide at noon is 4 metres high", number=4),
        ]
    )

    found = store.consolidate(9)

    assert texts(store)[0] == "Barnacles live on the wet rock"
    assert len(store) == 3
    (merged,), (named,) = found.merged, found.contradictions
    assert len(merged.sources) == 2
    assert named.why == "other numbers"
    assert store.consolidate(9) == found
    assert not store.consolidate(10).has_changed
    (rock,) = store.recall("barnacles", 5, now=0)
    assert [source.cycle for source in rock.memory.sources] == [1, 2]
    high = [one.memory for one in store.recall("tide noon", 5, now=0)]
    assert {high[0].id, high[1].id} == {*high[0].contradicted_by, *high[1].contradicted_by}
    assert store.add([memory("On the wet rock live barnacles", number=2)]) == 0


def test_one_consolidation_compares_64_memories_at_most(store: LongTermMemory, memory: MakeMemory) -> None:
    """The next one goes on behind them."""
    store.add([memory(f"word{number} stands alone here", number=number) for number in range(100)])

    assert [store.consolidate().looked_at for _ in range(3)] == [64, 36, 0]


def test_what_was_compared_ahead_is_reported_by_the_consolidation(
    store: LongTermMemory, memory: MakeMemory, file: Path
) -> None:
    """Also where the process ended between the two; a memory that others were merged into twice is named once."""
    rock = ["Barnacles live on the wet rock", "On the wet rock live barnacles", "Live barnacles on the wet rock"]
    store.add(memory(text, number=number) for number, text in enumerate(rock))
    ahead = [store.compare(2), store.compare(0)]
    store.close()
    again = LongTermMemory(file)

    found = again.consolidate(9, 1)

    assert ahead == [2, 0]
    assert found.looked_at == 3
    (merged,) = found.merged
    assert (len(merged.merged), len(merged.sources)) == (2, 3)
    assert again.consolidate(9) == found
    assert not again.consolidate(10).has_changed
    again.close()


def test_no_more_is_compared_ahead_than_one_consolidation_compares(store: LongTermMemory, memory: MakeMemory) -> None:
    """64 together; the others wait for the next one."""
    store.add([memory(f"word{number} stands alone here", number=number) for number in range(100)])

    assert [store.compare(60), store.compare(60), store.compare(60)] == [60, 4, 0]
    assert store.consolidate(1, 10).looked_at == 64
    assert store.consolidate(2, 10).looked_at == 10


KILLED = """
import os, sys
from pathlib import Path
from conch.memory import LongTermMemory
from tests.memories import made
store = LongTermMemory(Path(sys.argv[1]), most=150)
for number in range(100_000):
    store.add([made(f"text {number} of the tide", "note", 3 * number + part, at=float(number)) for part in range(3)])
    if number % 20 == 7:
        store.consolidate(number)
    print(number, flush=True)
"""


@pytest.mark.parametrize("after", [3, 60, 200])
def test_a_kill_while_it_writes_leaves_whole_transactions(file: Path, memory: MakeMemory, after: int) -> None:
    """All that was written is there, no part of the rest; the next process goes on, and writes what was open again."""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE, text=True, cwd=root
    ) as writer:
        assert writer.stdout is not None
        last = next(int(line) for line in writer.stdout if int(line) >= after)
        writer.send_signal(signal.SIGKILL)
    store = LongTermMemory(file, most=150)

    assert f"text {last} of the tide" in [one.text for one in store.newest(1000)]
    assert len(store) == len(store.newest(1000))
    again = [memory(f"text {last} of the tide", "note", 3 * last + part, at=float(last)) for part in range(3)]
    assert store.add(again) == 0
    store.close()
    with sqlite3.connect(file) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        database.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    database.close()


def _damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100 : len(data)] = os.urandom(len(data) - 100)
    file.write_bytes(data)


@pytest.mark.parametrize("damage", [_damage, lambda file: file.write_bytes(b"no database at all")])
def test_a_damaged_file_is_refused_in_a_sentence_or_set_aside(
    file: Path, store: LongTermMemory, memory: MakeMemory, damage: Callable[[Path], None]
) -> None:
    """A command refuses it; an agent begins an empty one, and the damaged file stays beside it."""
    store.add([memory("The tide is high")])
    store.close()
    damage(file)
    with pytest.raises(StoreError, match=r"memory\.db cannot be used: .*; move the file away to begin an empty memory"):
        LongTermMemory(file).newest(5)

    agents = LongTermMemory(file, set_aside=True)
    with pytest.raises(StoreError, match=r"moved to .*memory\.db\.damaged, and an empty memory begins"):
        agents.newest(5)

    assert agents.add([memory("Kelp grows")]) == 1
    assert [one.text for one in agents.newest(5)] == ["Kelp grows"]
    assert file.with_name("memory.db.damaged").exists()
    agents.close()


def test_a_file_of_a_newer_version_is_refused_and_left_as_it_is(
    file: Path, store: LongTermMemory, memory: MakeMemory
) -> None:
    """Also by an agent: it is no damage."""
    store.add([memory("The tide is high")])
    store.close()
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    before = file.read_bytes()

    with pytest.raises(StoreError, match=r"newer version \(layout 99, this one knows 1\): upgrade conch-agent"):
        LongTermMemory(file, set_aside=True).add([memory("x")])

    assert file.read_bytes() == before


def test_two_processes_use_one_file(file: Path, store: LongTermMemory, memory: MakeMemory) -> None:
    """A command forgets what a running agent recalls."""
    store.add([memory("The tide is high"), memory("Kelp grows", number=1)])
    beside = LongTermMemory(file)

    beside.forget([one.memory.id for one in beside.recall("tide", 1, now=0)])
    beside.close()

    assert store.recall("tide", 5, now=0) == ()
    assert store.add([memory("Crabs walk", number=2)]) == 1


def test_without_a_file_there_is_nothing_and_none_is_made(file: Path, store: LongTermMemory) -> None:
    """To look does not write."""
    assert (len(store), store.text_bytes, store.newest(5), store.find("a")) == (0, 0, (), ())
    assert store.recall("tide", 5, now=0) == ()
    assert store.forget(["a"]) == 0
    assert not store.consolidate(1).has_changed
    assert not file.exists()


def test_the_index_of_a_full_memory_does_not_grow_with_what_was_dropped(file: Path, memory: MakeMemory) -> None:
    """A recall reads it: words of dropped memories would make it slower with each month. Half as many again may be in
    it, those that were added since it was merged."""
    store = LongTermMemory(file, most=1_000)

    def indexed() -> int:
        with sqlite3.connect(file) as database:
            return int(database.execute("SELECT sum(length(block)) FROM words_data").fetchone()[0])

    def text(number: int) -> str:
        return " ".join(f"wave{(number * 7919 + word * 104729) % 3000}" for word in range(12)) + f" tide{number}"

    for number in range(0, 12_400, 25):
        store.add([memory(text(one), number=one, at=float(one)) for one in range(number, number + 25)])
    before = indexed()
    store.forget([])
    assert before < 3 * indexed()
    store.close()
