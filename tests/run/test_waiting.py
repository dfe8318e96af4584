"""What a run says while acts wait for their scores."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from conch.cli.run import pending
from conch.cli.run.output import RunOutput
from conch.experience import PendingActs, StoreLocation

if TYPE_CHECKING:
    from tests.run.conftest import House


Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """`say(seconds, found, end=False)`: what is written when that is found so many seconds after the start, `end`: the
    last act being done."""
    place = StoreLocation(tmp_path / "store.db")
    one = pending.PendingScores(RunOutput(asyncio.Event(), ["echo"], as_json=False), place)

    def at(seconds: float, found: PendingActs | None, *, end: bool = False) -> str:
        monkeypatch.setattr(pending, "time", SimpleNamespace(monotonic=lambda: 1000.0 + seconds))
        if end:
            one.anew()
        one._say(found)
        told = capsys.readouterr()
        assert told.out == ""
        return told.err

    return at


def test_the_same_is_said_again_only_after_a_while(say: Say) -> None:
    """Other parts are said at once, more acts are not; in a pause nothing is, and what was said stays said."""
    tone = PendingActs(12, ("tone",))

    assert say(0, None) == ""
    assert say(1, tone) == "waiting for tone: 12 acts unscored\n"
    assert say(2, PendingActs(13, ("tone",))) == ""
    assert say(3, None) == ""
    assert say(30, tone) == ""
    assert say(31, tone) == "waiting for tone: 12 acts unscored\n"
    assert say(32, PendingActs(1, ("tone", "kind"))) == "waiting for tone, kind: 1 act unscored\n"
    assert say(33, tone) != ""


def test_the_end_of_a_run_says_it_anew(say: Say) -> None:
    """Though it was said just before."""
    tone = PendingActs(2, ("tone",))
    say(0, tone)

    assert say(1, tone, end=True) == "waiting for tone: 2 acts unscored\n"


def test_many_parts_are_counted(say: Say) -> None:
    """One line names five of them, whatever they are called."""
    many = ("a\n\x1b[2Jb", *(f"part-{number}" for number in range(6)))

    told = say(0, PendingActs(3, many))
    assert told.endswith(", part-2, part-3 and 2 more: 3 acts unscored\n")
    assert (told.count("\n"), "\x1b" in told) == (1, False)
    assert say(1, PendingActs(3, ())) == "waiting for a weight set: 3 acts unscored\n"


def test_a_counted_run_says_what_it_waits_for(house: House) -> None:
    """A part that nobody scores: on stderr, once, while stdout has no line; a request to stop ends the wait."""
    house.home.mkdir(parents=True)
    settings = {"rewards": {"parts": {"kind": {"deadline": 60.0, "weight": 0.1}}}, "goals": []}
    (house.home / "conch.yaml").write_text(json.dumps(settings))
    live = house.begin("--cycles", "2", "--script", house.endless())

    live.says("waiting for kind: ")
    live.signal(signal.SIGTERM)
    live.ended()

    assert re.findall(r"^waiting for kind: .*$", live.said, re.MULTILINE) == ["waiting for kind: 2 acts unscored"]
    assert live.lines == []
