"""What a store publishes of an act, for tests of marks without a store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from conch.experience.assemble import ExperienceContext, assemble, judge
from conch_schemas import ActionTaken, ExperienceRecorded, Part, Score


def recorded(
    act: ActionTaken,
    scores: Sequence[Score] = (),
    parts: Sequence[Part] = (),
    *,
    weights: str = "w1",
    revision: int = 1,
) -> ExperienceRecorded:
    """The experience of the act with these scores, by a weight set of these parts."""
    verdict = judge(weights if parts else "", parts, scores)
    now = datetime(2026, 11, 20, 13, tzinfo=UTC)
    return assemble(act, 1, verdict, ExperienceContext(), revision=revision, recorded=now)
