"""Servers that Conch did not start, and what opens them: certificates, keys, JWTs."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import nkeys
import pytest
import trustme

from conch.bus.server import find_binary

LONG_AGO = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=9)
YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
OLD = (2, 11)
"""The first nats-server that tells what it knows."""


class Server:
    """A nats-server of somebody else's, on loopback. Started again it keeps its port."""

    def __init__(self, directory: Path, binary: str) -> None:
        self._directory, self._binary = directory, binary
        self._process: subprocess.Popen[bytes] | None = None
        self._port = -1

    def start(self, configuration: str) -> str:
        """Its address, once it takes connections; in front of it stands nothing but the port."""
        file = self._directory / "server.conf"
        place = json.dumps(str(self._directory))
        configuration = configuration.replace("jetstream {", f"jetstream {{ store_dir: {place}, ")
        file.write_text(f'listen: "127.0.0.1:{self._port}"\nports_file_dir: {place}\n{configuration}\n')
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen([self._binary, "-c", str(file)], stderr=log)
        ports = self._directory / f"nats-server_{self._process.pid}.ports"
        while True:
            try:
                self._port = int(json.loads(ports.read_text())["nats"][0].rsplit(":", 1)[1])
            except (OSError, ValueError):
                assert self._process.poll() is None, (self._directory / "server.log").read_text()
                time.sleep(0.002)
            else:
                return f"nats://127.0.0.1:{self._port}"

    def stop(self) -> None:
        """End it; twice is once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """`server.start(configuration)`; `jetstream {}` in it stores in the test's directory."""
    (tmp_path / "server").mkdir()
    made = Server(tmp_path / "server", find_binary())
    yield made
    made.stop()


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """`serve(configuration)`: the address of a server for all of the module's tests; asked again, the same one's."""
    made: dict[str, tuple[Server, str]] = {}

    def start(configuration: str) -> str:
        if configuration not in made:
            one = Server(tmp_path_factory.mktemp("server"), find_binary())
            made[configuration] = (one, one.start(configuration))
        return made[configuration][1]

    yield start
    for one, _ in made.values():
        one.stop()


@pytest.fixture
def old_server(tmp_path: Path, lacking: Callable[[str], NoReturn]) -> Iterator[Server]:
    """A nats-server from before servers told what they know, as Debian 12 has it."""
    for binary in (Path(sys.prefix) / "old" / "usr" / "sbin" / "nats-server", Path("/usr/sbin/nats-server")):
        if binary.exists() and _version(binary) < OLD:
            made = Server(tmp_path, str(binary))
            yield made
            made.stop()
            return
    lacking("there is no nats-server before 2.11 here: ops/test, run as root, gets the one of Debian 12")


def _version(binary: Path) -> tuple[int, ...]:
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    return tuple(int(part) for part in found.groups()) if found is not None else (0,)


class Papers:
    """Certificates, in files: `server` and `me` are right, the others are not."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ours, others = trustme.CA(), trustme.CA()
        ours.cert_pem.write_to_path(self.path("ca"))
        others.cert_pem.write_to_path(self.path("other-ca"))
        self._write("server", ours.issue_cert("localhost"))
        self._write("expired", ours.issue_cert("localhost", not_before=LONG_AGO, not_after=YESTERDAY))
        self._write("me", ours.issue_cert("me@conch.test"))
        self._write("me-expired", ours.issue_cert("me@conch.test", not_before=LONG_AGO, not_after=YESTERDAY))
        self._write("me-of-others", others.issue_cert("me@conch.test"))

    def path(self, name: str) -> Path:
        """Of a certificate."""
        return self.directory / f"{name}.pem"

    def key(self, name: str) -> Path:
        """Of a certificate's key."""
        return self.directory / f"{name}.key"

    def tls(self, name: str, more: str = "") -> str:
        """A server's configuration."""
        return f'tls {{ cert_file: "{self.path(name)}", key_file: "{self.key(name)}"{more} }}'

    def mutual(self) -> str:
        """A server's that asks for its clients' certificates."""
        return self.tls("server", f', ca_file: "{self.path("ca")}", verify: true')

    def mine(self, name: str) -> dict[str, str]:
        """What shows one of these."""
        return {"ca": str(self.path("ca")), "certificate": str(self.path(name)), "key": str(self.key(name))}

    def _write(self, name: str, issued: trustme.LeafCert) -> None:
        issued.private_key_pem.write_to_path(self.key(name))
        self.path(name).write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """Certificates of every kind."""
    return Papers(tmp_path_factory.mktemp("papers"))


class Key:
    """An nkey: of a user, an account or an operator."""

    def __init__(self, prefix: int = nkeys.PREFIX_BYTE_USER) -> None:
        self.seed = nkeys.encode_seed(os.urandom(32), prefix).decode()
        self.public = nkeys.from_seed(bytearray(self.seed.encode())).public_key.decode()

    def issue(self, subject: str, name: str, nats: dict[str, Any], expires: float = 0) -> str:
        """A JWT about `subject`, signed with this key."""
        claims: dict[str, Any] = {"iss": self.public, "sub": subject, "name": name, "iat": int(time.time())}
        claims |= {"nats": {"version": 2} | nats} | ({"exp": int(expires)} if expires else {})
        digest = hashlib.sha256(json.dumps(claims).encode()).digest()
        claims["jti"] = base64.b32encode(digest).decode().rstrip("=")
        signed = ".".join(
            _base64(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
        )
        pair = nkeys.from_seed(bytearray(self.seed.encode()))
        return f"{signed}.{_base64(pair.sign(signed.encode()))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Authority:
    """An operator and one account, as a server is configured with them, and the account's users."""

    def __init__(self) -> None:
        self._operator = Key(nkeys.PREFIX_BYTE_OPERATOR)
        self._account, self._system = Key(nkeys.PREFIX_BYTE_ACCOUNT), Key(nkeys.PREFIX_BYTE_ACCOUNT)

    @property
    def configuration(self) -> str:
        """Of a server that knows this account."""
        operator = self._operator.issue(self._operator.public, "operator", {"type": "operator"})
        stores = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
        account, system = self._approved(self._account, "account", stores), self._approved(self._system, "system", {})
        known = f"{self._account.public}: {account}, {self._system.public}: {system}"
        return (
            f"operator: {operator}\nsystem_account: {self._system.public}\n"
            f"resolver: MEMORY\nresolver_preload: {{ {known} }}\njetstream {{}}"
        )

    def _approved(self, account: Key, name: str, stores: dict[str, int]) -> str:
        limits: dict[str, Any] = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
        nats = {"type": "account", "limits": limits | {"wildcards": True} | stores}
        return self._operator.issue(account.public, name, nats)

    def credentials(self, *, key: Key | None = None, seed: str = "", expires: float = 0) -> str:
        """Of a user: the text of a `.creds` file."""
        user = key or Key()
        nats = {"type": "user", "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}
        jwt = self._account.issue(user.public, "user", nats, expires)
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\nKeep this to yourself.\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed or user.seed}\n------END USER NKEY SEED------\n"
        )


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Who signs users' JWTs."""
    return Authority()


@pytest.fixture(scope="session")
def new_key() -> type[Key]:
    """`new_key()`: a user's; `new_key(prefix)`: an account's or operator's."""
    return Key
