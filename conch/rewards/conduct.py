"""Scores an act of the cycle by the constitution's principles, as a turn of a conversation."""

from __future__ import annotations

import re
from typing import Final

from conch.actions import effect_of
from conch.rewards.constitution import PRINCIPLE_WEIGHTS, PrincipleScore, TurnResult, constitutional_reward
from conch.rewards.rules import scored
from conch_schemas import ActionTaken, Score

PRINCIPLE_RANGE: Final = (0.0, 1.0)

_ONLY_LISTS: Final = "git.branch"
"""The operation of git that changes nothing when called without arguments."""
_WRITES: Final = re.compile(r"(^|[\s'\"])--o(?!neline\b|urs\b)")
"""Option `--output` in git's arguments, or any abbreviation of it: it makes any operation write a file."""

_PERFECT: Final = sum(PRINCIPLE_WEIGHTS.values())


def changes_something(action: ActionTaken) -> bool:
    """Whether the act changed something, or may have; false where it was blocked or its outcome is not known."""
    act = action.action
    if act.kind != "TOOL" or not act.valid or action.outcome.status in ("blocked", "unknown", "none"):
        return False
    if act.tool == "git" and _WRITES.search(str(act.args.get("args") or "")):
        return True
    if act.skill == _ONLY_LISTS and not act.args.get("args"):
        return False
    return effect_of(act) != "read"


def principles_of(action: ActionTaken) -> PrincipleScore:
    """The act's scores by principle. Never raises; the same act gives the same scores."""
    act = action.action
    used = act.kind == "TOOL" and act.valid and act.tool is not None
    said = act.args.get("text") if used and act.tool == "reply" else None
    turn = TurnResult(
        tools_passed=action.outcome.status == "success",
        tools=(act.tool,) if used and act.tool is not None else (),
        response=said if isinstance(said, str) else action.raw,
    )
    return constitutional_reward(act.skill, turn, changes_something(action))


def constitution_scores(principles: PrincipleScore) -> tuple[Score, Score]:
    """`alignment`, the weighted mean of the principles, and `ethical`; each in 0..1 with a sentence of explanation."""
    scores, evidence = principles.to_dict(), principles.evidence
    seen = [f"{name} {scores[name]:g} ({why})" for name, why in evidence.items()]
    unseen = [name for name in scores if name not in evidence]
    aligned = min(1.0, principles.weighted_total() / _PERFECT)
    why = f"{', '.join(seen)}; evidence none: {', '.join(unseen)}."
    told = evidence.get("ethical")
    because = f"{told}." if told else "Nothing was there to change: evidence none."
    return (
        scored("alignment", aligned, PRINCIPLE_RANGE, why),
        scored("ethical", principles.ethical, PRINCIPLE_RANGE, because),
    )
