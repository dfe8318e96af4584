"""What a store tells a sampler: the columns of its experiences, and what changed in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conch.experience import ExperienceStore, RetentionLimits
from conch.experience.queries import prune
from tests.store.contract.conftest import TOTAL

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


def test_the_newest_are_the_last_by_their_places(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Of one agent or of all, oldest first, with what the experience says."""
    shared_events(store, facts.weights(), facts.weights(agent="delta"))
    shared_events(store, *facts.judged(1), *facts.judged(2), *facts.judged(9, agent="delta"))

    assert [row.cycle for row in store.sampling.newest("echo", 9).rows] == [1, 2]
    assert [row.cycle for row in store.sampling.newest(None, 2).rows] == [2, 9]
    assert store.sampling.newest("nobody", 2).rows == []
    row = store.sampling.newest("delta", 2).rows[0]
    assert row[1:] == (row.seq, "delta", 9, "none", None, "do_nothing", "curiosity", pytest.approx(TOTAL))
    [experience] = store.sampling.experiences([row.act])
    assert experience == store.cycles.get("delta", 9)
    assert experience is not None
    assert experience.seq == row.seq


def test_each_transaction_that_changes_experiences_raises_the_number(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Recorded and revised ones are among the changes since; a fact that changes no experience raises nothing."""
    shared_events(store, facts.weights(), *facts.judged(1), *facts.judged(2))
    first = store.sampling.changes()

    shared_events(store, facts.thought(3))
    assert store.sampling.changes() == first
    assert store.sampling.since(first).rows == []

    shared_events(store, facts.reward(2, facts.score("execution", 0.4, version="2"), version="2"))
    changed = store.sampling.since(first)
    assert [row.cycle for row in changed.rows] == [2]
    assert changed.upto == store.sampling.changes() > first
    assert changed.rows[0].total == store.cycles.last("echo", 1)[0].total != pytest.approx(TOTAL)


def test_an_act_that_stood_earlier_changes_its_experiences_place(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Read again from before: the row is among the changes, with the place that counts now."""
    shared_events(store, facts.weights(), *facts.judged(1))
    before = store.sampling.changes()

    store.apply([(1, facts.act(1))], upto=store.position(), now=facts.now)

    assert [row.seq for row in store.sampling.since(before).rows] == [1]


def test_removed_experiences_are_gone_and_counted(
    store: ExperienceStore, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal raises the number; asked for by its act, a removed experience is None."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 1)
    shared_events(store, facts.weights(), *facts.judged(1), *facts.judged(2), *facts.judged(3))
    acts = [row.act for row in store.sampling.newest(None, 9).rows]
    before = store.sampling.changes()

    assert store.prune(RetentionLimits(seconds=1.0), facts.now).acts == 2

    found = store.sampling.since(before)
    assert (found.upto > before, found.rows, found.removed) == (True, [], {"echo": (2, 2)})
    assert [one and one.cycle for one in store.sampling.experiences(acts)] == [None, None, 3]
