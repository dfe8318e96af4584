"""Progress of task episodes: the step reward, the fold over an agent's episodes, and each episode's log."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import BUILTIN_WEIGHTS, RewardSettings, Settings
from conch.consumer import ServiceContext
from conch.experience.assemble import latest
from conch.rewards import weight_set
from conch.rewards.progress import (
    PHASES,
    ROLES,
    ProgressState,
    Row,
    Told,
    fold,
    phase_advanced,
    rewarded_advances,
    role_share_phase_change,
    step_reward,
)
from conch.rewards.progress.fold import EPISODES, HEARD
from conch_schemas import ActionTaken, RewardAssigned, Score, TaskProgressed, WeightsSet, decode, encode
from conch_services.progress.consumer import progress_consumer
from conch_services.progress.log import MOST_BYTES, MOST_EPISODES, EpisodeLogs

Act = Callable[..., ActionTaken]
HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.text(),
    st.floats(),
    st.integers(),
    st.just(10**400),
    st.lists(st.integers()),
    st.just({}),
)
STATES = st.fixed_dictionaries(
    {},
    optional={
        "phase": HOSTILE | st.sampled_from(PHASES),
        "roles": HOSTILE | st.dictionaries(st.sampled_from(ROLES), HOSTILE),
        "test_pass_rate": HOSTILE,
        "tokens_used": HOSTILE,
        "switch_committed": HOSTILE,
    },
)


def _fact(number: int, episode: str = "e", *, act: bool = True, **data: Any) -> TaskProgressed:
    about = {"action_id": f"a{number}", "cycle": number} if act else {}
    return TaskProgressed(id=f"p{number}", source="conch/echo/x", agent="echo", episode=episode, **about, **data)


def _run(facts: Iterable[Any], state: ProgressState | None = None) -> tuple[ProgressState, list[Told]]:
    state, told = state or ProgressState(weighed=True), []
    for fact in facts:
        state, one = fold(state, fact)
        told.append(one)
    return state, told


def _scores(told: Iterable[Told]) -> list[Score]:
    return [one.score for one in told if one.score is not None]


def _rows(told: Iterable[Told]) -> list[Row]:
    return [one.row for one in told if one.row is not None]


# -- the rule ----------------------------------------------------------------------------------------------------------


@given(
    st.sampled_from(PHASES),
    st.sampled_from(PHASES),
    *[st.floats(0, 1)] * 2,
    *[st.integers(0, 10**6)] * 2,
    st.booleans(),
)
def test_a_step_pays_what_moved(
    was: str, phase: str, rate_before: float, rate: float, tokens_before: int, tokens: int, switch: bool
) -> None:
    """0.3 for a phase forward, 0.7 of the tests, less 0.0001 a token and 0.05 a switch; backwards costs as much."""
    prev = {"phase": was, "test_pass_rate": rate_before, "tokens_used": tokens_before, "switch_committed": not switch}
    curr = {"phase": phase, "test_pass_rate": rate, "tokens_used": tokens, "switch_committed": switch}
    forward = PHASES.index(phase) > PHASES.index(was)

    expected = 0.3 * forward + 0.7 * (rate - rate_before) - 0.0001 * (tokens - tokens_before) - 0.05 * switch
    assert step_reward(prev, curr) == pytest.approx(expected, abs=1e-9)


@given(STATES, STATES)
def test_whatever_a_state_holds_a_step_is_a_number(prev: dict[str, Any], curr: dict[str, Any]) -> None:
    """What is no number where one belongs counts as 0; nothing raises, and standing still pays nothing."""
    assert math.isfinite(step_reward(prev, curr))
    still = curr | {"switch_committed": False}
    assert step_reward(still, still) == 0.0


@given(st.lists(st.sampled_from([*PHASES, "", "PLANNING", None, 3]), max_size=12))
def test_only_named_phases_forward_pay(phases: list[Any]) -> None:
    """Each step from a named phase to a later one is one advance, whatever its length."""
    rank = {phase: place for place, phase in enumerate(PHASES)}
    pays = [b in rank and a in rank and rank[b] > rank[a] for a, b in pairwise(phases)]

    assert rewarded_advances(phases) == sum(pays)
    assert [phase_advanced(a, b) for a, b in pairwise(phases)] == pays


@pytest.mark.parametrize(
    ("prev", "curr", "pays"),
    [
        ({"planner": 0.6, "coder_runner": 0.4}, {"planner": 0.4, "coder_runner": 0.6}, True),
        ({"coder_runner": 1.0}, {"critic": 1.0}, True),
        ({"critic": 1.0}, {"planner": 1.0}, True),
        ({"planner": 1.0}, {"critic": 1.0}, False),
        ({"critic": 1.0}, {"coder_runner": 1.0}, False),
        ({"planner": 0.5, "coder_runner": 0.5}, {"coder_runner": 0.5, "critic": 0.5}, True),  # of equals the first
        ({"planner": "all", "critic": math.nan}, {"coder_runner": 0.1}, True),
    ],
)
def test_the_dominant_role_tells_where_no_phase_is_named(prev: Any, curr: Any, pays: bool) -> None:
    """Along planner, coder_runner, critic and round again; a named phase on either side silences the roles."""
    assert role_share_phase_change(prev, curr) is pays
    assert step_reward({"roles": prev}, {"roles": curr}) == (0.3 if pays else 0.0)
    assert step_reward({"roles": prev, "phase": "coding"}, {"roles": curr}) == 0.0


# -- the fold ----------------------------------------------------------------------------------------------------------


def test_an_episode_is_scored_step_by_step_and_bears_the_bonus_at_its_end() -> None:
    """Rates and tokens are compared with the step before; the terminal step has 1.0 more where all tests pass."""
    _, told = _run(
        [
            _fact(1, phase="coding", test_pass_rate=0.5, tokens_used=1000),
            _fact(2, phase="testing", test_pass_rate=1.0, tokens_used=1500, switch_committed=True, terminal=True),
        ]
    )

    first, last = _scores(told)
    assert first.value == pytest.approx(0.35 - 0.1)
    assert last.value == pytest.approx(0.3 + 0.35 - 0.05 - 0.05 + 1.0)
    assert "all tests pass" in last.explanation
    assert [(row.step, row.r_step, row.terminal) for row in _rows(told)] == [
        (0, first.value, False),
        (1, last.value, True),
    ]


def test_an_episode_that_ends_with_failing_tests_has_no_bonus() -> None:
    """Nor does one whose rate is not known."""
    _, told = _run([_fact(1, test_pass_rate=0.5), _fact(2, terminal=True), _fact(3, "other", terminal=True)])

    scores = _scores(told)
    assert [score.value for score in scores] == pytest.approx([0.35, 0.0, 0.0])
    ends = [score.explanation.endswith("; the task ends, not all tests pass: no bonus.") for score in scores]
    assert ends == [False, True, True]


def test_how_a_task_stood_before_anything_was_done_is_nobodys_merit() -> None:
    """A first fact of no act is where the episode begins; a later one moves it, is logged and scores no act."""
    _, told = _run(
        [
            _fact(0, act=False, test_pass_rate=0.8, tokens_used=0),
            _fact(1, act=False, test_pass_rate=0.8, tokens_used=0),
            _fact(2, test_pass_rate=1.0, tokens_used=100),
            _fact(3, act=False, test_pass_rate=0.5),
            _fact(4, test_pass_rate=0.5),
        ]
    )

    assert [score.value for score in _scores(told)] == pytest.approx([0.14 - 0.01, 0.0])
    assert [row.step for row in _rows(told)] == [0, 1, 2]
    assert _rows(told)[1].delta_pass_rate == -0.5


def test_what_a_fact_leaves_out_stands_as_it_was_said_last() -> None:
    """A rate or a count of tokens that is not known has not fallen to 0."""
    _, told = _run([_fact(1, test_pass_rate=0.5, tokens_used=1000), _fact(2), _fact(3, test_pass_rate=0.5)])

    assert [score.value for score in _scores(told)][1:] == [0.0, 0.0]


def test_what_is_said_of_an_episode_that_is_over_counts_for_nothing() -> None:
    """It is an error of that act and neither reward nor row."""
    _, told = _run([_fact(1, terminal=True), _fact(2, test_pass_rate=1.0), _fact(3, act=False, test_pass_rate=1.0)])

    assert [(score.status, score.value) for score in _scores(told)] == [("scored", 0.0), ("error", None)]
    assert len(_rows(told)) == 1


def test_a_step_beyond_the_parts_range_is_an_error_and_not_a_clamped_value() -> None:
    """A hundred thousand million tokens in one step."""
    _, told = _run([_fact(1, tokens_used=10**11)])

    [score] = _scores(told)
    assert (score.status, score.value) == ("error", None)
    assert "outside -1,000,000..1,000,000" in score.explanation


STEPS = st.lists(
    st.builds(
        dict,
        episode=st.sampled_from(["a", "b"]),
        act=st.booleans(),
        phase=st.none() | st.sampled_from(PHASES),
        test_pass_rate=st.none() | st.sampled_from([0.0, 0.25, 1.0]),
        tokens_used=st.none() | st.integers(0, 1000),
        terminal=st.just(False) | st.booleans(),
    ),
    max_size=8,
)


@given(STEPS, st.data())
def test_facts_read_again_give_the_same_state(steps: list[dict[str, Any]], data: st.DataObject) -> None:
    """Any duplication and any redelivery in order ends in the same state and says nothing twice."""
    facts = [_fact(number, **step) for number, step in enumerate(steps)]
    again: list[TaskProgressed] = []
    for place in range(len(facts)):
        again += facts[data.draw(st.integers(0, place)) : place + 1]

    state, told = _run(facts)
    same, told_again = _run(again)

    assert same == state
    assert _scores(told_again) == _scores(told)
    assert _rows(told_again) == _rows(told)
    assert ProgressState.model_validate_json(state.model_dump_json()) == state


@given(STEPS)
def test_the_steps_of_an_episode_add_up_to_its_whole(steps: list[dict[str, Any]]) -> None:
    """Rates and tokens telescope: what the rows of an open episode say adds up to where it stands."""
    facts = [_fact(number, **step | {"terminal": False, "act": True}) for number, step in enumerate(steps)]
    state, told = _run(facts)

    for name, episode in state.episodes.items():
        rows = [row for row in _rows(told) if row.episode == name]
        assert sum(row.delta_pass_rate for row in rows) == pytest.approx(episode.test_pass_rate)
        assert sum(row.delta_tokens for row in rows) == episode.tokens_used
        assert [row.step for row in rows] == list(range(episode.steps))


def test_what_is_remembered_has_bounds() -> None:
    """Of thousands of episodes with names of any length the last ones, in a state that fits its bucket."""
    facts = [_fact(number, episode="x" * 5000 + str(number), phase="y" * 5000) for number in range(HEARD + 10)]

    state, told = _run(facts)

    assert len(state.episodes) == EPISODES
    assert len(state.model_dump_json()) < 40_000
    assert len(_scores(told)) == len(facts)


def test_without_a_weight_a_step_is_logged_and_not_scored() -> None:
    """Nobody waits for the score: coming late, it would have each experience recorded a second time."""
    _, [told] = _run([_fact(1, test_pass_rate=1.0)], ProgressState())

    assert told.score is None
    assert told.row is not None
    assert told.row.r_step == 0.7


# -- acts without a task -----------------------------------------------------------------------------------------------


def _weights(**weights: float) -> WeightsSet:
    table = {**BUILTIN_WEIGHTS, **weights}
    parts = weight_set((), RewardSettings(weights=table))
    return WeightsSet(id="w", source="conch/echo/x", agent="echo", version="1", parts=parts)


def test_an_act_without_a_task_is_kept_waiting_for_nothing(act: Act) -> None:
    """Where progress has a weight such an act gets not_applicable, once; one of a task gets its step; else nothing."""
    weighed = _weights(format=0.2, progress=0.1)
    of_task = act(2).model_copy(update={"episode": "e"})

    _, unweighed = _run([_weights(), act(0)])
    _, told = _run([weighed, act(1), act(1), of_task, act(3), _weights(), act(4)])

    assert unweighed == [Told(), Told()]
    assert [one.score.status if one.score else None for one in told] == [
        None, "not_applicable", None, None, "not_applicable", None, None,
    ]  # fmt: skip


def test_a_program_that_knows_better_is_believed(act: Act) -> None:
    """Whoever says how an act moved a task that the cycle knew nothing of has the later word, whichever comes first."""
    belongs_to_none = act(1)
    moved = _fact(1, test_pass_rate=1.0)

    _, told = _run([_weights(format=0.2, progress=0.1), belongs_to_none, moved])

    [nothing, step] = _scores(told)
    assert latest([nothing, step]) == latest([step, nothing]) == {("progress", "progress"): step}


# -- the consumer and its log ------------------------------------------------------------------------------------------


class _Home:
    """A consumer over a home, as often as it is started."""

    def __init__(self, path: Path) -> None:
        self.path, self.reports = path, list[str]()

    def start(self, facts: Sequence[Any], state: ProgressState | None = None) -> tuple[ProgressState, list[Any]]:
        context = ServiceContext(Settings(), self.path, lambda **said: self.reports.append(said["waits"]))
        spec = progress_consumer(context)
        state, said = state or ProgressState(weighed=True), []
        for fact in facts:
            state, assigned = spec.handle(state, decode(encode(fact)))
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
        _fact(number, test_pass_rate=(number + 1) / steps, tokens_used=100 * (number + 1), terminal=number == steps - 1)
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
        _fact(0, act=False, test_pass_rate=0.25),
        _fact(1, act=False, test_pass_rate=0.5),
        _fact(7, test_pass_rate=0.5, terminal=True),
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
    context = ServiceContext(Settings(), home.path, lambda **said: home.reports.append(said["waits"]))
    spec, state = progress_consumer(context), ProgressState(weighed=True)
    said = []
    for fact in _episode(4):
        if fact.id == "p2":
            (home.path / "agents").unlink()
        state, assigned = spec.handle(state, fact)
        said.append(assigned)

    assert [one.scores[0].status for one in said] == ["scored"] * 4
    assert [row["step"] for row in home.rows()] == [2, 3]
    assert [bool(why) for why in home.reports] == [True, False]
    assert "its steps are not logged" in home.reports[0]


def test_an_episodes_name_leads_nowhere_else(home: _Home) -> None:
    """A name that is no file's name, or another directory's, goes by its digest."""
    for number, name in enumerate(["../../../x", "..", "", "/etc", "a/b", "\x00", "é" * 500]):
        home.start([_fact(number, name, test_pass_rate=1.0)])

    logs = list((home.path / "agents" / "echo" / "episodes").iterdir())
    assert len(logs) == 7
    assert all(len(found.name) == 32 for found in logs)
    assert {found.name for found in home.path.iterdir()} == {"agents"}


def test_a_long_log_makes_way_and_its_steps_go_on(home: _Home) -> None:
    """The file before is kept once; what stands in either is not written again."""
    logs = EpisodeLogs(home.path, lambda **_: None)
    row = Row("e", 0, 0.0, 0.0, False, False, 0.0, False, None, 0.0)
    logs.write("echo", row)
    with home.file().open("r+b") as stream:
        stream.truncate(0)
        stream.write(b" " * (MOST_BYTES - 100) + b"\n")
    logs.write("echo", row._replace(step=1))
    home.file(name="rewards.1.jsonl").write_text('{"step": 0}\n')
    anew = EpisodeLogs(home.path, lambda **_: None)
    anew.write("echo", row)
    anew.write("echo", row._replace(step=2))

    assert [found["step"] for found in home.rows()] == [1, 2]


def test_a_log_that_just_made_way_still_knows_its_last_step(home: _Home) -> None:
    """A crash between the two leaves no log but the one before: its rows are not written again."""
    row = Row("e", 0, 0.0, 0.0, False, False, 0.0, False, None, 0.0)
    EpisodeLogs(home.path, lambda **_: None).write("echo", row)
    home.file().rename(home.file(name="rewards.1.jsonl"))
    anew = EpisodeLogs(home.path, lambda **_: None)
    anew.write("echo", row)
    anew.write("echo", row._replace(step=1))

    assert [found["step"] for found in home.rows()] == [1]


def test_half_a_line_is_not_left_before_the_next(home: _Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with room for half of it: that is said and cut off, and the next line stands by itself."""
    row = Row("e", 0, 0.0, 0.0, False, False, 0.0, False, None, 0.0)
    logs = EpisodeLogs(home.path, lambda **said: home.reports.append(said["waits"]))
    whole = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda handle, line: whole(handle, line[:10]))
        logs.write("echo", row)
    logs.write("echo", row._replace(step=1))

    assert [found["step"] for found in home.rows()] == [1]
    assert "no room" in home.reports[0]


def test_the_oldest_logs_go(home: _Home) -> None:
    """An agent keeps the logs of its last episodes; what else lies in a directory is left alone."""
    state, _ = home.start([_fact(0, "kept")])
    (home.file("kept").parent / "mine.txt").write_text("a note")
    home.start([_fact(number, f"e{number}") for number in range(1, MOST_EPISODES + 5)], state)

    there = {found.name for found in home.file().parent.parent.iterdir()}
    assert f"e{MOST_EPISODES + 4}" in there
    assert len(there) <= MOST_EPISODES + 1
    assert [found.name for found in home.file("kept").parent.iterdir()] == ["mine.txt"]
