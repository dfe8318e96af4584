"""The arithmetic of a budget: what was used and reserved, and when there is room for more. Pure.

The windows slide: an hour is the last 3,600 s, a day the last 86,400 s, by the wall clock. Uses of one minute are one
entry, and of a quarter of an hour once they are older than an hour. An entry has the time of its latest use, so that it
leaves a window late, by a minute or a quarter of an hour at most, and never early.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict

from conch.config import BudgetSettings
from conch_schemas import BudgetReserved

WINDOWS: Final[Mapping[str, float]] = {"hour": 3600.0, "day": 86_400.0}
"""Seconds of each window."""
TICK, COARSE_TICK = 60.0, 900.0
"""Seconds of uses that are one entry: within the last hour, and before it."""
MONEY_TOLERANCE = 1e-9
"""Rounding of sums of money, relative to the limit: a limit that is exactly used up is not exceeded."""


class Amounts(NamedTuple):
    """Amounts of all that a budget limits."""

    tokens: int = 0
    money: float = 0.0
    acts: int = 0
    irreversible_acts: int = 0


class BudgetUse(NamedTuple):
    """What was used until `time`, seconds since the epoch."""

    time: float
    tokens: int = 0
    money: float = 0.0
    acts: int = 0
    irreversible_acts: int = 0

    def plus(self, other: BudgetUse) -> BudgetUse:
        """Both together, at the later time."""
        sums = [one + more for one, more in zip(self[1:], other[1:], strict=True)]
        return BudgetUse(max(self.time, other.time), *sums)  # type: ignore[arg-type]


class OpenReservation(BaseModel):
    """A reservation whose question has no reply yet."""

    model_config = ConfigDict(frozen=True)

    purpose: str
    time: float
    """Seconds since the epoch."""
    tokens: int
    money: float


class BudgetLedger(BaseModel):
    """What an agent used within the last day, and the reservation that is open."""

    model_config = ConfigDict(frozen=True)

    uses: tuple[BudgetUse, ...] = ()
    """In the order of time."""
    open: OpenReservation | None = None
    reservations: int = 0
    """Number of the next reservation."""

    def reserved(self, event: BudgetReserved) -> Self:
        """The ledger after a reservation; one that was applied before changes nothing. One that is open still belongs
        to a question without a settled reply: all of it counts as used."""
        if event.number < self.reservations:
            return self
        opened = OpenReservation(
            purpose=event.purpose, time=event.time.timestamp(), tokens=event.tokens, money=event.money
        )
        return self.lapsed().model_copy(update={"open": opened, "reservations": event.number + 1})

    def lapsed(self) -> Self:
        """The ledger with the open reservation as used, at the time of the reservation."""
        if self.open is None:
            return self
        use = BudgetUse(self.open.time, self.open.tokens, self.open.money)
        return self.model_copy(update={"uses": _with(self.uses, use), "open": None})

    def settled(self, purpose: str, time: float, tokens: int, money: float | None) -> Self:
        """The ledger after a reply that used so much; `money` None: the price is not known, and what was reserved for
        it counts, where tokens were used."""
        mine = self.open if self.open is not None and self.open.purpose == purpose else None
        if money is None:
            money = mine.money if mine is not None and tokens else 0.0
        if mine is None and not tokens and not money:
            return self
        before = self.lapsed().uses if mine is None else self.uses  # the earlier use first: they are in order of time
        uses = _with(before, BudgetUse(time, tokens, money)) if tokens or money else before
        return self.model_copy(update={"uses": uses, "open": None})

    def acted(self, time: float, *, irreversible: bool) -> Self:
        """The ledger after an act that ran a tool, or may have run it."""
        before = self.lapsed()  # no question is open while a tool runs
        return before.model_copy(update={"uses": _with(before.uses, BudgetUse(time, 0, 0.0, 1, int(irreversible)))})

    def used(self, quantity: str, window: float, now: float) -> float:
        """How much of a quantity was used in the window before `now`, the open reservation included."""
        held: float = getattr(self.open, quantity, 0)
        return held + float(sum(getattr(use, quantity) for use in self.uses if _counts(use, window, now)))


@dataclass(frozen=True)
class Ceiling:
    """A limit that the next use could exceed."""

    budget: str
    """The setting below `budget`."""
    limit: float
    used: float
    need: float
    """What the next use may take."""
    until: float | None
    """When there is room, seconds since the epoch; None: never, as the need is above the limit."""
    kept: float = 0.0
    """What of the limit is kept for messages of people."""


def limits_of(settings: BudgetSettings) -> dict[str, float]:
    """The limits that are set, by their name below `budget`."""
    return {name: limit for name, limit in settings.model_dump().items() if "_per_" in name and limit is not None}


def kept_for_people(budget: str, limit: float, share: float) -> float:
    """What of a limit is kept for messages of people; of what is counted, whole ones."""
    kept = share * limit
    return kept if budget.startswith("money") else float(math.floor(kept))


def ceiling(
    ledger: BudgetLedger, need: Amounts, limits: Mapping[str, float], now: float, share: float = 0.0
) -> Ceiling | None:
    """The limit that `need` would exceed: of several the one that has room last. None: there is room now.

    `share`: what of each limit is kept for messages of people, 0..1; less of it where one need alone would not fit in.
    """
    found: Ceiling | None = None
    ledger = ledger.lapsed()  # a question that is asked anew has a reservation of its own
    for budget, limit in limits.items():
        one = _ceiling(ledger, need, budget, limit, now, share)
        if one is not None and (found is None or _later(one, found)):
            found = one
    return found


def split(budget: str) -> tuple[str, str]:
    """The quantity and the window of a limit's name: `acts_per_hour` is acts, hour."""
    quantity, window = budget.rsplit("_per_", 1)
    return quantity, window


def _ceiling(
    ledger: BudgetLedger, need: Amounts, budget: str, limit: float, now: float, share: float
) -> Ceiling | None:
    quantity, window = split(budget)
    more, seconds = getattr(need, quantity), WINDOWS[window]
    used = ledger.used(quantity, seconds, now)
    kept = max(0.0, min(kept_for_people(budget, limit, share), limit - more))
    most = (limit - kept) * (1 + MONEY_TOLERANCE)
    if not more or used + more <= most:
        return None
    until, left = None, used
    for use in ledger.uses if more <= most else ():
        if _counts(use, seconds, now):
            left -= getattr(use, quantity)
            until = use.time + seconds
            if left + more <= most:
                break
    return Ceiling(budget, limit, used, more, until, kept)


def _later(one: Ceiling, other: Ceiling) -> bool:
    return other.until is not None and (one.until is None or one.until > other.until)


def _counts(use: BudgetUse, window: float, now: float) -> bool:
    # A use in the future was written before the clock was set back: waiting for it could take for ever.
    return use.time + window > now and use.time <= now + TICK


def _with(uses: tuple[BudgetUse, ...], use: BudgetUse) -> tuple[BudgetUse, ...]:
    """The uses with another one, which may be earlier than the latest: then it is taken to be as late."""
    last = uses[-1] if uses else None
    if last is not None and last.time > use.time + TICK:  # the clock was set back
        uses = tuple(one if one.time <= use.time else one._replace(time=use.time) for one in uses)
        last = uses[-1]
    if last is not None and last.time // TICK >= use.time // TICK:
        return (*uses[:-1], last.plus(use))
    old = use.time - WINDOWS["hour"]
    kept = [one for one in uses if one.time + WINDOWS["day"] > use.time]
    return (*_merged(one for one in kept if one.time <= old), *(one for one in kept if one.time > old), use)


def _merged(uses: Iterable[BudgetUse]) -> list[BudgetUse]:
    merged: list[BudgetUse] = []
    for use in uses:
        if merged and merged[-1].time // COARSE_TICK == use.time // COARSE_TICK:
            merged[-1] = merged[-1].plus(use)
        else:
            merged.append(use)
    return merged
