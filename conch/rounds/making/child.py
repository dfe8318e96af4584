"""The training child as its parent sees it: one process in a group of its own, that is ended with its parent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from conch.errors import ContractError
from conch.python_child import DIRECTORY, environment, python_command
from conch.tasks import uninterrupted
from conch.training import (
    ScoresAsked,
    ScoresGiven,
    TrainingFailure,
    TrainingJob,
    TrainingReport,
    TrainingResult,
    decode_training_report,
)

CHILD: Final = "conch.training.child"
LINE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a report: questions of GRPO come with whole replies."""
END_SECONDS: Final = 10.0
"""Seconds that a child has to end after its last report; then it is killed."""
NO_SCORES: Final = "the training process asks for scores of replies, and nothing here scores them"
SHOWN: Final = 300
"""Characters of the child's last words that a failure has."""

ScoreReplies = Callable[[ScoresAsked], Awaitable[ScoresGiven]]


async def run_child(
    job: TrainingJob, log: Path, *, score: ScoreReplies | None = None, command: Sequence[str] | None = None
) -> AsyncGenerator[TrainingReport, None]:
    """The reports of a child that trains this job; the last one is a result, a forecast or a failure.

    What it prints goes to the file `log`. A child that ends without a last report, or writes a line that is none, gives
    a failure that says so. Closed early or cancelled, its whole group is killed. `score` answers its questions for
    scores; they are no reports. `command`: another program that speaks the same protocol.
    """
    with log.open("ab") as said:
        process = await asyncio.create_subprocess_exec(
            *(command or python_command(CHILD)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
            cwd=DIRECTORY,
            env=environment(),
            start_new_session=True,
            limit=LINE_LIMIT,
        )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(job.encode())
            await process.stdin.drain()
        while True:
            report = await _next(process.stdout, job)
            if report is None:
                yield await _silent(process, job, log)
                return
            if isinstance(report, ScoresAsked):
                if score is None:
                    yield TrainingFailure(round=job.round, reason=NO_SCORES, can_retry=False)
                    return
                process.stdin.write((await score(report)).encode())
                await process.stdin.drain()
                continue
            yield report
            if isinstance(report, TrainingResult | TrainingFailure) or report.kind == "dry_run":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(END_SECONDS):
                        await process.wait()
                return
    finally:
        await uninterrupted(_end(process), name="conch.trainer.end")


async def _next(reports: asyncio.StreamReader, job: TrainingJob) -> TrainingReport | None:
    """The next report; None: the child has ended, or closed its stdout."""
    try:
        line = await reports.readline()
        return decode_training_report(line) if line.endswith(b"\n") else None
    except (ContractError, ValueError) as error:
        reason = f"the training process wrote what is no report of it: {error}"
        return TrainingFailure(round=job.round, reason=reason, can_retry=False)


async def _silent(process: asyncio.subprocess.Process, job: TrainingJob, log: Path) -> TrainingFailure:
    code = await process.wait()
    how = f"was killed by signal {-code} ({_signal_name(-code)})" if code < 0 else f"ended with status {code}"
    hint = (
        ": the machine may be out of memory; set training.batch_size lower, or free some memory" if code == -9 else ""
    )
    words = _last_words(log) if code >= 0 else ""
    reason = f"the training process {how} without a result{hint}{f': {words}' if words else ''}"
    return TrainingFailure(round=job.round, reason=reason, can_retry=True)


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return "unknown"


def _last_words(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_bytes()[-4096:].decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:SHOWN] if lines else ""
    return ""


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the child's group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
