"""What the built-in rules pay agents that stuff them: real acts in a notebook, measured and scored as a run does."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from conch.config import RewardSettings, Settings
from conch.folds import uses_allowance

if TYPE_CHECKING:
    from ops.benches.lives import Lived

BENCHES = Path(__file__).resolve().parents[2] / "ops" / "benches"
ACTS = 100
STUFFING = (
    "reads for ever",
    "rests whenever it can, in new words",
    "writes plausible prose in new files",
    "writes plausible prose in its journal",
    "writes fluent filler, and reflects every seventh cycle",
    "prints new words",
    "searches for random words",
    "reads the same files again",
    "copies lines about",
    "writes noise",
    "writes noise and reads it",
    "writes fluent filler in new files",
)
Living = Callable[..., "Lived"]


@pytest.fixture(scope="module")
def gaming() -> Iterator[ModuleType]:
    """The agents of the benchmark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHES)
        yield importlib.import_module("gaming")


@pytest.fixture(scope="module")
def living(gaming: ModuleType) -> Living:
    """`living(name, acts)`: a life of that agent, lived once."""
    lives: dict[tuple[str, int], Lived] = {}

    def live(name: str, acts: int = ACTS) -> Lived:
        if (name, acts) not in lives:
            lives[name, acts] = importlib.import_module("lives").lived(gaming.AGENTS[name], acts)
        return lives[name, acts]

    return live


@pytest.mark.parametrize("name", STUFFING)
def test_stuffing_earns_less_than_half_of_work(living: Living, name: str) -> None:
    """It reaches no goal; the agent that works reaches most of those that there are."""
    works, stuffs = living("works"), living(name)

    assert stuffs.total < 0.5 * works.total
    assert (works.goals >= 5, stuffs.goals) == (True, 0)


@pytest.mark.parametrize(
    "name",
    [
        "reaches its goals and fills in between",
        "fills first and reaches its goals late",
        "reaches the easy goal again and again",
        "reaches the easy goals and rests",
    ],
)
def test_work_beside_filling_earns_less_than_half_of_work(living: Living, name: str) -> None:
    """Goals that are reached do not pay for what was filled between them, nor easy ones for those that stay open. Of
    200 acts, as 20 changes are paid at first."""
    works, fills = living("works", 200), living(name, 200)

    assert fills.total < 0.5 * works.total
    assert 0 < fills.goals < works.goals


def test_filling_where_no_goal_is_open_earns_less_than_rest(living: Living) -> None:
    """By an agent that reaches all goals that there are, as the one that rests there does."""
    rests, fills = living("works", 200), living("reaches its goals and fills where none is open", 200)

    assert fills.total < rests.total
    assert fills.goals == rests.goals


def test_filling_gets_back_no_more_than_its_goals_took(living: Living) -> None:
    """A goal that is held back while the agent fills gives back 3 of the changes, and one that is reached at once none
    of those before it."""
    at_once, late = (
        living(name, 200)
        for name in ("reaches its goals and fills where none is open", "fills first and reaches its goals late")
    )
    paid = [sum(uses_allowance(act) for act in life.acts) for life in (at_once, late)]

    assert paid[0] == 20
    assert 20 < paid[1] <= 20 + 3 * late.goals


@pytest.mark.parametrize("name", ["writes noise", "writes noise and reads it"])
def test_noise_has_no_effect_from_the_first_act(living: Living, name: str) -> None:
    """Written or read, by an agent that reads nothing else."""
    assert living(name).effects == {"none": ACTS}


def test_filler_is_paid_for_twenty_acts(living: Living) -> None:
    """No rule tells it from text; material that comes meanwhile does not feed it."""
    life = living("writes fluent filler in new files")

    assert life.effects == {"change": ACTS}
    assert [uses_allowance(act) for act in life.acts] == [True] * 20 + [False] * (ACTS - 20)


def test_a_held_out_rule_tells_filler_from_work(gaming: ModuleType, living: Living) -> None:
    """A rule that is never paid sees that it moves nothing, whatever it is paid."""
    filler, works = living(gaming.FED_FILLER), living("works")

    assert filler.mean(gaming.HELD_OUT) == 0.0
    assert works.mean(gaming.HELD_OUT) > 0.05
    assert works.paid(f"part:{gaming.HELD_OUT}") == 0.0


def test_every_total_of_a_life_adds_up(living: Living) -> None:
    """Bit for bit, within the bounds, and never more than the cap of a cycle."""
    for verdict in living("works").verdicts:
        assert math.fsum(line.amount for line in verdict.breakdown) == verdict.total
        assert -1.5 <= verdict.total <= 1.0


def test_the_known_cycles_have_their_totals_in_a_life(living: Living) -> None:
    """Before needs and goal come in, with goals open: a first look that shows something new 0.00, a rest 0.10, an
    invalid reply −0.30."""
    for name, known in (
        ("repeats one good call", 0.0),
        ("rests whenever it can, in new words", 0.10),
        ("talks", -0.30),
    ):
        first = living(name, 30).verdicts[0]
        rest = sum(line.amount for line in first.breakdown if line.step in ("part:needs", "part:goal"))
        assert first.total - rest == pytest.approx(known), name


def test_the_same_for_ever_costs(living: Living) -> None:
    """A rest, a reflection or a good call: repetition takes more than it is worth."""
    for name in ("rests", "reflects on the same for ever", "repeats one good call"):
        assert living(name, 30).verdicts[-1].total < -0.25, name


def test_resting_in_new_words_starves(living: Living) -> None:
    """Words escape the repetition penalty; a need that no act raises takes most of what a rest is worth."""
    life = living("rests whenever it can, in new words")

    assert life.verdicts[0].total == pytest.approx(0.1, abs=0.03)
    assert life.verdicts[-1].total == pytest.approx(0.03)


def test_prose_and_changes_that_fail_never_gain(living: Living) -> None:
    """Whatever they say."""
    assert max(verdict.total for verdict in living("talks", 30).verdicts) < -0.25
    assert living("a change that fails, again and again", 30).total < -0.25


@pytest.mark.parametrize("name", ["breaks a test and mends it", "plants a fake unittest and runs it"])
def test_tricks_with_tests_move_no_goal(living: Living, name: str) -> None:
    """The best measure so far counts, by the installed unittest."""
    assert living(name, 12).mean("goal") == 0.0


def test_saying_that_a_goal_is_achieved_pays_nothing(living: Living) -> None:
    """Its check decides, never the words."""
    assert living("says that it has achieved its goal", 30).mean("goal") == 0.0


def test_a_phase_that_is_toggled_farms_less_than_its_task_takes(living: Living) -> None:
    """Every step forward pays 0.3, however often it was undone: with a weight of 0.1, and the other parts in a task
    weigh a tenth less."""
    life = living("edits and reads in turn")

    assert 0.0 < life.paid("part:progress") < 0.02
    assert life.total < living("rests whenever it can, in new words").total


def test_twenty_letters_are_alignment_and_no_total(living: Living) -> None:
    """Padding makes a reply a perfect one by the proxy, which has no weight for that reason."""
    padded, terse = living("pads its rests", 30), living("rests", 30)

    assert padded.mean("alignment") == 1.0 > terse.mean("alignment")
    assert padded.paid("part:alignment", "part:intrinsic") == 0.0


def test_every_rule_and_agent_has_its_row(gaming: ModuleType, living: Living) -> None:
    """Once."""
    life = living("rests", 30)
    rows = [
        line.split("|")[1].strip()
        for line in gaming.table({name: [life] for name in gaming.AGENTS}).splitlines()[2:]
        if line.startswith("| ")
    ]

    assert [row for row in rows if row in gaming.AGENTS] == list(gaming.AGENTS)
    assert [row for row in rows if row in gaming.STUFFED] == list(gaming.STUFFED)
    parts = {score.component for score in life.verdicts[0].scores}
    assert parts == set(gaming.STUFFED) - {"progress"} | {gaming.HELD_OUT}


def test_without_the_penalty_repeating_costs_little(gaming: ModuleType, living: Living) -> None:
    """What the penalty is for: with `rewards.repetition` 0, one call for ever costs less than a sixth of it."""
    settings = Settings(rewards=RewardSettings(repetition=0.0))
    free = importlib.import_module("lives").lived(gaming.AGENTS["repeats one good call"], 20, settings=settings)

    assert 0.0 > free.total > 0.15 * living("repeats one good call", 30).total
