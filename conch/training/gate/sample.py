"""What the gate compares: the replies of incumbent and candidate to held-out states, and the limits that they keep."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class GateReply:
    """One reply to a held-out state, and how it was scored. Raises ValueError for a figure that is not finite."""

    total: float | None
    """Total reward of the act, in -1..1; None: it was not scored."""
    valid: bool
    """It is an action of the grammar."""
    idle: bool = False
    """The act is a rest, or a call without effect."""
    reply: bool = False
    """The act answers a person."""
    violation: bool = False
    """The guard blocked the act, or it broke a rule of safety."""
    length: int = 0
    """Tokens of the reply."""
    skill: str = ""
    """Tool and operation, `DO_NOTHING` or `REFLECT`; empty for an invalid reply."""
    held_out: float | None = None
    """Score by the rule that never trains; None: it was not scored, or there is no such rule."""
    judge_missing: bool = False
    """A judge that scores this act gave no score: neither figure is used."""

    def __post_init__(self) -> None:
        for name, value in (("total", self.total), ("held_out", self.held_out)):
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} of a reply is a finite number or None: {value}")


@dataclass(frozen=True)
class GateSample:
    """One held-out state, answered by both with the same seed through the same engine."""

    state: str
    """State key."""
    seed: int
    incumbent: GateReply
    candidate: GateReply

    @property
    def difference(self) -> float | None:
        """Candidate's total minus incumbent's; None where one of them is missing."""
        return _difference(self, self.candidate.total, self.incumbent.total)

    @property
    def held_out_difference(self) -> float | None:
        """The same for the held-out rule."""
        return _difference(self, self.candidate.held_out, self.incumbent.held_out)


@dataclass(frozen=True)
class GateFigures:
    """What the trainer and the engine say of the candidate itself. None: it could not be measured."""

    kl: float | None
    """Divergence to the base, nats a token."""
    probe_differs: bool | None
    """Its replies to the probe's prompts are not those of the base."""
    servable: bool | None
    """Digest, ranks and modules are as the engine needs them."""


@dataclass(frozen=True)
class GateLimits:
    """What a candidate must keep to. Shares are in 0..1; a point is 0.01. The sources are measurements of 0.4 as
    the standard deviation of the paired difference, and of rounds that promoted noise."""

    margin: float = 0.02
    """The lower bound of the paired difference of the total must be above this."""
    alpha: float = 0.05
    """Error rate of all gates of a lineage together."""
    pairs: int = 50
    """Least states. With fewer of them the verdict is inconclusive."""
    format_fall: float = 0.02
    """Most that the share of valid replies may fall."""
    held_out_fall: float = 0.02
    """Most that the mean of the held-out rule may fall."""
    share_rise: float = 0.10
    """Most that the shares of idle, invalid and answering acts may rise, each."""
    length_change: float = 0.25
    """Most relative change of the mean length of a reply."""
    distinct: float = 0.8
    """Least number of distinct skills, as a share of the incumbent's."""
    kl: float = 2.0
    """Largest divergence to the base, nats a token. It predicts forgetting."""


@dataclass(frozen=True)
class CheckedCondition:
    """A row of the gate's table."""

    name: str
    candidate: float | None
    incumbent: float | None
    limit: float | None
    """What the candidate's figure is compared with."""
    holds: bool | None
    """None: it cannot be said, as figures are missing or too few."""
    why: str
    """One sentence with the figures."""


def distinct_samples(samples: Iterable[GateSample]) -> tuple[GateSample, ...]:
    """One sample of each state and seed, sorted by them.

    Of several samples of one state and seed that differ, a scored one is preferred, then the one with the least
    difference: a decode that is repeated until it looks well gains nothing.
    """
    chosen: dict[tuple[str, int], GateSample] = {}
    for sample in samples:
        key = sample.state, sample.seed
        if key not in chosen or _preference(sample) < _preference(chosen[key]):
            chosen[key] = sample
    return tuple(chosen[key] for key in sorted(chosen))


def evidence_digest(samples: tuple[GateSample, ...], limits: GateLimits, number: int, figures: GateFigures) -> str:
    """SHA-256, hexadecimal, over what a verdict is made of, as JSON."""
    rows = [[one.state, one.seed, [*vars(one.incumbent).values()], [*vars(one.candidate).values()]] for one in samples]
    evidence = {"samples": rows, "limits": astuple(limits), "number": number, "figures": astuple(figures)}
    return hashlib.sha256(json.dumps(evidence, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _difference(sample: GateSample, candidate: float | None, incumbent: float | None) -> float | None:
    missing = sample.candidate.judge_missing or sample.incumbent.judge_missing
    return None if missing or candidate is None or incumbent is None else candidate - incumbent


def _preference(sample: GateSample) -> tuple[bool, float, str]:
    """The least one is used. The text decides among equal ones, so that their order does not."""
    difference = sample.difference
    return difference is None, difference or 0.0, repr(sample)
