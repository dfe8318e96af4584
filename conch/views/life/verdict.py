"""The verdict on an agent's life in one sentence: whether its goals take fewer acts than at first; where no goals tell
that, whether its reward rises, has levelled off or falls. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from conch.rewards.watch import WORK
from conch.views.life.goal_pace import GoalPace
from conch.views.life.trend import (
    ENDS,
    LEAST_LIFE,
    STILL,
    Interval,
    LifeTrend,
    next_checkpoint,
)
from conch.views.line import signed

VerdictKind = Literal[
    "early", "fewer", "more", "steady", "learning", "risen", "levelled", "falling", "habit", "unchanged"
]

MATTERS: Final = 0.02
"""Least change of the mean total that is called one: a hundredth of the range of a total, −1 to 1 (ours)."""
HABIT: Final = 0.3
"""Normalised entropy of the last acts below which they are a habit: `rewards.diversity` by default."""
FAST: Final = 0.2
"""Share of the life within which a rise was fast (ours)."""
PACE: Final = 0.4
"""Share of the rise from the first 100 cycles to the mean of the last third that a steady line makes in that third: a
third of its length, over the five sixths between the two."""


class Baseline(NamedTuple):
    """What the reward is compared with."""

    name: str
    """In words: `choosing blindly`, `its first policy`."""
    value: float


class LifeEvidence(NamedTuple):
    """What a verdict is made from."""

    acts: int
    """Of the whole life, or of the range."""
    judged: int
    """Those that are judged, the first ones: of a life up to its last checkpoint. 0: too few."""
    first: int = 0
    """The first cycle."""
    last: int = 0
    """The last one that is judged."""
    trend: LifeTrend | None = None
    baseline: Baseline | None = None
    diversity: float | None = None
    """Normalised entropy of the last 100 acts, 0..1; None: of fewer."""
    moved: int | None = None
    """Acts of all that moved a goal; None: not counted."""
    weighed_anew: bool = False
    """Whether there were several weight sets, so that totals are those of the one in force."""
    left_out: tuple[str, ...] = ()
    """Components that count nothing, as some acts have no score of them."""
    since: int = 0
    """Acts after the last one that is judged: it is judged anew as it grows. 0 of a range."""
    pace: GoalPace | None = None
    """Acts for a goal; None: there were no goals, or too few acts."""


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
    """Mean total of the last third."""
    change: Interval | None
    """End minus start."""
    since: int | None
    """The cycle at which the rise ended; None: it has not, or there was none."""
    recent: Interval | None
    """By how much the total rose over the last third."""
    pace: GoalPace | None = None
    """Acts for a goal; None: there were no goals, or too few acts."""
    moves: VerdictKind = "early"
    """What the reward does, whatever the goals say."""


def life_verdict(found: LifeEvidence, *, habit: bool | None = None) -> LifeVerdict:
    """The verdict on a life.

    `habit`: whether the alarm of a habit is on now; None: that is not known, and the diversity of the last acts counts,
    but only where the reward did not change. The same values give the same verdict.
    """
    goals = _goals(found)
    trend = found.trend
    if not found.judged or trend is None:
        headline = (
            f"Too early to say: {found.acts:,} of {LEAST_LIFE} cycles."
            if found.acts < LEAST_LIFE
            else "Too few acts are kept, or comparable under one weight set, to judge."
        )
        return LifeVerdict("early", headline, goals, None, None, None, None, None)
    moves = _kind(trend)
    idles = found.pace is None or found.pace.last_rate < 100 * WORK
    is_habit = habit if habit is not None else found.diversity is not None and found.diversity < HABIT and idles
    wins = ("learning", "risen", "unchanged") if habit else ("unchanged",)
    kind: VerdictKind = "habit" if is_habit and moves in wins else moves
    since = trend.turn if moves == "levelled" else None
    headline = _headline(kind, moves, trend, found)
    pace, of_reward = found.pace, ""
    if pace is not None and (of_goals := _pace_kind(pace, is_habit=kind == "habit")) is not None:
        kind, headline, of_reward = of_goals, _pace_headline(of_goals, pace), f"Reward: {headline}"
    details = (
        *(() if pace is None else pace.words),
        of_reward,
        _from_to(trend),
        _slopes(trend),
        _against(trend, found.baseline),
        *goals,
        "Now nearly the same act again and again." if is_habit and kind != "habit" else "",
        _weights(found),
        _judged(found),
    )
    return LifeVerdict(
        kind,
        headline,
        tuple(filter(None, details)),
        trend.start,
        trend.end,
        trend.change,
        since,
        trend.recent,
        pace,
        moves,
    )


def _pace_kind(pace: GoalPace, *, is_habit: bool) -> VerdictKind | None:
    """What goals say; None: there were too few to say anything, and the reward tells."""
    if pace.low is None:
        return None
    if pace.is_fewer:
        return "fewer"
    if is_habit:
        return "habit"
    return "more" if pace.is_more else "steady"


def _pace_headline(kind: VerdictKind, pace: GoalPace) -> str:
    figures = f"{pace.last or 0.0:.1f} instead of {pace.first or 0.0:.1f}"
    match kind:
        case "fewer":
            return f"Goals in fewer acts than at first: {figures}."
        case "more":
            return f"Goals take more acts than at first: {figures}."
        case "habit":
            return "Stuck in a habit: nearly the same act again and again, and goals take no fewer acts than at first."
        case _:
            return "Goals take about as many acts as at first: no change that is more than chance."


def _kind(trend: LifeTrend) -> VerdictKind:
    change, whole, recent = trend.change, trend.whole, trend.recent
    if recent.is_fall and recent.value <= -MATTERS:
        return "falling"
    if any(one.is_rise and one.value >= MATTERS for one in (change, whole)):
        if recent.value >= MATTERS and recent.value - recent.away(STILL) > 0.0:
            return "learning"
        is_over = recent.value + recent.away(STILL) < max(MATTERS, PACE * change.value)
        return "levelled" if is_over and not trend.is_late_turn else "risen"
    if recent.is_rise and recent.value >= MATTERS:
        return "learning"
    if any(one.is_fall and one.value <= -MATTERS for one in (change, whole)):
        return "falling"
    return "unchanged"


def _headline(kind: VerdictKind, moves: VerdictKind, trend: LifeTrend, found: LifeEvidence) -> str:
    match kind:
        case "learning":
            return "Learning: the reward still rises."
        case "risen":
            return "Better than at first; whether it still rises cannot be told yet."
        case "levelled":
            fast = " fast" if trend.turn - found.first <= FAST * (found.last + 1 - found.first) else ""
            return f"Learnt{fast}, then levelled off at cycle {trend.turn:,}."
        case "falling":
            goes_down = trend.recent.value + trend.recent.away(STILL) < 0.0
            return "Falling: the reward goes down." if goes_down else "Fallen: worse than at first."
        case "habit":
            better = {"learning": "though the reward still rises", "risen": "though better than at first"}
            so = better.get(moves) or f"and {_unsure(trend) or 'no better than at first'}"
            return f"Stuck in a habit: nearly the same act again and again, {so}."
        case _:
            so = _unsure(trend)
            return f"{so.capitalize()}; more cycles will tell." if so else "No change so far that is more than chance."


def _unsure(trend: LifeTrend) -> str:
    """What the interval from first to last says that leaves 0 out at 95 %, as it is shown, and not at 99 %; empty: it
    does not."""
    change = trend.change
    if abs(change.value) < MATTERS or change.low <= 0.0 <= change.high:
        return ""
    return f"perhaps {'better' if change.value > 0 else 'worse'} than at first"


def _from_to(trend: LifeTrend) -> str:
    change = trend.change
    moves = "rose" if change.is_rise else "fell" if change.is_fall else "went"
    is_chance = abs(change.value) >= MATTERS and not (_is_sure(change) or _unsure(trend))
    chance = ", which may be chance" if is_chance else ""
    return (
        f"Reward {moves} from {_figure(trend.start)} (first {ENDS} cycles) to {_figure(trend.end)} (last third): "
        f"{_figure(change.value)}{chance} (95 %: {_figure(change.low)} to {_figure(change.high)})."
    )


def _slopes(trend: LifeTrend) -> str:
    """The straight line over all of the life is named where it alone shows a change."""
    of_whole = ""
    if _is_sure(trend.whole) and not _is_sure(trend.change):
        of_whole = f"Along a straight line over all cycles it moved by {_between(trend.whole)}; over"
    return f"{of_whole or 'Over'} the last third alone it moved by {_between(trend.recent)}."


def _is_sure(one: Interval) -> bool:
    return one.is_rise or one.is_fall


def _between(one: Interval) -> str:
    return f"{_figure(one.value)} (95 %: {_figure(one.low)} to {_figure(one.high)})"


def _against(trend: LifeTrend, baseline: Baseline | None) -> str:
    """What the end is against a baseline; the first cycles are named in the sentence before."""
    if baseline is None:
        return ""
    away = trend.end - baseline.value
    words = "above" if away >= MATTERS else "below" if away <= -MATTERS else "no better than"
    return f"The last third is {words} {baseline.name} ({_figure(baseline.value)})."


def _weights(found: LifeEvidence) -> str:
    if not found.weighed_anew:
        return ""
    without = f", without {_listed(found.left_out)}, not scored throughout" if found.left_out else ""
    return f"The weights changed: these totals are under those in force, not as they were paid{without}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _judged(found: LifeEvidence) -> str:
    """Named where acts have come since the checkpoint, by cycles: removed acts of a life are not counted."""
    if not found.since:
        return ""
    again = found.last + next_checkpoint(found.judged) - found.judged
    return f"Judged up to cycle {found.last:,}, anew at cycle {again:,}."


def _figure(value: float) -> str:
    """As `signed`, with a true minus."""
    return signed(value, 2).replace("-", "−") if math.isfinite(value) else "–"


def _goals(found: LifeEvidence) -> tuple[str, ...]:
    if found.moved is None or not found.acts:
        return ()
    of = f"{found.acts:,} {'act' if found.acts == 1 else 'acts'}"
    return (f"{found.moved:,} of {of} moved a goal." if found.moved else f"None of {of} moved a goal.",)
