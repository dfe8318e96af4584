"""Builds traces from the events of a cycle. Pure: events in, spans and evaluations out.

Names and attributes are those of OpenTelemetry's semantic conventions for generative AI (status: development),
https://github.com/open-telemetry/semantic-conventions-genai; what has none there begins with `conch.`. The ids are the
facts' own: the same fact twice is the same span.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from conch_schemas import (
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Event,
    NeedsChanged,
    NoveltyMeasured,
    RewardAssigned,
    Score,
    ThoughtFormed,
    Usage,
    cycle_event_id,
    trace_id,
    trace_of,
    traceparent_of,
)

FACTS: tuple[type[Event], ...] = (
    ThoughtFormed,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    RewardAssigned,
    NeedsChanged,
    NoveltyMeasured,
)
"""Types of events that traces are made of."""
OPEN_CYCLES = 4096
"""Agents with an open cycle; beyond, the one that began longest ago is closed with what is known."""
_GREATEST = 2**63 - 1
_FAILED = frozenset({"error", "timeout", "blocked", "unknown"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Attributes = Mapping[str, str | int | float | Sequence[str]]


@dataclass(frozen=True)
class CycleSpan:
    """A span: one operation of a cycle."""

    name: str
    trace: str
    """32 hexadecimal digits."""
    span: str
    """16 hexadecimal digits."""
    parent: str | None
    start: int
    """Nanoseconds since the epoch, by the producer's clock; `end` too, never before it."""
    end: int
    attributes: Attributes
    remote: bool = False
    """Whether it asks something outside: a mind."""
    error: str | None = None
    """How it failed, where it did."""


@dataclass(frozen=True)
class ScoreEvent:
    """A score, as an event on the cycle's span."""

    trace: str
    span: str
    time: int
    """Nanoseconds since the epoch."""
    attributes: Attributes


@dataclass(frozen=True)
class _OpenCycle:
    """The open cycle of an agent, and what is known of it."""

    action: str
    start: int
    """Nanoseconds since the epoch."""
    model: str
    root: CycleSpan | None = None
    """The whole of it, once it has acted."""


@dataclass
class TraceBuilder:
    """Makes spans of events. It remembers each agent's open cycle, and nothing else."""

    provider: str
    """The provider of the mind's model: `gen_ai.provider.name`."""
    content: bool
    """Whether prompts, replies, arguments, outputs and the scorers' words are exported."""
    _open: OrderedDict[str, _OpenCycle] = field(default_factory=OrderedDict)

    def take(self, event: Event) -> list[CycleSpan | ScoreEvent]:
        """The spans and events that follow from this event; none for an event without an action, or with ids or times
        that make no trace."""
        try:
            return self._found(event, _whole(event))
        except (ValueError, OverflowError):
            return []

    def _found(self, event: Event, whole: str) -> list[CycleSpan | ScoreEvent]:
        if isinstance(event, ThoughtFormed):
            return self._thought(event, whole)
        if isinstance(event, ActionDecided):
            return [self._decided(event, whole)]
        if isinstance(event, ActionTaken):
            return self._taken(event, whole)
        if isinstance(event, CycleReflected):
            return self._reflected(event, whole)
        if isinstance(event, RewardAssigned):
            return [self._evaluation(event, score, place, whole) for place, score in enumerate(event.scores)]
        if isinstance(event, NeedsChanged | NoveltyMeasured) and event.score is not None:
            return [self._evaluation(event, event.score, 0, whole)]
        return []

    def rest(self) -> list[CycleSpan | ScoreEvent]:
        """The spans of open cycles that have acted, with what is known. The cycles are forgotten."""
        roots: list[CycleSpan | ScoreEvent] = [cycle.root for cycle in self._open.values() if cycle.root is not None]
        self._open.clear()
        return roots

    def _thought(self, event: ThoughtFormed, whole: str) -> list[CycleSpan | ScoreEvent]:
        left = self._open.pop(event.agent, None)
        while len(self._open) >= OPEN_CYCLES:
            left = self._open.popitem(last=False)[1]
        self._open[event.agent] = _OpenCycle(str(event.action_id), _began(event), event.model)
        asked = self._chat(event, whole, "think", event.model, event.usage)
        if self.content:
            asked = replace(asked, attributes={**asked.attributes, **_said(event.thought.text)})
        return [asked] if left is None or left.root is None else [left.root, asked]

    def _decided(self, event: ActionDecided, whole: str) -> CycleSpan:
        asked = self._chat(event, whole, "decide", event.model, event.usage)
        more: dict[str, str | Sequence[str]] = {"gen_ai.response.finish_reasons": (event.finish_reason,)}
        if self.content:
            messages = [_message(message.role, message.content) for message in event.messages]
            more |= {"gen_ai.input.messages": _json(messages)} | _said(event.raw)
        return replace(asked, attributes={**asked.attributes, **more})

    def _taken(self, event: ActionTaken, whole: str) -> list[CycleSpan | ScoreEvent]:
        cycle = self._open.get(event.agent)
        if cycle is None or cycle.action != event.action_id:  # its beginning was not heard
            cycle = _OpenCycle(str(event.action_id), _before(_ns(event.time), sum(event.ms.values())), event.model)
        end = _ns(event.time)
        root = CycleSpan(
            name=f"invoke_agent {event.agent}",
            trace=_trace(event),
            span=whole,
            parent=None,
            start=min(cycle.start, end),
            end=end,
            attributes=self._common(event, "invoke_agent")
            | _tokens(event.usage)
            | {
                "gen_ai.request.model": event.model,
                "conch.action.kind": event.action.kind,
                "conch.outcome": event.outcome.status,
            },
        )
        self._open[event.agent] = replace(cycle, root=root, model=event.model)
        return [self._executed(event, root)] if event.action.kind == "TOOL" and event.action.valid else []

    def _executed(self, event: ActionTaken, root: CycleSpan) -> CycleSpan:
        tool, outcome = event.action.tool or "", event.outcome
        told: dict[str, str | int] = {
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": str(event.action_id),
        }
        failed = outcome.status if outcome.status in _FAILED else None
        if failed is not None:
            told["error.type"] = failed
        if self.content:
            told["gen_ai.tool.call.arguments"] = _json(event.action.args)
            told["gen_ai.tool.call.result"] = outcome.output.text
        return CycleSpan(
            name=f"execute_tool {tool}",
            trace=root.trace,
            span=_span(traceparent_of(str(event.action_id), str(uuid5(UUID(event.id), "execute_tool")))),
            parent=root.span,
            start=_before(root.end, outcome.ms),
            end=root.end,
            attributes=self._common(event, "execute_tool") | told,
            error=failed,
        )

    def _reflected(self, event: CycleReflected, whole: str) -> list[CycleSpan | ScoreEvent]:
        """The cycle is over: all of it, and before that its reflection where it had one."""
        cycle = self._open.get(event.agent)
        if cycle is None or cycle.action != event.action_id:
            cycle = _OpenCycle(str(event.action_id), 0, "")
        else:
            del self._open[event.agent]
        said: list[CycleSpan | ScoreEvent] = []
        root = cycle.root
        if event.reflection:
            asked = self._chat(event, whole, "reflect", cycle.model, event.usage)
            if self.content:
                asked = replace(asked, attributes={**asked.attributes, **_said(event.reflection)})
            said.append(asked)
            if root is not None:
                spent = _sums(root.attributes, event.usage)
                root = replace(root, end=max(root.end, asked.end), attributes={**root.attributes, **spent})
        return said if root is None else [*said, root]

    def _chat(
        self, event: ThoughtFormed | ActionDecided | CycleReflected, whole: str, phase: str, model: str, usage: Usage
    ) -> CycleSpan:
        asked = {"gen_ai.request.model": model} if model else {}
        return CycleSpan(
            name=f"chat {model}".rstrip(),
            trace=_trace(event),
            span=_own(event),
            parent=whole,
            start=_began(event),
            end=_ns(event.time),
            attributes=self._common(event, "chat") | asked | _tokens(usage) | {"conch.phase": phase},
            remote=True,
        )

    def _common(self, event: Event, operation: str) -> dict[str, str | int | float | Sequence[str]]:
        of = {"gen_ai.provider.name": self.provider} if operation != "execute_tool" else {}
        return {"gen_ai.operation.name": operation, **of, **_who(event)}

    def _evaluation(self, event: Event, score: Score, place: int, whole: str) -> ScoreEvent:
        told: dict[str, str | int | float | Sequence[str]] = {
            "gen_ai.evaluation.name": score.component,
            "gen_ai.evaluation.score.label": _label(score),
            "conch.scorer": score.scorer,
            "conch.scorer.version": score.version,
            "log.record.uid": str(uuid5(UUID(int=0), f"{event.id}/{place}")),
        }
        if score.value is not None:
            told["gen_ai.evaluation.score.value"] = score.value
        if score.status in ("error", "timeout"):
            told["error.type"] = score.status
        if self.content and score.explanation:
            told["gen_ai.evaluation.explanation"] = score.explanation
        return ScoreEvent(_trace(event), whole, _ns(event.time), told | _who(event))


def _who(event: Event) -> dict[str, str | int]:
    """An agent's life is one conversation."""
    told: dict[str, str | int] = {
        "gen_ai.agent.name": event.agent,
        "gen_ai.agent.id": event.agentuid,
        "gen_ai.conversation.id": event.agentuid,
        "conch.action.id": str(event.action_id),
    }
    if event.cycle is not None:
        told["conch.cycle"] = min(event.cycle, _GREATEST)
    return told | ({"conch.policy": event.policy} if event.policy is not None else {})


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "gen_ai.usage.input_tokens": min(usage.input_tokens, _GREATEST),
        "gen_ai.usage.output_tokens": min(usage.output_tokens, _GREATEST),
    }


def _sums(attributes: Attributes, usage: Usage) -> dict[str, int]:
    more = _tokens(usage)
    return {name: min(int(str(attributes.get(name, 0))) + tokens, _GREATEST) for name, tokens in more.items()}


def _label(score: Score) -> str:
    if score.value is None:
        return score.status
    return "gained" if score.value > 0 else "lost" if score.value < 0 else "neutral"


def _said(text: str) -> dict[str, str]:
    return {"gen_ai.output.messages": _json([_message("assistant", text)])}


def _message(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _whole(event: Event) -> str:
    """The span of the whole cycle, which is that of its act. Raises ValueError for ids that make none."""
    action = str(UUID(event.action_id or ""))
    return _span(traceparent_of(action, cycle_event_id(action, ActionTaken)))


def _trace(event: Event) -> str:
    return trace_id(event.traceparent) or trace_of(str(UUID(event.action_id or "")))


def _own(event: Event) -> str:
    told = event.traceparent if trace_id(event.traceparent) is not None else None
    return _span(told or traceparent_of(str(event.action_id), event.id))


def _span(traceparent: str) -> str:
    return traceparent.split("-")[2]


def _began(event: ThoughtFormed | ActionDecided | CycleReflected) -> int:
    return _before(_ns(event.time), event.ms)


def _ns(time: datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return _clamped((aware - _EPOCH) // timedelta(microseconds=1) * 1000)


def _clamped(ns: int) -> int:
    return min(max(0, ns), _GREATEST)


def _before(end: int, ms: float) -> int:
    return _clamped(end - int(ms * 1e6))
