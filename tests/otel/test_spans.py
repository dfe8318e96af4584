"""Spans of facts, whatever the facts say: pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from conch_schemas import ActionTaken, NeedsChanged, Usage
from conch_services.otel import spans as module
from conch_services.otel.exporter import readable
from conch_services.otel.spans import CycleSpan, TraceBuilder
from tests.otel.conftest import cycle_facts, reward


def _traces() -> TraceBuilder:
    return TraceBuilder("openai", content=True)


@given(
    text=st.text(max_size=50),
    number=st.integers(0, 10**40),
    ms=st.floats(0, allow_nan=False, allow_infinity=False),
    time=st.datetimes(timezones=st.just(UTC)),
    order=st.permutations(range(4)),
)
def test_whatever_a_cycle_says_can_be_sent(text: str, number: int, ms: float, time: datetime, order: list[int]) -> None:
    """Numbers beyond 64 bits, times before 1970 and after 2554, any text, any order: every span can be written as OTLP,
    and none ends before it begins."""
    facts = cycle_facts()
    usage = Usage(input_tokens=number, output_tokens=number)
    odd: list[dict[str, Any]] = [
        {"model": text, "ms": ms, "usage": usage},
        {"model": text, "finish_reason": text, "raw": text},
        {"model": text, "ms": {"think": ms, "act": -ms}, "usage": usage},
        {"reflection": text or "-", "usage": usage, "ms": ms},
    ]
    odd = [{**one, "time": time} for one in odd]
    told = [facts[place].model_copy(update=odd[place]) for place in order]
    traces = _traces()

    found = [span for fact in told for span in traces.take(fact)] + traces.rest()

    spans = [span for span in found if isinstance(span, CycleSpan)]
    assert all(0 <= span.start <= span.end < 2**63 for span in spans)
    assert encode_spans([readable(span) for span in spans]).SerializePartialToString()


def test_a_cycle_that_is_never_over_is_told_when_the_next_begins() -> None:
    """A crash between the act and its reflection hides no cycle; nor does the end of the service."""
    traces = _traces()
    for fact in cycle_facts(1)[:3]:
        traces.take(fact)

    told = traces.take(cycle_facts(2)[0])

    assert [span.name for span in told if isinstance(span, CycleSpan)] == ["invoke_agent echo", "chat m-1"]
    assert traces.rest() == []
    traces.take(cycle_facts(3)[2])
    assert [span.attributes["conch.cycle"] for span in traces.rest()] == [3]


def test_open_cycles_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents are anybody's to invent: the one that began longest ago ends as far as it is known."""
    monkeypatch.setattr(module, "OPEN_CYCLES", 2)
    traces = _traces()
    for name in ("a", "b"):
        for fact in cycle_facts():
            if isinstance(fact, ActionTaken):
                traces.take(fact.model_copy(update={"agent": name}))

    told = traces.take(cycle_facts()[0].model_copy(update={"agent": "c"}))

    assert [span.name for span in told if isinstance(span, CycleSpan)] == ["invoke_agent a", "chat m-1"]


def test_what_belongs_to_no_act_makes_no_trace() -> None:
    """A score without an action, or of an action whose id is none; needs that changed by themselves."""
    score = reward(cycle_facts()[2], format=0.5)
    drift = NeedsChanged(id="x", source="conch/echo/u", agent="echo", before={}, after={}, most_pressing="growth")

    assert _traces().take(score.model_copy(update={"action_id": None})) == []
    assert _traces().take(score.model_copy(update={"action_id": "none of ours"})) == []
    assert _traces().take(drift) == []
