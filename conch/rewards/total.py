"""The total reward of one experience, and the breakdown lines that add up to it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from conch.config import BUILTIN_WEIGHTS
from conch_schemas import Line, Part


class TotalledScore(Protocol):
    """What the total needs of a score: a `Score` and a `ScoredPart` both are one."""

    @property
    def value(self) -> float | None:
        """Present exactly when `status` is scored."""
        ...

    @property
    def status(self) -> str:
        """scored, not_applicable, error or timeout."""
        ...

    @property
    def explanation(self) -> str:
        """One sentence."""
        ...


class Total(NamedTuple):
    """The total of one experience, with its coverage and breakdown."""

    total: float
    """In [−2, 1], below −1 by a penalty alone: the exactly rounded sum of `breakdown`, in any order of adding. Under a
    closed gate at most 0, possibly slightly less by the rounding of the gate's own line."""
    breakdown: tuple[Line, ...]
    coverage: float
    """Scored weight ÷ (whole weight − weight of the not applicable), in [0, 1]; 1 where nothing was applicable."""
    complete: bool
    """A score of every part is present, with any status."""


def total(parts: Sequence[Part], scores: Mapping[str, TotalledScore]) -> Total:
    """The total over `parts`, given the scores by component; what is no part counts nothing.

    In this order, each step a line: Σ weight × value over the scored parts of positive weight, each limited by its
    part's cap, with the amount that a boost doubles; the cap of the cycle, −1..1; factors, of a positive sum alone;
    penalties; gates last, so that nothing offsets them. Bit-identical for every order of `scores`.
    """
    lines = [line for part in parts for line in _lines(part, scores.get(part.component))]
    lines += [line for part in parts if part.role == "boost" for line in _boost(part, parts, scores)]
    whole = _sum(lines)
    if abs(whole) > 1.0:
        lines.append(_held(lines, math.copysign(1.0, whole), "cap:cycle", "a cycle counts −1 to 1"))
    for part in parts:
        value = _value(part, scores) if part.role == "factor" else None
        if value is not None and value < 1.0 and (whole := _sum(lines)) > 0.0:
            why = f"× {value:g}: {scores[part.component].explanation}"
            lines.append(_line(part.component, (value - 1.0) * whole, why))
    for part in parts:
        value = _value(part, scores) if part.role == "penalty" else None
        if value is not None and value < 0.0:
            lines.append(_line(part.component, value, scores[part.component].explanation))
    for part in parts:
        value = _value(part, scores) if part.role == "gate" else None
        if value is not None and part.threshold is not None and value < part.threshold and _sum(lines) > 0.0:
            why = f"{part.component} {value:g} is below {part.threshold:g}: the total is at most 0"
            lines.append(_held(lines, 0.0, f"gate:{part.component}", why))
    return Total(
        total=_sum(lines),
        breakdown=tuple(lines),
        coverage=_coverage(parts, scores),
        complete=all(part.component in scores for part in parts),
    )


def total_reward(components: Mapping[str, float | None], weights: Mapping[str, float] = BUILTIN_WEIGHTS) -> float:
    """Σ weight × value of the given components, without caps; one that is absent, or has no weight, counts 0."""
    return math.fsum(weights.get(name, 0.0) * value for name, value in components.items() if value is not None)


def _sum(lines: Sequence[Line]) -> float:
    return math.fsum([line.amount for line in lines]) + 0.0  # −0.0 becomes 0.0


def _lines(part: Part, score: TotalledScore | None) -> tuple[Line, ...]:
    if score is None or score.value is None or part.weight == 0.0:
        return ()
    return _lines_of(part.component, part.weight, part.cap, score.value + 0.0)


@lru_cache(maxsize=4096)
def _lines_of(component: str, weight: float, cap: float | None, value: float) -> tuple[Line, ...]:
    """Cached: the same rules with the same weights give the same few lines for most acts."""
    line = _line(f"part:{component}", weight * value, f"{weight:g} × {value:g}")
    if cap is None or value <= cap:
        return (line,)
    return line, _line(f"cap:{component}", weight * (cap - value), f"{component} counts at most {cap:g}")


def _line(step: str, amount: float, why: str) -> Line:
    return Line(step=step, amount=amount + 0.0, why=why)


def _value(part: Part, scores: Mapping[str, TotalledScore]) -> float | None:
    score = scores.get(part.component)
    return None if score is None else score.value


def _boost(part: Part, parts: Sequence[Part], scores: Mapping[str, TotalledScore]) -> Iterator[Line]:
    """The line that pays the target once more."""
    value = _value(part, scores)
    if value is None or part.threshold is None or value >= part.threshold:
        return
    for target in parts:
        paid = math.fsum([line.amount for line in _lines(target, scores.get(target.component))])
        if target.component == part.target and paid > 0.0:
            yield _line(
                part.component,
                paid,
                f"{part.component} {value:g} is below {part.threshold:g}: {part.target} pays double",
            )


def _held(lines: Sequence[Line], bound: float, step: str, why: str) -> Line:
    """The line that brings a sum beyond `bound` back to it."""
    amount = math.fsum([bound, *(-line.amount for line in lines)])
    away = math.copysign(math.inf, amount)
    # The spacing of floats is wide at a large amount: rounded, it may leave the sum slightly outside.
    while (math.fsum([amount, *(line.amount for line in lines)]) - bound) * away < 0.0:
        amount = math.nextafter(amount, away)
    return _line(step, amount, why)


def _coverage(parts: Sequence[Part], scores: Mapping[str, TotalledScore]) -> float:
    weighed = [(part.weight, score.status if (score := scores.get(part.component)) else None) for part in parts]
    scored = math.fsum([weight for weight, status in weighed if status == "scored"])
    applicable = math.fsum([weight for weight, status in weighed if status != "not_applicable"])
    return scored / applicable if applicable > 0.0 else 1.0
