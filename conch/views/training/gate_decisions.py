"""Decisions that the gate compared: on the same recorded state the reply of what acted, and of the candidate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from conch.files import read_plain
from conch.views.base import View

SAMPLES: Final = "gate.jsonl"
"""The gate's evidence in the directory of a round: a line for each reply."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of evidence that are read; 400 states of two replies each take some 2 MB."""
MOST_SHOWN: Final = 10
"""Decisions that gained most, and as many that lost most."""


class GateDecision(View):
    """A held-out decision with both replies and what they earned in a copy of the workspace."""

    cycle: int
    """The recorded cycle whose state it is."""
    before: str
    """Reply of what acted."""
    after: str
    """Reply of the candidate."""
    before_total: float
    after_total: float


class _Sample(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    arm: Literal["incumbent", "candidate"]
    cycle: int
    state: str
    seed: int
    raw: str
    total: float


def gate_decisions(training: Path, round: str) -> tuple[GateDecision, ...]:
    """The decisions of a round's gate that gained most, then those that lost most, each of both arms; empty where the
    evidence is not there. `training`: the directory of rounds."""
    try:
        lines = read_plain(training / round[:16] / SAMPLES, MOST_BYTES).splitlines()
    except OSError:
        return ()
    sides: dict[tuple[str, int, int], dict[str, _Sample]] = {}
    for line in lines:
        if (one := _sample(line)) is not None:
            sides.setdefault((one.state, one.cycle, one.seed), {})[one.arm] = one
    pairs = [_pair(both["incumbent"], both["candidate"]) for both in sides.values() if len(both) == 2]
    return tuple(_farthest(pairs))


def _farthest(pairs: Sequence[GateDecision]) -> Sequence[GateDecision]:
    ordered = sorted(pairs, key=lambda one: (one.before_total - one.after_total, one.cycle))
    return ordered if len(ordered) <= 2 * MOST_SHOWN else [*ordered[:MOST_SHOWN], *ordered[-MOST_SHOWN:]]


def _pair(before: _Sample, after: _Sample) -> GateDecision:
    return GateDecision(
        cycle=before.cycle, before=before.raw, after=after.raw, before_total=before.total, after_total=after.total
    )


def _sample(line: bytes) -> _Sample | None:
    """None for a line that a kill has cut."""
    try:
        return _Sample.model_validate_json(line)
    except ValidationError:
        return None
