"""Another table of weights: what it would be, whether it can be, and the file that keeps it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from conch.config import BUILTIN_WEIGHTS, WATCHED_COMPONENTS, Settings
from conch.consumer import asked_weights, expected_parts
from conch.errors import ConfigError, UsageError
from conch.rewards import absent_weights
from conch.rules import sums_to_one
from conch.text import instead
from conch_schemas import WeightsSet

if TYPE_CHECKING:
    from conch.consumer.plugins import Discovery
    from conch.home import Home
    from conch.run_info import RunInfo

BEARING: Final = {"diversity": "boost", "starving": "factor", "repetition": "penalty", "ethical": "gate"}
"""Component -> what it is to the total, which no weight changes."""
DIGITS: Final = 9
"""Decimals of a weight: enough for a sum within 1e-6."""


def weights_file(home: Home, config: Path | None, run: RunInfo | None) -> Path:
    """The file to write a table of weights into; `config`: the file that is named.

    Raises ConfigError where its contents would not be what a run reads.
    """
    from conch.config import chosen_file, read_environment

    said = read_environment(os.environ)
    if (place := said.part(("rewards", "weights")) or said.places.get(("rewards", "weights"))) is not None:
        raise ConfigError(f"{place} settles the weights, before any file: unset it, or change the weights there")
    chosen = chosen_file(config, home)
    if chosen is not None and chosen.absolute() != home.config_file:
        raise ConfigError(f"the settings are those of {chosen}: change rewards.weights there, or do not name that file")
    if run is not None and run.config not in (None, str(home.config_file)):
        raise ConfigError(f"the run in progress has its settings from {run.config}: change rewards.weights there")
    return home.config_file


class ChangedWeights(NamedTuple):
    """Another table of weights."""

    table: dict[str, float]
    factor: float
    """By which the weights that were not given were multiplied; 1.0: they are as they were."""

    @property
    def words(self) -> str:
        """What became of the weights that were not given; empty where they are as they were."""
        return "" if self.factor == 1.0 else f"all other weights × {self.factor:.4g}, so that the sum is 1"


def changed_weights(
    settings: Settings, found: Discovery, in_force: WeightsSet | None, given: Mapping[str, float]
) -> ChangedWeights:
    """The table with what is given. The others keep the weight in force, or that the next run would give them, where
    the sum is 1 with these; else they are rescaled in proportion, as the built-in ones are when a part is added.

    A part that is new to a table of one's own has the weight 0 there. A weight whose rule is not there stays in the
    table, and the others have their share beside it. Raises UsageError where the sum cannot be 1: what is given is
    more, or it is less and no other part has a weight.
    """
    asked = asked_weights(settings, found)
    absent = absent_weights(settings.rewards.weights, asked)
    base = dict.fromkeys((*BUILTIN_WEIGHTS, *asked), 0.0) | _before(settings, found, in_force)
    if in_force is not None:
        share = 1 - math.fsum(absent.values())
        base = {name: weight * share for name, weight in base.items() if name not in absent} | absent
    kept = math.fsum(weight for name, weight in base.items() if name not in given)
    rest, factor = 1 - math.fsum(given.values()), 1.0
    if not sums_to_one(base | dict(given)) and kept > 0 and rest >= 0:
        factor = rest / kept
    wanted = {name: round(given.get(name, weight * factor), DIGITS) for name, weight in (base | dict(given)).items()}
    if not sums_to_one(wanted):
        raise UsageError(_wrong_sum(given))
    return ChangedWeights(
        {name: weight for name, weight in wanted.items() if weight or name not in WATCHED_COMPONENTS}, factor
    )


def refuse_unpayable(
    settings: Settings, found: Discovery, in_force: WeightsSet | None, given: Mapping[str, float]
) -> None:
    """Raises UsageError for a name that can be given no weight: why, and what can.

    A component whose rule is not there can be given the weight 0, where it had one.
    """
    known = {*BUILTIN_WEIGHTS, *WATCHED_COMPONENTS, *asked_weights(settings, found)}
    had = {*(settings.rewards.weights or ()), *(part.component for part in (in_force.parts if in_force else ()))}
    for name in sorted(set(given) - known):
        if name == "ethical" and not settings.constitution.gate:
            raise UsageError(f"--set {name}: with constitution.gate off it is watched, it takes no weight")
        if name in BEARING:
            raise UsageError(f"--set {name}: {name} is a {BEARING[name]}: it bears on the total without a weight")
        if name in had and not given[name]:
            continue
        if name in had:
            why = f"{name} has a weight, but nothing here scores it now"
            raise UsageError(f"--set {name}: {why}: name its file with --rules, or set it to 0")
        advice = instead(name, known - _held_out(settings, found))
        raise UsageError(
            f"--set {name}: nothing scores it that can be paid; {advice} (--rules names the file of a rule; what a "
            "program of yours scores is declared under rewards.parts in conch.yaml)"
        )


def _held_out(settings: Settings, found: Discovery) -> set[str]:
    """Components that are never paid."""
    rewards = settings.rewards
    return {
        *(rule.name for rule in found.rules if rule.held_out),
        *(name for name, judge in rewards.judges.items() if judge.held_out),
        *(name for name, part in rewards.parts.items() if part.held_out),
    }


def _before(settings: Settings, found: Discovery, in_force: WeightsSet | None) -> dict[str, float]:
    if in_force is not None:
        return {part.component: part.weight for part in in_force.parts if part.weight}
    if settings.rewards.weights is not None:
        return dict(settings.rewards.weights)
    try:
        return {part.component: part.weight for part in expected_parts(settings, found) if part.weight}
    except ConfigError:  # they ask for more than there is
        return asked_weights(settings, found)


def _wrong_sum(given: Mapping[str, float]) -> str:
    total = math.fsum(given.values())
    gap = f"{1 - total:.6g} is missing, and no other part has a weight" if total < 1 else f"{total - 1:.6g} too much"
    shares = ", ".join(f"{name} {weight:g}" for name, weight in given.items() if weight)
    return f"the weights would sum to {total:.6g}, {gap}: {shares or 'all are 0'}"


def with_weights(settings: Settings, table: Mapping[str, float] | None) -> Settings:
    """The settings with this table of weights; None: without one."""
    rewards = settings.rewards.model_copy(update={"weights": None if table is None else dict(table)})
    return settings.model_copy(update={"rewards": rewards})
