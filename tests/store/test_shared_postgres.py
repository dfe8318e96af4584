"""Several workers of one PostgreSQL store: each owns some agents, and nothing is lost or joined twice as they come and
go."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.bus import MemoryBus, shared_subscription
from conch.cli.run.prepare import claim
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.consumer.group import joined
from conch.consumer.group.lag import standings
from conch.errors import BusError, StoreAwayError, StoreError
from conch.experience import (
    PostgresReader,
    PostgresStore,
    RetentionLimits,
    SharedPostgresStore,
    store_location,
    stored_partition,
)
from conch.experience.queries import prune
from conch_schemas import Event, ExperienceRecorded, decode, encode, subject_filter, subject_of
from conch_services.store.consumer import StoreService

if TYPE_CHECKING:
    from tests.postgres import PostgresServer
    from tests.store.conftest import Facts

AGENTS = tuple(f"echo-{number}" for number in range(1, 9))
CYCLES = 12
LAST = len(AGENTS) * (1 + 9 * CYCLES)
"""The end of the stream: the agents' weights, then the nine facts of each cycle, the agents in turns."""
ALL = range(16)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """An empty database."""
    return postgres.new_database()


def number_of(agent: str, cycle: int) -> int:
    """The number of the agent's cycle: no two agents have one, so no two of their actions have one id."""
    return len(AGENTS) * cycle + AGENTS.index(agent)


def fact_at(facts: Facts, seq: int) -> Event:
    """The event at this place of the stream."""
    turn, number = divmod(seq - 1, len(AGENTS))
    agent = AGENTS[number]
    if turn == 0:
        return facts.weights(agent=agent)
    cycle, place = divmod(turn - 1, 9)
    return facts.cycle(number_of(agent, cycle + 1), agent)[place]


def apply_some(store: SharedPostgresStore, facts: Facts, upto: int, *, twice: int = 0) -> list[tuple[str, int]]:
    """Apply the stream up to there to the agents that are owned, the last `twice` events once more; what it records, by
    agent and cycle."""
    first = store.applied() + 1
    own = [(seq, fact) for seq in range(first, upto + 1) if store.lacks((fact := fact_at(facts, seq)).agent, seq)]
    recorded = store.apply(own + own[-twice:] if twice else own, upto=upto, now=facts.now)
    return [(one.agent, one.cycle or 0) for one in recorded]


def of_partitions(numbers: Collection[int]) -> list[str]:
    """The agents of these partitions."""
    return [agent for agent in AGENTS if stored_partition(agent) in numbers]


def test_the_database_knows_the_partition_of_an_agent(url: str) -> None:
    """As this side computes it: each worker's queries are of its own agents alone."""
    with SharedPostgresStore(url) as store:
        for agent in (*AGENTS, "ärger", "a" * 60):
            sql = "SELECT get_byte(sha256(convert_to(?, 'UTF8')), 0) % 16"
            assert store._file.row(sql, agent)[0] == stored_partition(agent)


def test_a_partition_has_one_owner(url: str) -> None:
    """The second worker gets what is free, and what the first lets go of; one that wants all is told who has it."""
    with SharedPostgresStore(url) as one, SharedPostgresStore(url) as other:
        assert one.own(range(10)) == set(range(10))
        assert other.own(ALL) == set(range(10, 16))
        assert not other.is_free(range(10))
        assert one.own(range(4)) == set(range(4))
        assert other.is_free(range(10))
        assert other.own(range(2, 16)) == set(range(4, 16))
        with pytest.raises(StoreError, match="is being written by another process"):
            PostgresStore(url, timeout=0.2)

    with PostgresStore(url), pytest.raises(StoreError, match="is being written by another process"):
        SharedPostgresStore(url, timeout=0.2)


def test_two_workers_join_what_one_would(url: str, postgres: PostgresServer, facts: Facts) -> None:
    """Each the facts of its own agents, in turns; the rows are those of a store that one writer made."""
    with SharedPostgresStore(url) as one, SharedPostgresStore(url) as other:
        one.own(range(8))
        other.own(range(8, 16))
        draw = random.Random(3)
        while (at := min(one.applied(), other.applied())) < LAST:
            store = one if one.applied() == at else other
            apply_some(store, facts, min(LAST, at + draw.randint(1, 60)), twice=draw.randint(0, 5))
        assert one.position() == LAST

    with PostgresStore(postgres.new_database()) as alone:
        alone.apply([(seq, fact_at(facts, seq)) for seq in range(1, LAST + 1)], upto=LAST, now=facts.now)
        with PostgresReader(url) as both:
            assert both.cycles.last(None, 999) == alone.cycles.last(None, 999)
            assert both.charts.figures(None, 999) == alone.charts.figures(None, 999)
            numbers = "SELECT count(DISTINCT act), min(act), max(act) FROM actions"
            assert both._file.row(numbers) == alone._file.row(numbers)


def test_a_partition_that_is_taken_over_goes_on_at_its_own_place(url: str, facts: Facts) -> None:
    """What its former owner had not applied is applied, and what it had is not applied again."""
    with SharedPostgresStore(url) as one, SharedPostgresStore(url) as other:
        one.own(range(8))
        other.own(range(8, 16))
        apply_some(one, facts, LAST)
        apply_some(other, facts, 100)
        assert (one.position(), one.applied(), other.applied()) == (100, LAST, 100)

        other.own(())
        assert one.own(ALL) == set(ALL)

        assert one.applied() == 100
        recorded = apply_some(one, facts, LAST)
        assert {agent for agent, _ in recorded} == set(of_partitions(range(8, 16)))
        assert one.duplicates == 0
        assert (one.position(), len(one.cycles.last(None, 999))) == (LAST, len(AGENTS) * CYCLES)


def test_a_worker_that_has_lost_its_session_can_write_nothing(url: str, postgres: PostgresServer, facts: Facts) -> None:
    """Its partitions are free at once; what it still wants to write is refused, whatever it believes to own."""
    with SharedPostgresStore(url) as one, SharedPostgresStore(url) as other:
        one.own(ALL)
        apply_some(one, facts, 50)
        (pid,) = one._file.row("SELECT pg_backend_pid()")
        postgres.sql(f"SELECT pg_terminate_backend({pid})", url)

        while not other.is_free(ALL):
            pass
        assert other.own(ALL) == set(ALL)
        with pytest.raises(StoreAwayError):
            apply_some(one, facts, 60)
        apply_some(other, facts, 60)
        assert other.position() == 60


def test_each_worker_waits_for_its_own_agents_alone(url: str, facts: Facts) -> None:
    """Deadlines, what waits, what is to be published, and what retention removes are of its own partitions."""
    mine, theirs = AGENTS[0], next(one for one in AGENTS if stored_partition(one) != stored_partition(AGENTS[0]))
    with SharedPostgresStore(url) as one, SharedPostgresStore(url) as other:
        one.own([stored_partition(mine)])
        other.own([stored_partition(theirs)])
        begin = facts.noon
        one.apply([(1, facts.weights(agent=mine)), (2, facts.act(1, mine))], upto=2, now=facts.at(1))

        assert (one.waiting(), other.waiting()) == (1, 0)
        assert one.next_deadline() is not None
        assert other.next_deadline() is None
        assert other.expire(facts.now) == ()
        [recorded] = one.expire(facts.now)
        assert (one.unpublished(), other.unpublished()) == ((recorded,), ())
        assert recorded.time >= begin
        assert (one.has(theirs), other.has(theirs)) == (False, True)


def test_a_worker_removes_cycles_of_its_own_agents(url: str, facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other agents' stay for their own worker."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 2)
    with SharedPostgresStore(url) as one, SharedPostgresStore(url) as other:
        one.own(range(8))
        other.own(range(8, 16))
        apply_some(one, facts, LAST)
        apply_some(other, facts, LAST)

        while one.prune(RetentionLimits(seconds=1.0), facts.now).acts:
            pass
        left = {agent: len(one.cycles.last(agent, 99)) for agent in AGENTS}

    assert left == {agent: 2 if stored_partition(agent) < 8 else CYCLES for agent in AGENTS}


@contextlib.asynccontextmanager
async def serving(bus: MemoryBus, url: str, home: Path, name: str) -> AsyncIterator[StoreService]:
    """A worker of this name at work; on leaving it is stopped in order."""
    settings = Settings.model_validate({"store": {"url": url}})
    async with joined(bus, ["store"], name) as members, shared_subscription(bus) as shared_events:
        service = StoreService(ServiceContext(settings, home, members=members))
        stop = asyncio.Event()
        task = asyncio.create_task(service.run(shared_events, stop))
        yield service
        stop.set()
        await task


async def test_workers_take_agents_over_and_take_letters_of_their_own(
    url: str, tmp_path: Path, facts: Facts, until: Callable[..., Awaitable[None]]
) -> None:
    """Alone a worker has all; a second one gets its half, answers for it, and leaves it behind: each agent's cycles are
    published in order, no revision twice."""
    async with MemoryBus() as bus:

        async def publish(first: int, last: int) -> None:
            for fact in (fact_at(facts, seq) for seq in range(first, last + 1)):
                await bus.publish(subject_of(fact), encode(fact), id=f"{fact.agent}{fact.id}")

        async def letters_of(agent: str) -> dict[str, object]:
            subject = f"conch.ctl._consumer.store.{stored_partition(agent)}.retry"
            return dict(json.loads(await bus.request(subject, b'{"seq": 9999}', timeout=5)))

        await publish(1, LAST // 2)
        async with serving(bus, url, tmp_path, "one") as one:
            await until(lambda: one.handled >= bus.journal.last)
            async with serving(bus, url, tmp_path, "two") as two:
                await until(lambda: two.handled >= bus.journal.last)
                await until(lambda: one.handled >= bus.journal.last)
                parts = [service._partitions.owned for service in (one, two)]
                await publish(LAST // 2 + 1, LAST - 100)
                await until(lambda: min(one.handled, two.handled) >= bus.journal.last)
                answers = [await letters_of(agent) for agent in AGENTS]
            await until(lambda: len(one._partitions.owned) == 16)
            await publish(LAST - 99, LAST)
            await until(lambda: one.handled >= bus.journal.last)
        [told] = await standings(bus)
        published = [decode(found.data) async for found in bus.read([subject_filter(ExperienceRecorded)])]

    assert [len(part) for part in parts] == [8, 8]
    assert parts[0].isdisjoint(parts[1])
    assert all("no longer on the stream" in str(answer["error"]) for answer in answers)
    assert told.lag == 0
    assert len({one.id for one in published}) == len(published)
    # The facts are days old: an act whose scores come in the next transaction is recorded without them, then revised.
    assert {agent: list(dict.fromkeys(one.cycle for one in published if one.agent == agent)) for agent in AGENTS} == {
        agent: [number_of(agent, cycle) for cycle in range(1, CYCLES + 1)] for agent in AGENTS
    }
    with PostgresReader(url) as reader:
        assert len(reader.cycles.last(None, 999)) == len(AGENTS) * CYCLES


async def test_a_worker_of_another_home_joins_the_stream_that_its_database_has(url: str, tmp_path: Path) -> None:
    """The claim of a stream is one home's: another home takes part with the same database, and is refused with any
    other one."""
    async with MemoryBus() as bus:
        await claim(bus, "home-1", ["store"], "nats://here")
        with SharedPostgresStore(url) as store:
            store.set_epoch((await bus.state()).epoch)

        await claim(bus, "home-2", ["store"], "nats://here", store_location(url, tmp_path))
        with SharedPostgresStore(url) as store:
            store.set_epoch("another stream")
        for place in (None, store_location(None, tmp_path), store_location(url, tmp_path)):
            with pytest.raises(BusError, match="another home stores what happens on the stream"):
                await claim(bus, "home-2", ["store"], "nats://here", place)


def _work_until_killed(url: str, facts: Facts, out: int, seed: int) -> None:
    """A worker that takes now these partitions, now those, and says what it publishes."""
    draw = random.Random(seed)
    with SharedPostgresStore(url) as store:
        while store.position() < LAST:
            if not store.own(draw.sample(ALL, 9)):
                continue
            _publish(store, out)
            for _ in range(draw.randint(1, 6)):
                apply_some(store, facts, min(LAST, store.applied() + draw.randint(1, 40)), twice=draw.randint(0, 8))
                _publish(store, out)


def _publish(store: SharedPostgresStore, out: int) -> None:
    for experience in store.unpublished():
        os.write(out, f"{experience.agent} {experience.cycle} {experience.revision}\n".encode())
        store.mark_published([experience.id])


def _started(url: str, facts: Facts, out: int, seed: int) -> int:
    child = os.fork()
    if child == 0:
        try:
            _work_until_killed(url, facts, out, seed)
            os._exit(0)
        finally:
            os._exit(1)
    return child


@pytest.mark.torture
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_that_are_killed_at_random_lose_and_double_nothing(url: str, facts: Facts) -> None:
    """Three workers take agents from one another, facts come twice, kill -9 at random, and one joins late: at the end
    each agent's cycles are complete, published in order, each in one revision, and the sums are right. A reader that
    goes by the numbers of changes misses none."""
    PostgresStore(url).close()
    draw, (said, out) = random.Random(5), os.pipe()
    seen: set[int] = set()
    change = 0
    workers = {_started(url, facts, out, seed): seed for seed in range(2)}
    with PostgresReader(url) as reader:
        for round in range(200):
            position = reader.position()
            found = reader.sampling.since(change)
            change, seen = found.upto, seen | {row.act for row in found.rows}
            if position >= LAST:
                break
            if round % 4 == 0:
                victim = draw.choice(sorted(workers))
                os.kill(victim, signal.SIGKILL)
                os.waitpid(victim, 0)
                del workers[victim]
            while len(workers) < (2 if round < 4 else 3):
                workers[_started(url, facts, out, 100 + round)] = round
            deadline = position + draw.randint(20, 60)
            while reader.position() < min(deadline, LAST):
                pass
        for worker in workers:
            assert os.waitpid(worker, 0)[1] == 0
        seen |= {row.act for row in reader.sampling.since(change).rows}

        recorded = {agent: [one.cycle for one in reader.cycles.last(agent, 999)] for agent in AGENTS}
        figures = reader.charts.figures(None, 999)
        acts, numbers = reader._file.row("SELECT count(*), count(DISTINCT action_id) FROM acts")
        revisions = reader._file.row("SELECT min(revision), max(revision) FROM experiences")
    os.close(out)
    with os.fdopen(said) as words:
        published = [(agent, int(cycle), revision) for agent, cycle, revision in map(str.split, words)]

    expected = {agent: [number_of(agent, cycle) for cycle in range(1, CYCLES + 1)] for agent in AGENTS}
    assert recorded == expected
    assert (acts, numbers, revisions) == (len(AGENTS) * CYCLES, len(AGENTS) * CYCLES, (1, 1))
    assert figures.count == len(AGENTS) * CYCLES
    assert {revision for _, _, revision in published} == {"1"}
    # A worker that dies between publishing and saying so leaves it to the next one to publish the same event again.
    first_time = {agent: list(dict.fromkeys(cycle for one, cycle, _ in published if one == agent)) for agent in AGENTS}
    assert first_time == expected
    assert len(seen) == len(AGENTS) * CYCLES
