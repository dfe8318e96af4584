"""The parts of the measuring: line arithmetic, scans, commands, and the file of the known lines."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conch.config import EffectSettings, Settings
from conch.cycle.effects.commands import command_target, program_tested
from conch.cycle.effects.kinds import ActFindings, decided
from conch.cycle.effects.known import KnownLines
from conch.cycle.effects.lines import difference, digest_of, lines_of
from conch.cycle.effects.noise import LETTERS_READ, Trigrams
from conch.cycle.effects.scan import MOST_BYTES, scan
from conch.cycle.effects.state import MeterState
from conch.cycle.effects.topics import resources_after
from conch.cycle.effects.tracker import WorkspaceTracker
from conch.errors import StoreError
from conch.tools import FilePool

FILES = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 5), max_size=8), max_size=3)
PROGRAMS = Settings().rewards.test_programs


@given(before=FILES, after=FILES)
def test_added_and_removed_lines_lead_from_one_state_to_the_other(
    before: dict[str, list[int]], after: dict[str, list[int]]
) -> None:
    """Line for line, over all files; what moved is part of both."""
    found = difference((before.get(name, []), after.get(name, [])) for name in {*before, *after})
    old, new = (Counter(line for lines in files.values() for line in lines) for files in (before, after))

    whole = old.copy()
    whole.update(found.added)
    whole.subtract(found.removed)
    assert +whole == new
    assert found.moved <= min(found.added.total(), found.removed.total())


@given(text=st.text(max_size=200), number=st.integers(0, 10**6))
def test_a_line_is_the_same_with_its_place_before_it(text: str, number: int) -> None:
    """`path:number:` and white space around a line do not count; neither do empty lines."""
    lines = [line for line in lines_of(text) if lines_of(line) == [line]]

    assert lines_of("\n\n".join(f"  src/a.py:{number}: {line} " for line in lines)) == lines


@given(batches=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=400), max_size=6))
def test_the_newest_lines_are_known_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
) -> None:
    """Exactly: a line keeps the place at which it was met first, and the oldest are forgotten."""
    known = KnownLines(tmp_path_factory.mktemp("known") / "k.db", most=1000, pool=FilePool())
    met: dict[int, None] = {}
    for batch in batches:
        known.store(batch, (), MeterState(), learnt=False)
        met |= dict.fromkeys(batch)
        met = dict.fromkeys(list(met)[-1000:])
        assert known.known([*batch, *met, 12345]) == set(met) & {*batch, *met, 12345}
    known.shut()


def test_the_index_survives_a_kill(tmp_path: Path) -> None:
    """What was stored before a SIGKILL is there for the next process, lines and state alike."""
    file = tmp_path / "known.db"
    program = f"""
import os, signal
from pathlib import Path
from conch.cycle.effects.known import KnownLines
from conch.cycle.effects.state import MeterState
from conch.tools import FilePool
known = KnownLines(Path({str(file)!r}), most=1000, pool=FilePool())
for cycle in range(50):
    known.store([cycle], (), MeterState(version=cycle), learnt=False)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    known = KnownLines(file, most=1000, pool=FilePool())

    assert done.returncode == -signal.SIGKILL
    assert known.known(range(60)) == set(range(50))
    assert known.state().version == 49
    known.shut()


DAMAGED_STATES = st.one_of(
    st.binary(max_size=300), st.sampled_from([None, 7, "text", b'{"version":[]}', b'{"version":"x"}', b"\xff{}"])
)


@given(key=st.sampled_from(["meter", "trigrams"]), value=DAMAGED_STATES)
def test_a_damaged_state_is_set_aside(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: bytes | str | int | None
) -> None:
    """For any value, its use is a StoreError at most once; the agent then begins anew and can store."""
    file = tmp_path_factory.mktemp("known") / "known.db"
    stored(file)
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute("DROP TABLE state")
        database.execute("CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
        database.execute("INSERT INTO state VALUES (?, ?)", (key, value))

    uses_after_damage(file)


def test_flipped_bytes_never_end_the_agent(tmp_path: Path) -> None:
    """Anywhere in the file, one byte or 30 of them, or its end cut off: one StoreError, then the file can be used."""
    stored(tmp_path / "whole.db")
    whole = (tmp_path / "whole.db").read_bytes()
    chance = random.Random(7)
    meter = whole.index(b'{"program_acts"')
    for number in range(300):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 30))):
            at = chance.choice((chance.randrange(len(data)), chance.randrange(200), meter + chance.randrange(200)))
            data[at] = chance.randrange(256)
        file = tmp_path / f"{number}.db"
        file.write_bytes(data[: chance.choice((len(data), len(data), chance.randrange(len(data))))])
        uses_after_damage(file)


def stored(file: Path) -> None:
    """A file with lines, words, trigrams and a state."""
    known = KnownLines(file, most=1000, pool=FilePool(), read_before="the tide pool")
    known.trigrams({}).learn(["limpets hold their places"])
    state = MeterState(program_acts=(1, 2), previous_path="a.md", version=4, checks={"goal/g": 4}, low=("disk",))
    known.store(range(500), range(50), state, learnt=True)
    known.shut()


def uses_after_damage(file: Path) -> None:
    """Use a file that may be damaged as a meter does: the first use may fail, and the third must not."""
    failed = 0
    for cycle in range(4):
        known = KnownLines(file, most=1000, pool=FilePool())
        try:
            state = known.state()
            known.trigrams(state.letters).learn(["a line"])
            known.known([cycle])
            known.known_words([cycle])
            known.store([10_000 + cycle], [cycle], state, learnt=True)
        except StoreError:
            failed += 1
            assert file.with_name(f"{file.name}.damaged").exists()
        finally:
            known.shut()
    assert failed <= 1


def test_files_beyond_the_pool_are_closed_and_come_back(tmp_path: Path) -> None:
    """Of many agents only some have their file open; each knows its own lines, and its own trigrams."""
    pool = FilePool(most=2)
    agents = [KnownLines(tmp_path / f"{n}.db", most=1000, pool=pool, read_before="tide pool") for n in range(5)]
    before = len(os.listdir("/proc/self/fd"))
    for n, agent in enumerate(agents):
        agent.trigrams({}).learn([f"limpet{'abcde'[n] * 3}"])
        agent.store([n], (), MeterState(), learnt=True)
    assert len(os.listdir("/proc/self/fd")) <= before + 6

    for n, agent in enumerate(agents):
        assert agent.known(range(5)) == {n}
        assert "abcde"[n] * 3 in agent.trigrams({})
        assert "tid" in agent.trigrams({})
        agent.shut()


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("cat notes/tides.md", "cat notes/tides.md"),
        ("/usr/bin/sort -u data.csv | head -n 3", "sort data.csv"),
        ("X=1 cd tests && python3 -m unittest test_tide.py", "python3 test_tide.py"),
        ("echo fill >> a/b", "echo a/b"),
        ("sort -c .gitignore", "sort .gitignore"),
        ("sleep 1.5", "sleep"),
        ("echo 'unclosed notes/x", "echo notes/x"),
        (" ;; ", None),
    ],
)
def test_a_command_is_about_its_program_and_its_first_file(command: str, target: str | None) -> None:
    """Options, numbers and assignments are no file."""
    assert command_target(command) == target


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python3.12 -B -m unittest -v tests", "python -m unittest"),
        ("cd tests && pytest -q", "pytest"),
        ("make -s test", "make test"),
        ("pytest | tail -n 3", "pytest"),
        ("echo pytest", None),
        ("python3 -c 'import pytest'", None),
        ("make tests", None),
        ("true && pytest", None),
        ("pytest --version", None),
        ("python -m pytest -q --co tests", None),
        ("python -m unittest -vh", None),
        ("pytest --collect-only tests", None),
        ("make -sn test", None),
        ("pytest -n 2 --color=no -k help", "pytest"),
    ],
)
def test_a_test_program_is_recognised_by_its_words(command: str, program: str | None) -> None:
    """At the beginning of a command, after any `cd`; not where its name is an argument, or where it only asks."""
    assert program_tested(command, PROGRAMS) == program


@given(command=st.text(st.sampled_from("a.'\"\\;|&<>() \n=-/1"), max_size=40))
def test_no_command_is_too_odd(command: str) -> None:
    """Any text has a target or none, and is or is no test program."""
    command_target(command)
    program_tested(command, PROGRAMS)


ACTS = st.builds(
    ActFindings,
    cycle=st.just(0),
    answered=st.booleans(),
    progressed=st.booleans(),
    changed=st.booleans(),
    unseen=st.integers(0, 8),
    finished_file=st.booleans(),
    source=st.sampled_from(["file", "program"]),
    noise_read=st.booleans(),
)


@example(acts=[ActFindings(0, unseen=5, source="program")] * 60)
@given(acts=st.lists(ACTS, max_size=120))
def test_programs_never_inform_more_often_than_they_may(acts: list[ActFindings]) -> None:
    """At most 3 of 50 acts are information from programs."""
    state, settings = MeterState(), EffectSettings()
    programs = []
    for cycle, act in enumerate(acts):
        found = ActFindings(**(vars(act) | {"cycle": cycle}))
        kind, state = decided(found, state, settings)
        if kind == "information" and found.source == "program":
            programs.append(cycle)
        assert len([earlier for earlier in programs if earlier > cycle - settings.program_window]) <= 3
        assert (kind == "answer") == found.answered
        assert kind != "progress" or found.progressed


def test_trigrams_tell_noise_once_a_script_was_read() -> None:
    """Before that, in too few letters, or in syllables, nothing is noise."""
    read, noise = Trigrams(), ["qxzvk wjqpf zzkxv bqwpm vxjkq jjqzx wvkqp xqzjk hhqvx"]
    assert not read.noise(noise, least=40, share=0.5)
    while read.letters["LATIN"] < LETTERS_READ:
        read.learn(["the tide falls twice a day and the pools are left between the rocks"])

    assert read.noise(noise, least=40, share=0.5)
    assert not read.noise(["qxzvk wjqpf"], least=40, share=0.5)
    assert not read.noise(["the rocks between the pools and the tide that falls"], least=40, share=0.5)
    assert not read.noise(["潮汐每天两次涨落，" * 10], least=40, share=0.5)
    assert Trigrams(bytes(read), read.letters).noise(noise, least=40, share=0.5)


def test_a_workspace_beyond_the_limit_shows_no_false_change(tmp_path: Path) -> None:
    """What was not visited is neither new nor gone when another directory is visited instead."""
    for directory in ("a", "b", "c"):
        (tmp_path / directory).mkdir()
        for number in range(10):
            (tmp_path / directory / f"f{number}").write_text("x")
    part, other = scan(tmp_path, 25), scan(tmp_path, 15)

    assert part.visited == {"", "a", "b"}
    assert [part.lacks(path) for path in ("a/f1", "a/none", "c/f1", "c/none", "none/f1")] == [
        False, True, False, False, True
    ]  # fmt: skip
    assert not other.lacks("b/f1")


def test_a_tracker_sees_every_difference_once(tmp_path: Path) -> None:
    """A new file, a change of its mode, its removal, a directory; then nothing more."""
    tracker = WorkspaceTracker(tmp_path)
    tracker.look()
    (tmp_path / "x").write_text("a\nb\n")
    made = tracker.look()
    (tmp_path / "x").chmod(0o700)
    mode = tracker.look()
    (tmp_path / "x").unlink()
    (tmp_path / "d").mkdir()
    gone = tracker.look()

    assert (made.paths, made.lines.added, made.new) == (("x",), 2, {digest_of("a"), digest_of("b")})
    assert (mode.paths, mode.content, mode.lines.added) == (("x",), False, 0)
    assert (gone.paths, gone.lines.removed) == (("d", "x"), 2)
    assert tracker.look().paths == ()


@pytest.mark.parametrize("content", [b"a\nb\n", b"a\0b", b"x" * (2**20 + 1)], ids=["text", "binary", "large"])
def test_a_mode_or_a_time_is_no_content(tmp_path: Path, content: bytes) -> None:
    """The path has changed, the content has not; a rewrite with the same size and an old time has, where it is read."""
    (tmp_path / "x").write_bytes(content)
    tracker = WorkspaceTracker(tmp_path)
    tracker.look()
    (tmp_path / "x").chmod(0o700)
    os.utime(tmp_path / "x", (0, 0))
    touched = tracker.look()
    (tmp_path / "x").write_bytes(content[::-1].replace(b"a", b"c"))
    os.utime(tmp_path / "x", (0, 0))
    written = tracker.look()

    assert (touched.paths, touched.content) == (("x",), False)
    assert (written.paths, written.content) == (("x",), len(content) < 2**20)


def test_the_digest_is_that_of_a_first_look(tmp_path: Path) -> None:
    """In any order of writing, removing and touching, also beyond the bytes that are compared."""
    chance, names, largest = random.Random(3), "abcdefghijkl", 0
    tracker = WorkspaceTracker(tmp_path)
    for number in range(50):
        file = tmp_path / chance.choice(names)
        if file.exists() and chance.random() < 0.5:
            chance.choice((file.touch, file.unlink))()
        else:
            file.write_bytes((b"%d " % (1000 + number) * 200 + b"\n") * chance.choice((3, 1000, 1040)))
        tracker.look()
        afresh = WorkspaceTracker(tmp_path)
        afresh.look()
        assert tracker.digest == afresh.digest
        assert [tracker.compares(path) for path in names] == [afresh.compares(path) for path in names]
        largest = max(largest, sum(file.stat().st_size for file in tmp_path.iterdir()))
    assert largest > MOST_BYTES


@given(shares=st.lists(st.floats(0, 1), max_size=30))
def test_low_and_recovered_take_turns(shares: list[float]) -> None:
    """A resource that hovers about a bound says so once."""
    low: tuple[str, ...] = ()
    said = []
    for share in shares:
        low, events = resources_after(low, {"tokens": share})
        said += events

    assert said == ["resource_low", "resource_recovered"] * (len(said) // 2) + ["resource_low"] * (len(said) % 2)
