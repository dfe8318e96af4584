"""How an act was judged by the principles of the constitution: for `conch cycle show`, `conch mark show`, the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conch.errors import ContractError
from conch.rewards import NO_EVIDENCE, PrincipleScore, alignment, band, principles_of
from conch.views.witness.marks import Compliance
from conch_schemas import ActionTaken, Mark


def compliance(scores: Mapping[str, float]) -> Compliance | None:
    """The verdict on scores by principle; None without any, and where one is no number in 0..1.

    A principle that is missing counts 1.
    """
    if not scores:
        return None
    try:
        total, judged = PrincipleScore.from_dict(scores).weighted_total(), alignment(scores)
    except ContractError:
        return None
    most = PrincipleScore().weighted_total()
    return Compliance(
        total=total, most=most, band=band(total), compliant=judged.compliant, violations=judged.violations
    )


def sealed_principles(marks: Sequence[Mark]) -> Mapping[str, float]:
    """The principles' scores in the latest mark that has any; empty where none has."""
    return next((mark.principles for mark in reversed(marks) if mark.principles), {})


def principles(act: ActionTaken | None, marks: Sequence[Mark]) -> dict[str, float | None]:
    """The principles' scores in the latest of its marks that has any, by name, each in 0..1; None without evidence to
    judge by.

    A mark carries no evidence, so that is taken from the act again; where today's rules give another score than the
    mark, the mark's counts, and so do all scores where the act is not known. An act whose outcome is unknown has no
    evidence, whatever its mark says.
    """
    sealed = sealed_principles(marks)
    if not sealed or act is None:
        return dict(sealed)
    scores = principles_of(act)
    if scores is None:
        return dict.fromkeys(sealed)
    judged = {one.name: one for one in scores.principles()}
    unseen = {name for name, one in judged.items() if one.evidence == NO_EVIDENCE and one.score == sealed.get(name)}
    return {name: None if name in unseen else score for name, score in sealed.items()}
