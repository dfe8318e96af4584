"""A person's decision on a row, published as a fact."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conch.bus import MemoryBus, MemoryJournal
from conch.data import Row, rows_of
from conch.errors import UsageError
from conch.experience import MemoryStore
from conch.home import Home
from conch.review import ReviewVerdict, corrected_rows, decisions_now, history_of, publish_review, reviewer_named
from conch_schemas import ReviewDecided, decode, subject_filter


async def on_stream(bus: MemoryBus) -> list[ReviewDecided]:
    """Every decision that was published."""
    found = [decode(one.data) async for one in bus.read([subject_filter(ReviewDecided)])]
    return [one for one in found if isinstance(one, ReviewDecided)]


@pytest.fixture
def first(store: MemoryStore) -> Row:
    """A row of the store."""
    return next(one for one in rows_of(store, "sft") if isinstance(one, Row))


async def test_the_same_decision_twice_is_one(store: MemoryStore, home: Home, first: Row) -> None:
    """Also where two clicks come at once; it names the acts, and the agent as the act does."""
    async with MemoryBus(MemoryJournal()) as bus:
        history = history_of(store, first)
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(publish_review(bus, home, history, "ada", ReviewVerdict("approved")))
        await publish_review(bus, home, history, "ada", ReviewVerdict("approved"))

        (said,) = await on_stream(bus)

    act = store.cycles.act("echo", store.cycles.cycle_of(first.action_ids[0]) or 0)
    assert act is not None
    assert (said.row, said.acts, said.number, said.policy) == (first.row_id, first.action_ids, 1, "p1")
    assert (said.source, said.cycle, said.action_id) == (act.source, act.cycle, act.action_id)


async def test_another_decision_replaces_the_first_and_both_are_kept(
    store: MemoryStore, home: Home, first: Row
) -> None:
    """Approved, rejected, approved again: three facts, the last one counts, before the store has any of them."""
    async with MemoryBus(MemoryJournal()) as bus:
        history = history_of(store, first)
        for verdict in (ReviewVerdict("approved"), ReviewVerdict("rejected", "too long"), ReviewVerdict("approved")):
            await publish_review(bus, home, history, "ada", verdict)

        events = await on_stream(bus)
        now = await decisions_now(bus, [], store.position(), store.epoch())

    assert [(one.number, one.decision) for one in events] == [(1, "approved"), (2, "rejected"), (3, "approved")]
    assert now.state(first.row_id) == "approved"
    assert [one.number for one in now] == [3]


async def test_two_reviewers_at_once_have_a_decision_each(store: MemoryStore, home: Home, first: Row) -> None:
    """Neither waits for the other, neither replaces the other."""
    async with MemoryBus(MemoryJournal()) as bus:
        history = history_of(store, first)
        async with asyncio.TaskGroup() as group:
            for name, verdict in (("ada", ReviewVerdict("approved")), ("bob", ReviewVerdict("rejected", "no"))):
                group.create_task(publish_review(bus, home, history, name, verdict))

        now = await decisions_now(bus, [], 0, None)

    assert [(one.reviewer, one.decision, one.number) for one in now.on(first.row_id)] == [
        ("ada", "approved", 1),
        ("bob", "rejected", 1),
    ]


async def test_an_edit_names_the_rows_that_it_makes(store: MemoryStore, home: Home, first: Row) -> None:
    """The corrected row and its pairs; a correction that is none publishes nothing."""
    async with MemoryBus(MemoryJournal()) as bus:
        history = history_of(store, first)
        with pytest.raises(UsageError, match="a correction needs the reply"):
            await publish_review(bus, home, history, "ada", ReviewVerdict("edited", text="  "))
        said = await publish_review(bus, home, history, "ada", ReviewVerdict("edited", text="REFLECT: first"))

        assert await on_stream(bus) == [said]

    assert said.text == "REFLECT: first"
    assert len(set(said.corrected)) == 3


async def test_a_decision_is_published_as_the_export_redacts(store: MemoryStore, home: Home, first: Row) -> None:
    """The reason, the correction and the rows that it makes; said twice it is one decision."""
    verdict = ReviewVerdict("edited", "ask hunter2", "REFLECT: ask hunter2")
    async with MemoryBus(MemoryJournal()) as bus:
        for _ in range(2):
            said = await publish_review(
                bus, home, history_of(store, first), "ada", verdict, redact=lambda text: text.replace("hunter2", "*")
            )

        assert await on_stream(bus) == [said]

    assert (said.reason, said.text) == ("ask *", "REFLECT: ask *")
    assert said.corrected == tuple(one.row_id for one in corrected_rows(first, "REFLECT: ask *"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"decision": "rejected", "reason": " "}, "a rejection needs its reason"),
        ({"decision": "approved", "reason": "x" * 1001}, "the reason has 1,001 characters, at most 1,000"),
    ],
)
def test_a_verdict_without_its_reason_is_refused(fields: dict[str, Any], says: str) -> None:
    """And one whose reason is too long to be kept."""
    with pytest.raises(UsageError, match=says):
        ReviewVerdict(**fields)


def test_a_reviewer_without_a_name_is_the_user_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as a name can have its characters."""
    monkeypatch.setenv("LOGNAME", "ada lövelace")
    assert reviewer_named(None) == "ada-l-velace"
    assert reviewer_named("bob@example.org") == "bob@example.org"
    for name in ("", "-x", "a b", "x" * 65):
        with pytest.raises(UsageError, match="is no name of a reviewer"):
            reviewer_named(name)
