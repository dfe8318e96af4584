"""Combinators: rules made of rules. Each is a rule itself, so they nest.

For example `Sequential(Gate(compiles, 1.0), WeightedSum(…))`.

Where an inner rule fails, the combination fails: it raises ContractError or TimeoutError, which `verdict` makes a
status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from conch.errors import ConfigError
from conch.rules.verdict import Rule, required, verdict
from conch.rules.weighted import WeightedRewardConfig, compute_weighted_reward

T = TypeVar("T")


class Sequential(Generic[T]):
    """Runs rules in order, the cheapest first, until one returns 0.

    The first that returns 0 ends it with 0, and no later one runs; otherwise the last one's value counts. A rule that
    is not applicable is skipped; if all are, the result is None.

    Raises ConfigError without rules.
    """

    def __init__(self, *rules: Rule[T]) -> None:
        if not rules:
            raise ConfigError("a Sequential has at least one rule")
        self.rules = rules

    async def __call__(self, subject: T) -> float | None:
        """The value for `subject`, or None."""
        last = None
        for rule in self.rules:
            value = required(await verdict(rule, subject))
            if value == 0.0:
                return 0.0
            last = last if value is None else value
        return last


@dataclass(frozen=True)
class Gate(Generic[T]):
    """A threshold on a rule: its value from `threshold` on, otherwise 0."""

    rule: Rule[T]
    threshold: float

    async def __call__(self, subject: T) -> float | None:
        """The value for `subject`, or None where the rule is not applicable."""
        value = required(await verdict(self.rule, subject))
        return value if value is None or value >= self.threshold else 0.0


class WeightedSum(Generic[T]):
    """The total of `compute_weighted_reward` as a rule. Calling it raises ConfigError where names do not match."""

    def __init__(self, rules: Mapping[str, Rule[T]], config: WeightedRewardConfig) -> None:
        self.rules, self.config = dict(rules), config

    async def __call__(self, subject: T) -> float | None:
        """The total for `subject`, or None where no part is applicable."""
        total, parts = await compute_weighted_reward(subject, self.rules, self.config)
        for name, part in parts.items():
            required(part, name)
        return total
