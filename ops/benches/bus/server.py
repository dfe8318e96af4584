"""A nats-server for a measurement: its own store, the server's default sync or one fsync a message, gone with it."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psutil

from conch.bus.access import Access
from conch.bus.server import die_with_parent, find_binary

START_SECONDS = 20.0


class Server:
    """Entered, it takes connections on a free loopback port."""

    def __init__(self, *, strict: bool = False) -> None:
        """`strict`: every message is on disk before it is acknowledged; else at the server's default."""
        self.strict = strict
        self.port = 0

    def __enter__(self) -> Server:
        self._directory = Path(tempfile.mkdtemp(prefix="conch-bench-nats-"))
        quoted = json.dumps(str(self._directory))
        sync = ", sync_interval: always" if self.strict else ""
        (self._directory / "nats.conf").write_text(
            f'listen: "127.0.0.1:-1"\nserver_name: bench\nports_file_dir: {quoted}\nmax_payload: 1MB\n'
            f"log_file: {json.dumps(str(self._directory / 'nats.log'))}\n"
            f"jetstream {{ store_dir: {quoted}, max_mem: 256MB, max_file: 20GB{sync} }}\n"
        )
        self._process = subprocess.Popen(
            [find_binary(), "-c", str(self._directory / "nats.conf")],
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
        )
        self.port = self._wait_for_port()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(10)
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def access(self) -> Access:
        """How Conch reaches it."""
        return Access(self.url)

    def cpu(self) -> float:
        """Processor seconds it has used so far."""
        return cpu_seconds(self._process.pid)

    def _wait_for_port(self) -> int:
        file = self._directory / f"nats-server_{self._process.pid}.ports"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError, ValueError, LookupError):
                return int(json.loads(file.read_text())["nats"][0].rsplit(":", 1)[1])
            time.sleep(0.002)
        log = self._directory / "nats.log"
        raise SystemExit(f"nats-server did not start: {log.read_text()[-500:] if log.exists() else 'no log'}")


def cpu_seconds(pid: int) -> float:
    """Processor seconds that a process and its children have used so far."""
    process = psutil.Process(pid)
    return sum(sum(one.cpu_times()[:2]) for one in (process, *process.children(recursive=True)))
