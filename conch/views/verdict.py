"""The verdict on an agent's life in one sentence: whether its reward rises, has levelled off or falls. Pure.

A total depends on the ones before it, so that cycles are no independent samples. The slopes here are taken over means
of batches of neighbouring cycles, and the difference between the two ends of the life by a bootstrap of blocks of
cycles: both intervals are about as wide as that dependence makes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.views.line import signed

VerdictKind = Literal["early", "learning", "risen", "levelled", "falling", "habit", "unchanged"]

ENDS: Final = 100
"""Cycles at each end of the life that are compared. With a standard deviation of 0.2 a difference of 0.08 shows
(ours)."""
LEAST_LIFE: Final = 2 * ENDS
"""Cycles of the shortest life with a verdict: its two ends have no cycle in common."""
MATTERS: Final = 0.02
"""Least change of the mean total that is called one: a hundredth of the range of a total, −1 to 1 (ours)."""
HABIT: Final = 0.3
"""Normalised entropy of the last acts below which they are a habit: `rewards.diversity` by default."""
MOST_BATCHES: Final = 60
FEWEST_BATCHES: Final = 8
"""Batches that a slope needs."""
LEAST_BATCH: Final = 5
"""Cycles of the smallest batch."""
BLOCK: Final = 20
"""Neighbouring cycles that the bootstrap draws together."""
DRAWS: Final = 1000
SHOWN_SURE: Final = 1.96
"""Standard errors to each side of a 95 % interval, as it is shown."""
SURE: Final = 2.58
"""Standard errors by which a change must exceed 0 for a verdict: 99 %, since the page asks anew with every cycle."""
FAST: Final = 0.2
"""Share of the life within which a rise was fast (ours)."""

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """A figure with its standard error."""

    value: float
    error: float

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.value - SHOWN_SURE * self.error

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.value + SHOWN_SURE * self.error

    @property
    def is_rise(self) -> bool:
        """Whether it is above 0 at 99 %."""
        return self.value - SURE * self.error > 0.0

    @property
    def is_fall(self) -> bool:
        """Whether it is below 0 at 99 %."""
        return self.value + SURE * self.error < 0.0


class LifeStretch(NamedTuple):
    """Neighbouring cycles, and the mean of their totals."""

    first: int
    cycles: int
    mean: float


class Baseline(NamedTuple):
    """What the reward is compared with."""

    name: str
    """In words: `choosing blindly`, `its first policy`, `its first 100 cycles`."""
    value: float


class LifeVerdict(NamedTuple):
    """The verdict, with the figures that it was made from."""

    kind: VerdictKind
    headline: str
    """One sentence."""
    details: tuple[str, ...]
    """Further sentences: from, to, interval, baseline, acts that moved a goal."""
    start: float | None
    """Mean total of the first 100 cycles; None of a life that is too short."""
    end: float | None
    """Mean total of the last 100 cycles."""
    change: Interval | None
    """End minus start."""
    since: int | None
    """The cycle at which the rise ended; None: it has not, or there was none."""
    recent: Interval | None
    """Rise of the total in 100 cycles since then, or over the last third of the life."""


def life_verdict(
    stretches: Sequence[LifeStretch],
    first: Sequence[float],
    last: Sequence[float],
    *,
    baseline: Baseline | None = None,
    diversity: float | None = None,
    moved: int = 0,
) -> LifeVerdict:
    """The verdict on a life.

    `stretches`: the whole of it, oldest first. `first`, `last`: the totals of its first and last 100 cycles.
    `baseline`: without one, the first 100 cycles. `diversity`: normalised entropy of the last acts, 0..1; None: not
    known. `moved`: acts that moved a goal. The same values give the same verdict: the bootstrap is seeded.
    """
    acts = sum(one.cycles for one in stretches)
    goals = _goals(moved, acts)
    if acts < LEAST_LIFE or len(first) < ENDS or len(last) < ENDS:
        return LifeVerdict(
            "early", f"Too early to say: {acts} of {LEAST_LIFE} cycles.", goals, None, None, None, None, None
        )
    batches = _batches(stretches)
    change = difference_interval(first, last)
    start, end = float(np.mean(first)), float(np.mean(last))
    late = batches[-max(FEWEST_BATCHES, len(batches) // 3) :]
    recent = _slope(late)
    rise = recent.value * (late[-1].first - late[0].first) / 100.0
    kind = _kind(change, recent, rise, diversity)
    since = None
    turn = _turn(batches)
    if kind == "levelled" and batches[turn].first >= late[0].first:
        kind = "risen"  # until lately: whether that has ended cannot be told yet
    if kind == "levelled":
        since, after = batches[turn].first, batches[turn:]
        recent = _slope(after) if len(after) >= FEWEST_BATCHES else recent
    if kind == "falling" and not recent.is_fall:
        headline = "Fallen: worse than at first."
    else:
        headline = _headline(kind, since, stretches[0].first, stretches[-1].first + stretches[-1].cycles)
        headline = _unsure(kind, change, recent, rise) or headline
    details = (
        _from_to(start, end, change),
        _since(kind, since, recent),
        _against(end, baseline, start),
        *goals,
    )
    return LifeVerdict(kind, headline, tuple(filter(None, details)), start, end, change, since, recent)


def _kind(change: Interval, recent: Interval, rise: float, diversity: float | None) -> VerdictKind:
    if recent.is_fall and rise <= -MATTERS:
        return "falling"
    if recent.is_rise and rise >= MATTERS:
        return "learning"
    if change.is_fall and change.value <= -MATTERS:
        return "falling"
    if change.is_rise and change.value >= MATTERS:
        return "levelled"
    return "habit" if diversity is not None and diversity < HABIT else "unchanged"


def _batches(stretches: Sequence[LifeStretch]) -> list[LifeStretch]:
    """At most MOST_BATCHES batches of neighbouring stretches, about equal in cycles."""
    acts = sum(one.cycles for one in stretches)
    least = max(LEAST_BATCH, math.ceil(acts / MOST_BATCHES))
    made: list[LifeStretch] = []
    begun, count, total = 0, 0, 0.0
    for one in stretches:
        begun = one.first if count == 0 else begun
        count, total = count + one.cycles, total + one.cycles * one.mean
        if count >= least:
            made.append(LifeStretch(begun, count, total / count))
            count, total = 0, 0.0
    if count and made:  # too few for a batch of their own
        before = made.pop()
        whole = before.cycles + count
        made.append(LifeStretch(before.first, whole, (before.cycles * before.mean + total) / whole))
    return made


def difference_interval(first: Sequence[float], last: Sequence[float]) -> Interval:
    """Mean of the last minus mean of the first values, each in the order of cycles, its error by a moving-block
    bootstrap (Künsch, 1989). Without two values on a side the error is infinite."""
    random = np.random.default_rng(0)
    ends: list[Floats] = [np.asarray(first, np.float64), np.asarray(last, np.float64)]
    if min(len(first), len(last)) < 2:
        value = float(ends[1].mean() - ends[0].mean()) if len(first) and len(last) else 0.0
        return Interval(value, math.inf)
    away = [_drawn(one, random) for one in ends]
    return Interval(float(ends[1].mean() - ends[0].mean()), float(np.std(away[1] - away[0])))


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of values in the order of cycles, its error by the same bootstrap."""
    found = np.asarray(values, np.float64)
    if len(found) < 2:
        return Interval(float(found.mean()) if len(found) else 0.0, math.inf)
    return Interval(float(found.mean()), float(np.std(_drawn(found, np.random.default_rng(0)))))


def _drawn(values: Floats, random: np.random.Generator) -> Floats:
    """How far the means of DRAWS series, each of random blocks of these values, are from their own mean."""
    block = min(BLOCK, max(1, len(values) // 5))
    blocks = np.lib.stride_tricks.sliding_window_view(values, block).mean(axis=1)
    chosen = random.integers(0, len(blocks), size=(DRAWS, max(1, len(values) // block)))
    means: Floats = blocks[chosen].mean(axis=1)
    # Blocks of l out of n values lie too close together: by √((n − l) ÷ n) (Lahiri, 2003).
    away: Floats = (means - blocks.mean()) / math.sqrt(1.0 - block / len(values))
    return away


def _slope(batches: Sequence[LifeStretch]) -> Interval:
    """Rise of the total in 100 cycles, by least squares over the batches; the error is that of Student's t."""
    xs = np.array([one.first for one in batches], np.float64) / 100.0
    ys = np.array([one.mean for one in batches], np.float64)
    away = xs - xs.mean()
    wide = float(away @ away)
    free = len(batches) - 2
    if wide <= 0.0 or free < 3:
        return Interval(0.0, math.inf)
    rise = float(away @ (ys - ys.mean())) / wide
    left = ys - ys.mean() - rise * away
    return Interval(rise, math.sqrt(float(left @ left) / (free - 2) / wide))


def _turn(batches: Sequence[LifeStretch]) -> int:
    """Index of the batch at which a line that rises to it and is level after it fits best, by least squares."""
    ys = np.array([one.mean for one in batches], np.float64)
    places = np.arange(len(ys), dtype=np.float64)
    last = max(2, len(ys) - FEWEST_BATCHES + 1)
    return min(range(1, last), key=lambda turn: _misfit(np.minimum(places, turn), ys))


def _misfit(xs: Floats, ys: Floats) -> float:
    """Squared distances from the best line over these xs."""
    away, up = xs - xs.mean(), ys - ys.mean()
    rise = float(away @ up) / float(away @ away)
    left = up - rise * away
    return float(left @ left)


def _headline(kind: VerdictKind, since: int | None, first: int, behind: int) -> str:
    if kind == "levelled" and since is not None:
        fast = "fast" if since - first <= FAST * (behind - first) else ""
        return f"Learnt{' fast' if fast else ''}, then levelled off at cycle {since:,}."
    return {
        "learning": "Learning: the reward still rises.",
        "risen": "Better than at first; whether it still rises cannot be told yet.",
        "falling": "Falling: the reward goes down.",
        "habit": "Stuck in a habit: nearly the same act again and again, and no better than at first.",
    }.get(kind, "No change so far that is more than chance.")


def _unsure(kind: VerdictKind, change: Interval, recent: Interval, rise: float) -> str:
    """What an interval says that leaves 0 out at 95 %, as it is shown, and not at 99 %; empty: none does."""
    signs = [one for one, size in ((recent, rise), (change, change.value)) if abs(size) >= MATTERS]
    weak = next((one for one in signs if one.low > 0.0 or one.high < 0.0), None)
    if weak is None or kind not in ("unchanged", "habit"):
        return ""
    if kind == "habit":
        return "Stuck in a habit: nearly the same act again and again, and not surely another reward than at first."
    if weak is change:
        return f"Perhaps {'better' if change.value > 0 else 'worse'} than at first; more cycles will tell."
    return f"Perhaps {'rising' if rise > 0 else 'falling'} of late; more cycles will tell."


def _from_to(start: float, end: float, change: Interval) -> str:
    moves = "rose" if change.is_rise else "fell" if change.is_fall else "went"
    between = f"95 %: {_figure(change.low, 2)} to {_figure(change.high, 2)}"
    return (
        f"Reward {moves} from {_figure(start, 2)} (first {ENDS} cycles) to {_figure(end, 2)} (last {ENDS}): "
        f"{_figure(change.value, 2)}, {between}."
    )


def _since(kind: VerdictKind, since: int | None, recent: Interval) -> str:
    if not math.isfinite(recent.error):
        return ""
    when = f"Since cycle {since:,}" if kind == "levelled" and since is not None else "In the last third"
    between = f"95 %: {_figure(recent.low, 3)} to {_figure(recent.high, 3)}"
    return f"{when} {_figure(recent.value, 3)} in 100 cycles ({between})."


def _against(end: float, baseline: Baseline | None, start: float) -> str:
    """What the end is against a baseline; the first cycles are named in the sentence before."""
    if baseline is None:
        return ""
    words = (
        "above" if end - baseline.value >= MATTERS else "below" if baseline.value - end >= MATTERS else "no better than"
    )
    return f"That is {words} {baseline.name} ({_figure(baseline.value, 2)})."


def _figure(value: float, digits: int) -> str:
    """As `signed`, with a true minus."""
    return signed(value, digits).replace("-", "−")


def _goals(moved: int, acts: int) -> tuple[str, ...]:
    of = f"{acts:,} {'act' if acts == 1 else 'acts'}"
    return (f"{moved:,} of {of} moved a goal." if moved else f"None of {of} moved a goal.",) if acts else ()
