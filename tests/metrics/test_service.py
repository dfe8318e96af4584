"""The service: from facts on the bus to a scrape over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

from conch.bus import shared_subscription
from conch.bus.memory import MemoryBus
from conch.config import Settings
from conch.consumer import Service, ServiceContext
from conch.consumer.group.lag import report_position
from conch.consumer.runtime.output import ConsumerCounts
from conch.errors import ConchError
from conch_schemas import ActionTaken, encode, subject_of
from conch_services.metrics import metrics_service
from conch_services.metrics import service as module
from conch_services.metrics.instruments import Instruments
from conch_services.metrics.service import MetricsService
from tests.metrics.conftest import Running, counted, make_act, make_experience, part, publish

if TYPE_CHECKING:
    from tests.conftest import Until


async def _get(service: MetricsService, path: str, accept: str = "*/*") -> httpx2.Response:
    async with httpx2.AsyncClient() as client:
        return await client.get(f"{service.address}{path}", headers={"Accept": accept})


async def _sample(service: MetricsService, name: str, **labels: str) -> float | None:
    """A sample of a scrape, read by prometheus-client's own parser."""
    families = read_plain((await _get(service, "/metrics")).text)
    found = [s.value for family in families for s in family.samples if (s.name, s.labels) == (name, labels)]
    return found[0] if found else None


async def test_what_happens_on_the_bus_can_be_scraped(bus: MemoryBus, running: Running) -> None:
    """From the stream to a scraper over HTTP; what was published before the start is not counted."""
    await publish(bus, make_act(cycle=1))

    async with running() as service:
        await publish(bus, make_act(cycle=2), make_experience(part("format", 0.5), cycle=2))
        await counted(service, 2)

        labels = {"agent": "echo", "kind": "TOOL", "outcome": "success"}
        assert await _sample(service, "conch_cycles_total", **labels) == 1
        assert await _sample(service, "conch_reward_gained_total", component="format") == 0.5


async def test_openmetrics_is_spoken_when_asked_for(bus: MemoryBus, running: Running) -> None:
    """With Prometheus's own header; the strict parser takes every line, exemplars too."""
    accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3"
    async with running() as service:
        act = make_act(cycle=2)
        await publish(bus, act, make_experience(part("format", -1.0), cycle=2))
        await counted(service, 2)
        await publish(bus, act)

        reply = await _get(service, "/metrics", accept)

    families = {family.name: family for family in read_openmetrics(reply.text)}
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert families["conch_build"].samples[0].labels["version"]
    exemplars = [sample.exemplar for sample in families["conch_cycles"].samples if sample.exemplar]
    assert [exemplar.labels["action_id"] for exemplar in exemplars] == [act.action_id]


async def test_plain_text_is_the_default(running: Running) -> None:
    """For a browser, curl, and every older scraper."""
    async with running() as service:
        reply = await _get(service, "/metrics")

    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_every_metric_keeps_to_the_naming_rules(bus: MemoryBus, running: Running) -> None:
    """`conch_<thing>`; what ends in _total is a counter and every counter ends so."""
    async with running() as service:
        await publish(bus, make_act(), make_experience(part("format", 0.5)))
        await counted(service, 2)

        text = (await _get(service, "/metrics")).text

    types = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE "))
    assert all(name.startswith("conch_") for name in types)
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in types.items())


async def test_an_event_that_comes_twice_is_counted_once(bus: MemoryBus, running: Running) -> None:
    """A repetition that the server has forgotten is a duplicate, and shown as one."""
    async with running() as service:
        act = make_act()
        await publish(bus, act, act, act)
        await counted(service, 3)

        labels = {"agent": "echo", "kind": "TOOL", "outcome": "success"}
        assert await _sample(service, "conch_cycles_total", **labels) == 1
        assert await _sample(service, "conch_duplicates_total", consumer="metrics") == 2


async def test_what_is_no_event_is_passed_over(bus: MemoryBus, running: Running) -> None:
    """Noise, a fact of a later version, and one on another's subject count for nothing and stop nothing."""
    later = json.loads(encode(make_act(cycle=1))) | {"type": "conch.v2.action.taken"}
    async with running() as service:
        await bus.publish("conch.v1.echo.action.taken", b"\xff\x00[[[", id="1")
        await bus.publish("conch.v1.echo.action.taken", json.dumps(later).encode(), id="2")
        await bus.publish("conch.v1.two.action.taken", encode(make_act(cycle=2, agent="echo")), id="3")
        await publish(bus, make_act(cycle=3))
        await counted(service, 1)

        assert await _sample(service, "conch_events_total", type="action.taken") == 1


async def test_the_lag_of_consumers_is_shown(
    bus: MemoryBus, running: Running, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits behind their places, from the first scrape on and again and again; and who holds up the trimming."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.005)
    await publish(bus, make_act(cycle=1), make_act(cycle=2))
    await report_position(bus, "joy", [ActionTaken], 0)
    async with running(bus={"keep": {"gib": 1e-9}}) as metrics:
        assert await _sample(metrics, "conch_consumer_pending_messages", consumer="joy") == 2
        assert await _sample(metrics, "conch_bus_keep_blocked_events", consumer="joy") == 2

        await report_position(bus, "joy", [ActionTaken], 1)

        async def shown(name: str, value: float) -> bool:
            return await _sample(metrics, name, consumer="joy") == value

        await until(lambda: shown("conch_consumer_pending_messages", 1))
        await until(lambda: shown("conch_bus_keep_blocked_events", 1))


async def test_duplicates_of_the_hosts_consumers_are_read_at_the_scrape(running: Running) -> None:
    """The host says what its consumers counted; the service asks when it is asked."""
    tally = ConsumerCounts()
    async with running() as service:
        service.tallies = lambda: {"joy": tally}
        tally.duplicates = 5

        assert await _sample(service, "conch_duplicates_total", consumer="joy") == 5


async def test_health_says_nothing_but_that(bus: MemoryBus, running: Running) -> None:
    """Alive, and ready as long as the bus answers."""
    async with running() as service:
        assert (await _get(service, "/healthz")).text == "ok\n"
        assert (await _get(service, "/readyz")).status_code == 200
        assert (await _get(service, "/")).status_code == 404

        await bus.__aexit__()

        assert (await _get(service, "/readyz")).status_code == 503
        assert (await _get(service, "/healthz")).status_code == 200


async def test_a_slow_scrape_holds_up_neither_the_counting_nor_the_health(
    bus: MemoryBus, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made in a thread; meanwhile events are counted and probes answered."""
    begun, let_go = threading.Event(), threading.Event()

    def slow(self: Instruments, *, openmetrics: bool) -> bytes:
        begun.set()
        assert let_go.wait(60)
        return b"slow\n"

    monkeypatch.setattr(Instruments, "text", slow)
    async with running() as service:
        scrape = asyncio.create_task(_get(service, "/metrics"))
        try:
            await asyncio.to_thread(begun.wait, 60)
            await publish(bus, make_act())
            await counted(service, 1)
            assert (await _get(service, "/readyz")).text == "ready\n"
            assert not scrape.done()
        finally:
            let_go.set()
        assert (await scrape).text == "slow\n"


async def test_a_scrape_is_answered_while_the_consumers_loop_stands_still(running: Running) -> None:
    """A consumer that blocks it is found in the metrics; the probe of health waits for the loop."""
    async with running() as service:
        with urllib.request.urlopen(f"{service.address}/metrics", timeout=30) as told:  # blocks this loop
            assert b"conch_build_info" in told.read()
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(f"{service.address}/healthz", timeout=0.2)


async def test_nothing_on_the_bus_remembers_it(bus: MemoryBus, running: Running) -> None:
    """It holds up no trimming, nobody waits for it, and it begins anew with the process."""
    async with running() as service:
        await publish(bus, make_act())
        await counted(service, 1)

        assert await bus.readers() == []

    assert await bus.keys() == []
    assert service.busy is False
    assert service.handled is None


async def test_two_count_the_same_bus_side_by_side(bus: MemoryBus, running: Running) -> None:
    """Neither takes anything from the other."""
    async with running() as first, running() as second:
        await publish(bus, make_act())
        await counted(first, 1)
        await counted(second, 1)


async def test_a_named_port_that_is_taken_ends_the_service_before_it_reads(bus: MemoryBus, tmp_path: Path) -> None:
    """A sentence and exit code 1, no reader left behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings.model_validate({"metrics": {"port": taken.getsockname()[1]}})
        service = metrics_service(ServiceContext(settings, tmp_path))

        with pytest.raises(ConchError, match="is taken: name another one for the metrics") as caught:
            async with shared_subscription(bus) as shared_events:
                await service.run(shared_events, asyncio.Event())

    assert caught.value.exit_code == 1
    assert service.address is None
    assert await bus.readers() == []


async def test_the_usual_port_gives_way_when_it_is_taken(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is named, the usual one; taken, a free one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        usual = probe.getsockname()[1]
    monkeypatch.setattr(module, "METRICS_PORT", usual)

    async with running(port=None) as first, running(port=None) as second:
        assert first.address == f"http://127.0.0.1:{usual}"
        assert second.address not in (None, first.address)
        assert (await _get(second, "/healthz")).status_code == 200


async def test_other_machines_are_served_where_that_is_said(running: Running) -> None:
    """`metrics.host` names the address; without it nobody else comes in."""
    async with running(metrics={"host": "0.0.0.0", "port": 0}) as open_, running() as usual:
        assert (open_.address or "").startswith("http://0.0.0.0:")
        assert (usual.address or "").startswith("http://127.0.0.1:")


async def test_a_page_elsewhere_whose_name_leads_here_reads_no_figures(running: Running) -> None:
    """It names itself in Host; where other machines are let in, a scraper goes by the name of a service."""
    async with (
        running() as usual,
        running(metrics={"host": "0.0.0.0", "port": 0}) as open_,
        httpx2.AsyncClient() as web,
    ):
        for path in ("/metrics", "/healthz", "/readyz", "/"):
            told = await web.get(f"{usual.address}{path}", headers={"host": "evil.example:9464"})
            assert (told.status_code, "conch" in told.text) == (421, False), path
        by_name = await web.get(f"{open_.address}/metrics", headers={"host": "metrics:9464"})

    assert (by_name.status_code, "conch_" in by_name.text) == (200, True)


async def test_cancelled_it_lets_go_at_once(bus: MemoryBus, tmp_path: Path) -> None:
    """Port and connections are closed; no task stays."""
    service = metrics_service(ServiceContext(Settings.model_validate({"metrics": {"port": 0}}), tmp_path))
    async with shared_subscription(bus) as shared_events:
        task = asyncio.create_task(service.run(shared_events, asyncio.Event()))
        await service.started.wait()

        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    assert task.cancelled()
    assert {other.get_name() for other in asyncio.all_tasks()} == {asyncio.current_task().get_name()}  # type: ignore[union-attr]
    with pytest.raises(httpx2.ConnectError):
        await _get(service, "/healthz")


def test_it_is_a_service(tmp_path: Path) -> None:
    """The host runs it as it runs every other."""
    service: Service = metrics_service(ServiceContext(Settings(), tmp_path))

    assert service.name == "metrics"


def test_subjects_agree() -> None:
    """The facts made here stand where the service looks."""
    assert subject_of(make_act()) == "conch.v1.echo.action.taken"
