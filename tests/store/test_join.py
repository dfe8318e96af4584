"""The join by property: any order, any repetition, any division into batches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.config import RewardSettings
from conch.experience import MemoryStore
from conch.experience.assemble import latest, version_order
from conch.rewards import weight_set
from conch.rules import RuleInfo
from conch_schemas import ExperienceRecorded, NeedsChanged, NoveltyMeasured, Part, RewardAssigned

if TYPE_CHECKING:
    from tests.store.conftest import Facts, Place


Lives = Callable[[Any, Any], list[tuple[int, Any]]]


def told(store: MemoryStore, **aside: Any) -> list[str]:
    """Every bit of its experiences, but how often each was revised and when."""
    aside |= {"id": "", "revision": 1, "time": None}
    return [experience.model_copy(update=aside).model_dump_json() for experience in store.cycles.last("echo", 9)]


class Forgetful(MemoryStore):
    """Remembers nothing between two batches: every case is read from its rows."""

    def apply(self, *facts: Any, **at: Any) -> Any:
        self._join.known.forget()
        return super().apply(*facts, **at)


def two_lives(facts: Any, placed: Any) -> list[tuple[int, Any]]:
    """Two cycles under two weight sets, with a rescored part and scores beside."""
    judge = Part(component="taste", weight=0.0, range=(0, 1), scorer="judge")
    return placed(
        facts.weights(),
        *facts.cycle(1),
        facts.weights((*facts.parts, judge), "w2"),
        *facts.cycle(2),
        facts.reward(1, facts.score("format", 0.1, version="1.10"), version="1.10"),
        facts.reward(1, facts.score("format", 0.3, version="1.9"), version="1.9"),
        facts.reward(2, facts.score("taste", 0.7, "judge"), scorer="judge"),
        facts.reward(2, facts.score("joy", 0.7, "joy"), facts.score("goal", 2.0, "joy"), scorer="joy"),
        facts.reward(2, facts.score("calm", -0.0, "calm"), scorer="calm"),
    )


def whole_lives(facts: Any, placed: Any) -> list[tuple[int, Any]]:
    """Two cycles with everything that bears on a total: the first one's gate is closed, the second one's is open."""
    parts = weight_set([RuleInfo("exam", weight=0.0, low=0.0, high=1.0, held_out=True)], RewardSettings())
    return placed(
        facts.weights(parts),
        *(fact for cycle in (1, 2) for fact in facts.judged(cycle) if not isinstance(fact, _REPLACED)),
        *(_changed(facts, cycle, starving) for cycle, starving in ((1, 1.0), (2, 0.6))),
        *(_measured(facts, cycle, repetition=-0.1 * cycle) for cycle in (1, 2)),
        *(_held(facts, cycle, ethical) for cycle, ethical in ((1, 0.5), (2, 0.9))),
        *(facts.reward(cycle, facts.score("exam", 0.1 * cycle, "exam"), scorer="exam") for cycle in (1, 2)),
    )


_REPLACED = (NoveltyMeasured, NeedsChanged)
"""The facts of a judged cycle that lack the scores that bear on its total."""


def _changed(facts: Any, cycle: int, starving: float) -> NeedsChanged:
    return facts.needs(cycle).model_copy(update={"beside": (facts.score("starving", starving, "needs"),)})


def _measured(facts: Any, cycle: int, repetition: float) -> NoveltyMeasured:
    said = {"intrinsic": 0.3, "diversity": 0.1, "repetition": repetition}
    beside = tuple(facts.score(name, value, "curiosity") for name, value in said.items())
    return facts.novelty(cycle).model_copy(update={"beside": beside})


def _held(facts: Any, cycle: int, ethical: float) -> RewardAssigned:
    """A later version of the scorer *reward*, which holds acts to the constitution."""
    scores = (facts.score("alignment", 0.7, version="2"), facts.score("ethical", ethical, version="2"))
    return facts.reward(cycle, *scores, version="2")


def task_lives(facts: Any, placed: Any) -> list[tuple[int, Any]]:
    """A cycle of a task and one outside, under the weights that a run has by default."""
    of_task, outside = ([fact for fact in facts.judged(cycle) if not isinstance(fact, _REPLACED)] for cycle in (1, 2))
    return placed(
        facts.weights(weight_set((), RewardSettings())),
        of_task[0].model_copy(update={"episode": "tests"}),
        *of_task[1:],
        *outside,
        *(_changed(facts, cycle, 1.0) for cycle in (1, 2)),
        *(_measured(facts, cycle, repetition=0.0) for cycle in (1, 2)),
        *(_held(facts, cycle, ethical=1.0) for cycle in (1, 2)),
        facts.reward(1, facts.score("progress", 0.3, "progress"), scorer="progress"),
    )


LIVES = pytest.mark.parametrize("lives", [two_lives, whole_lives, task_lives])


def test_progress_is_paid_in_a_task_and_not_applicable_outside(facts: Facts, placed: Place) -> None:
    """The act of the task has nine tenths of the other weights; the act outside waits for nothing and has the whole."""
    life = task_lives(facts, placed)

    with MemoryStore() as store:
        store.apply(life[:-1], upto=len(life) - 1, now=facts.at(2))
        [outside] = store.cycles.last("echo", 9)
        assert (outside.cycle, outside.complete) == (2, True)
        store.apply(life[-1:], upto=len(life), now=facts.at(2))
        first, _ = store.cycles.last("echo", 9)

    weights = {score.component: score.weight for score in first.scores if score.weight}
    others = {"format": 0.27, "execution": 0.225, "needs": 0.18, "goal": 0.135, "exploration": 0.09}
    assert weights == pytest.approx(others | {"progress": 0.1})
    assert (first.complete, first.revision) == (True, 1)
    assert first.total == pytest.approx(0.9 * outside.total + 0.1 * 0.3)
    assert [(score.status, score.weight) for score in outside.scores if score.component == "progress"] == [
        ("not_applicable", 0.0)
    ]
    assert outside.coverage == 1.0


def test_what_an_act_of_a_task_waits_for_is_named(facts: Facts, placed: Place) -> None:
    """Progress is missing of the act of the task alone."""
    life = task_lives(facts, placed)

    with MemoryStore() as store:
        store.apply(life[:-1], upto=len(life) - 1, now=facts.at(2))
        assert (store.cycles.awaited(facts.now).acts, store.cycles.awaited(facts.now).parts) == (1, ("progress",))
    with MemoryStore() as store:
        alone = [(seq, fact) for seq, fact in life if fact.cycle == 2 and fact.type.endswith("action.taken")]
        store.apply([life[0], *alone], upto=len(life), now=facts.at(2))
        assert "progress" not in store.cycles.awaited(facts.now).parts


def test_a_late_score_of_progress_is_a_revision(facts: Facts, placed: Place) -> None:
    """After the deadline the act of a task is recorded without it, and once more when it comes."""
    life = task_lives(facts, placed)

    with MemoryStore() as store:
        store.apply(life[:-1], upto=len(life) - 1, now=facts.at(2))
        [early] = store.expire(facts.at(2, 60.0))
        [late] = store.apply(life[-1:], upto=len(life), now=facts.at(2, 61.0))

    assert (early.cycle, early.complete, early.revision) == (1, False, 1)
    assert (late.cycle, late.complete, late.revision) == (1, True, 2)
    assert late.total == pytest.approx(early.total + 0.03)


def test_the_whole_total_of_a_life(facts: Facts, placed: Place) -> None:
    """The gate takes what the first cycle gained; of the second, its exploration paid twice, a share is left while a
    need starves, less its repetition."""
    life = whole_lives(facts, placed)

    with MemoryStore() as store:
        store.apply(life, upto=len(life), now=facts.now)
        first, second = store.cycles.last("echo", 9)

    assert (first.complete, second.complete) == (True, True)
    assert [line.step for line in first.breakdown[-3:]] == ["diversity", "repetition", "gate:ethical"]
    assert first.total == pytest.approx(0.0, abs=1e-12)
    assert [line.step for line in second.breakdown[-3:]] == ["diversity", "starving", "repetition"]
    assert second.total == pytest.approx(0.6 * (0.15 + 0.05 + 0.025 + 2 * 0.05) - 0.2)


@LIVES
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_order_and_repetition_gives_the_same_bits(
    facts: Facts, placed: Place, lives: Lives, data: st.DataObject
) -> None:
    """However the facts of cycles arrive, how often and in what batches, the experiences end the same bit for bit.

    Also where a store knows nothing but what its rows say.
    """
    life = lives(facts, placed)
    again = data.draw(st.lists(st.sampled_from(life), max_size=12))
    events = data.draw(st.permutations([*life, *again]))

    with MemoryStore() as straight, data.draw(st.sampled_from([MemoryStore, Forgetful]))() as shuffled:
        straight.apply(life, upto=len(life), now=facts.now)
        while events:
            size = data.draw(st.integers(1, len(events)))
            batch, events = events[:size], events[size:]
            shuffled.apply(batch, upto=max(seq for seq, _ in batch), now=facts.now)

        assert told(shuffled) == told(straight)
        assert shuffled.duplicates == len(again)
        assert (len(told(straight)), shuffled.cycles.pending()) == (2, 0)


@pytest.mark.parametrize(("lives", "events", "cycles"), [(two_lives, 10, 1), (whole_lives, 99, 2), (task_lives, 99, 2)])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_the_order_on_the_stream_changes_no_total(
    facts: Facts, placed: Place, lives: Lives, events: int, cycles: int, data: st.DataObject
) -> None:
    """Where consumers answered in another order, so that facts have other places, the totals are the same bits."""
    weights, *rest = lives(facts, placed)[:events]
    order = data.draw(st.permutations([event for _, event in rest]))

    with MemoryStore() as straight, MemoryStore() as other:
        straight.apply([weights, *rest], upto=99, now=facts.now)
        other.apply([weights, *placed(*order, first=2)], upto=99, now=facts.now)

        assert len(told(other)) == cycles
        assert sorted(told(other, seq=1)) == sorted(told(straight, seq=1))


@LIVES
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_revision_rises_only_with_a_changed_verdict(
    facts: Facts, placed: Place, lives: Lives, data: st.DataObject
) -> None:
    """Revisions count 1, 2, 3 … without a gap, and no two that follow each other say the same."""
    life = lives(facts, placed)

    seen: list[ExperienceRecorded] = []
    with MemoryStore() as store:
        for seq, event in data.draw(st.permutations([*life, *life])):
            seen += store.apply([(seq, event)], upto=seq, now=facts.now)

    for cycle in (1, 2):
        ours = [e for e in seen if e.cycle == cycle]
        assert [e.revision for e in ours] == list(range(1, len(ours) + 1))
        verdicts = [(e.scores, e.total, e.complete, e.weights) for e in ours]
        assert all(a != b for a, b in pairwise(verdicts))


@pytest.mark.parametrize(
    ("earlier", "later"), [("1", "2"), ("2", "10"), ("1.9", "1.10"), ("1.0", "1.0.1"), ("v1", "v2"), ("9", "1" * 5000)]
)
def test_versions_sort_as_people_sort_them(earlier: str, later: str) -> None:
    """Numbers within a version compare as numbers, of any length."""
    assert version_order(earlier) < version_order(later)


def test_of_two_builds_of_a_version_the_one_said_last_counts(facts: Facts) -> None:
    """A digest has no order: a rubric that was changed is later because it was said later, and below a next version."""
    old, new = (facts.score("kind", value, version=f"1+{build}") for value, build in ((0.9, "f0"), (0.1, "0a")))

    assert list(latest([old, new]).values()) == [new]
    assert list(latest([new, old]).values()) == [old]
    assert [score.version for score in latest([facts.score("kind", 0.5, version="2+00"), old]).values()] == ["2+00"]


@given(st.lists(st.text(st.characters(exclude_characters="+"), max_size=8), min_size=2, max_size=5))
def test_any_version_has_its_place(facts: Facts, versions: list[str]) -> None:
    """Whatever a consumer calls its versions, the same one of them counts in every order."""
    scores = [facts.score("format", 0.5, version=version) for version in versions]

    assert latest(scores) == latest(scores[::-1])
