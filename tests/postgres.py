"""A PostgreSQL server of the tests' own, from the system's package."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import psutil

PASSWORD = "p@ss/wörd%"
QUOTED = "p%40ss%2Fw%C3%B6rd%25"
"""As it stands in an address."""


def program(name: str, lacking: Callable[[str], NoReturn]) -> str:
    """The newest PostgreSQL's program of this name; Debian keeps them out of the PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("[0-9]*"), key=lambda one: int(one.name), reverse=True)
    found = next((str(one / "bin" / name) for one in versions if (one / "bin" / name).exists()), shutil.which(name))
    return found or lacking("there is no PostgreSQL server: install your system's package postgresql")


class PostgresServer:
    """A cluster in a directory of its own, on a port that is its own from start to start."""

    def __init__(self, lacking: Callable[[str], NoReturn]) -> None:
        self._postgres = program("postgres", lacking)
        # PostgreSQL refuses to be root, and another user cannot reach below pytest's directories.
        self._user = _unprivileged() if os.geteuid() == 0 else None
        self.directory = Path(tempfile.mkdtemp(prefix="conch-postgres-"))
        if self._user is not None:
            shutil.chown(self.directory, self._user)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        secret = self.directory / "password"
        secret.write_text(f"{PASSWORD}\n")
        if self._user is not None:
            shutil.chown(secret, self._user)
        initdb = [program("initdb", lacking), "-D", str(self.directory / "data"), "-U", "conch", "-A", "scram-sha-256"]
        self._call([*initdb, f"--pwfile={secret}", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"])
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "postgres", password: str = QUOTED) -> str:
        """The address of a database."""
        return f"postgresql://conch:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The address of a database that is empty."""
        self._databases += 1
        name = f"test_{os.getpid()}_{self._databases}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def sql(self, statement: str, url: str | None = None) -> str:
        """What psql prints for the statement, without headings."""
        psql = [str(Path(self._postgres).with_name("psql")), "-XAtqc", statement, url or self.url()]
        return subprocess.run(psql, check=True, capture_output=True, text=True).stdout.strip()

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        command = [self._postgres, "-D", str(self.directory / "data"), "-p", str(self.port), "-k", str(self.directory)]
        log = (self.directory / "log").open("ab")
        self._process = subprocess.Popen(
            [*command, "-h", "127.0.0.1", "-c", "max_connections=40", "-c", "shared_buffers=32MB"],
            stdout=log,
            stderr=log,
            user=self._user,
        )
        log.close()
        ready = [str(Path(self._postgres).with_name("pg_isready")), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode != 0:
            assert self._process.poll() is None, (self.directory / "log").read_text()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT breaks every session off, SIGKILL is a crash. Twice is once."""
        if self._process is not None:
            children = psutil.Process(self._process.pid).children() if self._process.poll() is None else []
            self._process.send_signal(how)
            self._process.wait(30)
            psutil.wait_procs(children, 30)
            self._process = None

    def _call(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, user=self._user, cwd="/", check=False)
        assert done.returncode == 0, done.stderr


@contextmanager
def postgres_server(lacking: Callable[[str], NoReturn]) -> Iterator[PostgresServer]:
    """A server that runs, and is gone afterwards."""
    server = PostgresServer(lacking)
    try:
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(server.directory, ignore_errors=True)


def _unprivileged() -> str:
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
