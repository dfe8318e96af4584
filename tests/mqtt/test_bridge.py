"""The bridge: what reaches the hub, in which order, and what a broker that is away costs."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from conch.bus import Bus, MemoryBus, feeding
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.errors import FencedError
from conch_schemas import Action, Event, ExperienceRecorded, NeedsChanged, encode, subject_of
from conch_services.mqtt import link as links
from conch_services.mqtt import service as services
from conch_services.mqtt import wire
from conch_services.mqtt.service import MqttService, mqtt_service

Bridging = Callable[..., AbstractAsyncContextManager[MqttService]]


@pytest.fixture(autouse=True)
def _in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries to connect follow each other at once, statuses their cause."""
    monkeypatch.setattr(links, "REST_SECONDS", (0.01,))
    monkeypatch.setattr(services, "STATUS_SECONDS", 0.05)


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    """A bus with nothing on it."""
    async with MemoryBus() as bus:
        yield bus


@pytest.fixture
def reports() -> list[dict[str, Any]]:
    """What the bridge told the run."""
    return []


@pytest.fixture
def bridging(bus: MemoryBus, tmp_path: Path, reports: list[dict[str, Any]]) -> Bridging:
    """Runs a bridge to a broker while entered; left, it ends in order, or is cancelled (`dies`)."""

    @asynccontextmanager
    async def run(url: str, *, agent: str = "echo", dies: bool = False, **edge: Any) -> AsyncIterator[MqttService]:
        settings = Settings.model_validate({"agent": agent, "edge": {"bridge": url, **edge}})
        service = mqtt_service(ServiceContext(settings, tmp_path, lambda **line: reports.append(line)))
        stop = asyncio.Event()
        async with feeding(bus) as feed:
            running = asyncio.create_task(service.run(feed, stop))
            try:
                yield service
                stop.set()
                if not dies:
                    async with asyncio.timeout(30):
                        await running
            finally:
                running.cancel()
                await asyncio.wait([running])

    return run


async def put(bus: Bus, *events: Event) -> None:
    """Publish."""
    for event in events:
        await bus.publish(subject_of(event), encode(event), id=event.id)


def ids(hub: Any, topic: str = "conch/echo/action/taken") -> list[str]:
    """Ids of the events that came on a topic, up to now."""
    hub.level()
    return [json.loads(payload)["id"] for payload in hub.payloads(topic)]


@pytest.fixture
def recorded(act: Any) -> Callable[..., ExperienceRecorded]:
    """Make the experience of a cycle."""

    def make(cycle: int = 1, total: float = 0.5, agent: str = "echo") -> ExperienceRecorded:
        of = act(cycle, agent)
        parts: dict[str, Any] = {"scores": (), "breakdown": (), "coverage": 1.0, "complete": True, "revision": 1}
        return ExperienceRecorded(
            source=of.source,
            agent=agent,
            cycle=cycle,
            action_id=of.action_id,
            raw=of.raw,
            model=of.model,
            ms=of.ms,
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{agent}/{cycle}/{total}")),
            seq=cycle,
            acted_at="2026-01-01T00:00:00Z",
            action=Action(kind="DO_NOTHING", valid=True),
            outcome=of.outcome,
            total=total,
            weights="w1",
            **parts,
        )

    return make


@pytest.fixture
def needs_changed(act: Any) -> Callable[..., NeedsChanged]:
    """Make a change of needs."""

    def make(cycle: int = 1, agent: str = "echo", **after: float) -> NeedsChanged:
        of = act(cycle, agent)
        return NeedsChanged(
            source=of.source,
            agent=agent,
            cycle=cycle,
            action_id=of.action_id,
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{agent}/{cycle}/{sorted(after.items())}")),
            before=after,
            after=after,
            most_pressing=next(iter(after)),
        )

    return make


async def test_every_fact_goes_to_its_topic_as_it_is(
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, needs_changed: Any, until: Any
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
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, until: Any
) -> None:
    """More facts than fit the window come in the order of the stream, each once."""
    acts = [act(cycle) for cycle in range(1, 701)]

    async with bridging(broker.url) as bridge:
        await put(bus, *acts)
        await until(lambda: bridge.handled == len(acts))

    assert ids(hub) == [one.id for one in acts]


async def test_a_broker_that_is_away_loses_nothing(
    bus: MemoryBus, broker: Any, hub: Any, line: Any, bridging: Bridging, act: Any, until: Any
) -> None:
    """What is published while the line is cut comes once it is back, in order and once."""
    acts = [act(cycle) for cycle in range(1, 301)]
    async with bridging(line.url) as bridge:
        await put(bus, *acts[:100])
        await until(lambda: bridge.handled == 100)

        await line.cut()
        await put(bus, *acts[100:])
        await until(lambda: bridge._link.trouble)
        await line.open()
        await until(lambda: bridge.handled == 300)

    assert ids(hub) == [one.id for one in acts]


async def test_a_line_that_is_cut_in_the_middle(
    bus: MemoryBus, broker: Any, hub: Any, line: Any, bridging: Bridging, act: Any, until: Any
) -> None:
    """Cut again and again with facts on the wire, none is missing, and what comes twice is the same event."""
    acts = [act(cycle) for cycle in range(1, 1001)]
    async with bridging(line.url) as bridge:
        await put(bus, *acts)
        for upto in (100, 300, 500, 700):
            await until(lambda upto=upto: bridge._done >= upto)
            await line.cut()
            await line.open()
        await until(lambda: bridge._done == 1000)

    assert list(dict.fromkeys(ids(hub))) == [one.id for one in acts]
    assert len(set(hub.payloads("conch/echo/action/taken"))) == 1000
    assert len(ids(hub)) <= 1000 + 4 * wire.WINDOW


async def test_a_bridge_goes_on_where_the_last_one_ended(
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, until: Any
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
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, until: Any
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


async def test_what_is_no_fact_is_passed_over(
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, until: Any
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
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, until: Any
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
    make_broker: Any,
    make_hub: Any,
    bridging: Bridging,
    act: Any,
    until: Any,
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
    bus: MemoryBus, make_broker: Any, make_hub: Any, bridging: Bridging, act: Any, needs_changed: Any, until: Any,
    tmp_path: Path,
) -> None:  # fmt: skip
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


def last_status(hub: Any, agent: str = "echo") -> Any:
    """The last status of an agent that came."""
    said = hub.payloads(f"conch/{agent}/status")
    return json.loads(said[-1]) if said else None


async def test_the_status_is_kept_by_the_broker(
    bus: MemoryBus, broker: Any, make_hub: Any, bridging: Bridging, recorded: Any, until: Any
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
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, until: Any
) -> None:
    """The last will, which the broker keeps, says that the agent is gone."""
    async with bridging(broker.url, dies=True):
        await until(lambda: last_status(hub))

    await until(lambda: last_status(hub)["state"] == "offline")


async def test_the_status_of_the_last_run_is_known_at_once(
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, recorded: Any, until: Any
) -> None:
    """A bridge that starts says the last recorded cycle before anything new has happened."""
    await put(bus, recorded(4, 0.125))
    async with bridging(broker.url) as bridge:
        await until(lambda: bridge.handled == 1)
    hub.heard.clear()

    async with bridging(broker.url):
        await until(lambda: last_status(hub))

        assert (last_status(hub)["cycle"], last_status(hub)["reward"]) == (4, 0.125)


async def test_an_end_with_no_broker_is_not_waited_for(
    bus: MemoryBus, bridging: Bridging, act: Any, until: Any, reports: list[dict[str, Any]], monkeypatch: Any
) -> None:
    """A run that ends with its broker away leaves the facts on the stream, and says how many and why."""
    monkeypatch.setattr(services, "LOST_SECONDS", 0.05)
    await put(bus, act(1), act(2))

    async with bridging("mqtt://127.0.0.1:1") as bridge:
        await until(lambda: bridge.handled is None)

    why = "the MQTT broker 127.0.0.1:1 cannot be reached: Connection refused"
    assert reports == [
        {"consumer": "mqtt", "waits": why},
        {"consumer": "mqtt", "waits": f"2 facts are left on the stream for the next run: {why}"},
    ]


async def test_a_broker_that_is_frozen_is_not_waited_for_long(
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, until: Any, monkeypatch: Any
) -> None:
    """A broker that holds the connection and acknowledges nothing does not hold up the end."""
    for name, seconds in (("PATIENCE_SECONDS", 0.2), ("LAST_SECONDS", 0.1)):
        monkeypatch.setattr(services, name, seconds)
    async with bridging(broker.url) as bridge:
        await until(lambda: last_status(hub))
        broker.freeze()
        await put(bus, act(1))

        assert bridge.handled == 0
        await until(lambda: bridge.handled is None)


async def test_what_waits_is_said_and_that_it_is_over(
    bus: MemoryBus, broker: Any, bridging: Bridging, until: Any, reports: list[dict[str, Any]]
) -> None:
    """The run hears why the broker is away, and once it is back."""
    broker.stop()
    async with bridging(broker.url):
        await until(lambda: reports)
        broker.start()
        await until(lambda: len(reports) == 2)

    assert "cannot be reached" in reports[0]["waits"]
    assert reports[1] == {"consumer": "mqtt", "waits": ""}


async def test_a_second_bridge_takes_over(
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, until: Any
) -> None:
    """Of two bridges on one stream the later one goes on, though only the elder has a broker, and the elder stops."""
    elder, younger = bridging(broker.url), bridging("mqtt://127.0.0.1:1")
    first = await elder.__aenter__()
    await until(lambda: first._tap is not None)

    async with younger as second:
        await until(lambda: second._tap is not None)
        await put(bus, act(1))
        await until(lambda: first._done == 1)
        with pytest.raises(FencedError):
            await elder.__aexit__(None, None, None)


async def test_what_the_stream_gave_up_is_counted(
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, until: Any
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
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, until: Any
) -> None:
    """A new bridge begins with the oldest fact that there is."""
    await put(bus, *(act(cycle) for cycle in range(1, 6)))
    await bus.trim(3)

    async with bridging(broker.url) as bridge:
        await until(lambda: bridge.handled == 5)

    assert ids(hub) == [act(cycle).id for cycle in (3, 4, 5)]
    assert bridge.tally.failures == 0


async def test_home_assistant_is_told(
    bus: MemoryBus, broker: Any, make_hub: Any, bridging: Bridging, act: Any, needs_changed: Any, until: Any
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
    bus: MemoryBus, broker: Any, make_hub: Any, bridging: Bridging, act: Any, until: Any
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
    bus: MemoryBus, broker: Any, hub: Any, bridging: Bridging, act: Any, until: Any
) -> None:
    """With edge.discovery none, facts and statuses are all there is."""
    async with bridging(broker.url, discovery=None) as bridge:
        await put(bus, act(1))
        await until(lambda: bridge.handled == 1)

    hub.level()
    assert hub.topics == {"conch/echo/status", "conch/echo/action/taken"}
