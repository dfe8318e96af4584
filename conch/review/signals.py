"""Why a row should be looked at by a person: its risk, how far its scorers disagree, how seldom its kind is. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from conch.actions import effect_of
from conch.config import BUILTIN_COMPONENTS
from conch.data import Row
from conch.experience import Example
from conch_schemas import Action

_RISK_OF_EFFECT: Final = {"read": 0.0, "workspace": 0.25, "world": 0.75}
_UNDECLARED: Final = 0.5
"""Risk of a call of a tool of which no effect is declared here: it may change anything."""
_NO_TOOL: Final = ("invalid", "do_nothing", "reflect")
"""Skills of acts that call no tool."""
_RISK_OF_OUTCOME: Final = {"blocked": 1.0, "unknown": 0.75, "timeout": 0.5, "error": 0.25}
_SPAN: Final = 2.0
"""Width of the range of scores, -1 to 1: two scorers at its ends disagree by 1."""
LEAST: Final = 0.25
"""Disagreement below this is not counted: two scorers of one thing are seldom equal."""


class RowSignals(NamedTuple):
    """Each 0 to 1."""

    risk: float
    """Of the act whose reply is taught: what its tool may change, and how it ended."""
    disagreement: float
    """Greatest distance of two scores of one component, as a share of the width of -1 to 1; and of a judge or a
    rule of one's own that only watches from the act's reward."""
    novelty: float
    """1 ÷ √n for the n-fold kind of row: tool, operation and outcome."""

    @property
    def weight(self) -> float:
        """Their sum: the more, the sooner the row is shown."""
        return self.risk + self.disagreement + self.novelty


@dataclass
class SignalSurvey:
    """What has to be known of all acts before the first row."""

    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(skill, outcome) -> acts."""
    apart: dict[str, float] = field(default_factory=dict)
    """Action id -> disagreement, where that is at least LEAST."""

    @classmethod
    def of(cls, examples: Iterable[Example]) -> SignalSurvey:
        """The survey of these acts. Memory: each kind, and each act on which scorers disagree."""
        survey = cls()
        for example in examples:
            data = example.act.data
            survey.kinds[data.action.skill, data.outcome.status] += 1
            if (apart := disagreement(example)) >= LEAST:
                survey.apart[example.act.action_id] = apart
        return survey

    def of_row(self, row: Row) -> RowSignals:
        """The signals of a row."""
        return RowSignals(
            risk=risk(row.skill, row.status),
            disagreement=max((self.apart.get(action, 0.0) for action in row.action_ids), default=0.0),
            novelty=1.0 / math.sqrt(max(1, self.kinds[row.skill, row.status])),
        )


def risk(skill: str, status: str) -> float:
    """The risk of teaching an act with this skill, `tool.operation`, and this outcome: 0 to 1."""
    tool, _, operation = skill.partition(".")
    if status in ("", "none") or tool in _NO_TOOL:
        return _RISK_OF_OUTCOME.get(status, 0.0)
    args = {"operation": operation} if operation else {}
    effect = effect_of(Action(kind="TOOL", valid=True, tool=tool, args=args))
    changed = _UNDECLARED if effect is None else _RISK_OF_EFFECT[effect]
    return max(changed, _RISK_OF_OUTCOME.get(status, 0.0))


def disagreement(example: Example) -> float:
    """As `RowSignals.disagreement`, of an act."""
    said: dict[str, list[float]] = defaultdict(list)
    far = 0.0
    for score in example.verdict.scores:
        if score.value is None or score.role == "held_out":
            continue
        said[score.component].append(score.value)
        if score.weight == 0.0 and score.component not in BUILTIN_COMPONENTS:
            far = max(far, abs(score.value - example.verdict.total))
    spread = max((max(values) - min(values) for values in said.values()), default=0.0)
    return min(1.0, max(spread, far) / _SPAN)
