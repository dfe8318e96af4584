"""Cohen's kappa between a person's decisions and the sign of a rule's scores. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from conch.review.decisions import ReviewDecisions
from conch_schemas import ReviewDecided

Rule = tuple[str, str]
"""(component, scorer)."""


class Kappa(NamedTuple):
    """The agreement of two yes-or-no raters beyond chance (Cohen 1960)."""

    rows: int
    """Rows that both rated."""
    agreed: int
    """Of those, rows that both rated alike."""
    value: float | None
    """-1 to 1; None where chance alone agrees always: both rated all rows alike, or there are none."""


class RuleAgreement(NamedTuple):
    """How far a person and a rule agree."""

    reviewer: str
    component: str
    scorer: str
    kappa: Kappa


def cohen_kappa(table: Mapping[tuple[bool, bool], int]) -> Kappa:
    """The kappa of a table of counts by (first rater, second rater).

    >>> cohen_kappa({(True, True): 20, (True, False): 5, (False, True): 10, (False, False): 15}).value
    0.4
    """
    count = sum(table.values())
    agreed = table.get((True, True), 0) + table.get((False, False), 0)
    first = table.get((True, True), 0) + table.get((True, False), 0)
    second = table.get((True, True), 0) + table.get((False, True), 0)
    by_chance = first * second + (count - first) * (count - second)  # of count²
    if not count or by_chance == count * count:
        return Kappa(count, agreed, None)
    return Kappa(count, agreed, (agreed * count - by_chance) / (count * count - by_chance))


def rule_agreement(
    decisions: ReviewDecisions, scores: Iterable[tuple[ReviewDecided, Mapping[Rule, float]]]
) -> list[RuleAgreement]:
    """The agreement of each reviewer with each rule, by reviewer, then by component and scorer.

    `scores`: a decision of `decisions`, and for each rule its score of the row; of a pair, that of the chosen reply
    less that of the rejected one. A score above 0 says yes, one below 0 no; at 0 it says neither and does not count. An
    approval says yes, a rejection and an edit no.
    """
    tables: dict[tuple[str, Rule], Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for event, by_rule in scores:
        if decisions.of(event.row, event.reviewer) is not event:
            continue
        for rule, value in by_rule.items():
            if value:
                tables[event.reviewer, rule][event.decision == "approved", value > 0.0] += 1
    return [RuleAgreement(reviewer, *rule, cohen_kappa(table)) for (reviewer, rule), table in sorted(tables.items())]
