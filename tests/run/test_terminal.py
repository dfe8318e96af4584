"""A run as a person at a terminal sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from conch.workspace.goals import CREATURES
from tests.run.conftest import CONCH

if TYPE_CHECKING:
    from tests.run.conftest import House, MakeHouse

WIDTH = 80


def seen(house: Any, *arguments: str) -> list[str]:
    """The lines of a command at a terminal of 80 columns, which ends with status 0."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    process = subprocess.Popen(
        [str(CONCH), *arguments, "--home", str(house.home)],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=house.environment | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 65536):
            text += piece
    except OSError:  # so a terminal's end is read on Linux
        pass
    os.close(ours)
    assert process.wait(timeout=30) == 0, text
    return text.decode().splitlines()


def test_a_terminal_is_told_what_the_agent_works_on_and_what_the_run_came_to(make_house: MakeHouse) -> None:
    """Sample project and goals at the start, names above the columns, a reached goal, a summary; in 80 columns."""
    house = make_house(furnished=True)
    script = house.script(
        f'TOOL: filesystem(operation="write", path="SUMMARY.md", content="{" ".join(CREATURES)}")',
        "DO_NOTHING: resting",
    )
    (house.directory / "broken.py").write_text(
        "from conch import rule\n@rule()\ndef broken(action):\n    return 1 / 0\n"
    )

    rules = str(house.directory / "broken.py")
    lines = seen(house, "run", "--cycles", "2", "--interval", "0", "--script", script, "--rules", rules)

    text = "\n".join(lines)
    assert max(cell_len(line) for line in lines) <= WIDTH, text
    assert "it works on the sample project, notes about rock pools" in text
    assert any(line.startswith("  - SUMMARY.md has every heading") for line in lines)
    header = next(line for line in lines if line.startswith("cycle  need"))
    assert header.split() == ["cycle", "need", "action", "outcome", "total", "ms", "scored"]
    rows = [line for line in lines if re.match(r" {4}\d  ", line)]
    assert [row[header.index("outcome") :].split()[0] for row in rows] == ["success", "none"]
    assert any(line.startswith("goal reached: SUMMARY.md has every heading") for line in lines)
    assert text.count("broken could not be scored: ZeroDivisionError") == 1
    assert re.search(r"^2 cycles · mean total [+-]\d\.\d{3} · goals reached 1 of 4$", text, re.MULTILINE)
    assert "look at it: conch status --home" in text
    assert len(lines) < 30, text


def test_a_pipe_is_told_the_same_as_a_terminal(make_house: MakeHouse) -> None:
    """Goals, names above the columns, and the summary; no line is wrapped or cut to a width."""
    house = make_house(furnished=True)
    script = house.script("DO_NOTHING: " + "resting " * 12)
    run = ("run", "--cycles", "1", "--interval", "0", "--script", script, "--without", "dashboard")

    shown = " ".join(" ".join(seen(house, *run)).split())
    piped = house.conch(*run).splitlines()

    assert "it works on the sample project, notes about rock pools and a small program, with 3 goals:" in piped
    assert any(line.startswith("  - SUMMARY.md has every heading") for line in piped)
    header = next(line for line in piped if line.startswith("cycle  need"))
    row = next(line for line in piped if re.match(r" {4}1  ", line))
    assert row[header.index("outcome") :].split()[0] == "none"
    assert re.fullmatch(r"1 cycle · mean total [+-]\d\.\d{3} · goals reached 0 of 4", piped[-3])
    assert piped[-2].startswith("look at it: conch status --home")
    for line in [line for line in piped[1:7] if not line.startswith(("new goal", "metrics"))]:
        assert " ".join(line.split()) in shown


def test_json_has_its_rows_alone(make_house: MakeHouse) -> None:
    """Nothing for a person is among them."""
    house = make_house(furnished=True)

    live = house.run("--cycles", "1", "--script", house.endless())

    assert [row["cycle"] for row in live.rows] == [0]


def test_a_goal_that_is_set_during_the_run_is_news_and_counts(make_house: MakeHouse) -> None:
    """The goal of new material is told when it is set, and the summary counts it beside those of the start."""
    house = make_house(furnished=True)

    lines = seen(
        house, "run", "--cycles", "3", "--interval", "0", "--script", house.endless(), "--without", "dashboard"
    )

    text = "\n".join(lines)
    assert len([line for line in lines if line.startswith("new goal: ")]) == 2, text
    assert re.search(r"goals reached \d of 5$", text, re.MULTILINE), text


def test_of_several_agents_each_is_said_to_have_a_workspace_of_its_own(make_house: MakeHouse) -> None:
    """On a new home a copy of the sample project, which is there after the sentence; later what is in it."""
    house = make_house(furnished=True)
    run = ("run", "--agents", "2", "--interval", "0", "--script", house.endless(), "--without", "dashboard")

    new = " ".join(seen(house, *run, "--cycles", "1"))
    known = " ".join(seen(house, *run, "--cycles", "1"))
    shutil.rmtree(house.workspace / "echo-2")
    (house.workspace / "echo-2").mkdir()
    (house.workspace / "echo-2" / "mine.txt").write_text("mine")
    theirs = " ".join(seen(house, *run, "--cycles", "1"))

    sample = "each works on its own copy of the sample project, notes about rock pools and a small program; echo-1 has"
    assert [sample in re.sub(r"\s+", " ", text) for text in (new, known, theirs)] == [True, True, False]
    assert "each works on the files in its own workspace; echo-1 has 4 goals:" in re.sub(r"\s+", " ", theirs)


def test_without_goals_a_terminal_is_told_how_to_set_one(house: House) -> None:
    """In a directory of a person's own there are none, and its files are what the agent works on."""
    place = ["--workspace", str(house.workspace), "--without", "dashboard"]

    text = "\n".join(seen(house, "run", "--cycles", "1", "--interval", "0", "--script", house.endless(), *place))

    assert "it works on the files in the workspace, with no goal (conch goal add)" in text
    assert "conch ui" not in text
