"""kill -9 of a writer, again and again, at places that nobody chose."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.experience import SqliteReader, SqliteStore
from conch_schemas import ActionTaken, Event, Part, RewardAssigned

if TYPE_CHECKING:
    from tests.store.conftest import Facts


FACTS_OF_A_CYCLE = 9
PROGRESS = Part(component="progress", weight=0.0, task_weight=0.1, range=(-1, 1), scorer="progress")


def the_stream(facts: Any, seq: int) -> Event:
    """What stands at this place of an endless stream: a weight set, then cycles, every other one of a task."""
    if seq == 1:
        return facts.weights((*facts.parts, PROGRESS))
    cycle, place = divmod(seq - 2, FACTS_OF_A_CYCLE)
    fact = facts.cycle(cycle + 1)[place]
    if cycle % 2 == 0 and isinstance(fact, ActionTaken):
        return fact.model_copy(update={"episode": "tests"})
    if cycle % 2 == 0 and isinstance(fact, RewardAssigned):
        return fact.model_copy(update={"scores": (*fact.scores, facts.score("progress", 0.3, "progress"))})
    return fact


def write_until_killed(path: Path, facts: Any, out: int, seed: int) -> None:
    """Read the stream on from where the store stands; say each acknowledged place and each published experience."""
    draw = random.Random(seed)
    with SqliteStore(path) as store:
        _publish(store, out)
        while True:
            first, last = store.position() + 1, store.position() + draw.randint(1, 30)
            batch = [(seq, the_stream(facts, seq)) for seq in range(first, last + 1)]
            store.apply(batch, upto=last, now=facts.now)
            os.write(out, f"at {last}\n".encode())
            _publish(store, out)


def _publish(store: SqliteStore, out: int) -> None:
    for experience in store.unpublished():
        os.write(out, f"published {experience.cycle} {experience.revision}\n".encode())
        store.mark_published([experience.id])


def killed_after(path: Path, facts: Any, lines: int, seed: int) -> list[list[str]]:
    """A writer's words up to its death, which comes some time after it has said `lines` lines."""
    said, out = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(said)
            write_until_killed(path, facts, out, seed)
        finally:
            os._exit(1)
    os.close(out)
    with os.fdopen(said) as words:
        heard = [words.readline() for _ in range(lines)]
        os.kill(child, signal.SIGKILL)
        heard += words.readlines()
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    return [line.split() for line in heard if line.endswith("\n")]


@pytest.mark.torture
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_killed_writer_loses_nothing_and_doubles_nothing(tmp_path: Path, facts: Facts) -> None:
    """After each kill the store stands at or behind what was acknowledged, and holds exactly the stream up to there."""
    path, draw, published = tmp_path / "store.db", random.Random(7), list[tuple[int, int]]()

    for seed in range(12):
        heard = killed_after(path, facts, draw.randint(1, 25), seed)
        acknowledged = max((int(words[1]) for words in heard if words[0] == "at"), default=0)
        published += [(int(words[1]), int(words[2])) for words in heard if words[0] == "published"]
        with SqliteReader(path) as reader:
            place = reader.position()
            last = reader.cycles.last("echo", 100_000)
            cycles = [experience.cycle or 0 for experience in last]
        assert all(experience.complete for experience in last)
        assert place >= acknowledged
        # A cycle's verdict stands with its seventh fact, the novelty.
        assert cycles == list(range(1, (place + 1) // FACTS_OF_A_CYCLE + 1))

    with SqliteStore(path) as store:
        published += [(e.cycle or 0, e.revision) for e in store.unpublished()]
    assert {cycle for cycle, _ in published} == set(cycles)
    assert {revision for _, revision in published} == {1}
    with closing(sqlite3.connect(path)) as db:
        acts, scores = (db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("acts", "scores"))
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert acts - len(cycles) in (0, 1)
    of_tasks = sum(cycle % 2 for cycle in cycles)
    assert 0 <= scores - 5 * len(cycles) - of_tasks < 6
