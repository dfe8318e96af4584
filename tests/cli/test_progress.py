"""How far long work is, as a terminal shows it."""

from __future__ import annotations

import io
import sys

import pytest

from conch.cli.progress import counting, moving


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bytes_have_a_bar_with_rate_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each of what is done, on stderr."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := _Terminal())
    with moving() as told:
        told("packing [/nope]", 2**20, 2**21)
        told("packing [/nope]", 2**21, 2**21)
        told("packing CONCH", 1, 0)

    drawn = screen.getvalue()
    assert "packing [/nope]" in drawn
    assert "2.0/2.0 MiB" in drawn
    assert "packing CONCH" in drawn
    assert "0:00:00" in drawn


def test_counts_have_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many of how many."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := _Terminal())
    with counting() as bar:
        task = bar.add_task("brevity 1", total=50)
        bar.advance(task, 50)

    assert "50/50" in screen.getvalue()


def test_in_a_pipe_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither on stderr nor on stdout."""
    with moving() as told, counting() as bar:
        told("packing", 1, 2)
        bar.add_task("x", total=1)

    assert capsys.readouterr() == ("", "")
