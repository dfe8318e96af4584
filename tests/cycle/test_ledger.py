"""The arithmetic of a budget: sums of sliding windows, reservations, and when there is room."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import BudgetSettings
from conch.cycle.budget.ledger import (
    COARSE_TICK,
    TICK,
    WINDOWS,
    Amounts,
    BudgetLedger,
    BudgetUse,
    Ceiling,
    ceiling,
    limits_of,
    split,
)
from conch_schemas import BudgetReserved

START = 1_800_000_000.0
LIMITS = {"tokens_per_hour": 100.0, "tokens_per_day": 300.0, "money_per_hour": 2.0, "acts_per_hour": 3.0}


def reservation(number: int, time: float, tokens: int, money: float = 0.0) -> BudgetReserved:
    return BudgetReserved(
        id=f"r{number}", source="conch/echo/u", agent="echo", time=datetime.fromtimestamp(time, UTC),
        number=number, purpose="decide", tokens=tokens, money=money,
    )  # fmt: skip


steps = st.tuples(
    st.sampled_from(["ask", "crash", "act"]),
    st.integers(0, 120),
    st.floats(0, 1),
    st.one_of(st.floats(0, 30), st.floats(0, 20_000)),
)


@given(st.lists(steps, max_size=120))
def test_no_window_ever_has_more_than_its_limit(todo: list[tuple[str, int, float, float]]) -> None:
    """Whatever is asked, done and lost in whatever order, and whenever: every hour and day keeps to its limit."""
    ledger, now, exact = BudgetLedger(), START, []
    for kind, tokens, share, later in todo:
        now += later
        need = Amounts(acts=1, irreversible_acts=1) if kind == "act" else Amounts(tokens, tokens / 40)
        if ceiling(ledger, need, LIMITS, now) is not None:
            continue
        if kind == "act":
            ledger = ledger.acted(now, irreversible=True)
            exact.append(BudgetUse(now, 0, 0.0, 1, 1))
            continue
        ledger = ledger.reserved(reservation(ledger.reservations, now, tokens, tokens / 40))
        if kind == "crash":  # what the lost question used is not known: at most all of it
            exact.append(BudgetUse(now, tokens, tokens / 40))
            continue
        now += later
        used = int(tokens * share)
        ledger = ledger.settled("decide", now, used, used / 40)
        exact.append(BudgetUse(now, used, used / 40))
    for budget, limit in LIMITS.items():
        quantity, window = split(budget)
        for last in exact:
            within = [one for one in exact if last.time - WINDOWS[window] < one.time <= last.time]
            assert sum(getattr(one, quantity) for one in within) <= limit * (1 + 1e-6)


def test_a_lost_question_does_not_set_back_the_time_of_a_later_act() -> None:
    """The act counts for an hour from when it was done, not from when the question was asked."""
    ledger = BudgetLedger().reserved(reservation(0, START, 10)).acted(START + 1_800, irreversible=False)

    assert ledger.lapsed().used("acts", WINDOWS["hour"], START + 3_700) == 1


@given(
    st.lists(st.tuples(st.floats(0, 9_000), st.integers(1, 90), st.integers(0, 1)), max_size=60), st.integers(1, 100)
)
def test_there_is_room_at_the_time_that_was_named(uses: list[tuple[float, int, int]], tokens: int) -> None:
    """At `until`, and not a minute's entry before it, the need fits; above the limit there is no such time."""
    ledger, now = BudgetLedger(), START
    for later, used, acts in uses:
        now += later
        ledger = ledger.settled("decide", now, used, None)
        ledger = ledger.acted(now, irreversible=False) if acts else ledger
    need = Amounts(tokens=tokens, acts=1)
    found = ceiling(ledger, need, LIMITS, now)
    if found is not None:
        assert found.until is not None
        assert now < found.until <= now + WINDOWS["day"]
        assert ceiling(ledger, need, LIMITS, found.until) is None
        assert ceiling(ledger, need, LIMITS, found.until - 0.01) is not None
    never = ceiling(ledger, Amounts(tokens=301), LIMITS, now)
    assert never is not None
    assert never.until is None


@given(st.lists(st.tuples(st.floats(0, 2_000), st.integers(1, 9)), max_size=200))
def test_a_sum_is_at_most_late_and_never_short(uses: list[tuple[float, int]]) -> None:
    """The ledger's sum is that of the exact window, and what left it within a tick at most."""
    ledger, now, exact = BudgetLedger(), START, []
    for later, tokens in uses:
        now += later
        ledger = ledger.settled("decide", now, tokens, None)
        exact.append((now, tokens))
        for window, tick in ((WINDOWS["hour"], TICK), (WINDOWS["day"], COARSE_TICK)):
            found = ledger.used("tokens", window, now)
            assert found >= sum(tokens for time, tokens in exact if time + window > now)
            assert found <= sum(tokens for time, tokens in exact if time + window + tick > now)


def test_a_day_of_uses_is_a_bounded_number_of_entries() -> None:
    """A use every 20 s for two days makes no more entries than an hour of minutes and a day of quarters."""
    ledger, most = BudgetLedger(), 0
    for place in range(2 * 4320):
        ledger = ledger.settled("decide", START + 20 * place, 1, None)
        most = max(most, len(ledger.uses))

    assert 100 < most <= 62 + 98
    assert ledger.used("tokens", WINDOWS["hour"], ledger.uses[-1].time) >= 180


def test_a_reservation_counts_until_it_is_settled_and_then_what_was_used() -> None:
    """Before the reply all of it is used, after it the actual figures."""
    ledger = BudgetLedger().reserved(reservation(0, START, 80))
    assert ledger.used("tokens", 3600, START) == 80

    assert ledger.settled("decide", START + 1, 30, None).used("tokens", 3600, START + 1) == 30


def test_a_reservation_that_is_met_twice_counts_once() -> None:
    """Also when the event comes again after the reply that settled it."""
    event = reservation(0, START, 80)
    ledger = BudgetLedger().reserved(event).reserved(event).settled("decide", START + 1, 30, None).reserved(event)

    assert ledger.open is None
    assert ledger.used("tokens", 3600, START + 1) == 30


def test_a_question_that_was_lost_counts_whole() -> None:
    """The next reservation finds it open: what it used is not known, so it is all that was reserved."""
    ledger = BudgetLedger().reserved(reservation(0, START, 80)).reserved(reservation(1, START + 9, 10))

    assert ledger.settled("decide", START + 10, 5, None).used("tokens", 3600, START + 10) == 85


def test_an_unknown_price_counts_as_it_was_reserved() -> None:
    """Tokens without a price cost what was reserved for them; without tokens nothing was asked."""
    ledger = BudgetLedger().reserved(reservation(0, START, 80, 0.5))

    assert ledger.settled("decide", START, 7, None).used("money", 3600, START) == 0.5
    assert ledger.settled("decide", START, 0, None).used("money", 3600, START) == 0


def test_a_clock_that_was_set_back_forgets_nothing_and_waits_no_longer() -> None:
    """Uses from the future are as late as the next use, and leave the window an hour after it."""
    ledger = BudgetLedger().settled("decide", START + 10_000, 60, None).settled("decide", START, 40, None)

    found = ceiling(ledger, Amounts(tokens=1), LIMITS, START)
    assert found == Ceiling("tokens_per_hour", 100.0, 100.0, 1, START + 3600)


def test_of_several_limits_the_one_that_has_room_last_is_named() -> None:
    """The agent waits for it anyhow."""
    ledger = BudgetLedger()
    for place in range(3):
        ledger = ledger.acted(START + 1000 * place, irreversible=False).settled("decide", START + place, 100, None)

    found = ceiling(ledger, Amounts(tokens=1, acts=1), LIMITS, START + 2000)
    assert found is not None
    assert found.budget == "tokens_per_day"


@given(limit=st.integers(1, 1000), share=st.floats(0.0, 0.9), used=st.integers(0, 1000), need=st.integers(1, 1000))
def test_what_is_kept_for_people_is_kept_from_work_alone(limit: int, share: float, used: int, need: int) -> None:
    """Work has the rest of the limit; less is kept where one need would have no room at any time."""
    ledger = BudgetLedger(uses=(BudgetUse(1000.0, tokens=used),))
    limits = {"tokens_per_hour": float(limit)}
    work = ceiling(ledger, Amounts(tokens=need), limits, 1000.0, share)
    person = ceiling(ledger, Amounts(tokens=need), limits, 1000.0)

    assert person is None or work is not None
    if work is None:
        assert used + need <= limit - min(int(share * limit), max(0, limit - need))
    if need <= limit:
        assert ceiling(BudgetLedger(), Amounts(tokens=need), limits, 1000.0, share) is None


@pytest.mark.parametrize("name", [name for name in BudgetSettings.model_fields if "_per_" in name])
def test_each_limit_has_a_quantity_and_a_window(name: str) -> None:
    """No setting of the budget is without effect."""
    limits = limits_of(BudgetSettings.model_validate({name: 1}))
    quantity, window = split(name)

    assert window in WINDOWS
    need = Amounts(**{quantity: 2})
    assert ceiling(BudgetLedger(), need, limits, START) == Ceiling(name, 1, 0, 2, None)
