"""A program that embeds Conch: no line of Conch is printed until the program configures structlog."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conch_schemas import ActionTaken, encode

ROOT = Path(__file__).parents[2]
CONFIGURE = "import structlog; structlog.configure()\n"
LINES = """
from conch.log import get_logger
log = get_logger("conch.any")
log.debug("a"); log.info("b"); log.warning("c"); log.error("d"); log.critical("e"); log.bind(f=1).error("g")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("h")
"""
CONSUMER = """
import asyncio, sys
from conch.bus import MemoryBus, shared_subscription
from conch.consumer import ConsumerRuntime, ConsumerSpec
from conch_schemas import ActionTaken, decode, encode, subject_of

act = decode(sys.stdin.buffer.read())

def broken(action):
    raise ValueError("broken on purpose")

async def main():
    stop = asyncio.Event()
    spec = ConsumerSpec("broken", "1", (ActionTaken,), broken, tries=1)
    async with MemoryBus() as bus, shared_subscription(bus, spec.kinds) as shared:
        running = asyncio.create_task(ConsumerRuntime(shared, spec).run(stop))
        await bus.publish(subject_of(act), encode(act), id=act.id)
        while (await bus.state()).last < 2:  # the dead letter
            await asyncio.sleep(0)
        stop.set()
        await running

asyncio.run(main())
"""


def _printed(program: str, given: bytes = b"") -> str:
    """What a process prints that is given this on its stdin."""
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, timeout=60, check=True)
    return (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("program", [LINES, CONSUMER], ids=["every level", "a consumer that fails"])
def test_nothing_is_printed_until_the_program_configures_structlog(
    program: str, act: Callable[[], ActionTaken]
) -> None:
    """No level of any line; afterwards the lines go where the program wants them."""
    given = encode(act())

    assert _printed(program, given) == ""
    assert "[error" in _printed(CONFIGURE + program, given)


def test_a_logger_follows_a_later_configuration() -> None:
    """Also where lines were dropped before it."""
    assert _printed(LINES + CONFIGURE + "log.info('after')").count("\n") == 1


@pytest.mark.parametrize("folder", ["conch", "services", "schemas"])
def test_every_logger_is_of_this_kind(folder: str) -> None:
    """structlog's own get_logger is called in one place."""
    for path in (ROOT / folder).rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        direct = [node for node in calls if ast.unparse(node) == "structlog.get_logger"]
        assert not direct or path.name == "log.py", f"{path}: conch.log.get_logger"
