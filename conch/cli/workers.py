"""`conch consume --workers`: runs several worker processes of one consumer and restarts them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from pathlib import Path

from conch.bus import die_with_parent
from conch.cli.common import CommonOptions, open_bus, say, warn
from conch.consumer.group import own_name
from conch.errors import ConchError
from conch.processes import ChildRecord
from conch.python_child import environment, python_command
from conch.retry import MOST_RESTARTS
from conch.tasks import race


def run_workers(name: str, workers: int, common: CommonOptions, rules: Sequence[Path]) -> None:
    """Run `workers` processes of the consumer `name` until Ctrl-C; one that dies is started again, under the name that
    it had, so that its share is its own again at once.

    Raises BusUnreachableError where there is no bus, ConchError when a worker cannot run, dies again and again, or
    does not end in order: the others are ended in order then.
    """
    command = python_command("conch.cli.main", "consume", name, "--home", str(common.where().path))
    if common.config is not None:
        command += ["--config", str(common.config)]
    for rule in rules:
        command += ["--rules", str(rule)]
    asyncio.run(_keep(name, workers, command, common))


async def _keep(name: str, workers: int, command: Sequence[str], common: CommonOptions) -> None:
    async with open_bus(common.where(), common.settings()):
        pass  # the error was reported already
    stop, hurry = asyncio.Event(), asyncio.Event()
    failed: list[ConchError] = []
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, lambda: (hurry if stop.is_set() else stop).set())

    async def kept(number: int) -> None:
        try:
            named = [*command, "--worker", f"{own_name()}-{number}"]
            await _worker(f"{name} {number}", named, stop, hurry)
        except ConchError as error:
            failed.append(error)
            stop.set()

    say(f"{workers} workers share {name}; Ctrl-C ends them")
    async with asyncio.TaskGroup() as group:
        for number in range(1, workers + 1):
            group.create_task(kept(number), name=f"conch.worker.{number}")
    if failed:
        raise failed[0]


async def _worker(name: str, command: Sequence[str], stop: asyncio.Event, hurry: asyncio.Event) -> None:
    watched = ChildRecord(name)
    while not stop.is_set():
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            env=environment(settings=True, secrets=True),  # in our directory: paths in its settings are relative to it
            start_new_session=True,  # Ctrl-C on the terminal is ours to pass on
            preexec_fn=_dies_with_us,
        )
        try:
            status = await _until_ended(process, stop, hurry)
        finally:
            if process.returncode is None:
                process.kill()
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        if stop.is_set() and status <= 0:
            return
        if stop.is_set() or status in (2, 3):
            error = ConchError(f"worker {name} {'did not end in order' if stop.is_set() else 'cannot run'} ({how})")
            error.exit_code = status
            raise error
        if not watched.died(how):
            raise ConchError(f"worker {name} died {MOST_RESTARTS} times in a minute ({how})")
        warn(f"worker {name} died ({how}) and is started again")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(watched.backoff()):
                await stop.wait()


async def _until_ended(process: asyncio.subprocess.Process, stop: asyncio.Event, hurry: asyncio.Event) -> int:
    """Its exit status. At `stop` it is asked to end, at `hurry` once more: then it does so at once."""
    for event in (stop, hurry):
        await race({"conch.worker.end": process.wait(), "conch.worker.stop": event.wait()})
        if process.returncode is not None:
            break
        process.send_signal(signal.SIGTERM)
    return await process.wait()


def _dies_with_us() -> None:
    die_with_parent(signal.SIGKILL)
