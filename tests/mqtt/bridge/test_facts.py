"""What reaches the hub, in which order, and what does not."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog.testing

from conch.bus import MemoryBus
from conch_schemas import encode
from tests.mqtt.bridge.conftest import Bridging, ids, put

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until
    from tests.mqtt.bridge.conftest import MakeNeedsChanged
    from tests.mqtt.conftest import Broker, Hub, MakeBroker, MakeHub


async def test_every_fact_goes_to_its_topic_as_it_is(
    bus: MemoryBus,
    broker: Broker,
    hub: Hub,
    bridging: Bridging,
    act: MakeAct,
    needs_changed: MakeNeedsChanged,
    until: Until,
) -> None:
    """Facts from before and from after the start are heard under agent, noun and verb, byte for byte."""
    before, after = act(1), needs_changed(1, agent="other", curiosity=0.5)
    await put(bus, before)

    async with bridging(broker.url) as bridge:
        await until(lambda: bridge.handled == 1)
        await put(bus, after)
        await until(lambda: bridge.handled == 2)

    hub.level()
    assert hub.payloads("conch/echo/action/taken") == [encode(before)]
    assert hub.payloads("conch/other/needs/changed") == [encode(after)]


async def test_facts_keep_their_order(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """More facts than fit the window come in the order of the stream, each once."""
    acts = [act(cycle) for cycle in range(1, 701)]

    async with bridging(broker.url) as bridge:
        await put(bus, *acts)
        await until(lambda: bridge.handled == len(acts))

    assert ids(hub) == [one.id for one in acts]


async def test_what_is_no_fact_is_passed_over(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """Bytes that are no event, an event on another's subject and subjects that are no fact's reach no topic."""
    for subject, data in (
        ("conch.v1.echo.action.taken", b"\x00\xff not JSON"),
        ("conch.v1.echo.action.taken", encode(act(1, "other"))),
        ("conch.v1.echo.action.taken.more", encode(act(1))),
        ("conch.v1.echo.status", b"{}"),
        ("conch.v1.e+o.action.taken", encode(act(1))),
        ("conch.v1.#.action.taken", encode(act(1))),
        ("conch.v1.e/o.action.taken", encode(act(1))),
        ("conch.v1.echo.new.kind", b'{"type": "conch.v1.another.kind", "agent": "echo", "id": "1"}'),
        ("conch.v1.echo.action.taken", b'{"type": "conch.v1.action.taken", "agent": "echo", "id": "1"}'),
    ):
        await bus.publish(subject, data, id=str(uuid.uuid4()))
    await put(bus, act(2))

    async with bridging(broker.url, discovery=None) as bridge:
        await until(lambda: bridge.handled == 10)

    hub.level()
    assert hub.topics == {"conch/echo/status", "conch/echo/action/taken"}
    assert ids(hub) == [act(2).id]
    assert bridge.tally.failures == 9


async def test_a_fact_of_a_kind_not_known_here_goes_too(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, until: Until
) -> None:
    """An event whose envelope fits its subject is handed over, though this version does not know what it says."""
    event = b'{"type": "conch.v1.task.finished", "agent": "echo", "id": "1", "data": {}}'
    await bus.publish("conch.v1.echo.task.finished", event, id="1")

    async with bridging(broker.url) as bridge:
        await until(lambda: bridge.handled == 1)

    hub.level()
    assert hub.payloads("conch/echo/task/finished") == [event]


@pytest.mark.parametrize(
    ("limit", "newest"),
    [("max_packet_size 4000", True), ("max_packet_size 4000", False), ("message_size_limit 4000", True)],
)
async def test_what_is_too_large_for_the_broker_holds_up_nothing(
    bus: MemoryBus,
    make_broker: MakeBroker,
    make_hub: MakeHub,
    bridging: Bridging,
    act: MakeAct,
    until: Until,
    limit: str,
    newest: bool,
) -> None:
    """A fact larger than the broker takes is skipped and counted: by what the broker says at its welcome, by how it
    hangs up, and by an answer that its protocol does not have."""
    broker = make_broker(limit)
    hub = make_hub(broker.port)
    large = [act(cycle, raw="x" * 8000) for cycle in (2, 3)]
    await put(bus, act(1), *large, act(4))

    with structlog.testing.capture_logs() as logs:
        async with bridging(broker.url, discovery=None) as bridge:
            bridge._link._newest = newest
            await until(lambda: bridge._done == 4)

    assert set(ids(hub)) == {act(1).id, act(4).id}
    assert (bridge.tally.handled, bridge.tally.failures) == (2, 2)
    assert [line["seq"] for line in logs if line["event"] == "mqtt.skipped"] == [2, 3]


async def test_a_topic_that_the_broker_forbids_holds_up_nothing(
    bus: MemoryBus,
    make_broker: MakeBroker,
    make_hub: MakeHub,
    bridging: Bridging,
    act: MakeAct,
    needs_changed: MakeNeedsChanged,
    until: Until,
    tmp_path: Path,
) -> None:
    """What the broker's rules forbid is counted, and said once for each kind of fact; the rest goes on."""
    (tmp_path / "acl").write_text("topic readwrite conch/+/needs/changed\ntopic readwrite hub/#\ntopic read #\n")
    broker = make_broker(f"acl_file {tmp_path / 'acl'}")
    hub = make_hub(broker.port)
    await put(bus, act(1), act(2), needs_changed(3, curiosity=0.5))

    with structlog.testing.capture_logs() as logs:
        async with bridging(broker.url) as bridge:
            await until(lambda: bridge.handled == 3)

    hub.level()
    assert [line["seq"] for line in logs if line["event"] == "mqtt.skipped"] == [1]
    assert hub.topics == {"conch/echo/needs/changed"}
    assert bridge.tally.failures == 2
