"""`conch consume --workers`: several processes of one consumer, kept alive."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog

from conch.bus.server import die_with_parent
from conch.cli.common import Common, say, warn
from conch.errors import ConchError
from conch.supervisor import DEATHS, Watched

log = structlog.get_logger(__name__)


def run_workers(name: str, workers: int, common: Common, rules: Sequence[Path]) -> None:
    """Run `workers` processes of the consumer `name` until Ctrl-C; one that dies is started again.

    Raises ConchError when one cannot run, or dies again and again: the others are ended in order then.
    """
    command = [sys.executable, "-m", "conch.cli.main", "consume", name, "--home", str(common.where().path)]
    if common.config is not None:
        command += ["--config", str(common.config)]
    for rule in rules:
        command += ["--rules", str(rule)]
    asyncio.run(_keep(name, workers, command))


async def _keep(name: str, workers: int, command: Sequence[str]) -> None:
    stop = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    say(f"{workers} workers share {name}; Ctrl-C ends them")
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(1, workers + 1):
                group.create_task(_worker(f"{name} {number}", command, stop), name=f"conch.worker.{number}")
    except* ConchError as failed:
        raise failed.exceptions[0] from None


async def _worker(name: str, command: Sequence[str], stop: asyncio.Event) -> None:
    watched = Watched(name)
    while not stop.is_set():
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, start_new_session=True, preexec_fn=_dies_with_us
        )
        try:
            status = await _until(process, stop)
        finally:
            if process.returncode is None:
                process.kill()
        if stop.is_set():
            return
        if status in (2, 3):
            raise ConchError(f"worker {name} cannot run (it says why): exit status {status}")
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        if not watched.died(how):
            raise ConchError(f"worker {name} died {DEATHS} times in a minute ({how})")
        warn(f"worker {name} died ({how}) and is started again")
        await asyncio.sleep(watched.backoff())


async def _until(process: asyncio.subprocess.Process, stop: asyncio.Event) -> int:
    """Its exit status; told to stop, it is asked to end and waited for."""
    stopping, ending = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({stopping, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            process.send_signal(signal.SIGTERM)
        return await ending
    finally:
        stopping.cancel()


def _dies_with_us() -> None:
    die_with_parent(signal.SIGKILL)
