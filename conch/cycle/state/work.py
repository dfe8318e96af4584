"""What an agent spent on its goals: the paid changes that no goal has given back, and what it kept adding to. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from conch.folds import moves_goal, uses_allowance
from conch_schemas import ActionTaken, GoalWork

GIVEN_BACK = 3
"""Most paid changes that one reached goal, or one answered message, gives back: a change, its test and a mend. An
agent that holds back a goal which it could reach gains little by filling meanwhile."""
MOST_SPENT = 1000
"""Most paid changes that are remembered, so that the memory stays bounded for any setting."""
MOST_FILES = 100
"""Most files whose additions are counted: the one added to longest ago is dropped first."""


class WorkLedger(BaseModel):
    """The paid changes of one agent, kept in its memory and folded from its acts alone. Bounded."""

    model_config = ConfigDict(frozen=True)

    spent: tuple[int, ...] = ()
    """Cycles of the paid acts that moved no goal and that none has given back, the oldest first."""
    appended: dict[str, int] = Field(default_factory=dict)
    """How often lines were only added to a file since a goal's measure moved; the one added to last is last."""

    def before(self, opened: int, start: int, appended: tuple[str, ...]) -> GoalWork:
        """How an act stands: `opened` goals and messages, an allowance of `start` at first, the files that it only
        added lines to."""
        appends = min((self.appended.get(path, 0) + 1 for path in appended), default=0)
        allowance = max(0, min(start, MOST_SPENT) - len(self.spent))
        return GoalWork(open=opened, allowance=allowance, appended=appended, appends=appends)

    def acted(self, act: ActionTaken, since: Mapping[str, int]) -> WorkLedger:
        """The ledger after an act; `since`: the first cycle of each goal that was open. An act that was not counted
        changes nothing."""
        if act.effect is None or act.effect.work is None or act.cycle is None:
            return self
        spent = (*self.spent, act.cycle)[-MOST_SPENT:] if uses_allowance(act) else self.spent
        for check in act.goals:
            if check.outcome == "achieved" and check.accepted and check.goal in since:
                spent = _given_back(spent, since[check.goal])
        if act.effect.kind == "answer":
            spent = _given_back(spent, 0)
        if moves_goal(act) and any(check.outcome in ("achieved", "partial") and check.accepted for check in act.goals):
            return WorkLedger(spent=spent)
        added = {path: self.appended.get(path, 0) + 1 for path in act.effect.work.appended}
        counts = {path: count for path, count in self.appended.items() if path not in added} | added
        return WorkLedger(spent=spent, appended=dict(list(counts.items())[-MOST_FILES:]))


def _given_back(spent: tuple[int, ...], since: int) -> tuple[int, ...]:
    """What is still spent once a goal that was open since this cycle is reached: without the last GIVEN_BACK of its
    own."""
    own = sum(cycle >= since for cycle in spent)
    return spent[: len(spent) - min(own, GIVEN_BACK)]
