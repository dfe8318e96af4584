"""The scores that rules gave the rows on which people decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conch.experience import ExperienceReader
from conch.review.agreement import Rule
from conch.review.decisions import ReviewDecisions
from conch_schemas import HUMAN_SCORER, ReviewDecided


def scores_beside(
    store: ExperienceReader, decisions: ReviewDecisions
) -> Iterator[tuple[ReviewDecided, Mapping[Rule, float]]]:
    """Each decision with the score of each rule, as `rule_agreement` takes them; a decision on a row of which an act is
    not stored any more is left out. Raises StoreError."""
    for event in decisions:
        found = [_scores(store, event.agent, action) for action in event.acts[:2]]
        if not found or not all(found):
            continue
        yield event, found[0] if len(found) == 1 else _less(*found)


def _less(chosen: Mapping[Rule, float], rejected: Mapping[Rule, float]) -> Mapping[Rule, float]:
    return {rule: value - rejected[rule] for rule, value in chosen.items() if rule in rejected}


def _scores(store: ExperienceReader, agent: str, action: str) -> Mapping[Rule, float]:
    cycle = store.cycles.cycle_of(action)
    experience = None if cycle is None else store.cycles.get(agent, cycle)
    if experience is None or experience.action_id != action:
        return {}
    return {
        (one.component, one.scorer): one.value
        for one in experience.scores
        if one.value is not None and one.scorer != HUMAN_SCORER
    }
