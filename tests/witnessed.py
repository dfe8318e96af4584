"""What a store publishes of an act, for tests of marks without a store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from conch.experience.assemble import ExperienceContext, assemble, judge
from conch.rewards import parts_of_act
from conch_schemas import ActionTaken, ExperienceRecorded, Part, Score


def recorded(
    act: ActionTaken,
    scores: Sequence[Score] = (),
    parts: Sequence[Part] = (),
    *,
    weights: str = "w1",
    revision: int = 1,
    seq: int = 1,
    time: datetime = datetime(2026, 11, 20, 13, tzinfo=UTC),
) -> ExperienceRecorded:
    """The experience of the act with these scores, by a weight set of these parts, recorded at `time`; `seq`: the act's
    place."""
    in_task = act.episode is not None
    others = () if in_task else tuple(part for part in parts if part.task_weight is not None)
    verdict = judge(weights if parts else "", parts_of_act(parts, task=in_task), scores, others)
    return assemble(act, seq, verdict, ExperienceContext(), revision=revision, recorded=time)
