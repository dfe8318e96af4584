"""What the benches share: real runs of `conch` in homes of their own, and the disk's own speed."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CONCH = Path(sys.executable).with_name("conch")
# What is measured is an agent at work: one that is started here, or by what is started here, never sleeps.
os.environ.setdefault("CONCH_CYCLE__SLEEP__FIRST", "0")


def options(parser: argparse.ArgumentParser, **quick: object) -> argparse.Namespace:
    """The command line's options, `--quick` among them: with it, each option not given has the value of `quick`.

    A quick run has every row and takes seconds: whether the benchmark works, no figures to quote.
    """
    parser.add_argument("--quick", action="store_true", help="small: whether it works, no figures to quote")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**quick)
    return parser.parse_args()


@dataclass(frozen=True)
class Timed:
    """A run of `conch run --json`."""

    rows: list[dict]
    first: float
    """Seconds from the command to its first row."""
    whole: float
    """Seconds until it had ended."""


def fresh_home() -> tempfile.TemporaryDirectory[str]:
    """A directory for a home, gone with its context."""
    return tempfile.TemporaryDirectory(prefix="conch-bench-")


def conch_run(home: str, *options: str, env: dict[str, str] | None = None) -> Timed:
    """`conch run --home HOME --json OPTIONS`, timed. Ends the bench where the run fails."""
    began = time.perf_counter()
    command = [str(CONCH), "run", "--home", home, "--json", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | (env or {})
    )
    rows, first = [], 0.0
    assert process.stdout is not None
    for line in process.stdout:
        first = first or time.perf_counter() - began
        rows.append(json.loads(line))
    _, said = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: {said}")
    return Timed(rows, first, time.perf_counter() - began)


def fsync_ms(directory: str, times: int = 300) -> float:
    """Median milliseconds of appending 512 bytes and fsync, in `directory`."""
    path = Path(directory) / "fsync-probe"
    taken = []
    with path.open("wb") as file:
        for _ in range(times):
            file.write(b"x" * 512)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            taken.append((time.perf_counter() - began) * 1000)
    path.unlink()
    return statistics.median(taken)


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
