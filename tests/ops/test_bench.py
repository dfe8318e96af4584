"""The bench of the bus: it works whole, and says no more than it has measured."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

PUBLISHED = ("512 B", "2048 B")
MODES = {
    **{f"durable publish, {size}": 6 for size in PUBLISHED},
    **{f"durable consume, {size}": 4 for size in PUBLISHED},
    **{f"both at once, {size}": 4 for size in PUBLISHED},
    "stage": 9,
    "pipeline, cycles of 7 events": 6,
    "pipeline, cycles of 7 events, strict": 3,
    **{f"strict, {waiting} waiting": 2 for waiting in ("1", "16", "64", "256", "1,024")},
}
"""Measurement -> its modes."""


@pytest.mark.timeout(400)
def test_a_quick_run_measures_every_mode_and_loses_nothing(
    benches: Path, tmp_path: Path, lacking: Callable[[str], NoReturn]
) -> None:
    """Every mode of every measurement runs, counts its results whole, and has its row."""
    if importlib.util.find_spec("faststream") is None:
        lacking("there is no faststream: pip install -e '.[bench]'")
    file = tmp_path / "figures.json"

    ran = subprocess.run(
        [sys.executable, "-m", "bus", "--quick", "--json", str(file)], cwd=benches, capture_output=True, text=True
    )

    assert ran.returncode == 0, ran.stderr
    found = json.loads(file.read_text())
    counted: dict[str, int] = {}
    for row in found["rows"]:
        counted[row["measurement"]] = counted.get(row["measurement"], 0) + 1
        assert row["median"] > 0
        assert f"| {row['measurement']} |" in ran.stdout
    assert counted == MODES
    assert [delay["offered"] for delay in found["delays"]] == [1, 10, 100, 1000]


@pytest.mark.parametrize("wrong", [["--json", "/nowhere/figures.json"], ["nothing"]])
def test_what_cannot_be_done_is_refused_before_anything_is_measured(benches: Path, wrong: list[str]) -> None:
    """A file that cannot be written, or an unknown measurement, ends the bench at once with one sentence."""
    ran = subprocess.run([sys.executable, "-m", "bus", *wrong], cwd=benches, capture_output=True, text=True)

    assert ran.returncode == 2
    assert "there is no measurement" in ran.stderr or "cannot be written" in ran.stderr
    assert "publish:" not in ran.stderr


def test_a_percentile_is_said_only_where_samples_lie_beyond_it(benches: Path) -> None:
    """Of 600 samples p99 is said and p99.9 is not."""
    figures = _figures(benches)

    figures.delays.append(_module("bus.figures").Delay("delay", 10, [float(each) for each in range(600)]))

    assert figures.markdown().splitlines()[-1] == "| delay | 10/s | 300.00 ms | 594.00 ms | – | 600 |"


def test_a_goal_is_held_against_the_medians(benches: Path) -> None:
    """One outlier neither meets nor misses a goal."""
    figures = _figures(benches)

    for ours, theirs in ((10.0, 5.0), (11.0, 6.0), (1.0, 1.0)):
        figures.add("m", "Conch", ours, ours=True)
        figures.add("m", "peer", theirs, goal=3.0)

    assert "| m | peer | 5/s | 1, 6 | 2.00 × | ≥ 3 ×: missed |" in figures.markdown()


def test_an_acknowledgement_cut_in_two_counts_once(benches: Path) -> None:
    """The server's limit counts each acknowledgement, wherever the network cuts."""
    benches_raw = _module("bus.raw")
    answers = b'{"stream":"CONCH", "seq":1}{"stream":"CONCH", "seq":2}'
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_drip, args=(server, answers), daemon=True).start()

        with benches_raw.Wire(server.getsockname()[1]) as wire:
            counted = sum(wire.count(b'"seq":', 1) for _ in answers)

    assert counted == 2


def _drip(server: socket.socket, answers: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"INFO {}\r\n")
        while b"PING" not in connection.recv(4096):
            continue
        connection.sendall(b"PONG\r\n")
        for at in range(len(answers)):
            connection.sendall(answers[at : at + 1])
        connection.recv(1)


def _figures(_benches: Path) -> Any:
    return _module("bus.figures").Figures()


def _module(name: str) -> Any:
    return importlib.import_module(name)
