"""How facts become an experience."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conch.experience import ExperienceStore
from conch_schemas import ExperienceRecorded, consequence_id
from tests.store.contract.conftest import TOTAL

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


def test_a_cycle_is_recorded_with_its_last_part(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """An experience is recorded at revision 1 when every part of its weight set has come, not before."""
    *most, last = facts.judged(1)

    before = shared_events(store, facts.weights(), *most)
    (experience,) = shared_events(store, last)

    assert before == ()
    assert experience.total == pytest.approx(TOTAL)
    assert (experience.complete, experience.coverage, experience.revision, experience.seq) == (True, 1.0, 1, 2)
    assert [(part.component, part.status) for part in experience.scores] == [
        ("format", "scored"),
        ("execution", "scored"),
        ("needs", "scored"),
        ("goal", "not_applicable"),
        ("exploration", "scored"),
    ]


def test_an_experience_says_what_its_act_said(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Everything known of the act is joined in; the id follows from the act and the revision."""
    (experience,) = shared_events(store, facts.weights(), *facts.cycle(3))
    act = facts.act(3)

    assert experience.id == consequence_id(act.id, "store", "1", ExperienceRecorded)
    assert (experience.agent, experience.cycle, experience.action_id) == ("echo", 3, act.action_id)
    assert (experience.causation_id, experience.source, experience.policy) == (act.id, act.source, "p1")
    assert (experience.thought, experience.claims[0].evidence, experience.memory) == ("thought 3", "a.txt", ("a note",))
    assert (experience.messages[0].content, experience.reflection) == ("what now?", "reflection 3")
    assert (experience.needs_before, experience.needs_after) == ({"curiosity": 0.5}, {"curiosity": 0.65})
    assert experience.ms == {"think": 1.0, "ground": 2.0, "decide": 3.0, "act": 4.0, "reflect": 5.0}
    assert (experience.acted_at, experience.time, experience.weights) == (act.time, facts.now, "w1")


def test_scores_may_come_before_their_act(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A score whose act is not known yet waits for it."""
    act, *scores = facts.judged(1)

    assert shared_events(store, facts.weights(), *scores) == ()
    assert shared_events(store, act)[0].complete


def test_a_late_reflection_is_read_and_revises_nothing(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Context that comes after the verdict is joined in by the reads; the revision stays."""
    shared_events(store, facts.weights(), *facts.judged(1))

    late = shared_events(store, facts.reflected(1), facts.thought(1), facts.decided(1))
    experience = store.cycles.get("echo", 1)

    assert late == ()
    assert experience is not None
    assert (experience.reflection, experience.ms["reflect"], experience.revision) == ("reflection 1", 5.0, 1)
    assert (experience.thought, experience.messages[0].content) == ("thought 1", "what now?")
