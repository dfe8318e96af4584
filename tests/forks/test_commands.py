"""`conch fork`, `cycle diff` and `cycle replay` over a home that a real run has left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conch.experience import SqliteReader

CONCH = Path(sys.executable).with_name("conch")
ACTS = """\
TOOL: filesystem(operation="write", path="new.md", content="hello")
TOOL: filesystem(operation="read", path="README.md")
DO_NOTHING: rest
"""
CANDIDATES = """\
TOOL: filesystem(operation="write", path="other.md", content="other words")
no action
DO_NOTHING: rest
"""
RULE = """\
from conch import rule
from conch_schemas import ActionTaken

@rule(weight=0.1, range=(0.0, 1.0))
def brevity(action: ActionTaken) -> float | None:
    "Whether the reply is short."
    return 1.0 if len(action.raw) < 40 else 0.0
"""

Conch = Callable[..., Any]


def run(place: Path, *arguments: str, status: int = 0, **environment: str) -> str:
    """What a command prints: on stdout, or for another status on stderr."""
    done = subprocess.run(
        [str(CONCH), *arguments, "--home", str(place / "home")],
        env={name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}
        | {"COLUMNS": "200"}
        | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a run of three acts whose decisions were kept, and files beside it."""
    place = tmp_path_factory.mktemp("forked")
    (place / "acts.txt").write_text(ACTS)
    (place / "candidates.txt").write_text(CANDIDATES)
    (place / "brevity.py").write_text(RULE)
    run(
        place, "run", "--script", str(place / "acts.txt"), "--interval", "0", "--without", "dashboard",
        CONCH_FORKS__SNAPSHOTS="always",
    )  # fmt: skip
    return place


@pytest.fixture
def conch(left: Path) -> Conch:
    """Runs a command with `--json` in that home; returns the document."""
    return lambda *arguments: json.loads(run(left, *arguments, "--json"))


def scripted(left: Path, *more: str) -> tuple[str, ...]:
    return "--mind", "scripted", "--script", str(left / "candidates.txt"), *more


def test_a_fork_is_recorded_beside_the_cycle(left: Path, conch: Conch) -> None:
    """Candidates are in the store with their scores; the cycles, their totals and the workspace are what they were, and
    the same fork again makes none."""
    before, files = conch("cycle", "list"), sorted(path.name for path in (left / "home" / "workspace").iterdir())

    first = conch("fork", "1", "--candidates", "3", "--seed", "0", *scripted(left))
    second = conch("fork", "1", "--candidates", "3", "--seed", "0", *scripted(left))

    assert (first["made"], second["made"]) == (3, 0)
    assert first["forks"] == second["forks"]
    assert [one["outcome"] for one in first["forks"]] == ["success", "none", "none"]
    totals = [one["total"] for one in first["forks"]]
    assert totals[0] > totals[2] > totals[1]
    assert first["forks"][0]["paths"] == ["other.md"]
    assert conch("cycle", "list") == before
    assert sorted(path.name for path in (left / "home" / "workspace").iterdir()) == files
    with SqliteReader(left / "home" / "store.db") as reader:
        assert [one.seed for one in reader.forks.of_cycle("echo", 1)] == [0, 1, 2]


def test_a_fork_is_told_in_lines(left: Path) -> None:
    """The recorded act stands first, then each candidate with its scores."""
    told = run(left, "fork", "2", "--candidates", "2", "--seed", "0", *scripted(left))

    assert told.startswith("cycle 2 of echo: do nothing: rest\n")
    assert "seed 0: filesystem.write other.md" in told
    assert "format -1.000" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fork", "99"), "there is no recorded cycle 99 of echo"),
        (("cycle", "replay", "99"), "there is no recorded cycle 99 of echo"),
        (("cycle", "diff", "0", "99"), "there is no recorded cycle 99 of echo"),
    ],
)
def test_a_cycle_that_is_not_there_is_told(left: Path, arguments: tuple[str, ...], said: str) -> None:
    """One sentence, and where the cycles are listed."""
    assert run(left, *arguments, status=2) == f"conch: {said}: conch cycle list shows the last ones\n"


def test_a_script_that_is_too_short_is_told(left: Path) -> None:
    """The seed of a script is the number of its line."""
    told = run(left, "cycle", "replay", "1", "--seed", "7", *scripted(left), status=2)

    assert told == "conch: --seed 7, the number of a line from 0: the script has no more than 3 replies\n"


def test_two_cycles_stand_side_by_side(left: Path, conch: Conch) -> None:
    """Every thing of either cycle is a row with both values, and says whether they are equal."""
    shown = conch("cycle", "diff", "0", "2")

    rows = {(row["section"], row["name"]): row for row in shown["rows"]}
    assert {row["section"] for row in shown["rows"]} == {*("prompt", "decision", "outcome", "scores", "needs", "total")}
    action = rows["decision", "action"]
    assert (action["one"], action["other"], action["same"]) == (
        "filesystem.write new.md hello", "do nothing: rest", False,
    )  # fmt: skip
    assert rows["scores", "format"]["same"]
    assert rows["prompt", "system"]["one"] > 0
    assert "≠  decision: action" in run(left, "cycle", "diff", "0", "2")


def test_a_prompt_is_asked_again_without_acting(left: Path, conch: Conch) -> None:
    """Another mind answers the prompt of then; rules of now score the act of then and the reply; nothing is stored."""
    before = conch("cycle", "list")

    shown = conch("cycle", "replay", "0", "--rules", str(left / "brevity.py"), *scripted(left, "--seed", "2"))

    assert (shown["prompt"], shown["mind"], shown["raw"]) == ("snapshot", "scripted", "DO_NOTHING: rest")
    assert shown["recorded_action"]["tool"] == "filesystem"
    scores = {one["component"]: one for one in shown["scores"]}
    assert scores["format"]["recorded"] == scores["format"]["now"] == scores["format"]["replayed"] == 0.5
    assert scores["execution"]["replayed"] is None
    assert (scores["brevity"]["now"], scores["brevity"]["replayed"]) == (0.0, 1.0)
    assert conch("cycle", "list") == before
    assert "recorded  filesystem.write new.md" in run(left, "cycle", "replay", "0", *scripted(left))
