"""The text of a mark: an event described in words, built from its own fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from conch_schemas import (
    BUILTIN_SCORER,
    ActionTaken,
    AlarmRaised,
    NeedsChanged,
    NoveltyMeasured,
    RewardAssigned,
    Score,
)

Witnessed = ActionTaken | RewardAssigned | NeedsChanged | NoveltyMeasured | AlarmRaised
"""The events that get a mark."""

_LONGEST: Final = 1000
"""Most characters of one text in a mark; the whole text is in the witnessed event."""


class MarkText(NamedTuple):
    """The text fields of a mark."""

    origin: str
    domain: Literal["action", "score", "alarm"]
    stimulus: str
    response: str
    reasoning: str
    evidence: Literal["fact", "check", "judgement"]


def words_for(fact: Witnessed) -> MarkText | None:
    """The text of the mark for `fact`; None for an event without a score (a need that no act changed)."""
    if isinstance(fact, ActionTaken):
        return _act(fact)
    if isinstance(fact, RewardAssigned):
        return _scores(fact.scorer, fact.action_id, fact.scores)
    if isinstance(fact, AlarmRaised):
        return _alarm(fact)
    score = fact.score
    beside = fact.beside if isinstance(fact, NoveltyMeasured) else ()
    return None if score is None else _scores(score.scorer, fact.action_id, (score, *beside))


def _act(action: ActionTaken) -> MarkText:
    act, outcome = action.action, action.outcome
    error = "" if outcome.error is None else f": {_short(outcome.error).rstrip('.')}"
    reasons = [
        f"Thought: {_short(action.thought)}" if action.thought else "No thought is known.",
        "The reply is valid." if act.valid else f"The reply is not valid: {_short(act.reason or 'no reason given')}.",
        f"Outcome: {outcome.status}{error}.",
        *(f"Goal “{_short(goal.statement)}”: {goal.outcome}, {goal.measure:g} of 1." for goal in action.goals),
    ]
    return MarkText(
        origin=action.agent,
        domain="action",
        stimulus=_short(action.thought),
        response=_short(action.raw),
        reasoning=" ".join(reasons),
        evidence="check" if action.goals else "fact",
    )


def _scores(scorer: str, action_id: str | None, scores: Sequence[Score]) -> MarkText:
    said = ", ".join(f"{score.component} {_verdict(score)}" for score in scores)
    why = " ".join(f"{score.component}: {_short(score.explanation)}" for score in scores)
    return MarkText(
        origin=scorer,
        domain="score",
        stimulus=f"action {action_id}",
        response=said,
        reasoning=why,
        evidence=_tier(scorer),
    )


def _alarm(alarm: AlarmRaised) -> MarkText:
    of = f" of {_short(alarm.component)}" if alarm.component is not None else ""
    return MarkText(
        origin="watch",
        domain="alarm",
        stimulus=f"action {alarm.action_id}",
        response=_short(alarm.what),
        reasoning=(
            f"The figure {alarm.alarm}{of} over {alarm.window} acts is {alarm.value:.4g}; its bound is "
            f"{alarm.threshold:.4g}: the alarm {'begins' if alarm.active else 'is over'}."
        ),
        evidence="check",
    )


def _verdict(score: Score) -> str:
    return score.status if score.value is None else f"{score.value:g}"


def _tier(scorer: str) -> Literal["fact", "check", "judgement"]:
    """Evidence tier: built-in scorers read structured facts, a person judges, and any other scorer is a program."""
    if scorer in (BUILTIN_SCORER, "needs", "curiosity"):
        return "fact"
    return "judgement" if scorer == "human" else "check"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
