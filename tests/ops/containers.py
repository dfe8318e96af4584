"""The services of ops/compose.yaml as processes: the same commands, variables and files, at free ports."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from conch.bus.server import find_binary

OPS = Path(__file__).resolve().parents[2] / "ops"
PROGRAMS = Path(sys.executable).parent
PATIENCE = 90.0
"""Seconds for a dozen processes to start on a machine with other work."""
CONCH = "conch-agent"
"""The image whose services are Conch's own."""
ELSEWHERE = {
    "mosquitto": ["mosquitto", "-c", "/mosquitto/config/mosquitto.conf"],
    "prometheus": ["prometheus", "--web.listen-address=127.0.0.1:9090"],
}
"""What the images of others start with."""


def compose() -> dict[str, Any]:
    """The file, its anchors resolved."""
    found: dict[str, Any] = yaml.safe_load((OPS / "compose.yaml").read_text())
    return found


def free_port() -> str:
    """A port that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


class Containers:
    """Processes by the names of their services."""

    def __init__(self, directory: Path, deployment: Path) -> None:
        """`deployment`: what ops/prepare.py made."""
        self._file, self._directory, self._deployment = compose(), directory, deployment
        self._ports = {name: free_port() for name in ("4222", "8222", "1883", "9464", "26624", "9090")}
        self._health: dict[str, str] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def services(self) -> dict[str, Any]:
        """Those of Conch's image that stay up."""
        every = self._file["services"].items()
        return {name: one for name, one in every if one["image"].startswith(f"{CONCH}:") and "profiles" not in one}

    def port(self, inside: str) -> str:
        """Where on this machine a port of the file is."""
        return self._ports[inside]

    def start(self, name: str, **more: str) -> None:
        """Start a service; `more`: variables beside its own."""
        one = self._file["services"][name]
        entry = ELSEWHERE.get(name) or one.get("entrypoint", ["tini", "--", "conch"])
        words = [*entry, *one.get("command", [])]
        command = [self._here(word, name) for word in words if word not in ("tini", "--")]
        environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"} | self.environment(name) | more
        with self._log(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [_program(command[0]), *command[1:]],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def environment(self, name: str) -> dict[str, str]:
        """What the service is given: its files of variables, its variables, and its home."""
        one, found = self._file["services"][name], {"CONCH_HOME": str(self.home(name))}
        for file in one.get("env_file", ()):
            text = (self._deployment / Path(file["path"]).name).read_text()
            found |= dict(line.split("=", 1) for line in text.splitlines())
        return found | {key: self._here(value, name) for key, value in one.get("environment", {}).items()}

    def home(self, name: str) -> Path:
        """Of a service: the volume, or its own where it has none."""
        volumes = dict(each.split(":")[:2] for each in self._file["services"][name].get("volumes", ()))
        shared = next((source for source, target in volumes.items() if target == "/var/lib/conch"), name)
        return self._directory / shared

    def healthy(self, name: str) -> None:
        """Wait until the service's own health check holds. Raises AssertionError with its last words."""
        test = [self._here(word, name) for word in self._file["services"][name]["healthcheck"]["test"][1:]]
        environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"} | self.environment(name)
        deadline = time.monotonic() + PATIENCE
        while subprocess.run([_program(test[0]), *test[1:]], env=environment, capture_output=True).returncode != 0:
            assert self.processes[name].poll() is None, self.said(name)
            assert time.monotonic() < deadline, self.said(name)
            time.sleep(0.1)

    def said(self, name: str) -> str:
        """The end of a service's log."""
        return f"{name}: {self._log(name).read_text()[-3000:]}"

    def stop(self) -> dict[str, int]:
        """SIGTERM to all, the bus last; their exit codes. Raises TimeoutExpired beyond a service's period of grace."""
        codes = {}
        names = [name for name in self.processes if name not in ("nats", "mosquitto")]
        for some in (names, [name for name in self.processes if name not in names]):
            for name in some:
                self.processes[name].terminate()
            for name in some:
                grace = float(self._file["services"][name].get("stop_grace_period", "10s").removesuffix("s"))
                codes[name] = self.processes[name].wait(grace)
        return codes

    def kill(self) -> None:
        """End what is left."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _here(self, text: str, name: str) -> str:
        """A word of the file, with what it says of a container's network and files said of this machine's."""
        self._health.setdefault(name, free_port())
        for inside, port in {**self._ports, "8080": self._health[name]}.items():
            text = re.sub(rf"(?<![0-9]){inside}(?![0-9])", port, text)
        text = re.sub(r"//(nats|mosquitto|metrics):", "//127.0.0.1:", text).replace("0.0.0.0", "127.0.0.1")
        for target, file in self._files(name).items():
            text = text.replace(target, str(file))
        text = text.replace("path=/prometheus", f"path={self._directory / 'figures'}")
        return text.replace("/opt/conch/lib/agent-answers", str(OPS / "container" / "agent-answers"))

    def _files(self, name: str) -> Mapping[str, Path]:
        """Path in the container -> file here, of the service's configs and secrets, longest first."""
        one, found = self._file["services"][name], {}
        for config in one.get("configs", ()):
            found[config["target"]] = self._file_of("configs", config["source"], name)
        for secret in one.get("secrets", ()):
            source, target = (secret, secret) if isinstance(secret, str) else (secret["source"], secret["target"])
            found[f"/run/secrets/{target}"] = self._file_of("secrets", source, name)
        return found

    def _file_of(self, kind: str, source: str, name: str) -> Path:
        file = str(self._file[kind][source]["file"])
        if file.startswith("./deployment/"):
            return self._deployment / file.removeprefix("./deployment/")
        return self._written(OPS / file, name)

    def _written(self, file: Path, name: str) -> Path:
        """A configuration of a server, with its places on this machine."""
        copy = self._directory / name / file.name
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(self._deployment / "permissions.conf", copy.parent)
            text = file.read_text().replace("/var/lib/nats", str(copy.parent / "data"))
            text = text.replace("/mosquitto/data/", f"{copy.parent}/").replace(
                "/run/secrets/mosquitto_passwords", str(self._deployment / "mosquitto.passwords")
            )
            for inside, port in self._ports.items():
                text = re.sub(rf"(?<![0-9]){inside}(?![0-9])", port, text)
            text = text.replace('"metrics:', '"127.0.0.1:').replace("0.0.0.0", "127.0.0.1")
            text = text.replace("/etc/prometheus/rules", str(OPS / "prometheus"))
            if file.name == "mosquitto.conf" and os.geteuid() == 0:
                text += "user root\n"  # else it becomes one who may not look into this test's directory
            copy.write_text(text)
        return copy


def _program(name: str) -> str:
    if name == "nats-server":
        return find_binary()
    beside = PROGRAMS / name
    return str(beside) if beside.exists() else shutil.which(name) or name
