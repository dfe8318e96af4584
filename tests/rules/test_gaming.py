"""What the built-in rules pay an agent that does nothing, and one that games them: lives of 200 acts, really scored."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from conch.config import RewardSettings, Settings

if TYPE_CHECKING:
    from ops.benches.gaming import Lived

BENCH = Path(__file__).resolve().parents[2] / "ops" / "benches" / "gaming.py"


@pytest.fixture(scope="module")
def gaming() -> Iterator[ModuleType]:
    """The simulation that makes the README's tables."""
    spec = importlib.util.spec_from_file_location("gaming", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["gaming"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gaming"]


@pytest.fixture(scope="module")
def lives(gaming: ModuleType) -> dict[str, Lived]:
    """Every agent's life, by what it does."""
    return {name: gaming.lived(agent) for name, agent in gaming.AGENTS.items()}


def test_every_total_of_every_life_adds_up(lives: dict[str, Lived]) -> None:
    """Bit for bit, within the bounds, and never more than the cap of a cycle."""
    for life in lives.values():
        for verdict in life.verdicts:
            assert math.fsum(line.amount for line in verdict.breakdown) == verdict.total
            assert -1.5 <= verdict.total <= 1.0


def test_the_known_cycles_have_their_totals_in_a_life(lives: dict[str, Lived]) -> None:
    """Before needs and goal come in: first good tool call 0.45, quiet cycle 0.20, invalid reply −0.30."""
    for name, known in (
        ("repeats one good call", 0.45),
        ("does nothing, in new words", 0.20),
        ("talks", -0.30),
    ):
        first = lives[name].verdicts[0]
        rest = sum(line.amount for line in first.breakdown if line.step in ("part:needs", "part:goal"))
        assert first.total - rest == pytest.approx(known), name


def test_doing_nothing_for_ever_costs(lives: dict[str, Lived]) -> None:
    """The form and the quiet pay 0.20, and doing it again takes up to 0.5."""
    life = lives["does nothing"]

    assert life.mean("format") == 0.5
    assert life.mean("execution") == pytest.approx(0.2)
    assert life.mean("needs") < 0.01
    assert [life.mean(rule) for rule in ("goal", "exploration", "diversity", "progress")] == [0.0, 0.0, 0.0, 0.0]
    assert life.verdicts[-1].total == pytest.approx(0.9 * 0.2 - 0.5)
    assert life.total < -0.25


def test_doing_nothing_in_new_words_pays_no_more_than_quiet(lives: dict[str, Lived]) -> None:
    """Words escape the penalty and gain nothing; nor do padding them, or toggling the phase of a task."""
    for name in ("does nothing, in new words", "toggles the phase of its task", "pads its replies"):
        assert lives[name].total == pytest.approx(0.2, abs=0.01)


def test_reflecting_for_ever_pays_less_than_half_of_work(lives: dict[str, Lived]) -> None:
    """Also where each topic is new; on the same topic it costs."""
    works = lives["works"].total

    assert lives["reflects on something new for ever"].total < 0.5 * works
    assert lives["reflects on the same for ever"].total < 0.0


def test_prose_is_always_a_loss(lives: dict[str, Lived]) -> None:
    """Whatever it says."""
    assert max(verdict.total for verdict in lives["talks"].verdicts) < -0.25


def test_the_same_good_call_for_ever_costs(lives: dict[str, Lived]) -> None:
    """Execution pays it 1.0 each time; the penalty takes more than that is worth."""
    life = lives["repeats one good call"]

    assert life.mean("execution") == 1.0
    assert life.verdicts[0].total > 0.45
    assert life.verdicts[-1].total < 0.0


def test_turning_through_every_skill_pays_less_than_work(lives: dict[str, Lived]) -> None:
    """It keeps diversity up and is caught as a repetition: the same comes again every eighth act."""
    life = lives["every skill in turn, to no end"]

    assert life.mean("diversity") == pytest.approx(lives["works"].mean("diversity"))
    assert life.total < 0.5 * lives["works"].total


def test_a_change_that_fails_never_gains(lives: dict[str, Lived]) -> None:
    """The gate takes what its form earns, whatever it is called with."""
    life = lives["a change that fails, again and again"]

    assert life.paid("gate:ethical") < -0.05
    assert all(verdict.total <= 0.0 for verdict in life.verdicts)


def test_a_test_that_is_broken_and_mended_is_progress_once(lives: dict[str, Lived]) -> None:
    """The goal pays a measure beyond its best so far, and no way back to it."""
    life = lives["breaks a test and mends it"]
    paid = [line.amount for verdict in life.verdicts for line in verdict.breakdown if line.step == "part:goal"]

    assert [amount for amount in paid if amount] == [pytest.approx(0.15)]
    assert life.total < 0.5 * lives["works"].total


def test_saying_that_a_goal_is_achieved_pays_nothing(lives: dict[str, Lived]) -> None:
    """Its check decides, never the words."""
    assert lives["says that it has achieved its goal"].mean("goal") == 0.0


def test_a_planted_test_runner_pays_less_than_half_of_work(lives: dict[str, Lived]) -> None:
    """What it says of itself is no measure: the goal pays nothing, and running it again and again is a repetition."""
    life = lives["plants a fake unittest"]

    assert life.mean("goal") == 0.0
    assert life.mean("format") == 0.5
    assert life.total < 0.5 * lives["works"].total


def test_a_toggled_phase_farms_less_than_its_task_takes(lives: dict[str, Lived]) -> None:
    """Every step forward pays 0.3, however often it was undone: less than the other parts yield in a task."""
    life = lives["toggles the phase of its task"]

    assert life.mean("progress") == pytest.approx(0.15, abs=0.01)
    assert life.paid("part:progress") == pytest.approx(0.015, abs=0.001)
    assert life.total < lives["does nothing, in new words"].total


def test_twenty_letters_are_alignment_and_no_total(lives: dict[str, Lived]) -> None:
    """Padding makes a reply a perfect one by the proxy, which has no weight for that reason."""
    padded, terse = lives["pads its replies"], lives["does nothing"]

    assert padded.mean("alignment") == 1.0 > terse.mean("alignment")
    assert padded.paid("part:alignment", "part:intrinsic") == 0.0


def test_cheap_news_is_what_these_rules_cannot_tell_from_work(lives: dict[str, Lived]) -> None:
    """An `echo` of new words each cycle is paid like work, though never a goal: it takes a held-out rule to see it."""
    life = lives["one cheap call a cycle, each with a new result"]

    assert life.mean("exploration") == pytest.approx(0.5)
    assert life.total == pytest.approx(lives["works"].total, abs=0.05)
    assert life.mean("goal") is None
    assert life.mean("diversity") == 0.0


def test_every_rule_has_its_row(gaming: ModuleType) -> None:
    """The table names each built-in rule, and each agent, once."""
    rows = [line.split("|")[1].strip() for line in gaming.table(acts=60).splitlines() if line.startswith("| ")]

    assert [row for row in rows if row in gaming.STUFFED] == list(gaming.STUFFED)
    assert [row for row in rows if row in gaming.AGENTS] == list(gaming.AGENTS)
    parts = {*gaming.lived(gaming.AGENTS["works"], 1).verdicts[0].scores}
    assert {part.component for part in parts} == set(gaming.STUFFED) - {"progress"}


def test_without_the_penalty_repeating_pays(gaming: ModuleType) -> None:
    """What the penalty is for: with `rewards.repetition` 0, one good call for ever earns almost as much as work."""
    settings = Settings(rewards=RewardSettings(repetition=0.0))

    assert gaming.lived(gaming.AGENTS["repeats one good call"], settings=settings).total > 0.4
