"""The weighted sum of several rules for one subject, and for a batch."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeVar

from conch.errors import ConfigError
from conch.rules.advantages import group_advantages
from conch.rules.verdict import Rule, Verdict, verdict

T = TypeVar("T")

WEIGHT_TOLERANCE: Final = 1e-6
"""How far from 1 the weights may sum."""

Aggregation = Literal["sum", "normalize_then_sum"]
AT_ONCE = 16
"""Trajectories of a batch scored concurrently, and so the most concurrent calls of a judge."""


def sums_to_one(weights: Mapping[str, float], tolerance: float = WEIGHT_TOLERANCE) -> bool:
    """Whether a table of weights can be used: not empty, and its sum within `tolerance` of 1."""
    return bool(weights) and abs(math.fsum(weights.values()) - 1.0) <= tolerance


@dataclass(frozen=True)
class WeightedRewardConfig:
    """The weight of each rule. Raises ConfigError for weights that are empty, or do not sum to 1 within 1e-6."""

    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        if not self.weights:
            raise ConfigError("the table of weights is empty: give each rule one")
        for name, weight in self.weights.items():
            if not math.isfinite(weight):
                raise ConfigError(f"the weight of {name} is {weight}, not a finite number")
        if not sums_to_one(self.weights):
            raise ConfigError(f"the weights sum to {math.fsum(self.weights.values()):.9g}, they must sum to 1")
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))


class Weighted(NamedTuple):
    """The weighted total of one subject and its parts."""

    total: float | None
    """Σ weight × value over the scored parts, as in the live total; a part that is not applicable adds nothing. None
    where a part failed, as leaving it out would count it as 0, and where nothing was applicable."""
    parts: Mapping[str, Verdict]
    """Verdicts by rule name."""


class Batch(NamedTuple):
    """Rewards and advantages of one batch; each list is as long as the batch and in its order."""

    rewards: tuple[float | None, ...]
    """The totals; with `normalize_then_sum`, relative to the group."""
    parts: tuple[Mapping[str, Verdict], ...]
    advantages: tuple[float | None, ...]
    """None where there is no reward."""
    flat: tuple[Hashable, ...]
    """Groups without spread: without a baseline their advantages are 0."""


async def compute_weighted_reward(
    trajectory: T, rules: Mapping[str, Rule[T]], config: WeightedRewardConfig
) -> Weighted:
    """(total, parts) of one subject, a trajectory or what the rules accept; the rules run one after the other.

    Raises ConfigError where the rules and the weights do not have exactly the same names. A rule's failure is the
    status of its own part alone. Cancelled, it cancels the running rule.
    """
    _refuse_mismatch(rules, config)
    parts = {name: await verdict(rule, trajectory) for name, rule in rules.items()}
    return Weighted(_total({name: part.value for name, part in parts.items()}, parts, config), parts)


async def score_batch(
    trajectories: Sequence[T],
    rules: Mapping[str, Rule[T]],
    config: WeightedRewardConfig,
    *,
    groups: Sequence[Hashable] | None = None,
    aggregation: Aggregation = "sum",
    baseline: float | None = None,
    normalize: bool = True,
    at_once: int = AT_ONCE,
) -> Batch:
    """Rewards and advantages of many trajectories, at most `at_once` of them concurrently.

    `groups`: for each trajectory, the state that it replies to; None: all reply to one. `normalize_then_sum` scales
    each part to mean 0 and deviation 1 within its group before the weighted sum, so that no part dominates by its
    scale. Raises ConfigError where names do not match, where groups and trajectories differ in number, and for
    `at_once` below 1. Cancelled, it cancels every running rule.
    """
    _refuse_mismatch(rules, config)
    if at_once < 1:
        raise ConfigError(f"at_once is {at_once}: score at least one at a time")
    keys = [None] * len(trajectories) if groups is None else list(groups)
    if len(keys) != len(trajectories):
        raise ConfigError(f"{len(trajectories)} trajectories have {len(keys)} groups: name one for each")
    scored: list[Weighted | None] = [None] * len(trajectories)
    waiting = iter(range(len(trajectories)))

    async def work() -> None:
        for place in waiting:
            scored[place] = await compute_weighted_reward(trajectories[place], rules, config)

    async with asyncio.TaskGroup() as group:
        for number in range(min(at_once, len(trajectories))):
            group.create_task(work(), name=f"conch.score_batch.{number}")
    whole = [one for one in scored if one is not None]
    rewards = [one.total for one in whole]
    if aggregation == "normalize_then_sum":
        rewards = list(_normalized_totals(whole, keys, config))
    found = group_advantages(rewards, keys, baseline=baseline, normalize=normalize)
    return Batch(tuple(rewards), tuple(one.parts for one in whole), found.advantages, found.flat)


def _normalized_totals(
    whole: Sequence[Weighted], groups: Sequence[Hashable], config: WeightedRewardConfig
) -> Iterator[float | None]:
    columns = {
        name: group_advantages([one.parts[name].value for one in whole], groups).advantages for name in config.weights
    }
    for place, one in enumerate(whole):
        yield _total({name: column[place] for name, column in columns.items()}, one.parts, config)


def _total(
    values: Mapping[str, float | None], parts: Mapping[str, Verdict], config: WeightedRewardConfig
) -> float | None:
    if any(part.status in ("error", "timeout") for part in parts.values()):
        return None
    counted = [config.weights[name] * value for name, value in values.items() if value is not None]
    return math.fsum(counted) if counted else None


def _refuse_mismatch(rules: Mapping[str, object], config: WeightedRewardConfig) -> None:
    if missing := sorted(set(rules) - set(config.weights)):
        raise ConfigError(f"no weight is given for {', '.join(missing)}: name each rule in the table of weights")
    if unknown := sorted(set(config.weights) - set(rules)):
        raise ConfigError(f"the weights name {', '.join(unknown)}, which no rule scores")
