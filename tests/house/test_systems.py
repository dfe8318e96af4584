"""What Conch runs on: the versions of Python in its metadata, and no Windows."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SENTENCE = "conch: Windows is not supported: install Conch in WSL, the Windows Subsystem for Linux"
WINDOWS = """
import sys
sys.platform = "win32"
for name in ("fcntl", "pwd", "resource", "termios"):
    sys.modules[name] = None
sys.argv = [{program!r}]
"""


def _on_windows(program: str, code: str) -> subprocess.CompletedProcess[str]:
    """A process that believes to be on Windows, whose modules it lacks."""
    code = WINDOWS.format(program=program) + code
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", ["C:/Scripts/conch.exe", "C:/Scripts/conch", "conch-agent-script.py", "-m"])
def test_the_command_says_that_windows_is_not_supported(program: str) -> None:
    """One sentence on stderr and exit status 1, no traceback."""
    done = _on_windows(program, "from conch.cli.main import main; main()")

    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{SENTENCE}\n")


@pytest.mark.parametrize("module", ["conch", "conch.consumer", "conch.cli.main"])
def test_an_import_says_that_windows_is_not_supported(module: str) -> None:
    """An ImportError that a program may catch, with the same sentence."""
    done = _on_windows("notebook.py", f"import {module}")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: {SENTENCE}"


def test_the_metadata_name_python_3_11_to_3_14() -> None:
    """Without a gap; requires-python names the oldest, and no newest: a newer one may do."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if " :: 3." in line]

    assert named == ["3.11", "3.12", "3.13", "3.14"]
    assert project["requires-python"] == f">={named[0]}"
