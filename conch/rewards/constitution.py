"""The seven principles: how an act fares by each, and what they come to. Pure functions of values.

These rules are cheap proxies and can only lower: a principle that a rule has nothing to judge by is 1, and says so.
Names of principles are read in small or capital letters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from conch.errors import ContractError
from conch_schemas import Principle

PRINCIPLES: Final = ("tasteful", "curated", "ethical", "joy_inducing", "composable", "heterarchical", "generative")

PRINCIPLE_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {name: {"ethical": 2.0, "composable": 1.5, "joy_inducing": 1.2}.get(name, 1.0) for name in PRINCIPLES}
)
"""They sum to 8.7, the total of a perfect act."""

Band = Literal["perfect", "good", "concerning", "poor"]

NO_EVIDENCE: Final = "none"
"""The evidence of a principle that nothing was there to judge by."""

_BANDS: Final[tuple[tuple[float, Band], ...]] = ((8.7, "perfect"), (7.0, "good"), (5.0, "concerning"))

_MANY_TOOLS, _SHORT, _FULL = 5, 20, 0.9
"""Tools beyond which a turn is less composable, characters below which a reply is less of a joy, share of the context
beyond which a turn is less generative."""
_MANY_EXPANSIONS, _MANY_LINES = 5, 200
_NAVIGATIONS: Final = {"sibling": 0.9, "direct_jump": 0.8}

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PrincipleScore:
    """How something fares by the seven principles, each in 0..1. Raises ContractError for any other number."""

    tasteful: float = 1.0
    curated: float = 1.0
    ethical: float = 1.0
    joy_inducing: float = 1.0
    composable: float = 1.0
    heterarchical: float = 1.0
    generative: float = 1.0
    evidence: Mapping[str, str] = field(default_factory=lambda: _NOTHING, compare=False, repr=False, kw_only=True)
    """By principle, what its score rests on; a principle that is not named had none."""

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

        `weights` replaces them as a whole: a principle that is not in it weighs 1.
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
        """Of scores by name; a missing one is 1, what is no principle is ignored. Raises ContractError."""
        named = {name.lower(): score for name, score in table.items()}
        return cls(*_checked({name: named.get(name, 1.0) for name in PRINCIPLES}).values())

    def principles(self) -> tuple[Principle, ...]:
        """The seven with their evidence, as an event carries them."""
        return tuple(
            _principle(name, score, self.evidence.get(name, NO_EVIDENCE)) for name, score in self.to_dict().items()
        )


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn of a conversation came out."""

    tools_passed: bool = True
    """Whether every tool that was used succeeded."""
    tools: tuple[str, ...] = ()
    """Names of the tools that were used, one an use."""
    user_corrected: bool = False
    """Whether a person had to correct it: as the two below, for rules that stand in for these."""
    signals: tuple[str, ...] = ()
    """What else was noticed, by name."""
    response: str = ""
    """What was said."""
    stopping_suggestion: str | None = None
    """Why it might be time to stop; None: nobody says so."""
    context_utilization: float | None = None
    """Share of the context that is used; None: not known."""


class Alignment(NamedTuple):
    """What scores of principles come to."""

    total: float
    """Their weighted mean, 0..1; of none 0."""
    compliant: bool
    """Whether none is below the threshold."""
    violations: tuple[str, ...]
    """Those that are, in the order given."""


def alignment(scores: Mapping[str, float], threshold: float = 0.5) -> Alignment:
    """Σ(weight × score) / Σ weight over the scores given, by the default weights; an unknown principle weighs 1.

    Raises ContractError for a score that is no number in 0..1.
    """
    weights = {name: PRINCIPLE_WEIGHTS.get(name.lower(), 1.0) for name in scores}
    whole = math.fsum(weights.values())
    total = math.fsum(weights[name] * score for name, score in _checked(scores).items())
    violations = tuple(name for name, score in scores.items() if not score >= threshold)
    return Alignment(min(1.0, total / whole) if whole else 0.0, not violations, violations)


def band(total: float) -> Band:
    """Of a total by the default weights: from 8.7 perfect, from 7 good, from 5 concerning, else poor."""
    return next((name for least, name in _BANDS if total >= least), "poor")


def constitutional_reward(
    action: str, turn_result: TurnResult | None = None, has_mutations: bool = False
) -> PrincipleScore:
    """How a turn of a conversation fares.

    Ethical: of a turn that changed something 0.9 if its tools passed, else 0.5. Composable: of n tools, from the sixth
    on 0.1 less for each, 0.5 at least. Joy inducing: of L characters said 0.3 for none, 0.5 + L/40 below 20, else 1.
    Generative: of a share u of the context beyond 0.9, 1 − 5(u − 0.9), 0.5 at least. `action` names the act in the
    evidence. No turn result: all 1.
    """
    if turn_result is None:
        return _PERFECT
    evidence: dict[str, str] = {}
    ethical = 1.0
    if has_mutations:
        ethical = 0.9 if turn_result.tools_passed else 0.5
        evidence["ethical"] = f"{action} can change things, and {'passed' if turn_result.tools_passed else 'failed'}"
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
    """1 up to 0.9 or where it is not known (None, NaN), else 1 − 5 for each beyond, 0.5 at least."""
    if context_utilization is None or not context_utilization > _FULL:
        return 1.0
    return max(0.5, 1.0 - 5.0 * (context_utilization - _FULL))


def score_principles(domain: str, action: str, context: Mapping[str, Any]) -> PrincipleScore:
    """How an act of any domain fares, by what `context` says of it; of an unknown domain, or of no use, all 1.

    `chat`: `turn_result`, `has_mutations`, as `constitutional_reward` takes them. `navigation`: `nav_type` sibling is
    composable 0.9, direct_jump 0.8. `portal`: an `expansion_count` above 5 is curated 0.7. `edit`: so are
    `lines_changed` above 200. A turn that is no TurnResult, and a count that is no number or is negative, say nothing.
    """
    if domain == "chat":
        turn = context.get("turn_result")
        known = turn if isinstance(turn, TurnResult) else None
        return constitutional_reward(action, known, bool(context.get("has_mutations", False)))
    if domain == "navigation":
        return _navigation(context.get("nav_type"))
    if domain == "portal":
        return _counted(context.get("expansion_count"), _MANY_EXPANSIONS, "expansions")
    if domain == "edit":
        return _counted(context.get("lines_changed"), _MANY_LINES, "lines changed")
    return _PERFECT


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
    for name, score in scores.items():
        if not isinstance(score, int | float) or not 0.0 <= score <= 1.0:
            raise ContractError(f"principle {name}: a score is a number in 0..1, not {str(score)[:100]}")
    return {name: float(score) for name, score in scores.items()}


def _weights_of_all(weights: Mapping[str, float] | None) -> Mapping[str, float]:
    if weights is None:
        return PRINCIPLE_WEIGHTS
    named = {name.lower(): weight for name, weight in weights.items()}
    return {name: named.get(name, 1.0) for name in PRINCIPLES}


@lru_cache(maxsize=4096)
def _principle(name: str, score: float, evidence: str) -> Principle:
    return Principle(name=name, score=score, evidence=evidence)


_PERFECT: Final = PrincipleScore()
