"""A real Mosquitto on a free port, somebody who listens at it, and a line that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

import paho.mqtt.client as paho
import pytest
import trustme
from paho.mqtt.enums import CallbackAPIVersion

PATIENCE = 30.0
ECHO = "hub/echo"
"""What the hub says to itself."""


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Broker:
    """A Mosquitto of this test's own; it keeps its port, and nothing else, from one start to the next."""

    def __init__(self, program: str, directory: Path, lines: tuple[str, ...]) -> None:
        self._program, self._file, self.port = program, directory / f"mosquitto-{time.monotonic_ns()}.conf", free_port()
        user = ("user root",) if os.geteuid() == 0 else ()
        anybody = () if any(line.startswith("allow_anonymous") for line in lines) else ("allow_anonymous true",)
        self._file.write_text("\n".join((f"listener {self.port} 127.0.0.1", *user, *anybody, *lines, "")))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it takes connections."""
        log = self._file.with_suffix(".log").open("ab")
        self._process = subprocess.Popen([self._program, "-c", str(self._file)], stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.5):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"mosquitto does not start: {self._file.with_suffix('.log').read_text()}")
            time.sleep(0.005)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it: in order, or with SIGKILL. Twice is once.

        The signal is repeated: Mosquitto forgets one that comes after it listens and before its main loop begins.
        """
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            deadline = time.monotonic() + PATIENCE
            while self._process.poll() is None:
                assert time.monotonic() < deadline, "mosquitto does not end"
                self._process.send_signal(how)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(1.0)
            self._process = None

    def freeze(self) -> None:
        """It keeps its connections and says nothing more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)


class Heard(NamedTuple):
    """A message as it came."""

    topic: str
    payload: bytes
    retained: bool


class Hub:
    """Somebody at the broker who hears everything; it comes back by itself when the broker does."""

    def __init__(self, port: int, **secrets: str) -> None:
        self.heard: list[Heard] = []
        self.there, self._gone = threading.Event(), threading.Event()
        self._echoed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_connect, self._client.on_message = self._subscribe, self._take
        self._client.on_subscribe, self._client.on_disconnect = self._subscribed, self._disconnected
        self._client.reconnect_delay_set(0.01, 0.02)  # type: ignore[arg-type]  # it takes fractions
        if secrets:
            self._client.username_pw_set(secrets["user"], secrets["password"])
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self.listens()

    def _subscribe(self, client: paho.Client, *_: Any) -> None:
        client.subscribe("#", qos=0)

    def _subscribed(self, *_: Any) -> None:
        self._gone.clear()
        self.there.set()

    def _disconnected(self, *_: Any) -> None:
        self.there.clear()
        self._gone.set()

    def _take(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        if message.topic == ECHO:
            self._echoed.set()
        else:
            self.heard.append(Heard(message.topic, bytes(message.payload), message.retain))

    def level(self) -> None:
        """Returns when all that the broker has acknowledged is heard."""
        self._echoed.clear()
        self.say(ECHO, b"")
        assert self._echoed.wait(PATIENCE)

    @property
    def topics(self) -> set[str]:
        """All topics on which something came."""
        return {one.topic for one in self.heard}

    def listens(self) -> None:
        """Returns when it hears what is published from now on."""
        assert self.there.wait(PATIENCE)

    def lost(self) -> None:
        """Returns when it has noticed that its broker is gone: `listens` before that answers for the old connection."""
        assert self._gone.wait(PATIENCE)

    def payloads(self, topic: str) -> list[bytes]:
        """What came on one topic."""
        return [one.payload for one in self.heard if one.topic == topic]

    def say(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish; returns when the broker has it."""
        self._client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(PATIENCE)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Line:
    """A line between a client and the broker, on a port of its own, that can be cut or go dead."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = free_port()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.dead = False
        """Whether what is sent vanishes, and nobody is told."""
        self.swallowed = 0
        """Bytes that vanished."""

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    async def open(self) -> None:
        """Take connections from now on."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """End all connections, and take no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        assert own is not None
        self._tasks.add(own)
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(back)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, back))
                group.create_task(self._pass(there, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(own)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self.dead:
                    self.swallowed += len(data)
                    continue
                writer.write(data)
                await writer.drain()
        writer.close()


class Certificates(NamedTuple):
    """PEM files: who signs, the broker's certificate for 127.0.0.1, and a client's."""

    ca: Path
    broker: Path
    broker_key: Path
    client: Path
    client_key: Path
    stranger: Path
    """Another authority, which has signed nothing of this."""


@pytest.fixture(scope="session")
def mosquitto(lacking: Callable[[str], NoReturn]) -> str:
    """The program; Debian keeps it where only root looks."""
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    return found or lacking("there is no mosquitto: install your system's package mosquitto")


class MakeBroker(Protocol):
    """Starts brokers, which end with the test."""

    def __call__(self, *lines: str) -> Broker:
        """One that takes connections; `lines` are added to its mosquitto.conf."""


class MakeHub(Protocol):
    """Connects listeners, which leave with the test."""

    def __call__(self, port: int, **secrets: str) -> Hub:
        """One that hears everything at the broker on this port; `secrets`: its user and password."""


@pytest.fixture
def make_broker(mosquitto: str, tmp_path: Path) -> Iterator[MakeBroker]:
    """Brokers, started; arguments are more lines of mosquitto.conf."""
    made: list[Broker] = []

    def make(*lines: str) -> Broker:
        made.append(Broker(mosquitto, tmp_path, lines))
        made[-1].start()
        return made[-1]

    yield make
    for broker in made:
        broker.stop(signal.SIGKILL)


@pytest.fixture
def broker(make_broker: MakeBroker) -> Broker:
    """A broker that anybody may use, from here."""
    return make_broker()


@pytest.fixture
def make_hub() -> Iterator[MakeHub]:
    """Somebody who hears everything at the broker on a port."""
    made: list[Hub] = []

    def make(port: int, **secrets: str) -> Hub:
        made.append(Hub(port, **secrets))
        return made[-1]

    yield make
    for hub in made:
        hub.close()


@pytest.fixture
def hub(broker: Broker, make_hub: MakeHub) -> Hub:
    """Somebody who hears everything at the broker."""
    return make_hub(broker.port)


@pytest.fixture
async def line(broker: Broker) -> AsyncIterator[Line]:
    """A line to the broker."""
    made = Line(broker.port)
    await made.open()
    yield made
    await made.cut()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Made for this session."""
    place = tmp_path_factory.mktemp("certificates")
    authority, stranger = trustme.CA(), trustme.CA()
    made = Certificates(*(place / f"{name}.pem" for name in Certificates._fields))
    authority.cert_pem.write_to_path(made.ca)
    stranger.cert_pem.write_to_path(made.stranger)
    for certificate, file, key in (
        (authority.issue_cert("127.0.0.1"), made.broker, made.broker_key),
        (authority.issue_cert("conch"), made.client, made.client_key),
    ):
        certificate.cert_chain_pems[0].write_to_path(file)
        certificate.private_key_pem.write_to_path(key)
    return made
