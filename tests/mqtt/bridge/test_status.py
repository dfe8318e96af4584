"""What the broker keeps: each agent's status, and what Home Assistant is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conch.bus import MemoryBus
from tests.mqtt.bridge.conftest import Bridging, last_status, put

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until
    from tests.mqtt.bridge.conftest import MakeExperience, MakeNeedsChanged
    from tests.mqtt.conftest import Broker, Hub, MakeHub


async def test_the_status_is_kept_by_the_broker(
    bus: MemoryBus, broker: Broker, make_hub: MakeHub, bridging: Bridging, recorded: MakeExperience, until: Until
) -> None:
    """Who comes later finds each agent's last cycle and reward, and afterwards that it is gone."""
    async with bridging(broker.url):
        await put(bus, recorded(7, 0.25), recorded(3, -1.0, agent="other"))
        early = make_hub(broker.port)
        await until(lambda: (last_status(early) or {}).get("cycle") == 7)
        await until(lambda: (last_status(early, "other") or {}).get("cycle") == 3)
        status = last_status(early)
        await put(bus, recorded(8, 0.5))
        await until(lambda: last_status(early)["cycle"] == 8)
        late = make_hub(broker.port)
        await until(lambda: last_status(late, "other"))

        assert status == {
            "agent": "echo", "state": "online", "cycle": 7, "reward": 0.25, "time": status["time"]
        }  # fmt: skip
        assert last_status(late, "other")["reward"] == -1.0
        assert all(one.retained for one in late.heard if one.topic.endswith("/status"))

    after = make_hub(broker.port)
    await until(lambda: last_status(after) and last_status(after, "other"))
    assert (last_status(after)["state"], last_status(after)["cycle"]) == ("offline", 8)
    assert last_status(after, "other")["state"] == "offline"


async def test_a_bridge_that_dies_is_said_to_be_offline(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, until: Until
) -> None:
    """The last will, which the broker keeps, says that the agent is gone."""
    async with bridging(broker.url, dies=True):
        await until(lambda: last_status(hub))

    await until(lambda: last_status(hub)["state"] == "offline")


async def test_the_status_of_the_last_run_is_known_at_once(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, recorded: MakeExperience, until: Until
) -> None:
    """A bridge that starts says the last recorded cycle before anything new has happened."""
    await put(bus, recorded(4, 0.125))
    async with bridging(broker.url) as bridge:
        await until(lambda: bridge.handled == 1)
    hub.heard.clear()

    async with bridging(broker.url):
        await until(lambda: last_status(hub))

        assert (last_status(hub)["cycle"], last_status(hub)["reward"]) == (4, 0.125)


async def test_home_assistant_is_told(
    bus: MemoryBus,
    broker: Broker,
    make_hub: MakeHub,
    bridging: Bridging,
    act: MakeAct,
    needs_changed: MakeNeedsChanged,
    until: Until,
) -> None:
    """An agent and a need are announced when they are first met, and kept by the broker."""
    async with bridging(broker.url) as bridge:
        await put(bus, act(1), needs_changed(1, curiosity=0.5), needs_changed(2, curiosity=0.5, rest=0.1))
        await until(lambda: bridge.handled == 3)

        hub = make_hub(broker.port)
        await until(lambda: hub.payloads("homeassistant/sensor/conch_echo_need_rest/config"))

    assert {one.topic for one in hub.heard if one.topic.startswith("homeassistant/")} == {
        "homeassistant/sensor/conch_echo_reward/config",
        "homeassistant/sensor/conch_echo_cycle/config",
        "homeassistant/sensor/conch_echo_need_curiosity/config",
        "homeassistant/sensor/conch_echo_need_rest/config",
        "homeassistant/binary_sensor/conch_echo_status/config",
    }
    assert all(one.retained for one in hub.heard if one.topic.startswith("homeassistant/"))


async def test_a_broker_that_forgot_is_told_again(
    bus: MemoryBus, broker: Broker, make_hub: MakeHub, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """After a restart that lost what the broker kept, statuses and announcements are there again."""
    async with bridging(broker.url) as bridge:
        await put(bus, act(1))
        await until(lambda: bridge.handled == 1)

        broker.stop()
        broker.start()

        hub = make_hub(broker.port)
        await until(lambda: hub.payloads("homeassistant/sensor/conch_echo_reward/config"))
        await until(lambda: last_status(hub))


async def test_nothing_is_announced_without_a_prefix(
    bus: MemoryBus, broker: Broker, hub: Hub, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """With edge.discovery none, facts and statuses are all there is."""
    async with bridging(broker.url, discovery=None) as bridge:
        await put(bus, act(1))
        await until(lambda: bridge.handled == 1)

    hub.level()
    assert hub.topics == {"conch/echo/status", "conch/echo/action/taken"}
