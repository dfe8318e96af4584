"""From facts on the bus to a collector over OTLP/HTTP, decoded there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import shared_subscription
from conch.bus.memory import MemoryBus
from conch.config import Settings
from conch.config.load import read
from conch.consumer import Service, ServiceContext
from conch.consumer.plugins.builtin import builtin_services, wanted_builtin
from conch.errors import ConfigError, UsageError
from conch.home import Home
from conch.processes.messages import ConsumerWaits
from conch_schemas import trace_of
from conch_services.otel import otel_service
from conch_services.otel import service as module
from tests.otel.conftest import SECRET, UID, Collector, Running, attributes, cycle_facts, publish, reward

if TYPE_CHECKING:
    from tests.conftest import Until


async def test_a_cycle_is_one_trace(bus: MemoryBus, running: Running, collector: Collector) -> None:
    """The agent's invocation holds the three questions to its mind and the tool's run, with times, tokens and names;
    trace and spans are the facts' own."""
    facts = cycle_facts()
    async with running(collector.address):
        await publish(bus, facts)

    spans = collector.spans
    assert [span.name for span in spans] == [
        "invoke_agent echo", "chat m-1", "chat m-1", "execute_tool shell", "chat m-1"
    ]  # fmt: skip
    root, think, decide, tool, reflect = spans
    assert {span.trace_id.hex() for span in spans} == {trace_of(str(facts[0].action_id))}
    assert root.parent_span_id == b""
    assert {span.parent_span_id for span in spans[1:]} == {root.span_id}
    own = [str(fact.traceparent).split("-")[2] for fact in facts]
    assert [one.span_id.hex() for one in (think, decide, root, reflect)] == own
    noon = root.start_time_unix_nano
    assert [((one.start_time_unix_nano - noon) / 1e9, (one.end_time_unix_nano - noon) / 1e9) for one in spans] == [
        (0.0, 4.5), (0.0, 1.0), (1.0, 3.0), (3.0, 3.5), (3.5, 4.5)
    ]  # fmt: skip
    assert attributes(root) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "echo",
        "gen_ai.agent.id": UID,
        "gen_ai.conversation.id": UID,
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 111,
        "gen_ai.usage.output_tokens": 222,
        "conch.action.id": facts[0].action_id,
        "conch.action.kind": "TOOL",
        "conch.cycle": 1,
        "conch.outcome": "success",
        "conch.policy": "p1",
    }
    told = attributes(decide)
    assert (told["gen_ai.operation.name"], told["gen_ai.request.model"]) == ("chat", "m-1")
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (100, 200)
    assert told["gen_ai.response.finish_reasons"] == ["stop"]
    assert [attributes(one)["conch.phase"] for one in (think, decide, reflect)] == ["think", "decide", "reflect"]
    told = attributes(tool)
    assert (told["gen_ai.operation.name"], told["gen_ai.tool.name"]) == ("execute_tool", "shell")
    assert told["gen_ai.tool.call.id"] == facts[0].action_id


async def test_each_score_is_an_event_on_its_cycle(bus: MemoryBus, running: Running, collector: Collector) -> None:
    """Also one that comes when the cycle is long over; what could not be scored has no value."""
    facts = cycle_facts()
    async with running(collector.address):
        await publish(bus, [*facts, reward(facts[2], format=0.5, execution=-0.25, goal=None)])
        await publish(bus, [*cycle_facts(2), reward(facts[2], "human", late=0.0)])

    events = {attributes(one)["gen_ai.evaluation.name"]: one for one in collector.events}
    whole = next(span for span in collector.spans if span.name == "invoke_agent echo")
    assert {one.event_name for one in events.values()} == {"gen_ai.evaluation.result"}
    assert {(one.trace_id, one.span_id) for one in events.values()} == {(whole.trace_id, whole.span_id)}
    labels = {name: attributes(one)["gen_ai.evaluation.score.label"] for name, one in events.items()}
    assert labels == {"format": "gained", "execution": "lost", "goal": "error", "late": "neutral"}
    values = {name: attributes(one).get("gen_ai.evaluation.score.value") for name, one in events.items()}
    assert values == {"format": 0.5, "execution": -0.25, "goal": None, "late": 0.0}
    assert attributes(events["goal"])["error.type"] == "error"


async def test_what_was_said_stays_here_unless_asked_for(
    bus: MemoryBus, running: Running, collector: Collector
) -> None:
    """No prompt, reply, argument, output or word of a scorer leaves by default; all of them do with `otel.content`."""
    facts = cycle_facts()
    facts.append(reward(facts[2], format=0.5))
    async with running(collector.address):
        await publish(bus, facts)
    assert SECRET not in str(collector.received)
    collector.received.clear()

    async with running(collector.address, content=True):
        await publish(bus, facts)

    _, think, decide, tool, reflect = (attributes(one) for one in collector.spans)
    said = [{"role": "assistant", "parts": [{"type": "text", "content": SECRET}]}]
    assert [json.loads(one["gen_ai.output.messages"]) for one in (think, decide, reflect)] == [said] * 3
    assert json.loads(decide["gen_ai.input.messages"])[0]["role"] == "user"
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"command": SECRET}
    assert tool["gen_ai.tool.call.result"] == SECRET
    assert attributes(collector.events[0])["gen_ai.evaluation.explanation"] == SECRET


async def test_a_fact_that_comes_twice_is_told_once(bus: MemoryBus, running: Running, collector: Collector) -> None:
    """A repetition that the server has forgotten brings nothing, and a second service the same ids."""
    facts = cycle_facts()
    facts.append(reward(facts[2], format=0.5))
    async with running(collector.address) as first, running(collector.address):
        await publish(bus, [*facts, *facts])

    assert first.tally.duplicates == len(facts)
    assert (len(collector.received), len(collector.spans), len(collector.events)) == (12, 5, 1)


async def test_a_tool_that_failed_is_an_error(bus: MemoryBus, running: Running, collector: Collector) -> None:
    """The span says so by its status; what no mind was asked for is no chat."""
    async with running(collector.address):
        await publish(bus, cycle_facts(status="timeout", reflection=""))

    [tool] = [span for span in collector.spans if span.name.startswith("execute_tool")]
    assert (tool.status.code, attributes(tool)["error.type"]) == (2, "timeout")
    assert sum(span.name == "chat m-1" for span in collector.spans) == 2


async def test_an_endpoint_that_is_away_is_waited_for(bus: MemoryBus, running: Running, until: Until) -> None:
    """What came meanwhile is sent once it is back; the run is told that it waits, and then that it does not."""
    gone = Collector()
    gone.close()
    said: list[Any] = []
    async with running(gone.address, said.append):
        await publish(bus, cycle_facts())
        await until(lambda: said)
        back = Collector(gone.port)
        try:
            await until(lambda: len(back.spans) == 5)
            await until(lambda: said[-1] == ConsumerWaits(consumer="otel", why=""))
        finally:
            back.close()

    assert said[0].why.startswith(f"no answer from {gone.address}/v1/traces (ConnectionError)")


async def test_what_does_not_fit_is_dropped_and_counted(
    bus: MemoryBus, running: Running, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest first, with a number that the run is told; the newest is sent when the endpoint is back."""
    monkeypatch.setattr(module, "QUEUE_BYTES", 3000)
    gone = Collector()
    gone.close()
    said: list[Any] = []
    async with running(gone.address, said.append) as service:
        for cycle in range(20):
            await publish(bus, cycle_facts(cycle))
        await until(lambda: service.tally.failures > 80)
        await until(lambda: said and f"{service.tally.failures} spans and scores dropped" in said[-1].why)
        back = Collector(gone.port)
        try:
            await until(lambda: any(attributes(span)["conch.cycle"] == 19 for span in back.spans))
        finally:
            back.close()

    assert service.tally.handled == 80
    assert service.tally.failures + len(back.spans) == 100


async def test_what_is_refused_is_not_sent_again(
    bus: MemoryBus, running: Running, collector: Collector, until: Until
) -> None:
    """It is counted and noted once; what comes later goes out as ever."""
    said: list[Any] = []
    collector.status = 401
    async with running(collector.address, said.append) as service:
        await publish(bus, cycle_facts(1))
        await until(lambda: service.tally.failures == 5)
        collector.status = 200
        await publish(bus, cycle_facts(2))

    assert {attributes(span)["conch.cycle"] for span in collector.spans} == {2}
    assert {line.note for line in said} == {
        f"{collector.address}/v1/traces answers 401 Unauthorized: what it refuses is not sent again"
    }


async def test_the_end_does_not_wait_for_an_endpoint_that_is_away(
    bus: MemoryBus, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor for a request that is tried again: the service ends while that goes on."""
    monkeypatch.setattr(module, "SEND_SECONDS", 60.0)
    monkeypatch.setattr(module, "LAST_SECONDS", 60.0)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    gone = Collector()
    gone.close()

    async with running(gone.address) as service:
        await publish(bus, cycle_facts())

    assert service.tally.handled == 4


async def test_headers_go_with_every_request(bus: MemoryBus, running: Running, collector: Collector) -> None:
    """As the settings say them, to both kinds of signal."""
    facts = cycle_facts()
    async with running(collector.address, headers={"X-Key": "k3y"}):
        await publish(bus, [*facts, reward(facts[2], format=0.5)])

    assert {path for path, _ in collector.requests} == {"/v1/traces", "/v1/logs"}
    assert {headers["x-key"] for _, headers in collector.requests} == {"k3y"}


async def test_nobody_waits_for_it(bus: MemoryBus, running: Running, collector: Collector) -> None:
    """It keeps no place on the bus, begins at its end and holds up no run."""
    await publish(bus, cycle_facts(1))
    async with running(collector.address) as service:
        await publish(bus, [*cycle_facts(2)])
        assert await bus.readers() == []

    assert (service.handled, service.busy, await bus.keys()) == (None, False, [])
    assert {attributes(span)["conch.cycle"] for span in collector.spans} == {2}


async def test_cancelled_it_lets_go_at_once(bus: MemoryBus, tmp_path: Path, collector: Collector) -> None:
    """No task stays."""
    service: Service = otel_service(
        ServiceContext(Settings.model_validate({"otel": {"endpoint": collector.address}}), tmp_path)
    )
    async with shared_subscription(bus) as shared_events:
        task = asyncio.create_task(service.run(shared_events, asyncio.Event()))
        await service.started.wait()  # type: ignore[attr-defined]
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled()
    assert len(asyncio.all_tasks()) == 1


def test_it_is_hosted_where_an_endpoint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the settings, or by OpenTelemetry's own variable unless that is switched off; nowhere else."""
    home = Home(tmp_path)
    assert "otel" not in wanted_builtin(Settings(), ())
    with pytest.raises(UsageError, match=r"otel\.endpoint names no OTLP endpoint"):
        builtin_services(["otel"])["otel"](ServiceContext(Settings(), tmp_path))

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    found = read(None, home, {})
    assert "otel" in wanted_builtin(found.settings, ())
    assert found.origins()["otel.endpoint"] == "environment OTEL_EXPORTER_OTLP_ENDPOINT"
    monkeypatch.setenv("CONCH_OTEL__ENDPOINT", "https://other/otlp")
    assert read(None, home, {}).settings.otel.endpoint == "https://other/otlp"
    monkeypatch.delenv("CONCH_OTEL__ENDPOINT")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert read(None, home, {}).settings.otel.endpoint is None


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("CONCH_OTEL__ENDPOINT", "collector:4318", "otel.endpoint"),
        ("CONCH_OTEL__HEADERS", '{"Authorization": "se\\ncret"}', "otel.headers"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "otel.endpoint"),
    ],
)
def test_what_cannot_be_an_endpoint_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    """With the variable that says it and the key, and never the value of a header."""
    monkeypatch.setenv(variable, value)

    with pytest.raises(ConfigError, match=rf"environment {variable}: {words}") as caught:
        read(None, Home(tmp_path), {})

    assert "secret" not in str(caught.value)
    assert "cret" not in str(caught.value).replace("Secret", "")
