"""Walks: runs of an agent's marks with a goal. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from conch_schemas import Mark

WalkStatus = Literal["active", "paused", "complete", "abandoned"]
WalkCall = Literal["pause", "resume", "complete", "abandon"]
Phase = Literal["sense", "act", "reflect"]

_AFTER: Final[dict[tuple[str, str], WalkStatus]] = {
    ("active", "pause"): "paused",
    ("paused", "resume"): "active",
    ("active", "complete"): "complete",
    ("paused", "complete"): "complete",
    ("active", "abandon"): "abandoned",
    ("paused", "abandon"): "abandoned",
}
_NEXT: Final[dict[Phase, Phase]] = {"sense": "act", "act": "reflect", "reflect": "sense"}
_PHASE_OF: Final[dict[str, Phase]] = {"action": "act", "score": "reflect", "alarm": "reflect"}
"""By the domain of a mark; any other is sensed: messages, goals, pauses."""


def status_after(status: WalkStatus, calls: Iterable[str]) -> WalkStatus:
    """The status after these calls. A call that the status refuses changes nothing: a closed walk (complete or
    abandoned) takes none, only an active one is paused, only a paused one resumed."""
    for call in calls:
        status = _AFTER.get((status, call), status)
    return status


def next_phase(phase: Phase) -> Phase:
    """What a walk does after `phase`: sense, act, reflect, sense again; a phase may last several marks."""
    return _NEXT[phase]


def phase_of(mark: Mark) -> Phase:
    """The phase of a walk that a mark belongs to."""
    return _PHASE_OF.get(mark.domain, "sense")


class WalkSpan(BaseModel):
    """A stretch of the chain."""

    model_config = ConfigDict(frozen=True)

    first: int = Field(ge=0)
    """Sequence of the first mark that it takes."""
    end: int | None = None
    """Sequence of the first mark behind it; None: it is open."""


class Walk(BaseModel):
    """One walk. It takes the marks of its spans: those sealed while it was active."""

    model_config = ConfigDict(frozen=True)

    id: str
    agent: str
    goal: str
    status: WalkStatus = "active"
    started: datetime
    closed: datetime | None = None
    why: str = ""
    """Why it was closed, in the person's words."""
    spans: tuple[WalkSpan, ...]

    def takes(self, sequence: int) -> bool:
        """Whether the mark of this sequence belongs to the walk."""
        return any(span.first <= sequence and (span.end is None or sequence < span.end) for span in self.spans)

    def called(self, call: WalkCall, end: int, now: datetime, why: str = "") -> Walk | None:
        """The walk after a call, made when the chain's next mark has the sequence `end`; None where it is refused."""
        status = status_after(self.status, [call])
        if status == self.status:
            return None
        spans = self.spans
        if self.status == "active":
            spans = (*spans[:-1], spans[-1].model_copy(update={"end": end}))
        elif status == "active":
            spans = (*spans, WalkSpan(first=end))
        closed = {"closed": now, "why": why} if status in ("complete", "abandoned") else {}
        return self.model_copy(update={"status": status, "spans": spans} | closed)


def new_walk(number: str, agent: str, goal: str, end: int, now: datetime) -> Walk:
    """A walk that takes the marks from the sequence `end` on."""
    return Walk(id=number, agent=agent, goal=goal, started=now, spans=(WalkSpan(first=end),))
