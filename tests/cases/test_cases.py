"""Inputs from public bug trackers: each folder has a README with its source and a script `run` that ends with 0."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = sorted(script.parent for script in Path(__file__).parent.glob("*/run"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_input_that_failed_somewhere_is_taken(case: Path) -> None:
    """The script of the case, run with the `conch` and the `python` of this environment, finds what is right."""
    environment = os.environ | {"VENV_BIN": str(Path(sys.executable).parent)}

    done = subprocess.run(["bash", case / "run"], env=environment, capture_output=True, text=True, timeout=180)

    assert done.returncode == 0, (case / "README").read_text() + done.stdout + done.stderr


def test_every_case_names_its_source() -> None:
    """Ten cases; their READMEs say where the input was seen, what is right, and of which kind it is."""
    assert len(CASES) == 10
    for case in CASES:
        assert [line.partition(":")[0] for line in (case / "README").read_text().splitlines()] == [
            "Source",
            "Right",
            "Kind",
        ]
