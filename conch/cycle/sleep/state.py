"""An agent's sleep as a part of its memory: a fold over its acts, `agent.slept` and `agent.woke`. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pydantic import BaseModel, ConfigDict

from conch_schemas import ActionTaken, AgentSlept, AgentWoke

STIRS: Final = 6
"""Wakes by files and sensors that are remembered: as many within an hour wake at once."""
MOST_DOUBLED: Final = 32
"""Most sleeps in a row that are counted: a sleep that doubled as often is longer than any limit."""


class PresentSleep(BaseModel):
    """The sleep of an agent that is asleep."""

    model_config = ConfigDict(frozen=True)

    number: int
    until: datetime
    why: str


class SleepState(BaseModel):
    """What an agent remembers of its sleep, and of its acts as far as they decide on it."""

    model_config = ConfigDict(frozen=True)

    number: int = 0
    """Of the next sleep."""
    present: PresentSleep | None = None
    """The sleep that it is in; None: it is awake."""
    row: int = 0
    """Sleeps since somebody asked for something, or the agent got further: each is twice as long as the one before."""
    stirs: tuple[datetime, ...] = ()
    """When files and sensors woke it last, at most STIRS times, the newest last."""
    idle: int = 0
    """Acts in a row without an effect."""

    def acted(self, act: ActionTaken) -> SleepState:
        """After an act."""
        if has_progress(act):
            return self.model_copy(update={"idle": 0, "row": 0, "stirs": ()})
        idle = 0 if has_effect(act) else self.idle + 1
        return self if idle == self.idle else self.model_copy(update={"idle": idle})

    def slept(self, event: AgentSlept) -> SleepState:
        """After it fell asleep, or slept on. A second time changes nothing."""
        if event.number < self.number:
            return self
        present = PresentSleep(number=event.number, until=event.until, why=event.why)
        row = min(self.row + 1, MOST_DOUBLED)
        return self.model_copy(update={"number": event.number + 1, "present": present, "row": row})

    def woke(self, event: AgentWoke) -> SleepState:
        """After it woke. A second time changes nothing."""
        if self.present is None or event.number < self.present.number:
            return self
        if event.by in ("file", "sensor"):
            return self.model_copy(update={"present": None, "stirs": (*self.stirs, event.time)[-STIRS:]})
        return self.model_copy(update={"present": None, "row": 0, "stirs": (), "idle": 0})


def has_progress(act: ActionTaken) -> bool:
    """Whether an act answered a message, or moved a goal's measure."""
    moved = any(check.outcome in ("achieved", "partial") for check in act.goals)
    return moved or act.outcome.answered is not None


def has_effect(act: ActionTaken) -> bool:
    """Whether an act brought about anything; of an act that was not measured, whether its tool succeeded."""
    if act.effect is not None:
        return act.effect.kind != "none"
    return act.action.kind == "TOOL" and act.outcome.status == "success"
