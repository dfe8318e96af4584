"""The fold over an agent's episodes, and acts that belong to none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import BUILTIN_WEIGHTS, RewardSettings
from conch.experience.assemble import latest
from conch.rewards import weight_set
from conch.rewards.progress import PHASES, ProgressState, ProgressUpdate
from conch.rewards.progress.fold import EPISODES, HEARD
from conch_schemas import ActionTaken, Part, TaskProgressed, TaskStep, WeightsSet
from tests.rules.progress.conftest import fact, folded, rows_of, scores_of

Act = Callable[..., ActionTaken]


def test_an_episode_is_scored_step_by_step_and_bears_the_bonus_at_its_end() -> None:
    """Rates and tokens are compared with the step before; the terminal step has 1.0 more where all tests pass."""
    _, told = folded(
        [
            fact(1, phase="coding", test_pass_rate=0.5, tokens_used=1000),
            fact(2, phase="testing", test_pass_rate=1.0, tokens_used=1500, switch_committed=True, terminal=True),
        ]
    )

    first, last = scores_of(told)
    assert first.value == pytest.approx(0.35 - 0.1)
    assert last.value == pytest.approx(0.3 + 0.35 - 0.05 - 0.05 + 1.0)
    assert "all tests pass" in last.explanation
    assert [(row.step, row.r_step, row.terminal) for row in rows_of(told)] == [
        (0, first.value, False),
        (1, last.value, True),
    ]


def test_an_episode_that_ends_with_failing_tests_has_no_bonus() -> None:
    """Nor does one whose rate is not known."""
    _, told = folded([fact(1, test_pass_rate=0.5), fact(2, terminal=True), fact(3, "other", terminal=True)])

    scores = scores_of(told)
    assert [score.value for score in scores] == pytest.approx([0.35, 0.0, 0.0])
    ends = [score.explanation.endswith("; the task ends, not all tests pass: no bonus.") for score in scores]
    assert ends == [False, True, True]


def test_how_a_task_stood_before_anything_was_done_is_nobodys_merit() -> None:
    """A first fact of no act is where the episode begins; a later one moves it, is logged and scores no act."""
    _, told = folded(
        [
            fact(0, act=False, test_pass_rate=0.8, tokens_used=0),
            fact(1, act=False, test_pass_rate=0.8, tokens_used=0),
            fact(2, test_pass_rate=1.0, tokens_used=100),
            fact(3, act=False, test_pass_rate=0.5),
            fact(4, test_pass_rate=0.5),
        ]
    )

    assert [score.value for score in scores_of(told)] == pytest.approx([0.14 - 0.01, 0.0])
    assert [row.step for row in rows_of(told)] == [0, 1, 2]
    assert rows_of(told)[1].delta_pass_rate == -0.5


def test_what_a_fact_leaves_out_stands_as_it_was_said_last() -> None:
    """A rate or a count of tokens that is not known has not fallen to 0."""
    _, told = folded([fact(1, test_pass_rate=0.5, tokens_used=1000), fact(2), fact(3, test_pass_rate=0.5)])

    assert [score.value for score in scores_of(told)][1:] == [0.0, 0.0]


def test_what_is_said_of_an_episode_that_is_over_counts_for_nothing() -> None:
    """It is an error of that act and neither reward nor row."""
    _, told = folded([fact(1, terminal=True), fact(2, test_pass_rate=1.0), fact(3, act=False, test_pass_rate=1.0)])

    assert [(score.status, score.value) for score in scores_of(told)] == [("scored", 0.0), ("error", None)]
    assert len(rows_of(told)) == 1


def test_a_step_beyond_the_parts_range_is_an_error_and_not_a_clamped_value() -> None:
    """A hundred thousand million tokens in one step."""
    _, told = folded([fact(1, tokens_used=10**11)])

    [score] = scores_of(told)
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
    facts = [fact(number, **step) for number, step in enumerate(steps)]
    again: list[TaskProgressed] = []
    for place in range(len(facts)):
        again += facts[data.draw(st.integers(0, place)) : place + 1]

    state, told = folded(facts)
    same, told_again = folded(again)

    assert same == state
    assert scores_of(told_again) == scores_of(told)
    assert rows_of(told_again) == rows_of(told)
    assert ProgressState.model_validate_json(state.model_dump_json()) == state


@given(STEPS)
def test_the_steps_of_an_episode_add_up_to_its_whole(steps: list[dict[str, Any]]) -> None:
    """Rates and tokens telescope: what the rows of an open episode say adds up to where it stands."""
    facts = [fact(number, **step | {"terminal": False, "act": True}) for number, step in enumerate(steps)]
    state, told = folded(facts)

    for name, episode in state.episodes.items():
        rows = [row for row in rows_of(told) if row.episode == name]
        assert sum(row.delta_pass_rate for row in rows) == pytest.approx(episode.test_pass_rate)
        assert sum(row.delta_tokens for row in rows) == episode.tokens_used
        assert [row.step for row in rows] == list(range(episode.steps))


def test_what_is_remembered_has_bounds() -> None:
    """Of thousands of episodes with names of any length the last ones, in a state that fits its bucket."""
    facts = [fact(number, episode="x" * 5000 + str(number), phase="y" * 5000) for number in range(HEARD + 10)]

    state, told = folded(facts)

    assert len(state.episodes) == EPISODES
    assert len(state.model_dump_json()) < 40_000
    assert len(scores_of(told)) == len(facts)


def test_without_a_weight_a_step_is_logged_and_not_scored() -> None:
    """Nobody waits for the score: coming late, it would have each experience recorded a second time."""
    _, [told] = folded([fact(1, test_pass_rate=1.0)], ProgressState())

    assert told.score is None
    assert told.row is not None
    assert told.row.r_step == 0.7


def _weights(**weights: float) -> WeightsSet:
    table = {**BUILTIN_WEIGHTS, **weights}
    return _of_parts(weight_set((), RewardSettings(weights=table)))


def _of_parts(parts: tuple[Part, ...]) -> WeightsSet:
    return WeightsSet(id="w", source="conch/echo/x", agent="echo", version="1", parts=parts)


def test_an_act_without_a_task_is_kept_waiting_for_nothing(act: Act) -> None:
    """Where progress has a weight such an act gets not_applicable, once; one of a task gets its step; else nothing."""
    weighed = _weights(format=0.2, progress=0.1)
    of_task = act(2).model_copy(update={"episode": "e"})

    _, unweighed = folded([_weights(), act(0)])
    _, told = folded([weighed, act(1), act(1), of_task, act(3), _weights(), act(4)])

    assert unweighed == [ProgressUpdate(), ProgressUpdate()]
    assert [one.score.status if one.score else None for one in told] == [
        None, "not_applicable", None, None, "not_applicable", None, None,
    ]  # fmt: skip


def test_where_progress_is_a_part_of_tasks_alone_no_other_act_is_scored(act: Act) -> None:
    """By default: the steps of a task are scored, and of an act without a task nothing waits."""
    default = _of_parts(weight_set((), RewardSettings()))

    _, told = folded([default, act(1), fact(2, test_pass_rate=1.0)], ProgressState())

    assert [one.score.value if one.score else None for one in told] == [None, None, 0.7]


def test_a_program_that_knows_better_is_believed(act: Act) -> None:
    """Whoever says how an act moved a task that the cycle knew nothing of has the later word, whichever comes first."""
    belongs_to_none = act(1)
    moved = fact(1, test_pass_rate=1.0)

    _, told = folded([_weights(format=0.2, progress=0.1), belongs_to_none, moved])

    [nothing, step] = scores_of(told)
    assert latest([nothing, step]) == latest([step, nothing]) == {("progress", "progress"): step}


def _told_in_the_act(act: Act, number: int, **data: Any) -> ActionTaken:
    """An act of the task `e` that says its own step."""
    terminal = data.pop("terminal", False)
    return act(number).model_copy(update={"episode": "e", "terminal": terminal, "progress": TaskStep(**data)})


def _step(act: ActionTaken) -> TaskProgressed:
    """The `task.progressed` behind it."""
    step = act.task_step()
    assert step is not None
    return step


_A_STEP = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(PHASES),
        "test_pass_rate": st.floats(0, 1),
        "tokens_used": st.integers(0, 10**6),
        "switch_committed": st.booleans(),
        "terminal": st.booleans(),
    },
)


@given(st.lists(st.tuples(_A_STEP, st.booleans(), st.integers(1, 2), st.integers(1, 2)), max_size=8))
def test_an_act_that_says_its_step_is_scored_at_once_as_the_step_is(
    act: Act, steps: list[tuple[dict[str, Any], bool, int, int]]
) -> None:
    """Once: the step behind it counts no second time, nor do act and step that are read again; acts that say nothing
    are scored when their step comes. Episodes, scores and rows are those of the steps alone."""
    alone: list[TaskProgressed] = []
    stream: list[ActionTaken | TaskProgressed] = []
    at_the_act = []
    for number, (data, says, acts, behind) in enumerate(steps):
        saying = _told_in_the_act(act, number, **data)
        alone.append(_step(saying))
        stream += [saying if says else saying.model_copy(update={"progress": None})] * acts
        stream += [_step(saying)] * behind
        at_the_act += [says] + [False] * (acts - 1) + [not says] + [False] * (behind - 1)

    state, told = folded(stream)
    expected, said = folded(alone)

    assert (state.episodes, state.heard) == (expected.episodes, expected.heard)
    assert [one for one in told if one != ProgressUpdate()] == said
    assert [one.score is not None for one in told] == at_the_act


def test_a_fold_that_was_before_the_steps_in_acts_scores_the_step_that_comes(act: Act) -> None:
    """A state whose last act it was had not scored it: the step does. A state that has scored the act has its step."""
    saying = _told_in_the_act(act, 3, test_pass_rate=1.0)
    before = ProgressState(weighed=True, place=saying.place)

    _, [at_act, at_step] = folded([saying, _step(saying)], before)

    assert (at_act.score, at_step.score and at_step.score.value) == (None, 0.7)
