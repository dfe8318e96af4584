"""A connection to a broker that is made again, and what is said when it cannot be."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiomqtt
import pytest

from conch.config import Settings
from conch.retry import Backoff
from conch_services.mqtt import link as links
from conch_services.mqtt.link import BrokerLink
from conch_services.mqtt.wire import BrokerConnection, BrokerRefusalError
from tests.mqtt.conftest import Broker, Certificates, MakeBroker
from tests.serving import listening

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.mqtt.conftest import Hub, Line


class Ours:
    """A link with what it said, and a task that keeps it."""

    def __init__(self, url: str, **edge: Any) -> None:
        self.said: list[str] = []
        self.heard: list[tuple[str, bytes, bool]] = []
        self.wires: list[BrokerConnection] = []
        settings = Settings.model_validate({"edge": {"bridge": url, **edge}})
        will = aiomqtt.Will("t/will", b"gone", qos=1)
        self.link = BrokerLink(
            settings.edge,
            "test",
            will=will,
            heard=lambda *message: self.heard.append(message),
            report=self.said.append,
        )
        self.task = asyncio.create_task(self.link.keep(self._live))

    async def _live(self, wire: BrokerConnection) -> None:
        await wire.publish("t/here", b"")
        self.wires.append(wire)
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


@pytest.fixture
async def ours() -> AsyncIterator[Callable[..., Ours]]:
    """Links, closed at the end."""
    made: list[Ours] = []

    def make(url: str, **edge: Any) -> Ours:
        made.append(Ours(url, **edge))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_what_is_published_is_heard(broker: Broker, hub: Hub, ours: Callable[..., Ours], until: Until) -> None:
    """A message that the broker acknowledged is with those who listen, retained where asked for."""
    one = ours(broker.url)
    await until(lambda: one.wires)

    await one.wires[0].publish("t/kept", b"kept", retain=True)
    await one.wires[0].subscribe("t/#")

    await until(lambda: hub.payloads("t/kept"))
    await until(lambda: ("t/kept", b"kept", True) in one.heard)


async def test_a_connection_that_is_lost_is_made_again(broker: Broker, ours: Callable[..., Ours], until: Until) -> None:
    """When the broker dies whoever lives on the connection is cancelled, it is said, and begins on the next one."""
    one = ours(broker.url)
    await until(lambda: one.wires)

    broker.stop()
    await until(lambda: one.said)
    broker.start()
    await until(lambda: len(one.wires) == 2)

    assert f"127.0.0.1:{broker.port}" in one.said[0]
    assert one.said[-1] == ""
    assert one.link.connected


async def test_why_is_said_once(ours: Callable[..., Ours], until: Until, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is not there is said once, in one sentence, however often it is tried."""
    monkeypatch.setattr(links, "BROKER", Backoff((0.001,)))
    tried: list[None] = []
    why = BrokerLink._why
    monkeypatch.setattr(BrokerLink, "_why", lambda *args, **named: tried.append(None) or why(*args, **named))

    one = ours("mqtt://127.0.0.1:1")
    await until(lambda: len(tried) >= 3)

    assert one.said == ["the MQTT broker 127.0.0.1:1 cannot be reached: Connection refused"]


async def test_an_unknown_host(ours: Callable[..., Ours], until: Until) -> None:
    """A host that there is not is named."""
    one = ours("mqtt://no-such-host.invalid")

    await until(lambda: one.said)

    assert one.said[0].startswith("the MQTT broker no-such-host.invalid:1883: there is no such host (")


@pytest.fixture
def passwords(tmp_path: Path) -> str:
    """mosquitto.conf's line for a user `conch` with the password `a/b@c`."""
    salt = b"of the tests"
    digest = hashlib.pbkdf2_hmac("sha512", b"a/b@c", salt, 101)
    file = tmp_path / "passwords"
    file.write_text(f"conch:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n")
    return f"password_file {file}"


async def test_user_and_password(
    passwords: str, make_broker: MakeBroker, ours: Callable[..., Ours], until: Until
) -> None:
    """User and password are taken from the address, where they are percent-encoded, or from their own keys."""
    port = make_broker(passwords, "allow_anonymous false").port

    inside = ours(f"mqtt://conch:a%2Fb%40c@127.0.0.1:{port}")
    beside = ours(f"mqtt://127.0.0.1:{port}", user="conch", password="a/b@c")

    await until(lambda: inside.wires)
    await until(lambda: beside.wires)


async def test_a_wrong_password(
    passwords: str, make_broker: MakeBroker, ours: Callable[..., Ours], until: Until
) -> None:
    """A broker that does not let us in is said with the keys to look at, and without the password."""
    broker = make_broker(passwords, "allow_anonymous false")

    one = ours(broker.url, user="conch", password="wrong")
    await until(lambda: one.said)

    assert one.said[0] == (
        f"the MQTT broker 127.0.0.1:{broker.port} does not let us in: check edge.user and edge.password"
    )


@pytest.fixture
def secure(certificates: Certificates, make_broker: MakeBroker) -> Broker:
    """A broker that speaks TLS and asks for a client's certificate."""
    return make_broker(
        f"cafile {certificates.ca}",
        f"certfile {certificates.broker}",
        f"keyfile {certificates.broker_key}",
        "require_certificate true",
    )


async def test_tls(secure: Broker, certificates: Certificates, ours: Callable[..., Ours], until: Until) -> None:
    """With mqtts:// both sides show certificates."""
    own = {"certificate": str(certificates.client), "key": str(certificates.client_key)}

    one = ours(f"mqtts://127.0.0.1:{secure.port}", tls={"ca": str(certificates.ca), **own})

    await until(lambda: one.wires)


@pytest.mark.parametrize(
    ("host", "ca", "why"),
    [
        ("127.0.0.1", "stranger", "certificate verify failed|unable to get local issuer certificate|self.signed"),
        ("localhost", "ca", "Hostname mismatch"),
    ],
)
async def test_a_certificate_that_does_not_hold(
    secure: Broker, certificates: Certificates, ours: Callable[..., Ours], until: Until, host: str, ca: str, why: str
) -> None:
    """A certificate of somebody else, or for another host, is refused and said."""
    one = ours(f"mqtts://{host}:{secure.port}", tls={"ca": str(getattr(certificates, ca))})

    await until(lambda: one.said)

    [found] = one.said
    assert found.startswith(f"the MQTT broker {host}:{secure.port} shows a certificate that does not hold: ")
    assert re.search(why, found), found


async def test_a_certificate_of_ours_that_is_not_there(ours: Callable[..., Ours], until: Until) -> None:
    """A file of edge.tls that cannot be read is named, and tried again: certificates are renewed."""
    one = ours("mqtts://127.0.0.1:1", tls={"ca": "/nowhere/ca.pem"})

    await until(lambda: one.said)

    assert "edge.tls" in one.said[0]
    assert "/nowhere/ca.pem" in one.said[0]


async def test_plain_words_to_a_port_that_wants_tls(
    secure: Broker, ours: Callable[..., Ours], until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mqtt:// where mqtts:// is spoken is said so."""
    monkeypatch.setattr(links, "ANSWER_SECONDS", 0.2)

    one = ours(secure.url)
    await until(lambda: one.said)

    assert "edge.bridge must say mqtts://" in one.said[0]


@contextlib.asynccontextmanager
async def stub(*answers: bytes) -> AsyncIterator[str]:
    """A broker that says one thing to each connection in turn, the last again and again, and hangs up on b''."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        answer = left.pop(0) if len(left) > 1 else left[0]
        writer.write(answer)
        if answer.endswith(b"!"):
            writer.close()
        else:
            await reader.read()
            writer.close()

    async with listening(serve) as port:
        yield f"mqtt://127.0.0.1:{port}"


async def test_a_broker_that_hangs_up_after_its_welcome_counts_as_away(
    ours: Callable[..., Ours], until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection on which nothing was ever acknowledged is none, however often it is begun."""
    monkeypatch.setattr(links, "BROKER", Backoff((0.001,)))
    welcome = b"\x20\x03\x00\x00\x00"
    async with stub(welcome + b"!") as url:
        one = ours(url)

        await until(lambda: one.said)

        assert not one.link.connected
        assert one.said[0].endswith("is lost: the line broke")
        await one.close()


async def test_a_broker_of_mqtt_3(ours: Callable[..., Ours], until: Until, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that refuses MQTT 5 is spoken to in 3.1.1."""
    monkeypatch.setattr(links, "BROKER", Backoff((0.001,)))
    asked: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.read(1000))[8])  # the protocol's level in CONNECT
        if asked[-1] == 5:
            writer.write(b"\x20\x02\x00\x01")
        else:
            writer.write(b"\x20\x02\x00\x00")
            packet = await reader.read(1000)
            writer.write(b"\x40\x02" + packet[2 + 2 + 6 : 2 + 2 + 6 + 2])  # the id behind the topic t/here
            await reader.read()
        writer.close()

    async with listening(serve) as port:
        one = ours(f"mqtt://127.0.0.1:{port}")
        await until(lambda: one.wires)

        assert asked == [5, 4]
        await one.close()


async def test_no_more_is_on_the_wire_than_the_broker_takes(until: Until) -> None:
    """A broker that takes two messages at a time gets the third when it has acknowledged one."""
    packets: list[bytes] = []
    sent: list[asyncio.Future[None]] = []
    go_on = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(b"\x20\x06\x00\x00\x03\x21\x00\x02")  # its welcome, with a Receive Maximum of 2
        for number in (1, 2, 3):
            packets.append(await reader.readexactly(9))
            if number == 2:
                await go_on.wait()
                writer.write(b"\x40\x02\x00\x01\x40\x02\x00\x02")
        writer.write(b"\x40\x02\x00\x03")
        await reader.read()
        writer.close()

    async def live(wire: BrokerConnection) -> None:
        while len(sent) < 3:
            sent.append(await wire.send("t", b"x"))
        await sent[2]

    async with listening(serve) as port:
        edge = Settings.model_validate({"edge": {"bridge": f"mqtt://127.0.0.1:{port}"}}).edge
        link = asyncio.create_task(BrokerLink(edge, "test").keep(live))
        await until(lambda: len(packets) == 2)
        before = len(sent)
        go_on.set()
        await link

    assert (before, len(packets)) == (2, 3)


async def test_a_dead_line_is_noticed(
    line: Line, ours: Callable[..., Ours], until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is open and says nothing is given up after twice the keepalive, and made again."""
    monkeypatch.setattr(links, "KEEPALIVE_SECONDS", 1)
    one = ours(line.url)
    await until(lambda: one.wires)

    line.dead = True
    await until(lambda: one.said)

    assert one.said[0].endswith("is lost: the broker says nothing any more")


async def test_the_last_will_is_said_when_we_go_without_a_word(
    broker: Broker, hub: Hub, ours: Callable[..., Ours], until: Until
) -> None:
    """A link that is cancelled leaves its last will."""
    one = ours(broker.url)
    await until(lambda: one.wires)

    await one.close()

    await until(lambda: hub.payloads("t/will") == [b"gone"])


async def test_no_last_will_where_we_leave_in_order(broker: Broker, hub: Hub, until: Until) -> None:
    """A link whose life ends by itself closes the connection in order."""
    settings = Settings.model_validate({"edge": {"bridge": broker.url}})
    link = BrokerLink(settings.edge, "test", will=aiomqtt.Will("t/will", b"gone", qos=1))

    await link.keep(lambda wire: wire.publish("t/bye", b""))
    hub.say("t/behind", b"")
    await until(lambda: hub.payloads("t/behind"))

    assert hub.payloads("t/bye") == [b""]
    assert hub.payloads("t/will") == []


async def test_what_the_broker_does_not_allow(
    make_broker: MakeBroker, tmp_path: Path, ours: Callable[..., Ours], until: Until
) -> None:
    """What the broker's rules forbid is refused, alone: the next message goes through."""
    (tmp_path / "acl").write_text("topic readwrite t/#\n")
    one = ours(make_broker(f"acl_file {tmp_path / 'acl'}").url)
    await until(lambda: one.wires)

    with pytest.raises(BrokerRefusalError) as refused:
        await one.wires[0].publish("secret/door", b"open")
    await one.wires[0].publish("t/door", b"open")

    assert refused.value.forbidden


async def test_what_is_too_large_for_the_broker(
    make_broker: MakeBroker, ours: Callable[..., Ours], until: Until
) -> None:
    """What the broker says is too large is not sent, and refused alone."""
    one = ours(make_broker("max_packet_size 2000").url)
    await until(lambda: one.wires)

    with pytest.raises(BrokerRefusalError, match="the broker takes 2000"):
        await one.wires[0].publish("t/large", bytes(3000))
    await one.wires[0].publish("t/small", bytes(1000))
