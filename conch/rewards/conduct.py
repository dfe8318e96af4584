"""Scores an act of the cycle by the constitution's principles, in the domain of the act."""

from __future__ import annotations

import re
from typing import Final, Literal

from conch.actions import effect_of
from conch.folds import tool_result
from conch.rewards.constitution import (
    PRINCIPLE_WEIGHTS,
    PrincipleScore,
    TurnResult,
    constitutional_reward,
    navigation_type,
    score_principles,
)
from conch.rewards.rules import INVALID_REPLY, OUTCOME_UNKNOWN, not_applicable, scored
from conch_schemas import ActionTaken, ExperienceRecorded, Score

PRINCIPLE_RANGE: Final = (0.0, 1.0)

Domain = Literal["chat", "navigation", "portal", "edit"]

_PROGRAMS: Final = frozenset({"shell", "git"})
"""Tools that run any program: what a call declares says nothing of what it did, so only its changes are judged."""

_ONLY_LISTS: Final = "git.branch"
"""The operation of git that changes nothing when called without arguments."""
_WRITES: Final = re.compile(r"(^|[\s'\"])--o(?!neline\b|urs\b)")
"""Option `--output` in git's arguments, or any abbreviation of it: it makes any operation write a file."""

_PERFECT: Final = sum(PRINCIPLE_WEIGHTS.values())


def changes_something(action: ActionTaken) -> bool:
    """Whether the act changed something, or may have; false where it was blocked, its outcome is not known, or its tool
    could not be used.

    Changes of the workspace are measured, where the agent measures; what lies beyond it counts as changed by an
    operation that declares `world`, or declares nothing.
    """
    act = action.action
    status, unavailable = action.outcome.status, action.outcome.unavailable
    if act.kind != "TOOL" or not act.valid or status in ("blocked", "unknown", "none") or unavailable:
        return False
    if action.effect is not None:
        return bool(action.effect.paths) or effect_of(act) in ("world", None)
    if act.tool == "git" and _WRITES.search(str(act.args.get("args") or "")):
        return True
    if act.skill == _ONLY_LISTS and not act.args.get("args"):
        return False
    return effect_of(act) != "read"


def domain_of(action: ActionTaken) -> Domain:
    """The constitution's domain of an act. An act that was not measured is a turn of a chat, and so are a rest, a
    reflection, and a program that changed no file."""
    act, effect = action.action, action.effect
    if effect is None or act.kind != "TOOL" or not act.valid or act.tool == "reply":
        return "chat"
    declared = None if act.tool in _PROGRAMS else effect_of(act)
    if effect.paths or declared == "workspace":
        return "edit"
    if effect.opened:
        return "portal"
    return "navigation" if declared == "read" and effect.target is not None else "chat"


def unjudged_reason(act: ActionTaken | ExperienceRecorded) -> str | None:
    """Why no principle can be judged by the act, in one sentence: its outcome is unknown, or its reply is not valid;
    None: there is something to judge by."""
    if act.outcome.status == "unknown":
        return OUTCOME_UNKNOWN
    return None if act.action.valid and act.action.kind != "INVALID" else INVALID_REPLY


def principles_of(action: ActionTaken) -> PrincipleScore | None:
    """The act's scores by principle, in its domain; None where nothing can be judged (`unjudged_reason`).
    Never raises; the same act gives the same scores.

    *ethical* of a blocked act is 0.5 in every domain, below the floor of the gate.
    """
    if unjudged_reason(action) is not None:
        return None
    scores = _judged(action)
    if action.outcome.status == "blocked":
        return scores.with_ethical(0.5, f"{action.action.skill} was blocked")
    return scores


def _judged(action: ActionTaken) -> PrincipleScore:
    domain, effect, act = domain_of(action), action.effect, action.action
    passed = tool_result(action) in ("success", "look", "idle")
    if effect is None or domain == "chat":
        return constitutional_reward(act.skill, _turn(action, passed=passed), changes_something(action))
    facts = {
        "nav_type": navigation_type(effect.previous_path, effect.target or ""),
        "expansion_count": effect.opened,
        "lines_changed": effect.lines_changed,
        "has_mutations": changes_something(action),
        "tools_passed": passed,
    }
    return score_principles(domain, act.skill, facts)


def _turn(action: ActionTaken, *, passed: bool) -> TurnResult:
    act = action.action
    used = act.kind == "TOOL" and act.valid and act.tool is not None
    said = act.args.get("text") if used and act.tool == "reply" else None
    context = action.effect.context if action.effect is not None else None
    person = action.message
    return TurnResult(
        tools_passed=passed,
        tools=(act.tool,) if used and act.tool is not None else (),
        user_corrected=person is not None and "corrected" in person.signals,
        signals=() if person is None else person.signals,
        response=said if isinstance(said, str) else action.raw,
        stopping_suggestion=None if person is None else person.stopping_suggestion,
        context_utilization=None if context is None else context.tokens / context.window,
    )


def constitution_scores(principles: PrincipleScore | None, unjudged: str | None = None) -> tuple[Score, Score]:
    """`alignment`, the weighted mean of the principles, and `ethical`; each in 0..1 with a sentence of explanation.
    Without principles both are `not_applicable`, for the reason `unjudged` (default: the outcome is unknown)."""
    if principles is None:
        why = f"{unjudged or OUTCOME_UNKNOWN} No principle is judged."
        return not_applicable("alignment", PRINCIPLE_RANGE, why), not_applicable("ethical", PRINCIPLE_RANGE, why)
    scores, evidence = principles.to_dict(), principles.evidence
    seen = [f"{name} {scores[name]:g} ({why})" for name, why in evidence.items()]
    unseen = [name for name in scores if name not in evidence]
    aligned = min(1.0, principles.weighted_total() / _PERFECT)
    why = "; ".join([*([", ".join(seen)] if seen else []), f"evidence none: {', '.join(unseen)}"]) + "."
    told = evidence.get("ethical")
    because = f"{told}." if told else "Nothing was there to change: evidence none."
    return (
        scored("alignment", aligned, PRINCIPLE_RANGE, why),
        scored("ethical", principles.ethical, PRINCIPLE_RANGE, because),
    )
