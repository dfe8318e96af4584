"""Every benchmark works: in its quick form it ends well and prints its rows with numbers."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from conch.engine import PACKAGED

OPS = Path(__file__).resolve().parents[2] / "ops"
NAMES = subprocess.run(["sh", OPS / "bench", "--list"], capture_output=True, text=True, check=True).stdout.split()
"""All that `ops/bench` knows."""
ELSEWHERE = ("bus", "run")
"""`bus` has a test of its own, which counts its modes; CI holds `run` against its limit after the tests, alone."""
CHROMIUM = Path("/usr/bin/chromium")
ROW = re.compile(r"\s*\S.*[0-9]")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ELSEWHERE])
def test_a_quick_run_ends_well_and_prints_its_rows(
    name: str, benches: Path, lacking: Callable[[str], NoReturn]
) -> None:
    """Small enough for every change to be held against it; its figures are not to be quoted."""
    if name == "ui" and not CHROMIUM.exists():
        lacking("there is no chromium: install chromium")
    if name == "mind" and importlib.util.find_spec("xllamacpp") is None:
        lacking("there is no engine: pip install 'conch-agent[local]'")
    if name == "mind" and not PACKAGED["smollm2"].file.is_file():
        lacking("there is no model: conch model install smollm2")

    ran = subprocess.run([sys.executable, "-m", name, "--quick"], cwd=benches, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = [line for line in ran.stdout.splitlines() if ROW.match(line)]
    assert len(rows) >= LEAST.get(name, 2), ran.stdout
    assert "nan" not in ran.stdout.split()


LEAST = {"torture": 1, "rewards": 10, "faults": 5, "judge": 6, "ui": 15, "mind": 15, "store": 5, "team": 20}
"""Rows of those that print more, or fewer, than two."""


def test_every_benchmark_is_listed() -> None:
    """A module or package in ops/benches that measures is known to ops/bench, and so runs here."""
    benches = OPS / "benches"
    measuring = {file.stem for file in benches.glob("*.py") if "argparse.ArgumentParser(" in file.read_text()}
    measuring |= {file.parent.name for file in benches.glob("*/__main__.py")}

    assert measuring == set(NAMES)


def test_an_unknown_benchmark_is_refused_with_what_there_is() -> None:
    """At once, in a sentence."""
    ran = subprocess.run(["sh", OPS / "bench", "nothing"], capture_output=True, text=True)

    assert ran.returncode == 2
    assert ran.stderr.startswith("ops/bench: there is no nothing: choose among start cycle ")
