"""Turns an event into a server-sent event with the few values that pages show. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from conch.rewards.watch import MEANINGS, alarm_name, bounds, severity
from conch.text import safe_text
from conch.views import action_words, needed, scored_of, total_ms
from conch_schemas import (
    ActApproved,
    ActAsked,
    ActDenied,
    ActionTaken,
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterTried,
    AgentSlept,
    AgentWoke,
    AlarmRaised,
    ConsumerFailed,
    CycleReflected,
    Drives,
    Event,
    ExperienceRecorded,
    GoalAccepted,
    GoalDropped,
    GoalReached,
    GoalSet,
    JsonObject,
    MarkWitnessed,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    NoveltyMeasured,
    RewardAssigned,
    TaskProgressed,
    TeamDecided,
    TeamFormed,
    TeamMessage,
    TeamPassed,
    TeamRewarded,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
    ThoughtFormed,
    TrainingFailed,
    TrainingFinished,
    TrainingProgressed,
    TrainingStarted,
    WeightsSet,
)
from conch_services.dashboard.story.strip import adds

WIDTH = 200
"""Characters of a free text in a frame; a page asks for the whole of it."""

_encode: Final = msgspec.json.Encoder().encode


def frame(event: Event, seq: int) -> bytes | None:
    """The event at sequence `seq` of the stream as one message of `text/event-stream`; None: no page shows it.

    Its id is the sequence, so that a page that lost the connection goes on behind the last one it had; its data is one
    line of JSON with `kind`, `seq`, `agent`, `cycle`, `time` (ISO 8601, UTC) and what `told` returns. Texts are made
    safe.
    """
    more = told(event)
    if more is None:
        return None
    said = {
        "kind": event.TYPE,
        "seq": seq,
        "agent": event.agent,
        "cycle": event.cycle,
        "time": event.time.isoformat(),
        "action_id": event.action_id,
        **more,
    }
    return b"id: %d\ndata: %s\n\n" % (seq, _encode(said))


def brief(event: Event, seq: int) -> bytes | None:
    """The event as a page hears it whose parts the server draws: its kind and its cycle alone. What is said aloud or
    put into a list (alarms, messages) is whole; None: no page shows it."""
    if told(event) is None:
        return None
    if isinstance(event, AlarmRaised | MessageReceived | MessageSent):
        return frame(event, seq)
    return b"id: %d\ndata: %s\n\n" % (seq, _encode({"kind": event.TYPE, "cycle": event.cycle}))


def told(event: Event) -> JsonObject | None:
    """The values of an event that pages get beside its envelope; None: none."""
    tell = _TOLD.get(type(event))
    return None if tell is None else tell(event)


def _short(text: str) -> str:
    flat = safe_text(text[: 4 * WIDTH], one_line=True)
    return flat if len(flat) <= WIDTH else flat[: WIDTH - 1] + "…"


def _thought(event: ThoughtFormed) -> JsonObject:
    return {"thought": _short(event.thought.text), "need": event.need, "ms": event.ms}


def _taken(event: ActionTaken) -> JsonObject:
    return {
        "action": action_words(event.action, 80),
        "skill": _short(event.action.skill),
        "valid": event.action.valid,
        "outcome": event.outcome.status,
        "need": needed(event.needs),
        "ms": sum(event.ms.values()),
    }


def _recorded(event: ExperienceRecorded) -> JsonObject:
    scored, parts = scored_of(event)
    return {
        "action": action_words(event.action, 80),
        "skill": _short(event.action.skill),
        "valid": event.action.valid,
        "outcome": event.outcome.status,
        "need": needed(event.needs_before or {}),
        "ms": total_ms(event),
        "tokens": event.usage.input_tokens + event.usage.output_tokens,
        "acted_at": event.acted_at.isoformat(),
        "total": event.total,
        "coverage": event.coverage,
        "complete": event.complete,
        "revision": event.revision,
        "scored": scored,
        "parts": parts,
        "adds": {safe_text(name, one_line=True): amount for name, amount in adds(event).items()},
        "needs": event.needs_after,
    }


def _assigned(event: RewardAssigned) -> JsonObject:
    return {
        "scorer": event.scorer,
        "scores": [{"component": one.component, "value": one.value, "status": one.status} for one in event.scores],
    }


def _needs(event: NeedsChanged) -> JsonObject:
    return {"before": event.before, "after": event.after, "pressing": event.most_pressing}


def _novelty(event: NoveltyMeasured) -> JsonObject:
    drives = {name: getattr(event.drives, name) for name in Drives.model_fields}
    return {"drives": drives, "novelty": event.novelty, "entropy": event.entropy, "skill": _short(event.skill)}


def _weights(event: WeightsSet) -> JsonObject:
    parts = [{"component": one.component, "weight": one.weight, "role": one.role} for one in event.parts]
    return {"version": event.version, "parts": parts, "why": _short(event.why)}


def _alarm(event: AlarmRaised) -> JsonObject:
    return {
        "alarm": event.alarm,
        "name": alarm_name(event.alarm),
        "severity": severity(event.alarm),
        "component": event.component,
        "active": event.active,
        "begun": event.begun,
        "what": _short(event.what),
        "meaning": MEANINGS[event.alarm],
        "bounds": bounds(event.alarm, event.value, event.threshold),
    }


def _failed(event: ConsumerFailed) -> JsonObject:
    return {"consumer": _short(event.consumer), "reason": _short(event.reason)}


def _goal(event: GoalSet) -> JsonObject:
    return {"goal": _short(event.goal.id), "statement": _short(event.goal.statement)}


def _goal_changed(event: GoalAccepted | GoalReached | GoalDropped) -> JsonObject:
    return {"goal": _short(event.goal)}


def _asked(event: ActAsked) -> JsonObject:
    return {"action": action_words(event.action, 80), "until": event.until.isoformat()}


def _answered(event: ActApproved | ActDenied) -> JsonObject:
    return {"by": event.by}


def _slept(event: AgentSlept) -> JsonObject:
    return {"until": event.until.isoformat(), "why": _short(event.why)}


def _woke(event: AgentWoke) -> JsonObject:
    return {"by": event.by, "why": _short(event.why)}


def _message(event: MessageReceived | MessageSent) -> JsonObject:
    return {"text": _short(event.text)}


def _mark(event: MarkWitnessed) -> JsonObject:
    mark = event.mark
    return {"sequence": mark.sequence, "domain": _short(mark.domain), "origin": _short(mark.origin), "hash": mark.hash}


def _progress(event: TaskProgressed) -> JsonObject:
    return {"terminal": event.terminal}


def _reflected(event: CycleReflected) -> JsonObject | None:
    return {"reflection": _short(event.reflection)} if event.reflection else None


def _round(event: TrainingStarted | TrainingFinished) -> JsonObject:
    return {"round": event.round, "attempt": event.attempt}


def _step(event: TrainingProgressed) -> JsonObject:
    return {"round": event.round, "step": event.step, "steps": event.steps, "loss": event.loss, "eta": event.eta}


def _training_failed(event: TrainingFailed) -> JsonObject:
    return {"round": event.round, "again": event.again, "why": _short(event.why)}


def _judged(event: AdapterGated | AdapterTried) -> JsonObject:
    return {"adapter": event.adapter, "verdict": event.verdict}


def _moved(event: AdapterPromoted | AdapterRefused | AdapterRolledBack | AdapterProbed) -> JsonObject:
    return {"adapter": event.adapter, "why": _short(event.why)}


def _team(event: Event) -> JsonObject:
    """Nothing: the server draws all of it."""
    return {}


_TOLD: Final[Mapping[type[Event], Callable[[Any], JsonObject | None]]] = {
    ThoughtFormed: _thought,
    ActionTaken: _taken,
    ExperienceRecorded: _recorded,
    RewardAssigned: _assigned,
    NeedsChanged: _needs,
    NoveltyMeasured: _novelty,
    WeightsSet: _weights,
    AlarmRaised: _alarm,
    ConsumerFailed: _failed,
    GoalSet: _goal,
    GoalAccepted: _goal_changed,
    GoalReached: _goal_changed,
    GoalDropped: _goal_changed,
    ActAsked: _asked,
    ActApproved: _answered,
    ActDenied: _answered,
    AgentSlept: _slept,
    AgentWoke: _woke,
    MessageReceived: _message,
    MessageSent: _message,
    MarkWitnessed: _mark,
    TaskProgressed: _progress,
    CycleReflected: _reflected,
    TrainingStarted: _round,
    TrainingProgressed: _step,
    TrainingFinished: _round,
    TrainingFailed: _training_failed,
    AdapterGated: _judged,
    AdapterTried: _judged,
    AdapterRefused: _moved,
    AdapterPromoted: _moved,
    AdapterRolledBack: _moved,
    AdapterProbed: _moved,
    TeamFormed: _team,
    TeamMessage: _team,
    TeamPassed: _team,
    TeamDecided: _team,
    TeamRewarded: _team,
    TeamSwitchPrepared: _team,
    TeamSwitched: _team,
    TeamSwitchAborted: _team,
}

SHOWN: Final = tuple(_TOLD)
"""Types of events that pages get."""
