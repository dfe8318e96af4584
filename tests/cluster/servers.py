"""Three nats-servers that are one cluster, on this machine: each can be killed, and comes back with its store."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from conch.bus.access import Access
from conch.bus.server import die_with_parent, find_binary

SIZE = 3
ACCOUNTS = 16
"""Each a stream and a bucket of its own: so many tests share the servers and meet no other's events."""
PATIENCE = 40.0
"""Seconds that an election takes at most, on a busy machine."""


class Node:
    """One server. Its ports stay, so that clients find it again."""

    def __init__(self, directory: Path, name: str, ports: Sequence[int]) -> None:
        self.name, self._directory = name, directory
        self.port, self.route, self._monitor = ports
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running server."""
        assert self._process is not None
        return self._process.pid

    def configure(self, routes: Sequence[int], *, sync: str) -> None:
        """Write its configuration. `routes`: the ports on which the three talk among each other."""
        self._directory.mkdir()
        accounts = "\n".join(
            f"  a{number} {{ jetstream: enabled, users: [{{ user: a{number}, password: a{number} }}] }}"
            for number in range(ACCOUNTS)
        )
        others = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
        self._file.write_text(
            f"server_name: {self.name}\n"
            f"listen: 127.0.0.1:{self.port}\n"
            f"http: 127.0.0.1:{self._monitor}\n"
            f'log_file: "{self._directory}/log"\n'
            f'jetstream {{ store_dir: "{self._directory}/store", sync_interval: {sync} }}\n'
            f"cluster {{ name: conch, listen: 127.0.0.1:{self.route}, routes: [{others}] }}\n"
            f"accounts {{\n{accounts}\n}}\n"
        )

    def start(self) -> None:
        """It is on its way; `Cluster.ready` tells when it is there."""
        self._process = subprocess.Popen(
            [find_binary(), "-c", str(self._file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
        )

    def kill(self) -> None:
        """kill -9. Twice is once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def is_up(self) -> bool:
        """Whether it runs, healthy or not."""
        return self._process is not None

    @property
    def is_healthy(self) -> bool:
        """Whether it has caught up with the others."""
        return self._asked("/healthz").get("status") == "ok"

    @property
    def leader(self) -> str:
        """Who leads the cluster, as far as this server knows; empty: nobody."""
        return str(self._asked("/jsz").get("meta_cluster", {}).get("leader", ""))

    @property
    def _file(self) -> Path:
        return self._directory / "server.conf"

    def _asked(self, path: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._monitor, timeout=2)
        try:
            with contextlib.closing(connection):
                connection.request("GET", path)
                told: dict[str, Any] = json.loads(connection.getresponse().read())
                return told
        except (OSError, ValueError, http.client.HTTPException):
            return {}


class Cluster:
    """The three of them."""

    def __init__(self, directory: Path, *, sync: str = '"1s"') -> None:
        """`sync`: their `sync_interval`."""
        with free_ports(3 * SIZE) as ports:
            self.nodes = [
                Node(directory / f"n{place + 1}", f"n{place + 1}", ports[3 * place : 3 * place + 3])
                for place in range(SIZE)
            ]
        self._account = 0
        for node in self.nodes:
            node.configure([one.route for one in self.nodes], sync=sync)

    def start(self) -> None:
        """All up, one of them elected."""
        for node in self.nodes:
            if not node.is_up:
                node.start()
        self.ready()

    def ready(self) -> None:
        """Wait until those that run agree on a leader and are healthy."""
        deadline = time.monotonic() + PATIENCE
        while not all(node.leader and node.is_healthy for node in self.nodes if node.is_up):
            assert time.monotonic() < deadline, [(node.name, node.leader, node.is_healthy) for node in self.nodes]
            time.sleep(0.05)

    def close(self) -> None:
        """All gone."""
        for node in self.nodes:
            node.kill()

    def new_account(self) -> str:
        """`user:password@` of an account that nobody has used."""
        self._account += 1
        assert self._account <= ACCOUNTS
        return f"a{self._account - 1}:a{self._account - 1}@"

    def url(self, account: str) -> str:
        """All addresses."""
        return ",".join(f"nats://{account}127.0.0.1:{node.port}" for node in self.nodes)

    def access(self, account: str) -> Access:
        """By all addresses."""
        return Access(self.url(account))

    def __getitem__(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Ports that were free a moment ago: a cluster's servers must know each other's before they start."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        yield [one.getsockname()[1] for one in sockets]
