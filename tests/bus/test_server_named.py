"""`bus.server`: a nats-server executable of the user's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer, find_binary
from conch.cli.common import embedded_server
from conch.config import Settings
from conch.config.load import load
from conch.errors import BusUnreachableError
from conch.home import Home
from conch.views.run import checks

Script = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Make an executable `mine` of this shell script, in a directory `bin`."""

    def make(text: str) -> Path:
        file = tmp_path / "bin" / "mine"
        file.parent.mkdir()
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return file

    return make


def server_of(tmp_path: Path, named: str, *, strict: bool = True) -> EmbeddedServer:
    """As a run makes it of the settings; not started."""
    durability = "strict" if strict else "fast"
    return embedded_server(
        Home(tmp_path), Settings.model_validate({"bus": {"server": named, "durability": durability}})
    )


@pytest.mark.parametrize("by_path", [True, False], ids=["a path", "a name on PATH"])
async def test_the_named_executable_is_started(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch, by_path: bool
) -> None:
    """And no other: it takes connections as one that comes with Conch."""
    mine = script(f"echo \"$@\" >> '{tmp_path}/asked'\nexec '{find_binary()}' \"$@\"")
    monkeypatch.setenv("PATH", f"{mine.parent}{os.pathsep}{os.environ['PATH']}")
    server = server_of(tmp_path, str(mine) if by_path else "mine")

    await server.start()
    try:
        async with JetStreamBus(server.access) as bus:
            assert (await bus.state()).last == 0
    finally:
        await server.stop()

    first, second = (tmp_path / "asked").read_text().splitlines()
    assert (first, second.split()[0]) == ("--version", "-c")


@pytest.mark.parametrize(
    ("named", "why"),
    [("nats-of-mine", "nats-of-mine is not on PATH"), ("/nowhere/nats", "/nowhere/nats is no file that can be run")],
)
async def test_one_that_is_missing_is_one_sentence(tmp_path: Path, named: str, why: str) -> None:
    """With the setting's name and what to do."""
    with pytest.raises(
        BusUnreachableError, match=f"^bus.server: {why}: name a nats-server .*, or leave bus.server out$"
    ):
        await server_of(tmp_path, named).start()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo hello", "is no nats-server"),
        ("exit 3", "is no nats-server"),
        ("echo 'nats-server: v2.9.25'", "is nats-server v2.9.25, which is too old: Conch needs 2.11 or newer"),
    ],
)
async def test_one_that_is_unfit_is_refused_before_it_sees_the_store(
    tmp_path: Path, script: Script, text: str, why: str
) -> None:
    """Something else, or a nats-server that does not know what it is asked for."""
    mine = script(text)

    with pytest.raises(BusUnreachableError, match=f"^bus.server: {mine} {why}"):
        await server_of(tmp_path, str(mine)).start()

    assert not Home(tmp_path).bus.exists()


async def test_the_doctor_looks_at_the_named_one(tmp_path: Path, script: Script) -> None:
    """The real check of JetStream, where it starts; else the sentence, and what to do."""
    mine = script(f"exec '{find_binary()}' \"$@\"")
    settings = Settings.model_validate({"bus": {"server": str(mine)}})
    fine = await checks.bus(Home(tmp_path), settings)
    mine.write_text("#!/bin/sh\necho 'nats-server: v2.9.25'\n")
    old = await checks.bus(Home(tmp_path), settings)

    assert (fine.status, str(mine) in fine.says) == ("ok", True)
    assert (old.status, "too old" in old.says) == ("problem", True)
    assert old.do == "mend that, or leave bus.server out"


def test_a_path_is_made_absolute_and_a_name_is_left_to_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children have another current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")

    def read(named: str) -> str | None:
        return load(None, Home(tmp_path / "home"), {"bus": {"server": named}}).bus.server

    assert read("./mine") == str(tmp_path / "mine")
    assert read("~/bin/nats-server") == "/home/ada/bin/nats-server"
    assert read("nats-server") == "nats-server"
