"""Children that a run forks before it begins: each is as one that was started as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conch.processes.supervisor import LINE_BYTES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forked on Linux only")

CHILD = """
import json, os, signal, sys
MARK = []
def main():
    said = {"environ": dict(os.environ), "directory": os.getcwd(),
            "ignores": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
            "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "nice": os.nice(0),
            "mark": MARK, "word": sys.stdin.readline().strip()}
    os.write(1, (json.dumps(said) + "\\n").encode())
    sys.stdin.read()
    sys.exit(7)
"""
PARENT = """
import asyncio, json, sys
from conch.processes import ForkedModule, forked
async def talk(children):
    said = {}
    for name, child in children.items():
        await child.connect(LINE_BYTES)
    for name, child in children.items():
        child.stdin.write(name.encode() + b"\\n")
        said[name] = json.loads(await child.stdout.readline())
        assert child.returncode is None
    first = next(iter(children.values()))
    first.stdin.close()
    said["status"], again = await asyncio.gather(first.wait(), first.wait())
    assert said["status"] == again == first.returncode
    said["pids"] = [child.pid for child in children.values()]
    return said
with forked({"one": ForkedModule("child"), "two": ForkedModule("child", nice=3)}) as children:
    sys.modules["child"].MARK.append("of the parent")
    print(json.dumps(asyncio.run(talk(children))))
""".replace("LINE_BYTES", str(LINE_BYTES))


@pytest.fixture
def said(tmp_path: Path) -> dict[str, dict[str, object]]:
    """What two children said of themselves, and what became of the first one when its stdin was closed."""
    (tmp_path / "child.py").write_text(CHILD)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "CONCH_MIND__API_KEY": "a key", "LD_PRELOAD_NOT": "kept"}
    done = subprocess.run(
        [sys.executable, "-c", PARENT], env=env, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


def test_a_forked_child_has_the_environment_of_a_program(said: dict[str, dict[str, object]]) -> None:
    """No variables of the settings, which its start spec contains; its directory is no user's; its niceness its own."""
    one, two = said["one"], said["two"]

    assert "CONCH_MIND__API_KEY" not in json.dumps(one["environ"])
    assert '"LD_PRELOAD_NOT": "kept"' in json.dumps(one["environ"])
    assert (one["directory"], two["directory"]) == ("/", "/")
    assert (one["nice"], two["nice"]) == (os.nice(0), os.nice(0) + 3)
    assert (one["word"], two["word"]) == ("one", "two")
    assert one["mark"] == []
    assert (one["ignores"], one["blocked"]) == (True, 0)


def test_a_forked_child_holds_no_pipe_of_another(said: dict[str, dict[str, object]]) -> None:
    """So the first one ends when its stdin is closed, while the second lives."""
    assert said["status"] == 7


CTRL_C = """
import os, signal, sys
from conch.processes import ForkedModule, forked
real = os.fork
def fork():
    if (found := real()) == 0:
        os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C reaches the whole group
    return found
os.fork = fork
try:
    with forked({"one": ForkedModule("child")}):
        print("forked", flush=True)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_ctrl_c_does_not_reach_a_child_that_has_just_been_forked(tmp_path: Path) -> None:
    """Before it has come to ignore it: it would go on in the parent's place, up to the parent's own handling."""
    (tmp_path / "child.py").write_text(CHILD)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", CTRL_C], env=env, capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr) == ("forked\n", "")


def test_children_that_are_left_are_ended(said: dict[str, dict[str, object]]) -> None:
    """The second one, which waits for more on its stdin."""
    assert not any(Path(f"/proc/{pid}").exists() for pid in said["pids"])
