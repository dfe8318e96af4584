"""The benchmark of the whole run: its limit, its files, its counts."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

REFERENCE = {"agent": 2.0, "consumers": 2.5, "nats-server": 2.0, "all": 8.0}


def test_the_rise_is_of_the_mean_of_the_sum(benches: Path) -> None:
    """Of the runs' sums alone: a process may cost more where another one costs less."""
    rise = importlib.import_module("run.gate").rise

    assert rise([REFERENCE], REFERENCE) == 1.0
    assert rise([REFERENCE | {"all": 10.4}], REFERENCE) == pytest.approx(1.3)
    assert rise([REFERENCE | {"all": 10.4}, REFERENCE], REFERENCE) == pytest.approx(1.15)
    assert rise([REFERENCE | {"agent": 4.0}], REFERENCE) == 1.0


@pytest.mark.parametrize(
    ("rises", "status", "runs"), [((1.0,), 0, 1), ((1.1, 1.3, 1.0), 0, 3), ((1.3, 1.3, 1.3), 1, 3)]
)
def test_an_unclear_run_is_repeated_and_a_rise_ends_with_one(
    benches: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    rises: tuple[float, ...], status: int, runs: int,
) -> None:  # fmt: skip
    """Up to three runs where the first is above 1.05; more than 1.2 in the mean is said in a sentence."""
    gate = importlib.import_module("run.gate")
    reference = json.loads(gate.REFERENCE.read_text())["shares"]
    left = [gate.Shares(None, 1.0, reference | {"all": reference["all"] * one}) for one in rises]
    monkeypatch.setattr(gate, "_shares", lambda: left.pop(0))
    monkeypatch.setattr(gate, "_show", lambda *_: None)

    assert gate.hold() == status
    assert len(rises) - len(left) == runs
    assert ("times the reference, more than 1.2" in capsys.readouterr().err) is (status == 1)


def test_the_stored_reference_has_what_is_held(benches: Path) -> None:
    """Each process that has a limit has its reference in the file, above zero."""
    gate = importlib.import_module("run.gate")

    shares = json.loads(gate.REFERENCE.read_text())["shares"]

    assert set(shares) == set(gate.SHOWN)
    assert min(shares.values()) > 0


def test_the_yardstick_times_its_turns_alone(benches: Path, tmp_path: Path) -> None:
    """Its processor time is of the turns that were asked for; other work of the process is not in it."""
    yardstick_class = importlib.import_module("run.yardstick").Yardstick
    with yardstick_class(tmp_path) as yardstick:
        assert yardstick.seconds == 0.0
        sum(range(3_000_000))
        yardstick.turn()
        one = yardstick.seconds
        yardstick.turn()

    assert yardstick.turns == 2
    assert 0 < one < yardstick.seconds < 0.05


def test_fsyncs_are_counted_by_process(benches: Path, tmp_path: Path, lacking: Callable[[str], NoReturn]) -> None:
    """Each fsync of the process between the beginning and the end of the context is counted once."""
    if shutil.which("perf") is None:
        lacking("there is no perf: install linux-perf")
    counted = importlib.import_module("run.syncs").counted
    with (tmp_path / "file").open("wb") as file, counted({"own": os.getpid()}) as calls:
        for _ in range(50):
            os.fsync(file.fileno())
    if not calls:
        lacking("the kernel lets this user count no system calls: set kernel.perf_event_paranoid to -1")

    assert calls == {"own": 50}


def test_without_perf_no_fsyncs_are_reported(benches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they cannot be counted there is no figure, not a zero."""
    monkeypatch.setenv("PATH", "")
    counted = importlib.import_module("run.syncs").counted
    with counted({"own": os.getpid()}) as calls:
        pass

    assert calls == {}


def test_pages_of_an_index_count_for_its_table(benches: Path, tmp_path: Path) -> None:
    """The store's bytes are split by table, each with its indexes, and add up to the file."""
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE experiences (act INTEGER PRIMARY KEY, body TEXT)")
        database.execute("CREATE INDEX by_body ON experiences (body)")
        database.executemany("INSERT INTO experiences (body) VALUES (?)", [("x" * 500,) for _ in range(100)])
    database.close()

    tables, stored = importlib.import_module("run.sizes").tables(path)

    assert stored == 100
    assert tables["experiences"] > 2 * 100 * 500
    assert sum(tables.values()) == path.stat().st_size


def test_a_run_that_ends_early_ends_the_benchmark_with_what_it_said(benches: Path) -> None:
    """A number of agents that `conch run` refuses is said in its own words; the benchmark ends with 1."""
    ran = subprocess.run(
        [sys.executable, "-m", "run", "--agents", "99999999"], cwd=benches, capture_output=True, text=True
    )

    assert ran.returncode == 1
    assert "conch run ended with" in ran.stderr
    assert "99999999" in ran.stderr
