"""What was measured: the raw figures, their medians, what Conch is to each peer, and the goals."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Row:
    """One mode of one measurement."""

    measurement: str
    mode: str
    goal: float | None = None
    """How many times as fast as this Conch is to be."""
    least: float | None = None
    """How many a second Conch is to reach itself."""
    ours: bool = False
    """The mode that the others are compared with: Conch as it is meant to be used."""
    rates: list[float] = field(default_factory=list)
    """Per second, one for each time."""
    beside: dict[str, list[float]] = field(default_factory=dict)
    """Microseconds of processor time an item, by process."""

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


@dataclass(frozen=True)
class Delay:
    """The delays at one rate offered."""

    measurement: str
    offered: float
    """A second."""
    milliseconds: list[float]


class Figures:
    """All of a run, in the order of the first time."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}
        self.delays: list[Delay] = []
        self.notes: list[str] = []

    def add(
        self,
        measurement: str,
        mode: str,
        rate: float,
        *,
        goal: float | None = None,
        least: float | None = None,
        ours: bool = False,
        **us: float,
    ) -> None:
        """One time of one mode: `rate` a second, and the microseconds of each process an item."""
        row = self.rows.setdefault((measurement, mode), Row(measurement, mode, goal, least, ours))
        row.rates.append(rate)
        for name, value in us.items():
            row.beside.setdefault(name, []).append(value)

    def note(self, sentence: str) -> None:
        """Something that happened and belongs beside the figures."""
        self.notes.append(sentence)

    def markdown(self) -> str:
        """Tables for the README."""
        lines = []
        if self.rows:
            lines += ["| measurement | mode | median | least, most | Conch is | goal | µs: client, server |"]
            lines += ["|---|---|---|---|---|---|---|"]
            lines += [self._line(row) for row in self.rows.values()]
        if self.delays:
            lines += ["", "| delay | offered | p50 | p99 | p99.9 | samples |", "|---|---|---|---|---|---|"]
            lines += [_delay_line(delay) for delay in self.delays]
        return "\n".join([*lines, *([""] if self.notes else []), *(f"* {note}" for note in self.notes)])

    def _line(self, row: Row) -> str:
        ratio = self.ratio(row)
        us = ", ".join(f"{statistics.median(values):,.0f}" for values in row.beside.values())
        cells = [
            row.measurement,
            f"**{row.mode}**" if row.ours else row.mode,
            f"{row.median:,.0f}/s",
            f"{min(row.rates):,.0f}, {max(row.rates):,.0f}",
            "" if ratio is None else f"{ratio:.2f} ×" if ratio < 10 else f"{ratio:.1f} ×",
            _goal(row, ratio),
            us,
        ]
        return f"| {' | '.join(cells)} |"

    def ratio(self, row: Row) -> float | None:
        """How many times as fast as this mode Conch is; None for Conch's own."""
        ours = [one for one in self.rows.values() if one.measurement == row.measurement and one.ours]
        return ours[0].median / row.median if ours and not row.mode.startswith("Conch") else None

    def document(self) -> dict[str, Any]:
        """Everything, for a file."""
        rows = [asdict(row) | {"median": row.median, "conch_is": self.ratio(row)} for row in self.rows.values()]
        machine = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
        delays = [asdict(delay) for delay in self.delays]
        return {"machine": machine, "rows": rows, "delays": delays, "notes": self.notes}

    def save(self, file: str) -> None:
        """Write `document` down."""
        with open(file, "w") as opened:
            json.dump(self.document(), opened, indent=1)


def _goal(row: Row, ratio: float | None) -> str:
    if row.least is not None:
        return f"≥ {row.least:,.0f}/s: {'met' if row.median >= row.least else 'missed'}"
    if row.goal is None or ratio is None:
        return ""
    return f"≥ {row.goal:g} ×: {'met' if ratio >= row.goal else 'missed'}"


def _delay_line(delay: Delay) -> str:
    shares = [f"{value:.2f} ms" if value is not None else "–" for value in map(delay_of(delay), (0.5, 0.99, 0.999))]
    return f"| {delay.measurement} | {delay.offered:g}/s | {' | '.join(shares)} | {len(delay.milliseconds):,} |"


BEYOND = 5
"""Samples that must lie beyond a percentile for it to be said."""


def delay_of(delay: Delay) -> Any:
    """share -> that percentile of `delay` in milliseconds, nearest rank; None where too few samples lie beyond it."""
    ordered: Sequence[float] = sorted(delay.milliseconds)

    def at(share: float) -> float | None:
        if len(ordered) * (1 - share) < BEYOND - 1e-9:
            return None
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    return at
