"""The result of a backfill, and its output as text and JSON."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from conch.cli.common import CommonOptions, emit, say
from conch.experience import precedence

SHORTEST = 0.001
"""Seconds that a rate is taken over at least."""


@dataclass
class BackfillResult:
    """The counts of one backfill."""

    scorer: str
    version: str
    acts: int
    """Acts that were to be scored."""
    missing: int
    """Acts of those without a score before, as far as the store knew."""
    stood: Counter[tuple[str, str]]
    """(version, status) -> acts that this scorer had scored so before."""
    statuses: Counter[str] = field(default_factory=Counter)
    """Statuses of the published scores."""
    published: int = 0
    known: int = 0
    """On the stream already, from a time before."""
    unanswered: int = 0
    """Acts about which a judge had no answer."""
    removed: int = 0
    """Acts that store.keep removed: nothing scores them."""
    upto: int = 0
    """The stream sequence of the last one."""
    seconds: float = 0.0
    joined: bool = True
    """Whether the store has them."""

    @property
    def before(self) -> int:
        """Acts that had a score."""
        return self.acts - self.missing + self.known

    @property
    def left(self) -> int:
        """Acts that have no score yet."""
        return self.missing - self.published - self.known

    @property
    def highest(self) -> str:
        """The highest version among this one and those that counted before."""
        return max((self.version, *(version for version, _ in self.stood)), key=precedence)

    @property
    def above(self) -> str:
        """The option by which a version is named that counts more than all of them."""
        return f"--version {above(self.highest)}"


def above(version: str) -> str:
    """A version that counts more than this one; its build part is ignored.

    >>> above("1.9+07c2")
    '1.10'
    """
    release = version.partition("+")[0]
    if (number := re.search(r"[0-9]{1,18}(?=[^0-9]*$)", release)) is None:
        return f"{release}.2"
    return f"{release[: number.start()]}{str(int(number[0]) + 1).zfill(len(number[0]))}{release[number.end() :]}"


def tell(common: CommonOptions, ran: BackfillResult) -> None:
    """For a person, or as JSON."""
    rate = ran.published / max(SHORTEST, ran.seconds)
    if common.json:
        from conch.views import Backfill

        document = Backfill(
            scorer=ran.scorer,
            version=ran.version,
            acts=ran.acts,
            before=ran.before,
            published=ran.published,
            left=ran.left,
            removed=ran.removed,
            statuses=dict(ran.statuses),
            seconds=ran.seconds,
            per_second=rate,
            joined=ran.joined,
        )
        emit(document)
        return
    name = f"{ran.scorer} {ran.version}"
    if ran.removed:
        say(f"{ran.removed:,} acts were removed by store.keep and are not scored")
    if not ran.missing:
        say(f"nothing to score: {f'all {ran.acts:,} acts have a score of {name}' if ran.acts else 'there is no act'}")
        _report_failed(ran)
        return
    words = ", ".join(f"{number:,} {status.replace('_', ' ')}" for status, number in ran.statuses.most_common())
    say(f"{ran.published:,} acts scored by {name} in {ran.seconds:.1f} s ({rate:,.0f} a second): {words or 'none'}")
    if ran.before:
        say(f"{ran.before:,} had a score of it before")
        _report_failed(ran)
    if ran.unanswered:
        say(f"{ran.unanswered:,} are left without an answer: the same command asks about them again")
    if not ran.joined:
        say("the store has not joined them yet: it does when it runs (conch run, conch consume store)")


def _report_failed(ran: BackfillResult) -> None:
    """Report the acts with a failed score, and how they get one."""
    errors, late = (ran.stood[ran.version, status] for status in ("error", "timeout"))
    told = [f"{number:,} of them {what}" for number, what in ((errors, "are errors"), (late, "timed out")) if number]
    if told:
        say(f"{', '.join(told)}: {ran.above} scores again and counts")
