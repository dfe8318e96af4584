"""`conch consume NAME`: what cannot be is one sentence; workers are kept alive, and ended in order."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conch.bus.access import Access
from conch.bus.jetstream import bus as bus_module
from conch.bus.jetstream.connection import Connection
from conch.cli import workers
from conch.cli.common import CommonOptions
from conch.cli.main import main
from conch.cli.workers import run_workers
from conch.errors import ConchError
from conch.home import Home
from conch.processes import supervisor
from conch.retry import Backoff
from conch.run_info import BusLocation, RunInfo

pytestmark = pytest.mark.filterwarnings("ignore:Cyclopts application invoked without tokens:UserWarning")
NOWHERE = "nats://127.0.0.1:9"


@pytest.fixture
def refused(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """`refused("reward")`: the exit code of that `conch consume`, and all that it says."""

    def consume(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["conch", "consume", *arguments, "--home", str(home.path)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert out == ""
        return int(str(ended.value.code)), err

    return consume


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rewrd"], "there is no consumer rewrd; the nearest name is reward"),
        (["reward", "--workers", "0"], "Must be >= 1"),
        (["reward", "--workers", "17"], "Must be <= 16"),
        (["reward", "--workers", "two"], "unable to convert"),
        (["reward", "--workers", "2"], "start conch run, or set bus.url"),
        (["store", "--workers", "2"], "run it without --workers, or keep the experiences in PostgreSQL (store.url)"),
        (["metrics", "--workers", "2"], "metrics keeps its place by itself and is not shared"),
        (["needs", "--health", "8080"], "--health 8080 is no HOST:PORT, as 127.0.0.1:8080 is"),
        (["needs", "--health", "127.0.0.1:99999"], "--health 127.0.0.1:99999 is no HOST:PORT"),
        (["needs", "--health", "127.0.0.1:0", "--workers", "2"], "run it without --workers"),
        ([], "NAME requires an argument"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    refused: Callable[..., tuple[int, str]], arguments: list[str], told: str
) -> None:
    """What, and what to do; exit code 2."""
    code, said = refused(*arguments)

    assert code == 2
    assert told in said
    assert said.startswith("conch: ")
    assert said.count("\n") == 1


@pytest.fixture
def no_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings name a server that is not there, which is not waited for."""
    monkeypatch.setenv("CONCH_BUS__URL", NOWHERE)

    def soon(access: Access, **_: Any) -> Connection:
        return Connection(access, connect_timeout=0.2)

    monkeypatch.setattr(bus_module, "Connection", soon)


@pytest.mark.usefixtures("no_bus")
@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_bus_that_is_not_there_is_said_once(refused: Callable[..., tuple[int, str]], workers: str) -> None:
    """However many workers were asked for; exit code 3."""
    code, said = refused("reward", "--workers", workers)

    assert code == 3
    assert f"no bus at {NOWHERE}" in said
    assert said.count("\n") == 1


@pytest.mark.usefixtures("no_bus")
@pytest.mark.parametrize(("name", "status"), [("metrics", 3), ("dashboard", 3), ("otel", 3), ("store", 2), ("mqtt", 2)])
def test_what_keeps_no_place_may_run_beside_the_runs_own(
    refused: Callable[..., tuple[int, str]], name: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on to the bus, which is not there; whatever has a place is refused before, with what to do."""
    monkeypatch.setenv("CONCH_OTEL__ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("CONCH_EDGE__BRIDGE", "mqtt://127.0.0.1:9")
    run = RunInfo(pid=os.getpid(), consumers=(name,), bus=BusLocation(url=NOWHERE))
    monkeypatch.setattr(Home, "running", lambda _: run)

    code, said = refused(name)

    assert code == status, said
    assert (f"conch run --without {name}, then again" in said) == (status == 2)


@pytest.mark.usefixtures("no_bus")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_store_in_a_database_is_shared(
    refused: Callable[..., tuple[int, str]], workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside the run's own, in as many processes as are asked for: it goes on to the bus, which is not there."""
    pytest.importorskip("asyncpg")
    monkeypatch.setenv("CONCH_STORE__URL", "postgresql://conch@127.0.0.1:9/life")
    run = RunInfo(pid=os.getpid(), consumers=("store",), bus=BusLocation(url=NOWHERE))
    monkeypatch.setattr(Home, "running", lambda _: run)

    code, said = refused("store", "--workers", workers)

    assert (code, f"no bus at {NOWHERE}" in said) == (3, True), said


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`program("exit 3")`: what a worker does, in shell, instead of consuming; `$NUMBER` is which one it is."""

    @asynccontextmanager
    async def there(*_: Any) -> AsyncIterator[None]:
        yield

    def write(text: str) -> None:
        file = tmp_path / "program"
        file.write_text(f'#!/bin/sh\ncd {tmp_path}\nfor last; do :; done\nNUMBER="${{last##*-}}"\n{text}\n')
        file.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(file))

    monkeypatch.setattr(workers, "open_bus", there)
    monkeypatch.setattr(supervisor, "PROCESS", Backoff((0.0,)))
    return write


IN_ORDER = "trap 'echo >> $NUMBER.ended; exit 0' TERM; echo >> $NUMBER.begun; while :; do sleep 0.01; done"


def test_a_worker_that_dies_again_and_again_ends_the_others(
    program: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, after the fifth death; each death before is one line."""
    program(f"if [ $NUMBER = 2 ]; then while [ ! -e 1.begun ]; do :; done; kill -9 $$; fi; {IN_ORDER}")

    with pytest.raises(ConchError, match=r"worker reward 2 died 5 times in a minute \(SIGKILL\)"):
        run_workers("reward", 2, CommonOptions(home=tmp_path), ())

    assert (tmp_path / "1.ended").exists()
    said = capsys.readouterr().err.splitlines()
    assert said == ["worker reward 2 died (SIGKILL) and is started again"] * 4


@pytest.mark.parametrize("status", [2, 3])
def test_a_worker_that_cannot_run_is_not_started_again(
    program: Callable[[str], None], tmp_path: Path, status: int
) -> None:
    """Its exit code is the command's; why, it has said itself."""
    program(f"echo >> begun; exit {status}")

    with pytest.raises(ConchError, match=rf"worker reward 1 cannot run \(exit status {status}\)") as ended:
        run_workers("reward", 1, CommonOptions(home=tmp_path), ())

    assert ended.value.exit_code == status
    assert (tmp_path / "begun").read_text() == "\n"


def test_told_to_stop_workers_end_in_order(program: Callable[[str], None], tmp_path: Path) -> None:
    """All of them, and that is no failure."""
    program(f"if [ $NUMBER = 2 ]; then while [ ! -e 1.begun ]; do :; done; ({asks(signal.SIGTERM)}) & fi; {IN_ORDER}")

    run_workers("reward", 2, CommonOptions(home=tmp_path), ())

    assert (tmp_path / "1.ended").exists()
    assert (tmp_path / "2.ended").exists()


def test_told_twice_a_worker_is_told_twice(program: Callable[[str], None], tmp_path: Path) -> None:
    """It ends at once then; what it says of that is the command's failure."""
    once_more = f"trap 'trap \"exit 1\" TERM; echo >> once; {asks(signal.SIGINT)}' TERM"
    program(f"{once_more}; ({asks(signal.SIGINT)}) & while :; do sleep 0.01; done")

    with pytest.raises(ConchError, match=r"worker reward 1 did not end in order \(exit status 1\)"):
        run_workers("reward", 1, CommonOptions(home=tmp_path), ())

    assert (tmp_path / "once").exists()


def asks(number: signal.Signals) -> str:
    """In shell: Ctrl-C, or its like, for the command."""
    return f"kill -{number.value} {os.getpid()}"
