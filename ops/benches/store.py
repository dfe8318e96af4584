"""The experience store: durable joins beside a raw log, draws by priority beside TorchRL's, cycles as an Arrow stream.

    ops/bench store [--cycles 2000] [--rows 10000 1000000] [--torchrl PYTHON] [--quick]

Joins: the facts of so many cycles, one in ten twice and each score set up to 40 facts late, in batches of so many
facts to a commit, each on disk before the next. Beside it in turns the same bytes into a table of SQLite in the same
mode (the raw log), and into a file with fdatasync (the disk's limit). Where other programs run the processor time says
more than the pace. Draws: 256 rows by priority and their new priorities, beside TorchRL's buffer with two columns of
numbers, where `--torchrl` names a Python that has it. Medians of 5.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from history import BEGIN, facts_of, fill_store
from runs import fresh_home, fsync_ms, options

import conch
from conch.experience import SqliteReader, SqliteStore
from conch.experience.sample import ExperienceSampler
from conch.home import Home
from conch_schemas import Event, RewardAssigned, wire_form

ROUNDS = 5
BATCH = 256
LATE = 40
"""Facts that a score set may come behind its place."""
PER_COMMIT = {1: 400, 10: 4000, 50: 8000, 500: 16000}
"""Facts to a commit -> facts of a round at most. A live store of one agent at full speed mostly has 10: a cycle."""
PEER = """
import json, logging, sys, time, warnings
logging.disable(logging.INFO)  # its log goes to the same output
warnings.filterwarnings("ignore")
import torch
torch.set_num_threads(1)  # of few rows each call is short: threads would only wait for each other
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer
buffers = {}
for line in sys.stdin:
    rows, draws, batch = json.loads(line)
    if rows not in buffers:
        made = TensorDictPrioritizedReplayBuffer(alpha=0.6, beta=0.4, storage=LazyTensorStorage(rows), batch_size=batch)
        data = {"total": torch.rand(rows), "cycle": torch.arange(rows), "td_error": torch.rand(rows)}
        made.extend(TensorDict(data, batch_size=[rows]))
        buffers[rows] = made
    buffer, drawn, updated = buffers[rows], [], []
    for _ in range(draws):
        start = time.perf_counter()
        found = buffer.sample()
        middle = time.perf_counter()
        found["td_error"] = torch.rand(batch)
        between = time.perf_counter()
        buffer.update_tensordict_priority(found)
        drawn.append(middle - start)
        updated.append(time.perf_counter() - between)
    print(json.dumps([sorted(drawn)[draws // 2], sorted(updated)[draws // 2]]), flush=True)
"""


def life(home: Path, cycles: int) -> list[Event]:
    """The facts of a life, some late and some twice, in the order of their coming."""
    draw = random.Random(1)
    weights, *facts = facts_of(home, cycles)
    placed = [(place + (draw.random() * LATE if isinstance(fact, RewardAssigned) else 0), fact)
              for place, fact in enumerate(facts)]  # fmt: skip
    placed += [(place + LATE, fact) for place, fact in placed if draw.random() < 0.1]
    return [weights, *(fact for _, fact in sorted(placed, key=lambda one: one[0]))]


def batches(facts: Sequence[Event], size: int) -> Iterator[list[tuple[int, Event]]]:
    """The facts in their places, `size` to a batch."""
    places = iter(enumerate(facts, 1))
    while batch := list(islice(places, size)):
        yield batch


def joined(folder: Path, facts: Sequence[Event], size: int) -> tuple[float, float]:
    """(facts a second that the store joins durably, µs of processor time for each)."""
    with SqliteStore(folder / "joined.db") as store:
        start, busy, published = time.perf_counter(), time.process_time(), []
        for batch in batches(facts, size):
            recorded = store.apply(batch, upto=batch[-1][0], now=BEGIN, published=published)
            published = [one.id for one in recorded]
        taken, used = time.perf_counter() - start, time.process_time() - busy
    return len(facts) / taken, used / len(facts) * 1e6


def logged(folder: Path, lines: Sequence[bytes], size: int) -> tuple[float, float]:
    """(facts a second into a table, in the store's own mode, µs of processor time for each)."""
    db = sqlite3.connect(folder / "logged.db", isolation_level=None)
    db.execute("PRAGMA page_size = 4096")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE log (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    start, busy = time.perf_counter(), time.process_time()
    for first in range(0, len(lines), size):
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO log (body) VALUES (?)", [(line,) for line in lines[first : first + size]])
        db.execute("COMMIT")
    taken, used = time.perf_counter() - start, time.process_time() - busy
    db.close()
    return len(lines) / taken, used / len(lines) * 1e6


def written(folder: Path, lines: Sequence[bytes], size: int) -> float:
    """Facts a second into a file."""
    with (folder / "written").open("wb", buffering=0) as file:
        start = time.perf_counter()
        for first in range(0, len(lines), size):
            file.write(b"\n".join(lines[first : first + size]))
            os.fdatasync(file.fileno())
        return len(lines) / (time.perf_counter() - start)


def joins(cycles: int, rounds: int) -> None:
    """Each way in turns, for each size of a commit."""
    with fresh_home() as directory:
        home = Home(Path(directory) / "home")
        home.make()
        facts = life(home.path, cycles)
    lines = [wire_form(fact) for fact in facts]
    for size, some in PER_COMMIT.items():
        pace: dict[str, list[float]] = {"joined": [], "logged": [], "written": [], "join": [], "log": []}
        for _ in range(rounds):
            with fresh_home() as directory:
                folder = Path(directory)
                for name, busy, found in (
                    ("joined", "join", joined(folder, facts[:some], size)),
                    ("logged", "log", logged(folder, lines[:some], size)),
                ):
                    pace[name].append(found[0])
                    pace[busy].append(found[1])
                pace["written"].append(written(folder, lines[:some], size))
        join, log, file, join_busy, log_busy = (statistics.median(found) for found in pace.values())
        print(
            f"  {size} facts to a commit: {join:,.0f} joined durably/s, {join / log:.2f} of the raw log's {log:,.0f}, "
            f"{join / file:.2f} of the disk's {file:,.0f}; {join_busy:.1f} µs of processor time a fact, the log's "
            f"{log_busy:.1f}: {log_busy / join_busy:.2f}",
            flush=True,
        )


def columns(path: Path, rows: int) -> None:
    """A store with so many experiences of which only the columns are made: what a sampler reads."""
    SqliteStore(path).close()
    draw = np.random.default_rng(1)
    totals, skills = draw.normal(0.2, 0.2, rows).tolist(), draw.integers(0, 12, rows).tolist()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN")
    db.executemany(
        "INSERT INTO experiences VALUES "
        "(?, ?, 'echo', ?, 'success', 'TOOL', ?, ?, 1, 0.0, 1, '', ?, ?, 1.0, 1, x'', 0)",
        ((n + 1, 10 * n + 1, n, f"t{skill}", f"t{skill}.do", f"need{skill % 5}", total)
         for n, (skill, total) in enumerate(zip(skills, totals, strict=True))),
    )  # fmt: skip
    db.execute("COMMIT")
    db.close()


def drawn(sampler: ExperienceSampler, draws: int) -> tuple[float, float]:
    """Median seconds of (a batch by priority, its new priorities)."""
    surprise = np.random.default_rng(2)
    took: list[list[float]] = [[], []]
    for _ in range(draws):
        start = time.perf_counter()
        batch = sampler.prioritised(BATCH)
        middle = time.perf_counter()
        errors = surprise.random(BATCH)
        between = time.perf_counter()
        sampler.update(batch.acts, errors)
        took[0].append(middle - start)
        took[1].append(time.perf_counter() - between)
    return statistics.median(took[0]), statistics.median(took[1])


def asked(peer: subprocess.Popen[str], rows: int, draws: int) -> tuple[float, float]:
    """The same of the other process."""
    assert peer.stdin is not None
    assert peer.stdout is not None
    peer.stdin.write(json.dumps([rows, draws, BATCH]) + "\n")
    peer.stdin.flush()
    draw, update = json.loads(peer.stdout.readline())
    return draw, update


def draws(sizes: Sequence[int], rounds: int, torchrl: str | None) -> None:
    """Both in turns, for each number of rows."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    peer = None if torchrl is None else subprocess.Popen([torchrl, "-c", PEER], **pipes)
    for rows in sizes:
        with fresh_home() as directory:
            path = Path(directory) / "store.db"
            columns(path, rows)
            with SqliteReader(path) as reader:
                start = time.perf_counter()
                sampler = ExperienceSampler(reader.sampling, size=rows)
                sampler.refresh()
                opened = time.perf_counter() - start
                took = [
                    (drawn(sampler, 100), (0.0, 0.0) if peer is None else asked(peer, rows, 100)) for _ in range(rounds)
                ]
        ours = [statistics.median(one[0][n] for one in took) * 1e3 for n in (0, 1)]
        theirs = [statistics.median(one[1][n] for one in took) * 1e3 for n in (0, 1)]
        beside = "" if peer is None else f"; TorchRL's {theirs[0]:.2f} and {theirs[1]:.2f} ms"
        print(
            f"  {BATCH} by priority of {rows:,}: {ours[0]:.2f} ms, their new priorities {ours[1]:.2f} ms{beside}; "
            f"the columns read in {opened:.2f} s",
            flush=True,
        )
    if peer is None:
        print("  TorchRL's is left out: --torchrl names no Python that has it")
    else:
        peer.communicate()


def streamed(cycles: int) -> None:
    """Cycles a second as Arrow batches."""
    with fresh_home() as directory:
        home = Home(Path(directory) / "home")
        home.make()
        fill_store(home.path, cycles)
        with conch.open(home.path) as opened:
            start = time.perf_counter()
            rows = sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(opened.cycles()))
            print(f"  {rows:,} cycles as an Arrow stream: {rows / (time.perf_counter() - start):,.0f}/s")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=2000)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--torchrl", help="a Python that has torchrl")
    chosen = options(parser, cycles=60, rows=[2000])
    rounds = 1 if chosen.quick else ROUNDS
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    with fresh_home() as directory:
        print(f"{os.cpu_count()} processors, load {load}, one fsync {fsync_ms(directory):.3f} ms", flush=True)
    joins(chosen.cycles, rounds)
    draws(chosen.rows, rounds, chosen.torchrl)
    streamed(chosen.cycles)


if __name__ == "__main__":
    main()
