"""A server of three dies, or two of them: what was acknowledged is there, once, and everybody goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from conch.bus import Bus, OutgoingMessage
from conch.bus.jetstream import JetStreamBus, connection
from conch.errors import FencedError
from tests.cluster.servers import SIZE, Cluster
from tests.cluster.siege import AGENTS, Aftermath, leader_of
from tests.faults.load import counted, loaded

SUBJECT = "conch.v1.echo.message.received"


async def test_stream_and_bucket_have_a_copy_on_each_server(cluster: Cluster) -> None:
    """`bus.replicas: 3`; whoever enters later finds them so and leaves them so."""
    access = cluster.access(cluster.new_account())
    async with JetStreamBus(access, replicas=SIZE), JetStreamBus(access) as bus:
        for stream in ("CONCH", "KV_conch"):
            info = await bus._connection.api(f"STREAM.INFO.{stream}")

            assert info["config"]["num_replicas"] == SIZE
            assert len(info["cluster"]["replicas"]) == SIZE - 1


async def test_a_stream_gets_the_copies_that_are_asked_for_later(cluster: Cluster) -> None:
    """While others are at work on it; it keeps them when somebody asks for fewer."""
    access = cluster.access(cluster.new_account())
    async with JetStreamBus(access) as bus:
        await bus.publish(SUBJECT, b"1", id="1")

        async with JetStreamBus(access, replicas=SIZE) as other:
            await asyncio.gather(bus.publish(SUBJECT, b"2", id="2"), other.publish(SUBJECT, b"3", id="3"))
        async with JetStreamBus(access):
            info = await bus._connection.api("STREAM.INFO.CONCH")

        assert info["config"]["num_replicas"] == SIZE
        assert sorted([int(found.data) async for found in bus.read([SUBJECT])]) == [1, 2, 3]


async def test_what_was_acknowledged_is_read_at_once(cluster: Cluster) -> None:
    """Whichever server the reader is on, and however far that one lags behind the stream's leader."""
    access, count = cluster.access(cluster.new_account()), 8000
    async with JetStreamBus(access, replicas=SIZE) as bus:
        await bus.publish(SUBJECT, b"0", id="0")
        needed = (await leader_of(bus), bus._connection.said["server_name"])
        lags = next(node for node in cluster.nodes if node.name not in needed)
        os.kill(lags.pid, signal.SIGSTOP)
        try:
            messages = [OutgoingMessage(SUBJECT, b"%2000d" % number, str(number)) for number in range(1, count + 1)]
            await bus.publish_many(messages)
        finally:
            os.kill(lags.pid, signal.SIGCONT)

        found = await asyncio.gather(*(read(bus, count - 100) for _ in range(60)))
        assert found == [[*range(count - 99, count + 1)]] * 60


async def read(bus: Bus, after: int) -> list[int]:
    """What stands behind event number `after`."""
    return [int(delivery.data) async for delivery in bus.read([SUBJECT], after=after + 1)]


def test_what_was_acknowledged_under_fire_stands_once(aftermath: Aftermath) -> None:
    """Where the acknowledgement says; published singly and in batches, each by itself and in groups."""
    for load in (aftermath.singly, aftermath.in_groups):
        assert load.messages > 100
        assert (load.lost, load.doubled) == (0, 0)


def test_a_fold_under_fire_says_each_consequence_once_in_order(aftermath: Aftermath) -> None:
    """Its place and states are on servers that die, its events come from them."""
    assert (aftermath.singly.astray, aftermath.in_groups.astray) == (0, 0)


def test_compare_and_set_holds_over_a_change_of_leaders(aftermath: Aftermath) -> None:
    """Of two writers of one key nobody writes over what he has not read; none is told that he did when he did not."""
    assert aftermath.tally.raised > 100
    # A write whose reply was lost, and that the other has written over since, is told as fenced though it was done.
    assert 0 <= aftermath.tally.stands - aftermath.tally.raised <= aftermath.tally.fenced


def test_readers_go_on_where_they_were(aftermath: Aftermath) -> None:
    """With a durable on three servers, or without a name and on the one that died: each event once, in order."""
    assert aftermath.followed == aftermath.stored


def test_an_election_is_no_error_to_who_comes_meanwhile(aftermath: Aftermath) -> None:
    """Who enters the bus the moment that a server dies gets in."""
    assert aftermath.entered == SIZE


def test_a_run_goes_on_while_servers_die(aftermath: Aftermath) -> None:
    """Three agents: every cycle recorded, once, whole; the chain of marks holds; it ends in order."""
    house = aftermath.house

    rows = house.conch("cycle", "list", "--json", "--limit", "10000", **aftermath.environment)

    assert aftermath.stopped == 0
    cycles = [(row["agent"], row["cycle"]) for row in json.loads(rows)["cycles"]]
    assert len(cycles) == len(set(cycles)) > 2 * AGENTS * SIZE
    for number in range(1, AGENTS + 1):
        own = [cycle for agent, cycle in cycles if agent == f"echo-{number}"]
        assert own == list(range(len(own)))
        house.conch("mark", "verify", "--agent", f"echo-{number}", **aftermath.environment)
    house.assert_nothing_runs()


async def test_without_two_of_three_publishers_wait(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is acknowledged, nothing refused, however long; when one is back all is stored, once, in order."""
    monkeypatch.setattr(connection, "PATIENCE", 2.0)
    access = cluster.access(cluster.new_account())
    async with JetStreamBus(access, replicas=SIZE) as bus:
        await bus.publish(SUBJECT, b"0", id="0")
        gone = [cluster[await leader_of(bus)], *cluster.nodes]
        gone = [node for place, node in enumerate(gone) if node not in gone[:place]][: SIZE - 1]
        for node in gone:
            node.kill()
        waiting: list[Any] = [
            asyncio.create_task(
                bus.publish_many([OutgoingMessage(SUBJECT, b"%d" % one, f"{one}") for one in range(1, 31)])
            ),
            asyncio.create_task(bus.put("a/key", b"value", revision=0)),
            asyncio.create_task(bus.state()),
        ]
        assert not (await asyncio.wait(waiting, timeout=3))[0]

        gone[0].start()
        stored, revision, _ = await asyncio.wait_for(asyncio.gather(*waiting), 60)

        found = [int(delivery.data) async for delivery in bus.read([SUBJECT])]
        assert found == list(range(31))
        assert [one.seq for one in stored] == list(range(2, 32))
        assert (await bus.get("a/key")).revision == revision  # type: ignore[union-attr]
        with pytest.raises(FencedError):
            await bus.put("a/key", b"other", revision=0)


@pytest.mark.torture
@pytest.mark.timeout(300)
async def test_all_three_die_at_once_and_sync_always(tmp_path: Path) -> None:
    """Again and again, with servers that write to disk before they acknowledge: nothing is lost, nothing is twice."""
    cluster = Cluster(tmp_path, sync="always")
    await asyncio.to_thread(cluster.start)
    access = cluster.access(cluster.new_account())
    try:
        async with JetStreamBus(access, replicas=SIZE, strict=True):
            pass
        async with loaded(access.url, None, strict=True) as load:
            for _ in range(3):
                await load.recovered()
                cluster.close()
                await asyncio.to_thread(cluster.start)
                await load.recovered()
        found = await counted(load, access.url, None)
    finally:
        cluster.close()

    assert found.messages > 100
    assert (found.lost, found.doubled, found.astray) == (0, 0, 0)
