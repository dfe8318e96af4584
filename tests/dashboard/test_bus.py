"""The page of the bus: who is behind, who is slow, what could not be handled, and a bus that is away."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Page, expect

from conch.bus import Delivery, MemoryBus
from conch.consumer.group.lag import report_position
from conch.consumer.runtime import control_of
from conch.consumer.runtime.dead_letters import open_dead_letters
from conch_schemas import (
    ActionTaken,
    ConsumerFailed,
    Event,
    MarkWitnessed,
    NeedsChanged,
    RewardAssigned,
    encode,
    source_of,
    subject_of,
)
from conch_services.dashboard.stream.latency import MOST_CAUSES, LatencyTracker
from tests.dashboard.conftest import Complaints, Dashboard
from tests.dashboard.document import Element, parsed
from tests.dashboard.life import HOSTILE, Life
from tests.durables import durable


async def page(dashboard: Dashboard) -> Element:
    """The page as it answers."""
    answer = await dashboard.client.get("/bus")
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


async def letter(dashboard: Dashboard, reason: str = "it broke") -> ConsumerFailed:
    """A dead letter on the bus."""
    made = ConsumerFailed(
        id=f"letter-{reason[:8]}",
        source=source_of("echo", "-"),
        agent="echo",
        consumer="fragile",
        version="1",
        letter_subject="conch.v1.echo.action.taken",
        letter_seq=4,
        letter="",
        reason=reason,
        tries=5,
    )
    await dashboard.bus.publish(subject_of(made), encode(made), id=made.id)
    return made


async def test_how_far_everybody_is_stands_there(dashboard: Dashboard) -> None:
    """Each with its place and the events that wait for it."""
    last = (await dashboard.bus.state()).last
    await report_position(dashboard.bus, "reward", [ActionTaken], last)
    await report_position(dashboard.bus, "slow", [ActionTaken], 0)

    rows = {row[0]: row for row in (await page(dashboard)).one("table", id="consumers").cells()}

    assert rows["reward"][1:3] == [f"{last:,}", "0"]
    assert rows["slow"][1:3] == ["0", "60"]


async def test_a_durable_reader_shows_what_it_was_handed_again(dashboard: Dashboard) -> None:
    """A number for it; a dash for who keeps its place itself."""
    await report_position(dashboard.bus, "reward", [ActionTaken], 0)
    await durable(dashboard.bus, "theirs", ["conch.v1.>"], after=0)
    rows = {row[0]: row for row in (await page(dashboard)).one("table", id="consumers").cells()}

    assert rows["theirs"][5] == "0"
    assert rows["reward"][5] == "–"


async def test_letters_that_are_alike_are_one_row_and_go_at_once(tab: Page, dashboard: Dashboard) -> None:
    """Of one consumer for one reason: their number stands in the row, and a press drops all of them."""
    first = await letter(dashboard, "it broke")
    for number in range(20):
        same = first.model_copy(update={"id": f"same-{number}", "letter_seq": first.letter_seq + 1 + number})
        await dashboard.live([same], record=False)
    tab.on("dialog", lambda dialog: dialog.accept())
    await tab.goto("./bus")
    await expect(tab.locator("[data-letter]")).to_have_count(1)
    await expect(tab.locator("[data-letter]")).to_contain_text("21 alike")

    await tab.get_by_role("button", name="Drop all").click()

    await expect(tab.locator("[data-letter]")).to_have_count(0)
    assert [one async for one in open_dead_letters(dashboard.bus)] == []


async def test_a_letter_that_fails_again_keeps_no_other_from_being_tried(
    tab: Page, dashboard: Dashboard, complaints: Complaints
) -> None:
    """Of three that are alike the first two fail, the third goes: how many, and the first reason, are said."""
    first = await letter(dashboard, "it broke")
    for number in range(2):
        same = first.model_copy(update={"id": f"same-{number}", "letter_seq": first.letter_seq + 1 + number})
        await dashboard.live([same], record=False)
    replies = [b'{"error": "no paper"}', b'{"error": "no ink"}', b'{"ok": true}']

    async def respond(_subject: str, _data: bytes) -> bytes:
        return replies.pop(0)

    async with dashboard.bus.serve(control_of("fragile", "*"), respond):
        await tab.goto("./bus")
        await tab.get_by_role("button", name="Retry all").click()
        await expect(tab.locator("#wrong")).to_contain_text("1 of 3 done, 2 not: ")

    await expect(tab.locator("#wrong")).to_contain_text("failed again: no paper")
    await expect(tab.locator("[data-letter]")).to_contain_text("2 alike")
    assert len([one async for one in open_dead_letters(dashboard.bus)]) == 2
    complaints.pardon()  # the two that failed


async def test_a_hostile_dead_letter_is_text_and_can_be_dropped(
    tab: Page, dashboard: Dashboard, complaints: Complaints
) -> None:
    """Its reason is shown harmless; dropped, it is listed no more; a retry that nobody takes is a sentence."""
    await letter(dashboard, HOSTILE)
    await letter(dashboard, "another one")
    await tab.goto("./bus")
    await expect(tab.locator("[data-letter]")).to_have_count(2)
    await expect(tab.locator("[data-letter]").last).to_contain_text("<script>alert(1)</script>")
    tab.on("dialog", lambda dialog: dialog.accept())

    await tab.locator("[data-letter]").first.get_by_role("button", name="Retry").click()
    await expect(tab.locator("#wrong")).to_contain_text("fragile takes no retry")
    await tab.locator("[data-letter]").first.get_by_role("button", name="Drop").click()

    await expect(tab.locator("[data-letter]")).to_have_count(1)
    await expect(tab.locator("#said")).to_contain_text("is given up")
    assert len([one async for one in open_dead_letters(dashboard.bus)]) == 1
    complaints.pardon()  # the retry that nobody took


async def test_a_bus_that_is_away_is_said_and_comes_back(
    tab: Page, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page asks again by itself."""
    with monkeypatch.context() as gone:
        gone.setattr(dashboard.world, "shared_events", None)
        await tab.goto("./bus")
        await expect(tab.locator("main")).to_contain_text("The bus is away")

    await expect(tab.locator("main")).to_contain_text("events a second")
    await expect(tab.locator("main")).not_to_contain_text("The bus is away")


async def test_the_rate_is_known_at_the_first_look() -> None:
    """By the times at which the stream stored what it has; what is older than a minute counts no more."""
    latencies, facts = LatencyTracker(), Life().cycle()
    async with MemoryBus() as bus:
        for fact in facts:
            await bus.publish(subject_of(fact), encode(fact), id=fact.id)
        await latencies.look(bus)
        last = await bus.last(subject_of(next(one for one in facts if isinstance(one, ActionTaken))))
    assert last is not None
    begun = last.time

    read = len(facts) - [type(one) for one in facts].index(ActionTaken)
    assert latencies.rate(begun + 10.0) == pytest.approx(read / 10.0)
    assert latencies.rate(begun + 70.0) == 0.0


async def test_latency_is_from_a_cause_to_what_follows_by_the_streams_clock() -> None:
    """Of every scorer and of the witness; nothing of a fact whose cause is not known."""
    latencies, facts = LatencyTracker(), Life().cycle()
    act = next(one for one in facts if isinstance(one, ActionTaken))
    reward = next(one for one in facts if isinstance(one, RewardAssigned))
    needs = next(one for one in facts if isinstance(one, NeedsChanged))
    mark = next(one for one in facts if isinstance(one, MarkWitnessed))
    places: list[tuple[Event, float]] = [(act, 100.0), (reward, 100.02), (needs, 100.5)]

    bus = MemoryBus()
    async with bus:
        assert await latencies.look(bus) == {}
        for number, (fact, time) in enumerate(places, 1):
            latencies.take(Delivery(number, subject_of(fact), encode(fact), time))
        latencies.take(Delivery(9, subject_of(mark), encode(mark.model_copy(update={"causation_id": "x"})), 101.0))
        told = await latencies.look(bus)

    assert told["reward"].p50 == pytest.approx(20.0, abs=0.01)
    assert told["needs"].p95 == pytest.approx(500.0, abs=0.01)
    assert "witness" not in told


async def test_latencies_forget_and_pass_over_what_is_no_fact() -> None:
    """However many events there are, and whatever they hold."""
    latencies = LatencyTracker()
    for number in range(MOST_CAUSES + 50):
        body = {"id": str(number), "type": "conch.v1.action.taken", "data": {}}
        latencies.take(Delivery(number, "s", json.dumps(body).encode(), 1.0))
    for junk in (b"", b"\xff", b"[]", b'{"id": 3}'):
        latencies.take(Delivery(1, "s", junk, 1.0))

    assert len(latencies._stored) == MOST_CAUSES
