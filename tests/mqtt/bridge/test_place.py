"""Where the bridge goes on: after its end, its death, a trim, another bridge."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from conch.bus import MemoryBus
from conch.errors import FencedError
from tests.mqtt.bridge.conftest import Bridging, ids, put

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until
    from tests.mqtt.conftest import Broker, Hub


async def test_a_bridge_goes_on_where_the_last_one_ended(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """A bridge that ended in order sends nothing again."""
    acts = [act(cycle) for cycle in range(1, 21)]
    async with bridging(broker.url) as bridge:
        await put(bus, *acts[:10])
        await until(lambda: bridge.handled == 10)

    async with bridging(broker.url) as bridge:
        await put(bus, *acts[10:])
        await until(lambda: bridge.handled == 20)

    assert ids(hub) == [one.id for one in acts]


async def test_the_place_is_written_while_it_runs(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """A bridge that is killed sends again only what came since the last writing."""

    async def place() -> int:
        entry = await bus.get("position/mqtt")
        return int(json.loads(entry.value)["seq"]) if entry is not None else -1

    async def written() -> bool:
        return await place() == 5

    async with bridging(broker.url):
        await put(bus, *(act(cycle) for cycle in range(1, 6)))

        await until(written)


async def test_a_second_bridge_takes_over(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """Of two bridges on one stream the later one goes on, though only the elder has a broker, and the elder stops."""
    elder, younger = bridging(broker.url), bridging("mqtt://127.0.0.1:1")
    first = await elder.__aenter__()
    await until(lambda: first._subscription is not None)

    async with younger as second:
        await until(lambda: second._subscription is not None)
        await put(bus, act(1))
        await until(lambda: first._done == 1)
        with pytest.raises(FencedError):
            await elder.__aexit__(None, None, None)


async def test_what_the_stream_gave_up_is_counted(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """Facts that were trimmed while the bridge was away are counted, and it goes on behind them."""
    acts = [act(cycle) for cycle in range(1, 11)]
    await put(bus, acts[0])
    async with bridging(broker.url) as bridge:
        await until(lambda: bridge.handled == 1)
    await put(bus, *acts[1:])
    await bus.trim(6)

    async with bridging(broker.url) as bridge:
        await until(lambda: bridge.handled == 10)

    assert ids(hub) == [acts[0].id, *(one.id for one in acts[5:])]
    assert bridge.tally.failures == 4


async def test_a_stream_that_was_trimmed_before_the_first_start_lost_nothing(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """A new bridge begins with the oldest fact that there is."""
    await put(bus, *(act(cycle) for cycle in range(1, 6)))
    await bus.trim(3)

    async with bridging(broker.url) as bridge:
        await until(lambda: bridge.handled == 5)

    assert ids(hub) == [act(cycle).id for cycle in (3, 4, 5)]
    assert bridge.tally.failures == 0
