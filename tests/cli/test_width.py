"""What is told on a terminal is as wide as that at most; in a pipe nothing is wrapped."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len

from conch.cli import cycle, goal, mark
from conch.cli.common import CommonOptions
from conch.cli.reward.compare import compare
from conch.consumer import follow
from conch_schemas import RewardAssigned, Score
from tests.cli.conftest import Kept, Life

if TYPE_CHECKING:
    from conch.home import Home


Printed = Callable[[], str]
WIDTH = 80
LONG = "the count of the anemones in the third pool of the northern shore, as it was at low tide " * 3


@pytest.fixture
def wordy(life: Life, kept: Kept) -> Life:
    """A cycle of which everything is told at length, and two rules that differ in it."""
    act, *others = life.cycle(0, LONG)[1:]
    kept(life.weights(), act, *others, *(_score(act, name, value) for name, value in (("tone", 0.5), ("calm", -0.5))))
    return life


def _score(act: Any, name: str, value: float) -> RewardAssigned:
    score = Score(
        component=name, value=value, range=(-1, 1), status="scored", explanation=LONG, scorer=name, version="1"
    )
    return follow(act, RewardAssigned, consumer=name, version="1", scorer=name, scores=(score,))


async def _told(common: CommonOptions, printed: Printed) -> list[str]:
    """What each of the four commands prints."""
    found = []
    cycle.show(0, common=common)
    found.append(printed())
    await goal.add(LONG, file="a.csv", common=common)
    printed()
    await goal.list_(common=common)
    found.append(printed())
    mark.list_(common=common)
    found.append(printed())
    compare("tone", "calm", common=common)
    return [*found, printed()]


@pytest.mark.usefixtures("wordy")
async def test_prose_keeps_to_a_terminals_width_and_loses_no_word(
    common: CommonOptions, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cycle, goals, marks, a comparison: no line is wider, and the words at the end are there."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    for drawn in await _told(common, printed):
        text = re.sub("\x1b\\[[0-9;]*m", "", drawn)  # a table's columns are named in bold
        assert max(cell_len(line) for line in text.splitlines()) <= WIDTH, text
        assert text.split().count("northern") >= 3


@pytest.mark.usefixtures("wordy")
async def test_in_a_pipe_a_fact_is_a_line(common: CommonOptions, printed: Printed) -> None:
    """Whatever the width is said to be: nothing is wrapped or cut."""
    for text in await _told(common, printed):
        assert any(LONG.strip() in line for line in text.splitlines()), text


@pytest.mark.usefixtures("wordy")
def test_a_real_terminal_is_asked_how_wide_it_is(home: Home) -> None:
    """Not the variable COLUMNS: most shells do not hand it on."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    command = [sys.executable, "-m", "conch.cli.main", "cycle", "show", "0", "--home", str(home.path)]
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 65536):
            text += piece
    except OSError:  # so a terminal's end is read on Linux
        pass
    os.close(ours)

    assert process.wait(timeout=30) == 0, text
    lines = text.decode().splitlines()
    assert WIDTH * 3 // 4 < max(cell_len(line) for line in lines) <= WIDTH
    assert sum(line.startswith("  | ") for line in lines) > 8
