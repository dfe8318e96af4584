"""When an adapter that acts is taken back by itself: a fold over its acts, and the triggers that read it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from conch.training.canary import CanaryResult

KEPT = 1000
"""Newest acts of a policy that the fold keeps."""


@dataclass(frozen=True, order=True)
class ActedUnder:
    """An act, as far as a rollback depends on it."""

    cycle: int
    id: str
    valid: bool = field(compare=False)
    """The reply was an action of the grammar."""
    blocked: bool = field(compare=False)
    """The guard blocked the act."""


@dataclass(frozen=True)
class PolicyActs:
    """The newest acts of each policy digest, oldest first: at most KEPT of each."""

    acts: Mapping[str, tuple[ActedUnder, ...]] = field(default_factory=dict)

    def with_act(self, policy: str, act: ActedUnder) -> PolicyActs:
        """With one more act, in its place: the order of calls does not matter. The same act twice changes nothing."""
        known = self.acts.get(policy, ())
        place = bisect_left(known, act)
        if place < len(known) and known[place] == act:
            return self
        return PolicyActs({**self.acts, policy: (*known[:place], act, *known[place:])[-KEPT:]})

    def only(self, *policies: str) -> PolicyActs:
        """Without the policies that no trigger will ask for."""
        return PolicyActs({policy: acts for policy, acts in self.acts.items() if policy in policies})


@dataclass(frozen=True)
class RollbackLimits:
    """When acts alone call for a rollback. Shares are in 0..1."""

    window: int = 100
    """Acts over which the format is compared; with fewer of one of the two it is not."""
    format_fall: float = 0.05
    """Fall of the share of valid replies that is too much."""
    alpha: float = 0.0003
    """Error rate of one look at two shares, by Fisher's exact test. It is small, as each act is followed by a look: at
    0.001 one in twenty policies without any difference was taken back within 2,000 simulated acts."""


@dataclass(frozen=True)
class RollbackTrigger:
    """What calls for a rollback."""

    trigger: Literal["worse", "format", "guard", "probe", "person"]
    why: str
    """One sentence with the figures."""
    active: float | None = None
    """The figure of what acts: a mean difference or a share; None for a probe or a person."""
    incumbent: float | None = None
    """The figure that it was held against."""


def rollback_trigger(
    acts: PolicyActs,
    *,
    active: str,
    incumbent: str,
    trial: CanaryResult | None = None,
    probe_matches: bool | None = None,
    person: str | None = None,
    limits: RollbackLimits = RollbackLimits(),
) -> RollbackTrigger | None:
    """The first trigger that holds, in the order person, probe, worse, guard, format; None where none does.

    `active`, `incumbent`: policy digests, of what acts on probation and of what acted before. `trial`: the newest
    outcome of the test on rewards. `probe_matches`: None where the engine was not asked. `person`: who asked for it.
    """
    if person is not None:
        return RollbackTrigger("person", f"{person} asked for the rollback.")
    if probe_matches is False:
        return RollbackTrigger("probe", "The engine's replies to the probe are not those of the adapter's record.")
    if trial is not None and trial.verdict == "worse":
        return RollbackTrigger("worse", trial.why, trial.difference, 0.0)
    ours, theirs = acts.acts.get(active, ()), acts.acts.get(incumbent, ())
    return _guard(ours, theirs, limits) or _format(ours, theirs, limits)


def rise_chance(risen: int, of: int, base: int, base_of: int) -> float:
    """Chance of at least `risen` of `of` where both shares are equal, by Fisher's exact test; 1.0 for an empty side."""
    if not of or not base_of:
        return 1.0
    events, whole = risen + base, of + base_of
    logs = [
        _choices(of, k) + _choices(base_of, events - k) - _choices(whole, events)
        for k in range(risen, min(of, events) + 1)
    ]
    return min(1.0, math.fsum(map(math.exp, logs)))


def _guard(
    ours: tuple[ActedUnder, ...], theirs: tuple[ActedUnder, ...], limits: RollbackLimits
) -> RollbackTrigger | None:
    """More acts are blocked than under the incumbent, and not by chance: over all kept acts, as they are rare."""
    blocked, before = sum(act.blocked for act in ours), sum(act.blocked for act in theirs)
    chance = rise_chance(blocked, len(ours), before, len(theirs))
    if chance > limits.alpha:
        return None
    share, other = blocked / len(ours), before / len(theirs)
    why = (
        f"The guard blocked {blocked} of {len(ours)} acts ({share:.1%}), {before} of {len(theirs)} of the incumbent's "
        f"({other:.1%}); by chance alone with a probability of {chance:.1g}."
    )
    return RollbackTrigger("guard", why, share, other)


def _format(
    ours: tuple[ActedUnder, ...], theirs: tuple[ActedUnder, ...], limits: RollbackLimits
) -> RollbackTrigger | None:
    """The share of valid replies of the last acts has fallen by the limit or more, and not by chance."""
    if len(ours) < limits.window or len(theirs) < limits.window:
        return None
    last = ours[-limits.window :]
    invalid, before = sum(not act.valid for act in last), sum(not act.valid for act in theirs)
    share, other = 1.0 - invalid / len(last), 1.0 - before / len(theirs)
    chance = rise_chance(invalid, len(last), before, len(theirs))
    if other - share < limits.format_fall - 1e-9 or chance > limits.alpha:
        return None
    why = (
        f"{share:.1%} of the last {len(last)} replies are valid, {other:.1%} of {len(theirs)} of the incumbent's: a "
        f"fall of {100 * (other - share):.1f} points, by chance alone with a probability of {chance:.1g}."
    )
    return RollbackTrigger("format", why, share, other)


def _choices(n: int, k: int) -> float:
    """Logarithm of the binomial coefficient; minus infinity where there is none."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if 0 <= k <= n else -math.inf
