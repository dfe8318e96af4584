"""The embedded server's own MQTT listener: everything is heard there, and nothing can be said."""

from __future__ import annotations

import contextlib
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiomqtt
import nats.errors
import pytest

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.mqtt_listener import LISTENER, OWNER, MqttListener
from conch.bus.server import EmbeddedServer
from conch.errors import BusError, ConchError

TOKEN = "a-token-of-the-tests"
SUBJECT, TOPIC = "conch.v1.echo.action.taken", "conch/v1/echo/action/taken"


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[EmbeddedServer]]]:
    """A started server with a listener."""
    servers: list[EmbeddedServer] = []

    async def start(host: str = "127.0.0.1", port: int = 0, password: str | None = None) -> EmbeddedServer:
        listener = MqttListener(host, port, password)
        server = EmbeddedServer(
            tmp_path / f"nats-{len(servers)}", token=TOKEN, strict=False, max_bytes=2**30, listener=listener
        )
        servers.append(server)
        await server.start()
        return server

    yield start
    for server in servers:
        await server.stop()


def client(server: EmbeddedServer, user: str | None = None, password: str | None = None) -> aiomqtt.Client:
    assert server.listener is not None
    return aiomqtt.Client(server.listener.host, server.listener.port, username=user, password=password, timeout=5)


async def test_whoever_listens_hears_the_facts(listening: Callable[..., Awaitable[EmbeddedServer]]) -> None:
    """As they were published, on a topic of the subject's words, at QoS 0 whatever was asked for."""
    server = await listening()

    async with client(server) as hub, JetStreamBus(server.access) as bus:
        await hub.subscribe("conch/v1/#", qos=1)
        await bus.publish(SUBJECT, b'{"a": 1}', id="1")
        message = await anext(hub.messages)

    assert (str(message.topic), message.payload, message.qos) == (TOPIC, b'{"a": 1}', 0)


async def test_nobody_can_forge_a_fact_there(listening: Callable[..., Awaitable[EmbeddedServer]]) -> None:
    """What an MQTT client publishes reaches neither the stream nor anybody who answers requests."""
    server = await listening()
    asked: list[bytes] = []

    async def answer(_: str, data: bytes) -> bytes:
        asked.append(data)
        return b"{}"

    async with client(server) as hub, JetStreamBus(server.access) as bus, bus.serve("conch.ctl.echo.*", answer):
        for topic in (TOPIC, "conch/ctl/echo/stop", "$JS/API/STREAM/DELETE/CONCH", "$KV/conch/home"):
            await hub.publish(topic, b"forged", qos=1)
        stored = await bus.publish(SUBJECT, b"{}", id="1")
        await bus.request("conch.ctl.echo.status", b"own", timeout=5)

    assert (stored.seq, asked) == (1, [b"own"])


@pytest.mark.parametrize("filter", ["#", "conch/#", "conch/ctl/#", "$KV/#", "_INBOX/#", "$JS/#"])
async def test_nothing_but_facts_is_heard_there(
    listening: Callable[..., Awaitable[EmbeddedServer]], filter: str
) -> None:
    """Requests, states and the server's own messages are nobody's business."""
    server = await listening()

    async with client(server) as hub:
        [granted] = await hub.subscribe(filter)

    assert granted.value >= 128


async def test_each_user_comes_in_by_its_own_door(listening: Callable[..., Awaitable[EmbeddedServer]]) -> None:
    """With a password only who has it; Conch's own user is none of MQTT's, and MQTT's is none of the bus's."""
    server = await listening(password='secr"é t')

    async with client(server, LISTENER, 'secr"é t'):
        pass
    for user, password in ((None, None), (LISTENER, "wrong"), (OWNER, TOKEN)):
        with pytest.raises(aiomqtt.MqttError):
            async with client(server, user, password):
                pass
    for access in (Access(server.url, token=TOKEN), Access(server.url, user=LISTENER, password='secr"é t')):
        with pytest.raises((BusError, nats.errors.Error)):
            async with JetStreamBus(access):
                pass


async def test_a_server_that_died_listens_on_the_same_port_again(
    listening: Callable[..., Awaitable[EmbeddedServer]],
) -> None:
    """Clients come back by themselves; the file that holds the password is its owner's alone."""
    server = await listening(password="x")
    before = server.listener.address
    await server.stop()

    await server.start()

    async with client(server, LISTENER, "x"):
        assert (server.listener.address, before) == (before, f"mqtt://127.0.0.1:{server.listener.port}")
    assert stat.S_IMODE((server.directory / "nats-server.conf").stat().st_mode) == 0o600


async def test_a_port_that_is_taken_is_one_sentence(listening: Callable[..., Awaitable[EmbeddedServer]]) -> None:
    """It names the setting; nothing is left running."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConchError, match=f"port {port} of 127.0.0.1 is taken: name another one in edge.listen"):
            await listening(port=port)
