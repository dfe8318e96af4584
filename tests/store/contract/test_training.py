"""The events of training in a store, and which adapter decided each act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conch.experience import ExperienceStore
from conch_schemas import Decoding, Event, TrainingProgressed
from tests.training.lives import LineageLife, digest_of

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


def test_a_lineage_is_read_in_the_order_of_the_stream(store: ExperienceStore, shared_events: Apply) -> None:
    """Of one agent or of all; with what was said of progress or without it; twice is once."""
    own, other = LineageLife("echo").whole(running=True), LineageLife("other").whole()

    shared_events(store, *own, *other, *own)

    assert list(store.training.walk("echo")) == own
    assert list(store.training.walk()) == [*own, *other]
    assert list(store.training.walk("echo", progress=False)) == [
        one for one in own if not isinstance(one, TrainingProgressed)
    ]
    of_round = [one for one in own if getattr(one, "round", None) == digest_of("round 2")]
    assert store.training.of_round(digest_of("round 2")) == of_round


def test_each_act_is_told_with_the_adapter_that_decided_it(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """None where the model decided alone, or where nothing is known of how the reply was decoded."""
    under = Decoding(engine="local", model="tiny", adapter=digest_of("adapter 1"), constraint="free")
    alone = under.model_copy(update={"adapter": None})
    lived: list[Event] = [facts.weights()]
    for cycle, decoding in ((1, None), (2, alone), (3, under)):
        act = facts.act(cycle, decoding=decoding)
        lived += [act, *(one for one in facts.cycle(cycle) if type(one) is not type(act))]
    shared_events(store, *lived)

    acts = store.charts.adapters("echo", 9)

    assert [(one.cycle, one.adapter) for one in acts] == [(1, None), (2, None), (3, digest_of("adapter 1"))]
    assert [one.acted for one in acts] == [facts.at(cycle).timestamp() for cycle in (1, 2, 3)]
    assert [one.total for one in acts] == [one.total for one in store.charts.points("echo", 9)]
    assert [one.cycle for one in store.charts.adapters("echo", 1)] == [3]
    decided = store.charts.decided("echo", 9)
    assert [(one.cycle, one.adapter) for one in decided] == [(one.cycle, one.adapter) for one in acts]
    assert [one.cycle for one in store.charts.decided("echo", 9, before=3)] == [one.cycle for one in acts[:-1]]
