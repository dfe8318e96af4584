"""Real runs of `conch` in homes of their own, and what is left of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil
import pytest

from conch.experience import SqliteReader
from conch.views.agent.cycles import cycles_shown

CONCH = Path(sys.executable).with_name("conch")
PATIENCE = 60.0
"""Seconds for what takes one or two on an idle machine."""
MARK = "OF_THE_TEST"
"""Environment variable that all processes of a run inherit: so they are told from others'."""


class Live:
    """A command in a process group of its own, its lines as they come."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: dict[str, str],
        directory: Path | None = None,
        command: Sequence[str] = (str(CONCH),),
    ) -> None:
        """`directory`: its current one; None: the tests'."""
        self._process = subprocess.Popen(
            [*command, *arguments],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.lines: list[str] = []
        self.said = ""
        self._news = threading.Condition()
        self._readers = [threading.Thread(target=each, daemon=True) for each in (self._out, self._err)]
        for reader in self._readers:
            reader.start()

    def _out(self) -> None:
        for line in self._process.stdout or ():
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()

    def _err(self) -> None:
        for line in self._process.stderr or ():
            with self._news:
                self.said += line
                self._news.notify_all()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its lines on stdout, each of them JSON."""
        return [json.loads(line) for line in self.lines]

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until it holds, looked at whenever a line came, and ten times a second."""
        deadline = time.monotonic() + PATIENCE
        with self._news:
            while not holds():
                assert time.monotonic() < deadline, f"{what} did not come.\n{self.told()}"
                assert self._process.poll() is None or holds(), f"it ended before {what}.\n{self.told()}"
                self._news.wait(0.1)

    def recorded(self, more: int) -> None:
        """Wait for so many more rows."""
        seen = len(self.lines)
        self.until(lambda: len(self.lines) >= seen + more, f"{more} more rows")

    def says(self, pattern: str) -> None:
        """Wait for this on stderr."""
        self.until(lambda: re.search(pattern, self.said), repr(pattern))

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """To the process, or as a terminal does to all of its group."""
        os.killpg(self.pid, number) if group else self._process.send_signal(number)

    def ended(self, seconds: float = PATIENCE) -> int:
        """Its exit status, once it has ended and all that it said is here."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it goes on after {seconds:g} s.\n{self.told()}")
        for reader in self._readers:
            reader.join(PATIENCE)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return status

    def told(self) -> str:
        """For a failing test: what it has said."""
        return "\n".join([*self.lines[-20:], self.said])


class Pasts:
    """Homes whose agent did nothing for some cycles: each is made once, by a run, and copied for each test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def copy(self, cycles: int, home: Path) -> None:
        """Make `home` one whose last run has ended after so many cycles."""
        made = self._directory / str(cycles)
        if not made.exists():
            made.mkdir()
            house = House(made)
            try:
                house.run("--cycles", str(cycles), "--script", house.endless())
            finally:
                house.close()
        shutil.copytree(made / "home", home, symlinks=True)


class House:
    """A home and a workspace, and the commands on them."""

    def __init__(self, directory: Path, *, furnished: bool = False, pasts: Pasts | None = None) -> None:
        """`furnished`: the workspace that a new home gets; else one with a single file, and no goals. `pasts`: what
        `live_through` copies."""
        self.directory, self.home = directory, directory / "home"
        self._pasts = pasts
        self.workspace = self.home / "workspace" if furnished else directory / "workspace"
        if not furnished:
            self.workspace.mkdir(parents=True)
            (self.workspace / "readme.txt").write_text("Work here.\n")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("CONCH_", "COLUMNS"))
        } | {MARK: str(directory)}
        self.current: Path | None = None
        """Current directory of the commands; None: the tests'."""
        self.command: Sequence[str] = (str(CONCH),)
        self._place = [] if furnished else ["--workspace", str(self.workspace)]
        self._lives: list[Live] = []

    def start(self, *arguments: str, **environment: str) -> Live:
        """Any command."""
        live = Live([*arguments, "--home", str(self.home)], self.environment | environment, self.current, self.command)
        self._lives.append(live)
        return live

    def begin(self, *arguments: str, interval: float = 0.0, page: bool = False, **environment: str) -> Live:
        """`conch run --json`, going.

        `page`: with the dashboard, as a run has by default. It costs as much processor time as the rest of a short run
        together, so that only options that begin with --ui, and variables of it, have it unasked.
        """
        asked = page or any(one.startswith(("--ui", "CONCH_UI")) for one in (*arguments, *environment))
        without = {} if asked else {"CONCH_UI__ENABLED": "false"}
        without["CONCH_CYCLE__SLEEP__FIRST"] = "0"  # a test that waits for cycles of an agent that rests
        options = [*self._place, "--json", "--interval", str(interval), *arguments]
        return self.start("run", *options, **without | environment)

    def run(
        self, *arguments: str, status: int = 0, interval: float = 0.0, page: bool = False, **environment: str
    ) -> Live:
        """`conch run --json` to its end, which is `status`."""
        live = self.begin(*arguments, interval=interval, page=page, **environment)
        assert live.ended() == status, live.told()
        assert "Traceback" not in live.said, live.said
        return live

    def conch(self, *arguments: str, status: int = 0, **environment: str) -> str:
        """Another command to its end: what it wrote to stdout."""
        live = self.start(*arguments, **environment)
        assert live.ended() == status, live.told()
        assert "Traceback" not in live.said, live.said
        return "\n".join(live.lines)

    def refused(self, *arguments: str, status: int, **environment: str) -> str:
        """A command that ends with this status: the one sentence that it says last."""
        live = self.start(*arguments, **environment)
        assert live.ended() == status, live.told()
        assert "Traceback" not in live.said, live.said
        [sentence] = re.findall(r"^conch: (.*)$", live.said, re.MULTILINE)
        assert live.said.endswith(f"{sentence}\n"), live.said
        return str(sentence)

    def live_through(self, cycles: int) -> None:
        """Make the home one in which the agent did nothing for so many cycles, as a run has left it."""
        assert self._pasts is not None
        self._pasts.copy(cycles, self.home)

    def cycles(self) -> list[dict[str, Any]]:
        """The rows of `conch cycle list --json`, of all agents, read without starting the command."""
        with SqliteReader(self.home / "store.db") as store:
            agents = store.agents()  # of one, in the order of its cycles, also where the stream began anew
            shown = cycles_shown(store.cycles.last(agents[0] if len(agents) == 1 else None, 10_000))
        found: list[dict[str, Any]] = json.loads(json.dumps(shown.document(), default=str))["cycles"]
        return found

    def script(self, *replies: str, name: str = "script.txt") -> str:
        """A file of replies, one a line."""
        file = self.directory / name
        file.write_text("".join(f"{reply}\n" for reply in replies))
        return str(file)

    def endless(self, reply: str = "DO_NOTHING: resting") -> str:
        """A script that no test sees the end of."""
        return self.script(*[reply] * 20_000, name="endless.txt")

    def status(self) -> dict[str, Any]:
        """What the run in progress says of itself."""
        found: dict[str, Any] = json.loads((self.home / "run.json").read_text())
        return found

    def process(self, name: str) -> dict[str, Any]:
        """One of the run's processes, as `conch status` tells it."""
        [found] = [one for one in self.status()["processes"] if one["name"] == name]
        return dict(found)

    def processes(self) -> list[psutil.Process]:
        """Everything that runs on this home, or was started by what did."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                return False
            return process.environ().get(MARK) == str(self.directory) or str(self.directory) in " ".join(
                process.cmdline()
            )
        except psutil.Error:
            return False

    def assert_nothing_runs(self, seconds: float = 30.0, besides: str = "") -> None:
        """Nothing runs any more; at the latest so many seconds from now.

        `besides` programs of that name: a sandbox that was being made when its agent was killed is the next run's.
        """
        deadline = time.monotonic() + seconds
        while (left := self._left(besides)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left, [process.cmdline() for process in left]

    def _left(self, besides: str) -> list[psutil.Process]:
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                found += [process] if process.name() != besides else []
        return found

    def close(self) -> None:
        """End what is left."""
        for live in self._lives:
            live.ended(0.0) if live._process.poll() is not None else live._process.kill()
        for process in self.processes():
            try:
                process.kill()
            except psutil.Error:
                continue
        for live in self._lives:
            live._process.wait(PATIENCE)
            live.ended()


@pytest.fixture(scope="session")
def pasts(tmp_path_factory: pytest.TempPathFactory) -> Pasts:
    """Homes to copy."""
    return Pasts(tmp_path_factory.mktemp("pasts"))


@pytest.fixture
def house(tmp_path: Path, pasts: Pasts) -> Iterator[House]:
    """A home of this test's own."""
    made = House(tmp_path, pasts=pasts)
    yield made
    made.close()


class MakeHouse(Protocol):
    """Makes homes that live as long as the module's tests."""

    def __call__(self, *, furnished: bool = False) -> House:
        """`furnished`: with the workspace that a new home gets."""


@pytest.fixture(scope="module")
def make_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeHouse]:
    """Homes that live as long as the module's tests."""
    made: list[House] = []

    def make(*, furnished: bool = False) -> House:
        made.append(House(tmp_path_factory.mktemp("house"), furnished=furnished))
        return made[-1]

    yield make
    for house in made:
        house.close()
