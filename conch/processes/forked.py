"""Child processes forked off the supervisor before it has an event loop, threads or files of its own.

They share the modules that it imported: they start sooner, and their memory is its own until they write to it. A child
that dies is started again as a program of its own (`supervisor`), as a process with threads cannot be forked safely.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from conch.bus import die_with_parent
from conch.python_child import DIRECTORY, ONE_THREAD, environment


@dataclass(frozen=True)
class ForkedModule:
    """What a child runs: the `main()` of a module, at a niceness (nice(2), 0..19)."""

    module: str
    nice: int = 0


class ForkedProcess:
    """A forked child, with the members of `asyncio.subprocess.Process` that the supervisor uses."""

    def __init__(self, name: str, runs: ForkedModule, before: Sequence[ForkedProcess]) -> None:
        """Fork. The child waits for its start spec, and ends where none comes; it closes our ends of its own pipes and
        of those of the children forked `before`, which would not end with us else."""
        stdin, self._to_stdin = os.pipe()
        self._from_stdout, stdout = os.pipe()
        others = [end for each in (*before, self) for end in (each._to_stdin, each._from_stdout)]
        module = importlib.import_module(runs.module)
        self._process = multiprocessing.get_context("fork").Process(
            target=_live, args=(module, runs.nice, stdin, stdout, others), name=name, daemon=True
        )
        sys.stdout.flush()
        sys.stderr.flush()
        before_fork = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the child ignores it
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before_fork)
        os.close(stdin)
        os.close(stdout)
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self._ended = asyncio.Event()

    async def connect(self, limit: int) -> None:
        """Open its pipes in the running event loop. `limit`: the longest line of its stdout that is read, in bytes."""
        loop = asyncio.get_running_loop()
        self.stdout = reader = asyncio.StreamReader(limit=limit)
        protocol = asyncio.StreamReaderProtocol(reader)
        await loop.connect_read_pipe(lambda: protocol, os.fdopen(self._from_stdout, "rb", buffering=0))
        transport, _ = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(self._to_stdin, "wb", buffering=0)
        )
        self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
        loop.add_reader(self._process.sentinel, self._note_end)

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._ended.set()

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative where a signal ended it; None while it runs."""
        return self._process.exitcode

    async def wait(self) -> int:
        """Its exit status, once it has ended; after `connect`."""
        await self._ended.wait()
        self._process.join()  # the end of its sentinel comes a moment before the end of the process
        assert self._process.exitcode is not None
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()


@contextlib.contextmanager
def forked(children: Mapping[str, ForkedModule]) -> Iterator[dict[str, ForkedProcess]]:
    """Fork a child for each name; those that are left at the end are ended. Where forking is not safe (macOS), none.

    To be called before this process has an event loop, threads or a lock: a child would inherit them.
    """
    if sys.platform != "linux":
        yield {}
        return
    os.environ.update(ONE_THREAD)
    for child in children.values():
        importlib.import_module(child.module)
    gc.freeze()  # else the children's collectors would write to, and so copy, the memory that they share
    processes: list[ForkedProcess] = []
    try:
        for name, child in children.items():
            processes.append(ForkedProcess(name, child, processes))
        yield dict(zip(children, processes, strict=True))
    finally:
        for process in processes:
            process.kill()


def _live(module: ModuleType, nice: int, stdin: int, stdout: int, others: Sequence[int]) -> None:
    """Runs in the child: as if it had been started as a program, with the pipes as its stdin and stdout."""
    os.nice(nice)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    die_with_parent(signal.SIGKILL)
    for descriptor in others:
        os.close(descriptor)
    for descriptor, standard in ((stdin, 0), (stdout, 1)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    sys.stdin = os.fdopen(0)
    kept = environment(secrets=True)  # relative paths in it are relative to the directory of the run
    os.chdir(DIRECTORY)
    os.environ.clear()
    os.environ.update(kept)
    module.main()
