"""The constitution's seven principles: scores of an act by each, and their weighted total. Pure functions of values.

These rules are cheap proxies and can only lower a score: a principle without evidence scores 1, and its evidence says
so. Names of principles are case-insensitive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from conch.errors import ContractError
from conch.rules import number_of
from conch_schemas import Principle

PRINCIPLES: Final = ("tasteful", "curated", "ethical", "joy_inducing", "composable", "heterarchical", "generative")

PRINCIPLE_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {name: {"ethical": 2.0, "composable": 1.5, "joy_inducing": 1.2}.get(name, 1.0) for name in PRINCIPLES}
)
"""They sum to 8.7, the maximum total."""

Band = Literal["perfect", "good", "concerning", "poor"]

NO_EVIDENCE: Final = "none"
"""The evidence of a principle for which a rule found nothing to judge by."""

_BANDS: Final[tuple[tuple[float, Band], ...]] = ((8.7, "perfect"), (7.0, "good"), (5.0, "concerning"))

_MANY_TOOLS, _SHORT, _FULL = 5, 20, 0.9
"""Tools beyond which a turn loses *composable*, characters below which a reply loses *joy inducing*, share of the
context beyond which a turn loses *generative*."""
_MANY_EXPANSIONS, _MANY_LINES = 5, 200
_NAVIGATIONS: Final = {"sibling": 0.9, "direct_jump": 0.8}

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PrincipleScore:
    """Scores by the seven principles, each in 0..1. Raises ContractError for any other number."""

    tasteful: float = 1.0
    curated: float = 1.0
    ethical: float = 1.0
    joy_inducing: float = 1.0
    composable: float = 1.0
    heterarchical: float = 1.0
    generative: float = 1.0
    evidence: Mapping[str, str] = field(default_factory=lambda: _NOTHING, compare=False, repr=False, kw_only=True)
    """Basis of each score, by principle; a principle that is missing had none."""

    def __post_init__(self) -> None:
        if not (
            0.0 <= self.tasteful <= 1.0
            and 0.0 <= self.curated <= 1.0
            and 0.0 <= self.ethical <= 1.0
            and 0.0 <= self.joy_inducing <= 1.0
            and 0.0 <= self.composable <= 1.0
            and 0.0 <= self.heterarchical <= 1.0
            and 0.0 <= self.generative <= 1.0
        ):
            _checked(self.to_dict())

    def weighted_total(self, weights: Mapping[str, float] | None = None) -> float:
        """Σ score × weight, 8.7 at most by the default weights.

        `weights` replaces the default weights as a whole: a principle that is not in it weighs 1.
        """
        return math.fsum(
            score * weight
            for score, weight in zip(self.to_dict().values(), _weights_of_all(weights).values(), strict=True)
        )

    def to_dict(self) -> dict[str, float]:
        """The seven scores by name."""
        return {
            "tasteful": self.tasteful,
            "curated": self.curated,
            "ethical": self.ethical,
            "joy_inducing": self.joy_inducing,
            "composable": self.composable,
            "heterarchical": self.heterarchical,
            "generative": self.generative,
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, float]) -> PrincipleScore:
        """From scores by name; a missing one is 1, an unknown name is ignored. Raises ContractError."""
        named = {name.lower(): score for name, score in table.items()}
        return cls(*_checked({name: named.get(name, 1.0) for name in PRINCIPLES}).values())

    def with_ethical(self, score: float, evidence: str) -> PrincipleScore:
        """The same with *ethical* at `score`, for that reason. Raises ContractError."""
        return replace(self, ethical=score, evidence={**self.evidence, "ethical": evidence})

    def principles(self) -> tuple[Principle, ...]:
        """The seven with their evidence, as events hold them."""
        return tuple(
            _principle(name, score, self.evidence.get(name, NO_EVIDENCE)) for name, score in self.to_dict().items()
        )


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The outcome of a conversation turn, as input of the rules."""

    tools_passed: bool = True
    """Whether every tool that was used succeeded."""
    tools: tuple[str, ...] = ()
    """Names of the tools used, one per use."""
    user_corrected: bool = False
    """Whether a person had to correct it. This field and the next two are for rules that replace the built-in ones."""
    signals: tuple[str, ...] = ()
    """Further observations, by name."""
    response: str = ""
    """The text of the reply."""
    stopping_suggestion: str | None = None
    """Reason for a suggestion to stop; None: there was no suggestion."""
    context_utilization: float | None = None
    """Share of the context that is used; None: not known."""


class Alignment(NamedTuple):
    """The weighted mean of principle scores, and the violated principles."""

    total: float
    """Weighted mean, 0..1; 0 without scores."""
    compliant: bool
    """Whether no score is below the threshold."""
    violations: tuple[str, ...]
    """Principles with a score below the threshold, in the order given."""


def alignment(scores: Mapping[str, float], threshold: float = 0.5) -> Alignment:
    """Σ(weight × score) / Σ weight over the scores given, by the default weights; an unknown principle weighs 1.

    Raises ContractError for a score that is not a number in 0..1.
    """
    weights = {name: PRINCIPLE_WEIGHTS.get(name.lower(), 1.0) for name in scores}
    whole = math.fsum(weights.values())
    total = math.fsum(weights[name] * score for name, score in _checked(scores).items())
    violations = tuple(name for name, score in scores.items() if not score >= threshold)
    return Alignment(min(1.0, total / whole) if whole else 0.0, not violations, violations)


def band(total: float) -> Band:
    """The band of a total by the default weights: from 8.7 perfect, from 7 good, from 5 concerning, else poor."""
    return next((name for least, name in _BANDS if total >= least), "poor")


def constitutional_reward(
    action: str, turn_result: TurnResult | None = None, has_mutations: bool = False
) -> PrincipleScore:
    """Scores of a conversation turn by the seven principles.

    Ethical: for a turn that changed something 0.9 if its tools passed, else 0.5. Composable: with n tools, 0.1 less for
    each from the sixth on, at least 0.5. Joy inducing: for a reply of L characters 0.3 if L is 0, 0.5 + L/40 below 20,
    else 1. Generative: for a share u of the context beyond 0.9, 1 − 5(u − 0.9), at least 0.5. `action` names the act in
    the evidence. Without a turn result all are 1.
    """
    if turn_result is None:
        return _PERFECT
    evidence: dict[str, str] = {}
    ethical = 1.0
    if has_mutations:
        ethical, evidence["ethical"] = _ethical(action, passed=turn_result.tools_passed)
    composable, used = 1.0, len(turn_result.tools)
    if used:
        composable = max(0.5, 1.0 - 0.1 * max(0, used - _MANY_TOOLS))
        evidence["composable"] = "1 tool" if used == 1 else f"{used} tools"
    length = len(turn_result.response)
    evidence["joy_inducing"] = f"{length} characters said"
    context = turn_result.context_utilization
    if context is not None and context == context:  # not NaN
        evidence["generative"] = f"{context:.0%} of the context used"
    return PrincipleScore(
        ethical=ethical,
        joy_inducing=_joy(length),
        composable=composable,
        generative=generative_score(context),
        evidence=evidence,
    )


def generative_score(context_utilization: float | None) -> float:
    """1 up to 0.9 or where it is not known (None, NaN), beyond that 1 − 5(u − 0.9), at least 0.5."""
    if context_utilization is None or not context_utilization > _FULL:
        return 1.0
    return max(0.5, 1.0 - 5.0 * (context_utilization - _FULL))


def score_principles(domain: str, action: str, context: Mapping[str, object]) -> PrincipleScore:
    """Scores of an act in any domain, by the facts in `context`; for an unknown domain, or without usable facts, all 1.

    `chat`: `turn_result`, `has_mutations`, as `constitutional_reward` takes them. `navigation`: `nav_type` sibling
    gives composable 0.9, direct_jump 0.8. `portal`: an `expansion_count` above 5 gives curated 0.7. `edit`:
    `lines_changed` above 200 does too. In these three, `has_mutations` lowers *ethical* as in a chat, to 0.5 where
    `tools_passed` is False. A turn that is not a TurnResult, and a count that is not a number or is negative, are
    ignored.
    """
    if domain == "chat":
        turn = context.get("turn_result")
        known = turn if isinstance(turn, TurnResult) else None
        return constitutional_reward(action, known, bool(context.get("has_mutations", False)))
    if domain == "navigation":
        scores = _navigation(context.get("nav_type"))
    elif domain == "portal":
        scores = _counted(context.get("expansion_count"), _MANY_EXPANSIONS, "expansions")
    elif domain == "edit":
        scores = _counted(context.get("lines_changed"), _MANY_LINES, "lines changed")
    else:
        return _PERFECT
    if not context.get("has_mutations", False):
        return scores
    return scores.with_ethical(*_ethical(action, passed=bool(context.get("tools_passed", True))))


def navigation_type(previous: str | None, path: str) -> str | None:
    """How a navigation from one path to another moved: child, parent, sibling or direct_jump.

    None where there was no earlier one, or it was at the same path. Paths of the workspace, with `/`; `.` is its root.
    """
    if previous is None:
        return None
    start, end = PurePosixPath(previous), PurePosixPath(path)
    if start == end:
        return None
    if end.parent == start:
        return "child"
    if start.parent == end:
        return "parent"
    return "sibling" if start.parent == end.parent else "direct_jump"


def _ethical(action: str, *, passed: bool) -> tuple[float, str]:
    """(*ethical*, its evidence) of an act that changed something, or may have."""
    return 0.9 if passed else 0.5, f"{action} can change things, and {'passed' if passed else 'failed'}"


def _joy(length: int) -> float:
    if length >= _SHORT:
        return 1.0
    return 0.5 + length / 40 if length else 0.3


def _navigation(how: object) -> PrincipleScore:
    if not isinstance(how, str) or not how:
        return _PERFECT
    return PrincipleScore(composable=_NAVIGATIONS.get(how, 1.0), evidence={"composable": f"navigation {how[:100]}"})


def _counted(count: object, most: int, what: str) -> PrincipleScore:
    if not isinstance(count, int | float) or not count >= 0:
        return _PERFECT
    return PrincipleScore(curated=0.7 if count > most else 1.0, evidence={"curated": f"{count:g} {what}"})


def _checked(scores: Mapping[str, float]) -> dict[str, float]:
    numbers = {}
    for name, score in scores.items():
        number = number_of(score)
        if number is None or not 0.0 <= number <= 1.0:
            raise ContractError(f"principle {name}: a score is a number in 0..1, not {str(score)[:100]}")
        numbers[name] = number
    return numbers


def _weights_of_all(weights: Mapping[str, float] | None) -> Mapping[str, float]:
    if weights is None:
        return PRINCIPLE_WEIGHTS
    named = {name.lower(): weight for name, weight in weights.items()}
    return {name: named.get(name, 1.0) for name in PRINCIPLES}


@lru_cache(maxsize=4096)
def _principle(name: str, score: float, evidence: str) -> Principle:
    return Principle(name=name, score=score, evidence=evidence)


_PERFECT: Final = PrincipleScore()
