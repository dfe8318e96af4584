"""A benchmark's process is never held up by what it prints."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


def test_a_child_that_prints_more_than_a_pipe_holds_goes_on(
    benches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines are taken as they come, also when none is waited for."""
    module = tmp_path / "talkative.py"
    module.write_text(
        "import sys\nprint('ready', flush=True)\nprint('x' * 1000 * 1000)\nopen(sys.argv[1], 'w').close()\n"
        "sys.stdin.read()\n"
    )
    child = importlib.import_module("bus.child")
    monkeypatch.setattr(child, "BENCHES", tmp_path)
    done = tmp_path / "done"

    with child.started("talkative", str(done), seconds=30.0):
        pass

    assert done.exists()
