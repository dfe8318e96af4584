"""Trace context: derived, and carried from cause to consequence."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch_schemas import passed_on, trace_id, trace_of, traceparent_of

ACTION = "6b0c29a5-9d4e-5a86-8a8c-3c8f6f2f9b11"
W3C = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01")


@given(action=st.uuids(version=5), event=st.one_of(st.uuids(version=5).map(str), st.text()))
def test_every_id_makes_a_context_that_others_can_read(action: uuid.UUID, event: str) -> None:
    """Of the standard's form, in the action's trace, the same for the same fact; for any id that a consumer has."""
    made = traceparent_of(str(action), event)

    assert W3C.fullmatch(made)
    assert trace_id(made) == trace_of(str(action)) == action.hex
    assert made == traceparent_of(str(action), event)
    assert int(made.split("-")[2], 16) > 0


def test_what_follows_is_another_span_of_the_same_trace() -> None:
    """So a reader of traces tells an act from its scores and knows that they belong together."""
    cause = traceparent_of(ACTION, str(uuid.uuid5(uuid.UUID(ACTION), "cause")))

    after = passed_on(cause, str(uuid.uuid5(uuid.UUID(ACTION), "consequence")))

    assert after != cause
    assert trace_id(after) == trace_id(cause)


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "",
        "hello",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{'a' * 32}-{'0' * 16}-01",
        f"ff-{'a' * 32}-b7ad6b7169203331-01",
        f"00-{'A' * 32}-b7ad6b7169203331-01",
        f"00-{'a' * 32}-b7ad6b7169203331-01\n",
    ],
)
def test_a_broken_context_is_not_passed_on(broken: str | None) -> None:
    """The standard says so of zeros, capitals and version ff; of anything else it is plain."""
    assert trace_id(broken) is None
    assert passed_on(broken, ACTION) is None
