"""Log lines, in a process of their own: the logging of the tests is not touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BEGIN = """
import logging, sys, structlog
from pathlib import Path
from conch.config.model import LogSettings
from conch.telemetry import configure
configure(LogSettings(megabytes={megabytes}), Path({file!r}), process="agent")
log = structlog.get_logger("conch.any")
structlog.contextvars.bind_contextvars(action_id="a1")
"""


def told(file: Path, say: str, megabytes: float = 1.0) -> list[dict[str, Any]]:
    """What stands in the log after a process has said something."""
    code = BEGIN.format(file=str(file), megabytes=megabytes) + say
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_line_is_one_object_with_what_was_bound(tmp_path: Path) -> None:
    """The event, its facts and the bound ids; what JSON cannot hold is shown; less than the level is left out."""
    [line] = told(tmp_path / "a.log", 'log.debug("no"); log.info("act.done", why=ValueError("x"), odd="\\ud800")')

    assert (line["event"], line["action_id"], line["process"], line["level"]) == ("act.done", "a1", "agent", "info")
    assert (line["why"], line["odd"]) == ("ValueError('x')", "\ud800")


def test_a_traceback_is_part_of_its_line(tmp_path: Path) -> None:
    """An exception does not spread over lines."""
    [line] = told(tmp_path / "a.log", 'try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception("broke")')

    assert line["exception"].endswith("ZeroDivisionError: division by zero")


def test_a_file_is_rotated_and_three_old_ones_are_kept(tmp_path: Path) -> None:
    """No file is larger than it may be, and the newest lines are there."""
    lines = told(tmp_path / "a.log", 'for n in range(400):\n    log.info("x", n=n, text="y" * 100)', megabytes=0.01)

    assert lines[-1]["n"] == 399
    sizes = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    assert sorted(sizes) == ["a.log", "a.log.1", "a.log.2", "a.log.3"]
    assert max(sizes.values()) <= 10_000


def test_a_disk_without_room_ends_nothing(tmp_path: Path) -> None:
    """A line that cannot be written is left out."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    code = BEGIN.format(file=str(full), megabytes=1.0) + 'log.info("x"); logging.getLogger("other").error("y")'

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


def test_what_others_log_is_a_line_like_ours(tmp_path: Path) -> None:
    """Python's own logging comes out as one object too, with what was bound, its traceback inside."""
    say = 'try:\n    1 / 0\nexcept ZeroDivisionError:\n    logging.getLogger("lib").exception("broke %s", "it")'

    [line] = told(tmp_path / "a.log", say)

    assert (line["event"], line["logger"], line["level"], line["action_id"]) == ("broke it", "lib", "error", "a1")
    assert line["exception"].endswith("ZeroDivisionError: division by zero")
    assert line["timestamp"].endswith("Z")


def test_console_lines_are_for_reading(tmp_path: Path) -> None:
    """`log.format: console`: no JSON, no colours, and the bound ids in them."""
    code = BEGIN.replace("LogSettings(", 'LogSettings(format="console", ').format(
        file=str(tmp_path / "a.log"), megabytes=1.0
    )
    say = 'log.info("act.done", why="x"); logging.getLogger("lib").error("broke")'
    subprocess.run([sys.executable, "-c", code + say], check=True)

    first, second = (tmp_path / "a.log").read_text().splitlines()

    assert "act.done" in first
    assert "action_id=a1" in first
    assert "broke" in second
    assert "\x1b" not in first + second


def test_the_event_that_is_handled_is_told_with_each_line(tmp_path: Path) -> None:
    """Agent, action and trace; what a line says itself comes first."""
    say = """
from types import SimpleNamespace
from conch.telemetry import handling
structlog.contextvars.clear_contextvars()
trace = "0af7651916cd43dd8448eb211c80319c"
handling.set(SimpleNamespace(agent="echo", action_id="a7", traceparent=f"00-{trace}-b7ad6b7169203331-01"))
log.info("x"); log.info("y", action_id="own")
"""

    first, second = told(tmp_path / "a.log", say)

    assert (first["agent_id"], first["action_id"], first["trace_id"][:4]) == ("echo", "a7", "0af7")
    assert second["action_id"] == "own"
