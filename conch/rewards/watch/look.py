"""The watchers' findings: each watched statistic of the newest acts, its bound, and the values for its sentence.

All statistics are taken over the newest `watch.recent` acts (50, the window of the entropy) under
one weight set, and are absent until there are so many. Three compare them with the `watch.earlier` acts before those
(150, our choice: three windows show what is usual), once there are 50 of these.

* dominance: Cov(part, total) ÷ Var(total) of what each part added to the total; bound 0.8, by two standard
errors of the share. Absent while the total's standard deviation is below 0.05, and where only one component is paid: it
is then meant to be all.
* collapse: variance of the total, recent ÷ earlier; bound 0.1 (ours), and the recent totals must surely lie closer to
their median than the earlier ones did: an agent that no longer makes a few errors has not collapsed.
* length_drift: median of the replies' characters, recent ÷ earlier; bound 3, or 1 ÷ 3 (ours), and surely.
* falling_entropy: normalised entropy of tool × operation; bound `rewards.diversity` = 0.3. No alarm while a fifth of
the acts (ours) moved a goal: few kinds of act are work then.
* held_out: by how many standard deviations the total's mean rose, minus by how many the held-out score's did; bound 1
(ours), and surely, the total not having fallen. The standard deviation is that of both windows together, so neither
figure exceeds (r + e) ÷ √(r·e) for windows r and e: 2.3 with 50 and 150. Absent where a score never varies, where less
than half of either window has one, and where it stays in the upper tenth of its former range.

*Surely* is a Mann–Whitney test beyond 4 standard deviations: 6 in 100,000 by chance, if acts were independent; they are
not, so the bounds on size apply as well.

Without enough data, an alarm neither begins nor ends. It ends once its figure has come back by a fifth of the way from
its bound to the harmless value; a comparison is still made with the acts from before it began. All alarms are late: the
acts that they find were done and paid for some twenty acts or more ago. None is an early warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final, NamedTuple, TypeVar

from conch.config import WatchSettings
from conch.curiosity import entropy
from conch.rewards.watch.figures import deviations, mean, rank_shift, share_error, spread, variance_shares
from conch.rewards.watch.state import ActiveAlarm, WatchState
from conch_schemas import AlarmKind

Pair = tuple[float, float]
"""A total and a held-out score."""
V = TypeVar("V")

SURE: Final = 4.0
"""Standard deviations of the rank test."""
ERRORS: Final = 2.0
"""Standard errors by which a share must exceed its bound: 1 in 40 by chance."""
BACK: Final = 0.2
"""Share of the way back from the bound that a figure must go for its alarm to end."""
LEAST_SPREAD: Final = 0.05
"""Least standard deviation of a varying total: without failures, needs and exploration make it 0.03–0.05."""
WORK: Final = 0.2
"""Share of acts that moved a goal from which on few kinds of act are no habit."""
CONTENT: Final = 0.9
"""Share of its range above which a held-out score raises no alarm."""


class WatchFinding(NamedTuple):
    """One statistic, and whether it begins or keeps up an alarm."""

    alarm: AlarmKind
    component: str | None
    value: float
    threshold: float
    begins: bool
    """Whether it begins an alarm, if there is none."""
    stays: bool
    """Whether an alarm that has begun goes on."""
    baseline: tuple[float, ...] = ()
    details: tuple[float, ...] = ()
    """Further values for the sentence."""


def look(state: WatchState, settings: WatchSettings, diversity: float) -> Iterator[WatchFinding]:
    """Every statistic with enough data. `diversity`: the bound of the entropy."""
    if len(state.skills) < settings.recent:
        return
    held = {(active.alarm, active.component): active for active in state.active}
    yield from _dominance(state, settings)
    yield _entropy(state, settings, diversity)
    yield from _collapse(state, settings, held.get(("collapse", None)))
    yield from _length(state, settings, held.get(("length_drift", None)))
    for component in state.held:
        yield from _held_out(state, settings, component, held.get(("held_out", component)))


def _dominance(state: WatchState, settings: WatchSettings) -> Iterator[WatchFinding]:
    total = state.totals[-settings.recent :]
    parts = {name: column[-settings.recent :] for name, column in state.parts.items()}
    if len(state.paid) < 2 or spread(total) < LEAST_SPREAD:
        return
    bound = settings.dominance
    for name, share in variance_shares(parts, total).items():
        begins = share > bound and share - ERRORS * share_error(parts[name], total) > bound
        yield WatchFinding("dominance", name, share, bound, begins, share > back(bound, 0.0))


def _entropy(state: WatchState, settings: WatchSettings, bound: float) -> WatchFinding:
    value = entropy(state.skills[-settings.recent :], next(reversed(state.offers), 0))
    moved = sum(amount > 0.0 for amount in state.parts.get("goal", ())[-settings.recent :]) / settings.recent
    idles = moved < WORK
    begins, stays = idles and value < bound, idles and value < back(bound, 1.0)
    return WatchFinding("falling_entropy", None, value, bound, begins, stays, details=(moved,))


def _collapse(state: WatchState, settings: WatchSettings, active: ActiveAlarm | None) -> Iterator[WatchFinding]:
    recent, earlier = _windows(state.totals, settings)
    if active is None and len(earlier) < _least(settings):
        return
    baseline = active.baseline if active is not None else (spread(earlier) ** 2,)
    if baseline[0] < LEAST_SPREAD**2:
        return
    value, bound = spread(recent) ** 2 / baseline[0], settings.collapse
    begins = active is None and value < bound and rank_shift(deviations(recent), deviations(earlier)) < -SURE
    yield WatchFinding("collapse", None, value, bound, begins, value < back(bound, 1.0), baseline)


def _length(state: WatchState, settings: WatchSettings, active: ActiveAlarm | None) -> Iterator[WatchFinding]:
    recent, earlier = _windows(state.lengths, settings)
    if active is None and len(earlier) < _least(settings):
        return
    baseline = active.baseline if active is not None else (max(1.0, median(earlier)),)
    now, bound = max(1.0, median(recent)), settings.length
    value = now / baseline[0]
    times = max(value, 1.0 / value)
    begins = active is None and times >= bound and abs(rank_shift(recent, earlier)) > SURE
    threshold = bound if value >= 1.0 else 1.0 / bound
    yield WatchFinding("length_drift", None, value, threshold, begins, times > back(bound, 1.0), baseline, (now,))


def _held_out(
    state: WatchState, settings: WatchSettings, component: str, active: ActiveAlarm | None
) -> Iterator[WatchFinding]:
    recent, earlier = (
        [(total, score) for total, score in zip(totals, scores, strict=True) if score is not None]
        for totals, scores in zip(
            _windows(state.totals, settings), _windows(state.held[component], settings), strict=True
        )
    )
    if 2 * len(recent) < settings.recent or (active is None and 2 * len(earlier) < _least(settings)):
        return
    baseline = active.baseline if active is not None else _usual(recent, earlier)
    if not (baseline[1] and baseline[3]):
        return
    rose, followed = _shift(recent, 0, baseline[:2]), _shift(recent, 1, baseline[2:])
    value, bound = rose - followed, settings.gap
    begins = active is None and value >= bound and rose > 0.0 and _surely_apart(recent, earlier, baseline)
    yield WatchFinding(
        "held_out", component, value, bound, begins, value > back(bound, 0.0), baseline, (rose, followed)
    )


def _windows(column: tuple[V, ...], settings: WatchSettings) -> tuple[tuple[V, ...], tuple[V, ...]]:
    """(the newest acts, the ones before)."""
    return column[-settings.recent :], column[: -settings.recent]


def _least(settings: WatchSettings) -> int:
    """Least number of earlier acts for a comparison."""
    return min(settings.recent, settings.earlier)


def back(bound: float, harmless: float) -> float:
    """The value at which an alarm ends: a fifth of the way from its bound to the harmless value."""
    return bound + BACK * (harmless - bound)


def _usual(recent: Sequence[Pair], earlier: Sequence[Pair]) -> tuple[float, ...]:
    """(mean of the earlier totals, deviation of all, mean of the earlier held-out scores, deviation of all)."""
    both = [*recent, *earlier]
    return tuple(
        figure for at in (0, 1) for figure in (mean([row[at] for row in earlier]), spread([row[at] for row in both]))
    )


def _shift(recent: Sequence[Pair], at: int, usual: Sequence[float]) -> float:
    return (mean([row[at] for row in recent]) - usual[0]) / usual[1]


def _surely_apart(recent: Sequence[Pair], earlier: Sequence[Pair], usual: Sequence[float]) -> bool:
    """Whether total and held-out score have surely diverged, and the held-out score is not near its maximum."""
    scores = [score for _, score in (*recent, *earlier)]
    low, high = min(scores), max(scores)
    if mean([score for _, score in recent]) >= low + CONTENT * (high - low):
        return False
    gaps = [[total / usual[1] - score / usual[3] for total, score in window] for window in (recent, earlier)]
    return rank_shift(gaps[0], gaps[1]) > SURE
