"""The river of behaviours: the share of each skill over the whole life, and what each earned. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from conch.experience import SkillBucket
from conch_services.dashboard.story.strip import distinct_colours

MOST_BUCKETS: Final = 100
LEAST_WIDTH: Final = 10
"""Cycles of a bucket of a short life: with fewer, a river is all noise (ours)."""
MOST_BANDS: Final = 7
"""Skills with a band of their own, the most frequent of the life; the rest is one band."""
OTHERS: Final = "others"
WIDTH, HEIGHT = 1000.0, 200.0


class RiverBand(NamedTuple):
    """A skill over the life."""

    skill: str
    colour: int
    path: str
    """Its area in a drawing of WIDTH × HEIGHT; the bands lie on one another and fill it."""
    share: float
    """Of all cycles, 0..1."""
    early: float
    """Of the first tenth of the buckets."""
    late: float
    """Of the last tenth."""
    mean: float
    """Mean total of its cycles."""


def width_of(last_cycle: int) -> int:
    """Cycles of a bucket, so that a life has at most MOST_BUCKETS."""
    return max(LEAST_WIDTH, -(-(last_cycle + 1) // MOST_BUCKETS))


def river(found: Sequence[SkillBucket]) -> list[RiverBand]:
    """The bands, the most frequent first, the rest last. A bucket without cycles has no width."""
    if not found:
        return []
    of_skill: Counter[str] = Counter()
    for one in found:
        of_skill[one.skill] += one.cycles
    ranked = [skill for skill, _ in sorted(of_skill.items(), key=lambda one: (-one[1], one[0]))]
    own = ranked[:MOST_BANDS]
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    earned: dict[str, float] = defaultdict(float)
    for one in found:
        name = one.skill if one.skill in own else OTHERS
        counts[one.bucket][name] += one.cycles
        earned[name] += one.total
    buckets = [counts[at] for at in sorted(counts)]
    names = [*own, OTHERS] if len(own) < len(ranked) else own
    colours = distinct_colours(own)
    return [
        _band(name, at, names, buckets, earned[name])._replace(colour=colours.get(name, 0))
        for at, name in enumerate(names)
    ]


def _band(name: str, at: int, names: Sequence[str], buckets: Sequence[Counter[str]], earned: float) -> RiverBand:
    below = [_share(bucket, names[:at]) for bucket in buckets]
    above = [_share(bucket, names[: at + 1]) for bucket in buckets]
    cycles = sum(bucket[name] for bucket in buckets)
    tenth = max(1, len(buckets) // 10)
    return RiverBand(
        skill=name,
        colour=0,
        path=_area(below, above),
        share=cycles / sum(bucket.total() for bucket in buckets),
        early=_share_of(name, buckets[:tenth]),
        late=_share_of(name, buckets[-tenth:]),
        mean=earned / cycles,
    )


def _share(bucket: Counter[str], names: Sequence[str]) -> float:
    return sum(bucket[name] for name in names) / bucket.total()


def _share_of(name: str, buckets: Sequence[Counter[str]]) -> float:
    return sum(bucket[name] for bucket in buckets) / sum(bucket.total() for bucket in buckets)


def _area(below: Sequence[float], above: Sequence[float]) -> str:
    """The outline between two lines of shares, each bucket a step as wide as all others."""
    step = WIDTH / len(below)
    up = [
        f"L{at * step + side:.0f} {HEIGHT * (1.0 - share):.1f}" for at, share in enumerate(above) for side in (0, step)
    ]
    down = [
        f"L{at * step + side:.0f} {HEIGHT * (1.0 - share):.1f}"
        for at, share in reversed(list(enumerate(below)))
        for side in (step, 0)
    ]
    return f"M{''.join(up)[1:]}{''.join(down)}Z"
