"""The claim of a run on its agents: of runs that share a bus, one has an agent at a time."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.bus import CLEARED, MemoryBus, MemoryJournal, RunRecord, is_run, run_key
from conch.cycle.hosting import claim
from conch.cycle.hosting.claim import claimed, shared, spans
from conch.errors import AgentsBusyError
from conch.tasks import background

if TYPE_CHECKING:
    from tests.conftest import Until

ONE, OTHER = Path("/homes/one"), Path("/homes/other")
NAMES = [f"echo-{number}" for number in range(1, 6)]
names = st.lists(
    st.one_of(
        st.builds("{}-{}".format, st.sampled_from(["echo", "joy", "echo-1"]), st.integers(0, 12)),
        st.sampled_from(["echo", "joy", "echo-01", "echo-"]),
    ),
    max_size=20,
)


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease of a quarter of a second."""
    monkeypatch.setattr(claim, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(claim, "LEASE_SECONDS", 0.25)


def entry(journal: MemoryJournal) -> str:
    """The only key of a run."""
    [key] = [key for key in journal.bucket if is_run(key)]
    return key


async def test_a_second_run_of_an_agent_is_refused_while_the_first_lives(journal: MemoryJournal) -> None:
    """It says which agents, and whose they are; agents that are free can be had meanwhile."""
    async with MemoryBus(journal) as bus, claimed(bus, ONE, NAMES) as first, background(first.keep(), name="keep"):
        with pytest.raises(AgentsBusyError, match=r"another run on this bus has echo-3\.\.5 \(host .* home /homes/one"):
            async with claimed(bus, OTHER, ["joy", "echo-3", "echo-4", "echo-5", "echo-6"]):
                pytest.fail("it has agents of another run")
        async with claimed(bus, OTHER, ["joy", "echo-6"]):
            pass


async def test_agents_are_free_at_once_after_an_end_in_order(
    journal: MemoryJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lease is waited for."""
    monkeypatch.setattr(claim, "LEASE_SECONDS", 1e9)
    async with MemoryBus(journal) as bus:
        async with claimed(bus, ONE, NAMES):
            pass
        async with asyncio.timeout(5), claimed(bus, OTHER, NAMES):
            pass


async def test_a_run_that_died_is_missed_after_its_lease(journal: MemoryJournal) -> None:
    """Its heartbeat stands still: it is removed, and its agents can be had."""
    async with MemoryBus(journal) as bus:
        await claim.AgentsClaim(bus, ONE, NAMES).take()
        dead = entry(journal)
        async with claimed(bus, OTHER, NAMES[:1]):
            assert journal.bucket[dead].value == CLEARED


async def test_a_run_of_the_same_home_replaces_the_one_that_was_killed(
    journal: MemoryJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: the home has one run at a time."""
    monkeypatch.setattr(claim, "LEASE_SECONDS", 1e9)
    async with MemoryBus(journal) as bus:
        await claim.AgentsClaim(bus, ONE, NAMES).take()
        async with asyncio.timeout(5), claimed(bus, ONE, NAMES):
            assert RunRecord.decode(journal.bucket[entry(journal)].value).agents == ("echo-1..5",)


async def test_of_runs_that_begin_at_once_one_has_the_agents(journal: MemoryJournal) -> None:
    """Each wrote its claim before it read the others': exactly one goes on."""
    results: list[str] = []

    async def begin(stack: AsyncExitStack, home: str) -> None:
        bus = await stack.enter_async_context(MemoryBus(journal))
        try:
            held = await stack.enter_async_context(claimed(bus, Path(home), NAMES))
        except AgentsBusyError:
            results.append("refused")
        else:
            await stack.enter_async_context(background(held.keep(), name=f"keep {home}"))
            results.append("has them")

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(begin(stack, f"/homes/{number}"))

    assert sorted(results) == ["has them", *["refused"] * 5]


async def beating(bus: MemoryBus, since: int | None) -> None:
    """The heartbeats of another run, which claimed the agents at this revision."""
    revision = 0
    while True:
        found = RunRecord(agents=("echo-1..5",), host="h", pid=1, home="/homes/other", since=since, beat=str(revision))
        revision = await bus.put(run_key("other"), found.encode(), revision=revision)
        await asyncio.sleep(0.001)


async def test_the_claim_that_was_made_first_counts(journal: MemoryJournal, until: Until) -> None:
    """Another run that is alive and claimed the same agents later is refused itself; an earlier one keeps this one
    out."""
    async with MemoryBus(journal) as bus:
        async with background(beating(bus, since=10**9), name="later"):
            await until(lambda: run_key("other") in journal.bucket)
            async with claimed(bus, ONE, NAMES):
                pass
        del journal.bucket[run_key("other")]
        async with background(beating(bus, since=1), name="earlier"):
            await until(lambda: run_key("other") in journal.bucket)
            with pytest.raises(AgentsBusyError, match="home /homes/other"):
                await claim.AgentsClaim(bus, ONE, NAMES).take()


async def test_a_run_that_was_overtaken_ends(journal: MemoryJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was stopped for longer than its lease, and another run has its agents: it reads that at its next heartbeat."""
    async with MemoryBus(journal) as bus:
        stopped = claim.AgentsClaim(bus, ONE, NAMES)
        await stopped.take()
        async with claimed(bus, OTHER, NAMES) as other, background(other.keep(), name="keep"):
            with pytest.raises(AgentsBusyError, match="home /homes/other"):
                await stopped.keep()


async def test_a_run_that_was_taken_for_dead_claims_its_agents_again(journal: MemoryJournal, until: Until) -> None:
    """Its heartbeat was removed by a run that has left since: it goes on."""
    async with MemoryBus(journal) as bus:
        stopped = claim.AgentsClaim(bus, ONE, NAMES)
        await stopped.take()
        async with claimed(bus, OTHER, NAMES):
            pass
        async with background(stopped.keep(), name="keep"):
            await until(lambda: any(found.value for key, found in journal.bucket.items() if is_run(key)))

        with pytest.raises(AgentsBusyError):
            async with background(stopped.keep(), name="keep"), claimed(bus, OTHER, NAMES):
                pytest.fail("it has agents of another run")


async def test_what_is_no_heartbeat_keeps_no_run_out(journal: MemoryJournal) -> None:
    """A value of another program under such a key."""
    async with MemoryBus(journal) as bus:
        await bus.put(run_key("x"), b"[]", revision=0)
        async with claimed(bus, ONE, NAMES):
            pass


@given(names, names)
def test_spans_stand_for_their_names_alone(one: list[str], other: list[str]) -> None:
    """In any order, with numbers that are not successive, and names that look like numbered ones."""
    assert shared(spans(one), other) == [name for name in other if name in one]


def test_a_span_is_as_short_as_it_can_be() -> None:
    """Ten thousand agents are one word of the heartbeat; a foreign heartbeat of a billion is not written out."""
    assert spans([f"echo-{number}" for number in range(1, 10_001)]) == ("echo-1..10000",)
    assert shared(["echo-1..999999999"], ["joy-3", "echo-3"]) == ["echo-3"]
    assert re.fullmatch(r"echo-1\.\.5", *spans(NAMES))
