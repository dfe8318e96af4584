"""Servers of one's own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from conch.bus.server import find_binary


class Server:
    """A nats-server that Conch did not start."""

    def __init__(self, directory: Path, *options: str) -> None:
        directory.mkdir()
        command = [find_binary(), "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(directory), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ports = directory / f"nats-server_{self._process.pid}.ports"
        self.url = ""
        while not self.url:
            try:
                self.url = json.loads(ports.read_text())["nats"][0]
            except (OSError, ValueError):
                assert self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
