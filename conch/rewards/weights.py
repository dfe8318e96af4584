"""The weight set: the parts of the total, with their weights, ranges and deadlines."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import rfc8785

from conch.config import (
    BUILTIN_COMPONENTS,
    BUILTIN_WEIGHTS,
    PROGRESS_WEIGHT,
    WATCHED_COMPONENTS,
    ConstitutionSettings,
    RewardSettings,
)
from conch.errors import ConfigError
from conch.rules import WEIGHT_TOLERANCE, RuleInfo, sums_to_one
from conch.text import instead
from conch_schemas import BUILTIN_SCORER, Part

PROGRESS_RANGE: Final = (-1e6, 1e6)
"""Steps are not clamped: a million more tokens cost 100."""

_PAID: Final = {
    "format": BUILTIN_SCORER,
    "execution": BUILTIN_SCORER,
    "needs": "needs",
    "goal": BUILTIN_SCORER,
    "exploration": "curiosity",
}
_WATCHED: Final = {
    "intrinsic": ((0.0, 1.0), "curiosity"),
    "alignment": ((0.0, 1.0), BUILTIN_SCORER),
    "progress": (PROGRESS_RANGE, "progress"),
}


def weight_set(
    rules: Sequence[RuleInfo],
    settings: RewardSettings,
    constitution: ConstitutionSettings = ConstitutionSettings(),  # noqa: B008 - frozen
    builtin: Mapping[str, float] = BUILTIN_WEIGHTS,
) -> tuple[Part, ...]:
    """The built-in parts, then the added ones by name; the weights sum to 1.

    Added parts get the weight that they declare and the built-in five, with the weights `builtin` that sum to 1, are
    scaled down to the rest; *progress* has its weight in acts that belong to a task (`parts_of_act`). `rewards.weights`
    sets all of them instead, less those that `absent_weights` names: the others grow to the sum 1 in proportion. Parts
    that are only recorded have the weight 0, as have those that act on the total otherwise: the boost of diversity, the
    factor of starving, the penalty of repetition, the gate of the constitution. Raises ConfigError where the table
    lacks a part, gives one of those a weight, does not sum to 1, or pays only what nothing scores, where two parts
    share a name, or where the added weights sum to more than 1.
    """
    added = sorted(rules, key=lambda rule: rule.name)
    _refuse_twins([*BUILTIN_COMPONENTS, *(rule.name for rule in added)])
    weights = _requested(added, builtin) if settings.weights is None else dict(settings.weights)
    known = {*_PAID, *(rule.name for rule in added)}
    _refuse_mismatch(weights, known)
    weights = _grown({name: weight for name, weight in weights.items() if name in known | _WATCHED.keys()})
    _refuse_paid([rule for rule in added if rule.held_out], weights)
    ranges = {
        "format": settings.format.range,
        "execution": settings.execution.range,
        "needs": (-1.0, 1.0),
        "goal": settings.goal.range,
        "exploration": (0.0, 1.0),
    }
    paid = (
        Part(
            component=name,
            weight=weights[name],
            range=ranges[name],
            scorer=scorer,
            deadline=settings.deadline,
            cap=settings.exploration_cap if name == "exploration" else None,
        )
        for name, scorer in _PAID.items()
    )
    watched = (
        Part(
            component=name,
            weight=weights.get(name, 0.0),
            task_weight=PROGRESS_WEIGHT if name == "progress" and settings.weights is None else None,
            range=limits,
            scorer=scorer,
            deadline=settings.deadline,
        )
        for name, (limits, scorer) in _WATCHED.items()
        # A table that does not pay progress keeps no act without a task waiting for it.
        if name != "progress" or settings.weights is None or weights.get(name)
    )
    others = (
        Part(
            component=rule.name,
            weight=weights[rule.name],
            range=rule.range,
            scorer=rule.scorer or rule.name,
            deadline=rule.deadline or settings.deadline,
            role="held_out" if rule.held_out else "paid",
        )
        for rule in added
    )
    return (*paid, *watched, *_bearing(settings, constitution), *others)


def _bearing(settings: RewardSettings, constitution: ConstitutionSettings) -> Iterator[Part]:
    """The parts that act on the total other than by a weight."""
    yield Part(
        component="diversity",
        weight=0.0,
        range=(0.0, 1.0),
        scorer="curiosity",
        deadline=settings.deadline,
        role="boost",
        threshold=settings.diversity,
        target="exploration",
    )
    yield Part(
        component="starving",
        weight=0.0,
        range=(0.0, 1.0),
        scorer="needs",
        deadline=settings.deadline,
        role="factor",
    )
    yield Part(
        component="repetition",
        weight=0.0,
        range=(-1.0, 0.0),
        scorer="curiosity",
        deadline=settings.deadline,
        role="penalty",
    )
    yield Part(
        component="ethical",
        weight=0.0,
        range=(0.0, 1.0),
        scorer=BUILTIN_SCORER,
        deadline=settings.deadline,
        role="gate" if constitution.gate else "paid",
        threshold=constitution.floor if constitution.gate else None,
    )


def parts_of_act(parts: Sequence[Part], *, task: bool) -> tuple[Part, ...]:
    """The parts that count for an act: outside a task those without a `task_weight`, as they are.

    Within a task a part with a `task_weight` has it as its weight, and the weights of the others are multiplied by the
    rest to 1, so that the sum stays.
    """
    if not task:
        return tuple(part for part in parts if part.task_weight is None)
    rest = max(0.0, 1.0 - math.fsum(part.task_weight or 0.0 for part in parts))
    return tuple(
        part.model_copy(update={"weight": part.task_weight or rest * part.weight, "task_weight": None})
        for part in parts
    )


def weights_in_tasks(parts: Sequence[Part]) -> dict[str, float]:
    """Component -> its weight in an act of a task, where it differs from its weight outside one; 0 to 1."""
    plain = {part.component: part.weight for part in parts}
    return {
        part.component: part.weight
        for part in parts_of_act(parts, task=True)
        if abs(part.weight - plain[part.component]) > 1e-9
    }


def weights_version(parts: Sequence[Part]) -> str:
    """16 hex digits of SHA-256 over the canonical JSON of the weight set: any change of it changes them."""
    canonical = rfc8785.dumps([part.model_dump(mode="json") for part in parts])
    return hashlib.sha256(canonical).hexdigest()[:16]


def _requested(added: Sequence[RuleInfo], builtin: Mapping[str, float]) -> dict[str, float]:
    for rule in added:
        if not 0.0 <= rule.weight <= 1.0:
            raise ConfigError(f"rule {rule.name}: its weight is {rule.weight:g}, it must lie in 0..1")
    share = math.fsum(rule.weight for rule in added)
    if share > 1.0 + WEIGHT_TOLERANCE:
        raise ConfigError(f"the weights of the added rules sum to {share:.9g}, more than 1: lower some of them")
    rest = max(0.0, 1.0 - share)
    shrunk = {name: weight * rest for name, weight in builtin.items()}
    return shrunk | {rule.name: rule.weight for rule in added}


def _refuse_twins(names: Sequence[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ConfigError(f"two rules score the component {twins[0]}: give one of them another name")


def _refuse_paid(held_out: Sequence[RuleInfo], weights: Mapping[str, float]) -> None:
    for rule in held_out:
        if weights[rule.name]:
            raise ConfigError(f"rule {rule.name} is held out: its weight must be 0, or it would be trained on")


def absent_weights(weights: Mapping[str, float] | None, added: Iterable[str]) -> dict[str, float]:
    """The weights of a table `rewards.weights` whose components nothing scores, by name: their rules are not there.

    `added`: names of the components that are not built in. None: there is no table, and nothing is absent.
    """
    known = {*BUILTIN_COMPONENTS, *added}
    return {name: weight for name, weight in (weights or {}).items() if name not in known}


def _grown(weights: Mapping[str, float]) -> dict[str, float]:
    """The weights in proportion, with the sum 1 where it was less. Raises ConfigError where all are 0."""
    total = math.fsum(weights.values())
    if not total:
        raise ConfigError(
            "rewards.weights pays only what nothing scores: add the rules, or conch reward weights --reset"
        )
    return dict(weights) if sums_to_one(weights) else {name: weight / total for name, weight in weights.items()}


def check_table(weights: Mapping[str, float] | None) -> None:
    """Check what can be known of a table `rewards.weights` without the rules: it names every built-in part, and none
    that bears on the total without a weight. Raises ConfigError. None: there is no table."""
    if weights is not None:
        _refuse_mismatch(weights, _PAID)


def _refuse_mismatch(weights: Mapping[str, float], known: Iterable[str]) -> None:
    known = set(known)
    for name in sorted(set(weights) & (set(BUILTIN_COMPONENTS) - set(WATCHED_COMPONENTS) - known)):
        raise ConfigError(f"rewards.weights names {name}, which bears on the total without a weight: take it out there")
    missing = sorted(known - set(weights))
    if missing:
        unknown = [f"{name} there: {instead(name, known)}" for name in sorted(absent_weights(weights, known))]
        raise ConfigError(
            f"rewards.weights must name every part, it lacks {', '.join(missing)}: give a weight there (0: watched), "
            f"or let conch reward weights --reset take the table out{''.join(f' ({one})' for one in unknown[:1])}"
        )
    if not sums_to_one(weights):
        raise ConfigError(f"rewards.weights sums to {math.fsum(weights.values()):.9g}, it must sum to 1")
