"""The consumer, and each episode's log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.rewards.progress import EpisodeLogRow, ProgressState
from conch_schemas import ActionTaken, RewardAssigned, TaskProgressed, TaskStep, decode, encode
from conch_services.progress.consumer import progress
from conch_services.progress.log import MOST_BYTES, MOST_EPISODES, EpisodeLogs
from tests.rules.progress.conftest import fact


class _Home:
    """A consumer over a home, as often as it is started."""

    def __init__(self, path: Path) -> None:
        self.path, self.reports = path, list[str]()

    def start(self, facts: Sequence[Any], state: ProgressState | None = None) -> tuple[ProgressState, list[Any]]:
        context = ServiceContext(Settings(), self.path, lambda said: self.reports.append(said.why))
        spec = bind(progress, context)
        state, said = state or ProgressState(weighed=True), []
        for one in facts:
            state, assigned = spec.handle(state, decode(encode(one)))
            said.append(assigned)
        return state, said

    def file(self, episode: str = "e", name: str = "rewards.jsonl") -> Path:
        return self.path / "agents" / "echo" / "episodes" / episode / name

    def rows(self, episode: str = "e") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file(episode).read_text().splitlines()]


@pytest.fixture
def home(tmp_path: Path) -> _Home:
    """A home that is empty."""
    return _Home(tmp_path)


def _episode(steps: int) -> list[TaskProgressed]:
    """An episode of so many steps, of which the last one ends it."""
    return [
        fact(number, test_pass_rate=(number + 1) / steps, tokens_used=100 * (number + 1), terminal=number == steps - 1)
        for number in range(steps)
    ]


def test_each_step_is_a_score_and_a_line(home: _Home) -> None:
    """The score belongs to the act and follows from the fact; the line has the step's figures, the last one its end."""
    facts = _episode(2)
    _, said = home.start(facts)

    assert all(isinstance(one, RewardAssigned) for one in said)
    assert [(one.action_id, one.causation_id, one.scorer) for one in said] == [
        (fact.action_id, fact.id, "progress") for fact in facts
    ]
    assert home.rows() == [
        {
            "step": 0,
            "delta_pass_rate": 0.5,
            "delta_tokens": 100,
            "phase_advance": False,
            "switch_committed": False,
            "r_step": pytest.approx(0.34),
            "cycle": 0,
            "test_pass_rate": 0.5,
        },
        {
            "step": 1,
            "delta_pass_rate": 0.5,
            "delta_tokens": 100,
            "phase_advance": False,
            "switch_committed": False,
            "r_step": pytest.approx(1.34),
            "terminal": True,
            "cycle": 1,
            "test_pass_rate": 1.0,
        },
    ]


def test_a_step_of_nobodys_act_has_a_line_without_a_cycle(home: _Home) -> None:
    """The six figures alone; those of an act stand behind them, in this order."""
    facts = [
        fact(0, act=False, test_pass_rate=0.25),
        fact(1, act=False, test_pass_rate=0.5),
        fact(7, test_pass_rate=0.5, terminal=True),
    ]
    home.start(facts)

    six = ["step", "delta_pass_rate", "delta_tokens", "phase_advance", "switch_committed", "r_step"]
    assert [list(row) for row in home.rows()] == [six, [*six, "terminal", "cycle", "test_pass_rate"]]
    assert (home.rows()[1]["cycle"], home.rows()[1]["test_pass_rate"]) == (7, 0.5)


@pytest.mark.parametrize("known", range(5))
def test_a_line_stands_once_over_a_restart(home: _Home, known: int) -> None:
    """Whatever part of the past is read again after a crash, and with whatever state, each step has one line."""
    facts = _episode(4)
    state, _ = home.start(facts[:known])
    home.start(facts[:known])
    home.start(facts[known:], state)

    assert [row["step"] for row in home.rows()] == [0, 1, 2, 3]


def test_what_a_crash_left_of_a_line_is_cut_off(home: _Home) -> None:
    """A torn line is no line: the step is written whole."""
    facts = _episode(3)
    state, _ = home.start(facts[:1])
    with home.file().open("a") as stream:
        stream.write('{"step": 1, "delta')
    home.start(facts[1:], state)

    assert [row["step"] for row in home.rows()] == [0, 1, 2]


def test_a_log_that_cannot_be_written_is_said_and_harms_nothing(home: _Home) -> None:
    """Scores go on; it is said once, and that it is over once it can be written again."""
    (home.path / "agents").write_text("in the way")
    context = ServiceContext(Settings(), home.path, lambda said: home.reports.append(said.why))
    spec, state = bind(progress, context), ProgressState(weighed=True)
    said = []
    for step in _episode(4):
        if step.id == "p2":
            (home.path / "agents").unlink()
        state, assigned = spec.handle(state, step)
        said.append(assigned)

    assert [one.scores[0].status for one in said] == ["scored"] * 4
    assert [row["step"] for row in home.rows()] == [2, 3]
    assert [bool(why) for why in home.reports] == [True, False]
    assert "its steps are not logged" in home.reports[0]


def test_an_episodes_name_leads_nowhere_else(home: _Home) -> None:
    """A name that is no file's name, or another directory's, goes by its digest."""
    for number, name in enumerate(["../../../x", "..", "", "/etc", "a/b", "\x00", "é" * 500]):
        home.start([fact(number, name, test_pass_rate=1.0)])

    logs = list((home.path / "agents" / "echo" / "episodes").iterdir())
    assert len(logs) == 7
    assert all(len(found.name) == 32 for found in logs)
    assert {found.name for found in home.path.iterdir()} == {"agents"}


def test_a_long_log_makes_way_and_its_steps_go_on(home: _Home) -> None:
    """The file before is kept once; what stands in either is not written again."""
    logs = EpisodeLogs(home.path, lambda _: None)
    row = EpisodeLogRow("e", 0, 0.0, 0.0, False, False, 0.0, False, None, 0.0)
    logs.write("echo", row)
    with home.file().open("r+b") as stream:
        stream.truncate(0)
        stream.write(b" " * (MOST_BYTES - 100) + b"\n")
    logs.write("echo", row._replace(step=1))
    home.file(name="rewards.1.jsonl").write_text('{"step": 0}\n')
    anew = EpisodeLogs(home.path, lambda _: None)
    anew.write("echo", row)
    anew.write("echo", row._replace(step=2))

    assert [found["step"] for found in home.rows()] == [1, 2]


def test_a_log_that_just_made_way_still_knows_its_last_step(home: _Home) -> None:
    """A crash between the two leaves no log but the one before: its rows are not written again."""
    row = EpisodeLogRow("e", 0, 0.0, 0.0, False, False, 0.0, False, None, 0.0)
    EpisodeLogs(home.path, lambda _: None).write("echo", row)
    home.file().rename(home.file(name="rewards.1.jsonl"))
    anew = EpisodeLogs(home.path, lambda _: None)
    anew.write("echo", row)
    anew.write("echo", row._replace(step=1))

    assert [found["step"] for found in home.rows()] == [1]


def test_half_a_line_is_not_left_before_the_next(home: _Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with room for half of it: that is said and cut off, and the next line stands by itself."""
    row = EpisodeLogRow("e", 0, 0.0, 0.0, False, False, 0.0, False, None, 0.0)
    logs = EpisodeLogs(home.path, lambda said: home.reports.append(said.why))
    whole = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda handle, line: whole(handle, line[:10]))
        logs.write("echo", row)
    logs.write("echo", row._replace(step=1))

    assert [found["step"] for found in home.rows()] == [1]
    assert "no room" in home.reports[0]


def test_the_oldest_logs_go(home: _Home) -> None:
    """An agent keeps the logs of its last episodes; what else lies in a directory is left alone."""
    state, _ = home.start([fact(0, "kept")])
    (home.file("kept").parent / "mine.txt").write_text("a note")
    home.start([fact(number, f"e{number}") for number in range(1, MOST_EPISODES + 5)], state)

    there = {found.name for found in home.file().parent.parent.iterdir()}
    assert f"e{MOST_EPISODES + 4}" in there
    assert len(there) <= MOST_EPISODES + 1
    assert [found.name for found in home.file("kept").parent.iterdir()] == ["mine.txt"]


def test_a_score_at_the_act_is_the_one_that_its_step_would_have(home: _Home, act: Callable[..., ActionTaken]) -> None:
    """The same event, but for its time; the step behind the act writes no second line and publishes nothing."""
    saying = act(1).model_copy(update={"episode": "e", "progress": TaskStep(test_pass_rate=0.5, tokens_used=10)})
    step = saying.task_step()
    assert step is not None

    _, [at_act, none] = home.start([saying, step])
    _, [at_step] = home.start([step])

    assert none is None
    assert at_act.model_copy(update={"time": at_step.time}) == at_step
    assert [row["step"] for row in home.rows()] == [0]
