"""The library as a type checker sees it from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_a_program_that_uses_the_library_is_typed_in_strict_mode() -> None:
    """Events, rows, runs and results have their types; a name that is not public is an error."""
    command = [sys.executable, "-m", "mypy", "--strict", str(HERE / "typed.py")]

    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=280)

    assert done.returncode == 0, done.stdout + done.stderr
