"""Label values and exemplars from text of strangers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conch_schemas import GoalDropped
from conch_services.metrics.labels import LONGEST, OTHER, BoundedLabels, exemplar_of
from tests.metrics.conftest import TRACE, make


def test_names_beyond_the_bound_are_other() -> None:
    """The first names keep theirs, whatever comes after."""
    names = BoundedLabels(2)

    assert [names(name) for name in ("a", "b", "c", "a")] == ["a", "b", OTHER, "a"]


def test_a_known_name_has_its_place_though_strangers_came_first() -> None:
    """What is known from the start cannot be crowded out."""
    names = BoundedLabels(2, ["echo"])

    assert [names(name) for name in ("x", "y", "echo")] == ["x", OTHER, "echo"]


@given(st.lists(st.text(max_size=200), max_size=30))
def test_labels_are_few_short_and_printable(texts: list[str]) -> None:
    """Any texts at all make at most so many labels, none empty, long, or with a control character."""
    names = BoundedLabels(5)

    labels = {names(text) for text in texts}

    assert len(labels) <= 6
    assert all(0 < len(label) <= LONGEST for label in labels)
    assert not any(ord(character) < 32 or character == "\x7f" for label in labels for character in label)


def test_an_exemplar_points_to_cycle_action_and_trace() -> None:
    """What a person needs to find the act."""
    event = make(GoalDropped, cycle=7, goal="g")

    assert exemplar_of(event) == {"cycle": "7", "action_id": event.action_id, "trace_id": TRACE}


@given(
    st.integers(min_value=0),
    st.one_of(st.text(), st.just("a" * 500)),
    st.one_of(st.text(), st.just("00-" + "f" * 500)),
)
def test_an_exemplar_keeps_to_what_openmetrics_allows(cycle: int, action: str, trace: str) -> None:
    """At most 128 characters, whatever the event says of itself."""
    event = make(GoalDropped, goal="g", cycle=cycle).model_copy(update={"action_id": action, "traceparent": trace})

    assert sum(len(key) + len(value) for key, value in exemplar_of(event).items()) <= 128
