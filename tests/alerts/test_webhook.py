"""The webhook that is told at the ceiling of a budget, over a real HTTP server of the test's own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus, shared_subscription
from conch.config import Settings
from conch.consumer import ConsumerRuntime, ConsumerSpec
from conch.consumer.plugins.builtin import builtin_services, wanted_builtin
from conch.consumer.services import ServiceContext
from conch.retry import Backoff
from conch_schemas import AlarmRaised, BudgetReached, ConsumerFailed, Event, decode, encode, subject_of
from conch_services.alerts import webhook as webhook_module
from conch_services.alerts.webhook import Webhook, WebhookError, signed
from tests.serving import listening
from tests.training.lives import LineageLife

if TYPE_CHECKING:
    from tests.conftest import Until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))


class Receiver:
    """An HTTP server that replies by its plan: a status, "hang" or a redirect; 204 when the plan is used up."""

    def __init__(self) -> None:
        self.plan: list[int | str] = []
        self.posts: list[tuple[str, dict[str, str], bytes]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/alerts/of-echo"

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        self.posts.append((first, headers, await reader.readexactly(int(headers["content-length"]))))
        reply = self.plan.pop(0) if self.plan else 204
        if reply == "hang":
            await asyncio.Event().wait()
        status = reply if isinstance(reply, int) else 307
        location = "" if isinstance(reply, int) else f"location: {reply}\r\n"
        writer.write(f"HTTP/1.1 {status} x\r\n{location}content-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    async with listening(made.serve) as made.port:
        yield made


def reached(number: int = 0, age: timedelta = timedelta(), **data: Any) -> BudgetReached:
    said = {"budget": "acts_per_hour", "limit": 3.0, "used": 3.0, "why": "3 of 3 acts"} | data
    return BudgetReached.model_validate(
        {"id": f"reached-{number}", "source": "conch/echo/u", "agent": "echo", "time": datetime.now(UTC) - age} | said
    )


@asynccontextmanager
async def alerting(bus: MemoryBus, url: str) -> AsyncIterator[ConsumerRuntime]:
    """The consumer runs with its own number of tries, and next to no wait between them."""
    settings = Settings.model_validate({"alerts": {"webhook": url, "secret": SECRET}})
    assert "alerts" in wanted_builtin(settings, ())
    spec = builtin_services(["alerts"])["alerts"](ServiceContext(settings, Path("/")))
    assert isinstance(spec, ConsumerSpec)
    async with shared_subscription(bus) as shared_events:
        runtime, stop = ConsumerRuntime(shared_events, spec, backoff=Backoff((0.001,))), asyncio.Event()
        running = asyncio.create_task(runtime.run(stop))
        yield runtime
        stop.set()
        await running


async def put(bus: MemoryBus, *events: Event) -> None:
    for event in events:
        await bus.publish(subject_of(event), encode(event), id=event.id)


def failures(bus: MemoryBus) -> list[ConsumerFailed]:
    found = (decode(one.data) for one in bus.journal.events.values() if one.subject.endswith("consumer.failed"))
    return [one for one in found if isinstance(one, ConsumerFailed)]


async def test_a_ceiling_is_posted_once_and_signed(receiver: Receiver, until: Until) -> None:
    """Type, time and data in the body; id, time and signature as the specification has them."""
    async with MemoryBus() as bus, alerting(bus, receiver.url) as runtime:
        await put(bus, reached(until="2026-11-24T00:00:00Z"))
        await until(lambda: runtime.tally.handled == 1)

    [(first, headers, body)] = receiver.posts
    assert first == "POST /alerts/of-echo HTTP/1.1"
    said = json.loads(body)
    assert said["type"] == "budget.reached"
    assert said["data"] == {
        "agent": "echo", "budget": "acts_per_hour", "limit": 3.0, "used": 3.0, "until": "2026-11-24T00:00:00Z",
        "why": "3 of 3 acts",
    }  # fmt: skip
    assert headers["webhook-id"] == "reached-0"
    content = f"reached-0.{headers['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(KEY, content, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{mac}"


async def test_failed_rounds_and_rollbacks_are_posted(receiver: Receiver, until: Until) -> None:
    """A round that is tried again is none, nor a rollback that a person asked for."""
    life = LineageLife(begun=datetime.now(UTC))
    failed, back = life.failed(3)[-1], life.rolled_back(4, 1, move=3)
    again = failed.model_copy(update={"id": "again", "again": True})
    asked = back.model_copy(update={"id": "asked", "trigger": "person"})
    async with MemoryBus() as bus, alerting(bus, receiver.url) as runtime:
        await put(bus, again, asked, failed, back)
        await until(lambda: runtime.tally.handled == 4)

    said = [json.loads(body) for *_, body in receiver.posts]
    assert [one["type"] for one in said] == ["training.failed", "adapter.rolled_back"]
    assert "memory limit" in said[0]["data"]["why"]
    assert said[1]["data"]["trigger"] == "worse"


def test_the_signature_is_that_of_the_specification() -> None:
    """The example that the specification's own libraries are tested with."""
    headers = signed(KEY, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_failing_receiver_is_tried_a_bounded_number_of_times(receiver: Receiver, until: Until) -> None:
    """Each try has the same id; after the last one it is a dead letter, and the next alert is posted."""
    receiver.plan = [500, 503]
    async with MemoryBus() as bus, alerting(bus, receiver.url) as runtime:
        await put(bus, reached())
        await until(lambda: runtime.tally.handled == 1)
        assert [headers["webhook-id"] for _, headers, _ in receiver.posts] == ["reached-0"] * 3

        receiver.plan = [500] * 5
        await put(bus, reached(1), reached(2))
        await until(lambda: runtime.tally.handled == 2)
        [failed] = failures(bus)
    assert (failed.tries, failed.reason) == (
        5, "WebhookError: 127.0.0.1 did not take the alert: HTTP 500 (alerts.webhook)",
    )  # fmt: skip
    assert receiver.posts[-1][1]["webhook-id"] == "reached-2"


async def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    """The alert goes to the address of the settings and no other."""
    elsewhere = Receiver()
    async with listening(elsewhere.serve) as elsewhere.port:
        receiver.plan = [elsewhere.url]
        one = Webhook(receiver.url, KEY)
        with pytest.raises(WebhookError, match=r"redirects \(HTTP 307\), which is not followed"):
            await one.post("a", {})
        await one.close()
    assert elsewhere.posts == []


async def test_a_receiver_that_hangs_or_is_away_ends_in_a_sentence(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the time of a request; the sentence names the host, and not the path, which may be a secret."""
    monkeypatch.setattr(webhook_module, "REQUEST_SECONDS", 0.2)
    receiver.plan = ["hang"]
    one = Webhook(receiver.url, KEY)
    with pytest.raises(WebhookError, match=r"^127.0.0.1 did not reply within 0.2 s \(alerts.webhook\)$"):
        await one.post("a", {})
    await one.close()
    away = Webhook("http://127.0.0.1:9/of-echo", KEY)
    with pytest.raises(WebhookError, match=r"^127.0.0.1 cannot be reached: \w+ \(alerts.webhook\)$"):
        await away.post("a", {})
    await away.close()


async def test_old_ceilings_and_alarms_that_end_are_no_alerts(receiver: Receiver, until: Until) -> None:
    """A webhook that is set today is not told of yesterday. An alarm that begins is posted."""
    alarm = {"alarm": "collapse", "value": 0.05, "threshold": 0.1, "window": 50, "what": "it hardly varies"}
    envelope = {"source": "conch/echo/u", "agent": "echo"} | alarm
    async with MemoryBus() as bus, alerting(bus, receiver.url) as runtime:
        await put(
            bus,
            reached(age=timedelta(hours=2)),
            AlarmRaised.model_validate({"id": "ends", "active": False} | envelope),
            AlarmRaised.model_validate({"id": "begins", "active": True} | envelope),
        )
        await until(lambda: runtime.tally.handled == 3)

    assert [json.loads(body)["data"]["what"] for _, _, body in receiver.posts] == ["it hardly varies"]


@pytest.mark.parametrize(
    ("alerts", "wrong"),
    [
        ({"webhook": "https://example.org"}, r"alerts\.webhook needs alerts\.secret"),
        ({"webhook": "https://example.org", "secret": "short"}, "it has 5 bytes, 24 to 64 are needed"),
        ({"webhook": "https://example.org", "secret": "whsec_%%%"}, "secret"),
        ({"webhook": "file:///etc/passwd", "secret": SECRET}, "webhook"),
    ],
)
def test_a_webhook_that_cannot_be_used_is_refused(alerts: dict[str, str], wrong: str) -> None:
    """No alert goes unsigned, or with a key that is guessed in a moment."""
    with pytest.raises(ValueError, match=wrong):
        Settings.model_validate({"alerts": alerts})
