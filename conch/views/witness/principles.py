"""How an act was judged by the principles of the constitution: for `conch cycle show`, `conch mark show`, the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conch.errors import ContractError
from conch.experience import CycleReader
from conch.rewards import NO_EVIDENCE, PrincipleScore, alignment, band, principles_of, unjudged_reason
from conch.views.witness.marks import Compliance
from conch_schemas import ActionTaken, ExperienceRecorded, Mark


def compliance(scores: Mapping[str, float], act: ActionTaken | ExperienceRecorded | None = None) -> Compliance | None:
    """The verdict on scores by principle; None without any, where a score is no number in 0..1, and where `act`, the
    act that was judged, has nothing to judge by, whatever its mark says.

    A principle that is missing counts 1.
    """
    if not scores or (act is not None and unjudged_reason(act) is not None):
        return None
    try:
        total, judged = PrincipleScore.from_dict(scores).weighted_total(), alignment(scores)
    except ContractError:
        return None
    most = PrincipleScore().weighted_total()
    return Compliance(
        total=total, most=most, band=band(total), compliant=judged.compliant, violations=judged.violations
    )


def act_of_mark(cycles: CycleReader, mark: Mark) -> ActionTaken | None:
    """The act that a mark is about; None where it is about none, or the act is not stored."""
    cycle = None if mark.action_id is None else cycles.cycle_of(mark.action_id)
    act = None if cycle is None else cycles.act(mark.agent, cycle)
    return act if act is not None and act.action_id == mark.action_id else None


def sealed_principles(marks: Sequence[Mark]) -> Mapping[str, float]:
    """The principles' scores in the latest mark that has any; empty where none has."""
    return next((mark.principles for mark in reversed(marks) if mark.principles), {})


def principles(act: ActionTaken | None, marks: Sequence[Mark]) -> dict[str, float | None]:
    """The principles' scores in the latest of its marks that has any, by name, each in 0..1; None without evidence to
    judge by.

    A mark carries no evidence, so that is taken from the act again; where today's rules give another score than the
    mark, the mark's counts, and so do all scores where the act is not known. An act whose outcome is unknown or whose
    reply is not valid has no evidence, whatever its mark says.
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
