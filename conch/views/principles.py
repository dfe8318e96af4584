"""How an act was judged by the principles of the constitution, in words for `conch cycle show` and the page."""

from __future__ import annotations

from collections.abc import Sequence

from conch.rewards import NO_EVIDENCE, principles_of
from conch_schemas import ActionTaken, Mark


def principles(act: ActionTaken | None, marks: Sequence[Mark]) -> dict[str, float | None]:
    """The principles' scores in the latest of its marks that has any, by name, each in 0..1; None without evidence to
    judge by.

    A mark carries no evidence, so that is taken from the act again; where today's rules give another score than the
    mark, the mark's counts, and so do all scores where the act is not known.
    """
    sealed = next((mark.principles for mark in reversed(marks) if mark.principles), {})
    if not sealed or act is None:
        return dict(sealed)
    judged = {one.name: one for one in principles_of(act).principles()}
    unseen = {name for name, one in judged.items() if one.evidence == NO_EVIDENCE and one.score == sealed.get(name)}
    return {name: None if name in unseen else score for name, score in sealed.items()}
