"""The sandbox: runs programs confined by bubblewrap and resource limits, and kills all their processes at the end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal

from conch.config import ToolSettings
from conch.errors import ToolError
from conch.processes import BubblewrapTrial, SandboxHost, bubblewrap_remedy, try_bubblewraps
from conch.tools.isolation import bubblewrap
from conch.tools.isolation.cgroup import group
from conch.tools.isolation.output import Overflow, ProgramOutput
from conch.tools.isolation.pipes import Pipe, pipe, text
from conch.tools.isolation.program import ProgramLimits, RunningProgram
from conch.tools.isolation.root import WorkspaceRoot
from conch.tools.repository_guard.guard import GitGuard

RETRY_SECONDS = 10.0
"""After a failed trial the next one is made so much later: a machine may be allowed namespaces during a run."""

MAX_OPEN_FILES = 512
"""Descriptors per process."""

KERNEL_MIB = 64
"""MiB that sockets, pipes and file names may take in the kernel, limited by a control group."""

MAX_REFUSALS = 3
"""Most files of a repository named in an error."""

_WATCHED = "{{ read -r _ </dev/fd/{}; kill -9 0; }} >/dev/null 2>&1 &"
"""Kills the program's process group when the other end of a pipe is closed, as the agent has died; bubblewrap needs no
such watch: it does that itself."""

_LIMITED = 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; {} {} || exit 125; exec "$@"'
"""A shell sets the limits and then becomes the program: Python code between fork and exec may deadlock where there are
threads. When memory is short the kernel kills the program first."""


@dataclass(frozen=True)
class ProcessResult:
    """The outcome of a program."""

    status: Literal["success", "error", "timeout", "blocked"]
    """`error`: an exit status that is not 0, or a limit. `blocked`: nothing was run."""
    exit_code: int | None = None
    """128 + the signal for a program killed by a signal; None for one that a limit ended or that was not run."""
    output: str = ""
    """Standard output and standard error, in order of arrival."""
    error: str | None = None
    """One sentence; None on success."""


@dataclass(frozen=True)
class SandboxJob:
    """A command with its workspace, environment and mounts."""

    argv: tuple[str, ...]
    workspace: Path
    timeout: float
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: IO[bytes] | None = None
    mounts: tuple[str, ...] = ()
    """Options for bubblewrap: mounts over the workspace."""
    overflow: Overflow | None = None
    """Where its output goes that is too long to be shown; None: nowhere, and `output_kib` ends it."""


class Sandbox:
    """Runs programs in a workspace, confined as `settings.sandbox` says. May be shared between agents.

    A confined program sees the system's programs and libraries read-only, the workspace at /workspace, its own /tmp and
    nothing else; there is no network. Time, output, processes and memory are bounded in both modes. `memory_mib` is the
    limit for each process and for all of them together.
    """

    def __init__(self, settings: ToolSettings) -> None:
        self.settings = settings
        self._trial: BubblewrapTrial | None = None
        self._tried_at = 0.0

    @property
    def trial(self) -> BubblewrapTrial | None:
        """The last trial of bubblewrap by `detect`; None: there was none."""
        return self._trial

    def detect(self) -> str | None:
        """Why programs cannot be confined here and what to do, in one sentence; None if they can, or need not be.

        Runs bubblewrap (some milliseconds), until it has succeeded once; after a failure at most every RETRY_SECONDS.
        """
        if not self._is_settled():
            self._trial, self._tried_at = self._try(), time.monotonic()
        if self._trial is None or self._trial.program is not None:
            return None
        remedy = bubblewrap_remedy(self._trial, SandboxHost.here())
        return (
            f"programs cannot be confined here ({self._trial.why_none}): {remedy}, "
            "or set tools.sandbox: off to run programs unconfined"
        )

    async def detect_aside(self) -> str | None:
        """The same, with the trial in a thread."""
        return self.detect() if self._is_settled() else await asyncio.to_thread(self.detect)

    def _is_settled(self) -> bool:
        """Whether no trial is due."""
        if self.settings.sandbox == "off":
            return True
        if self._trial is None:
            return False
        return self._trial.program is not None or time.monotonic() - self._tried_at < RETRY_SECONDS

    def unconfined(self) -> Sandbox:
        """A sandbox with the same limits and no confinement: for system programs that open no file."""
        return Sandbox(self.settings.model_copy(update={"sandbox": "off"}))

    async def run(
        self,
        argv: Sequence[str],
        *,
        workspace: Path,
        timeout: float,
        env: Mapping[str, str] | None = None,
        stdin: IO[bytes] | None = None,
        overflow: Overflow | None = None,
    ) -> ProcessResult:
        """Run a program in `workspace` for at most `timeout` seconds, with `env` added to the minimal environment.

        It reads `stdin`, a file, or nothing. An output that is too long to be shown goes into `overflow`, whole, and is
        shown in part; without one a program that writes more than `output_kib` is ended.

        Returns, also at a time or resource limit, once everything that the program started has died (unconfined: what
        has not left its session). It raises no errors of its own; a cancelled call kills everything first.
        """
        problem = await self.detect_aside()
        if problem is not None:
            return ProcessResult("blocked", error=problem)
        if not _is_directory(workspace):
            return ProcessResult("error", error=f"the workspace {workspace} is gone; make the directory again")
        if any("\0" in word for word in argv):
            return ProcessResult("error", error="a NUL character cannot be in a command")
        job = SandboxJob(tuple(argv), workspace, timeout, env or {}, stdin, overflow=overflow)
        try:
            root = WorkspaceRoot(workspace)
        except OSError as error:
            return ProcessResult("error", error=f"the workspace {workspace} cannot be used ({error.strerror})")
        with contextlib.closing(root):
            try:
                done = await self._guarded(job)
            finally:
                root.restore()
            if root.is_replaced():
                return replace(done, status="error", error=f"the command replaced the workspace: put {workspace} back")
            return done

    async def _guarded(self, job: SandboxJob) -> ProcessResult:
        if self.settings.sandbox == "off":
            return await self._run(job)
        guard = GitGuard(job.workspace)
        try:
            done = await self._run(replace(job, mounts=tuple(await guard.begin())))
        except (ToolError, OSError) as error:
            return ProcessResult("error", error=f"the program could not be started: {error}")
        finally:
            refused = await guard.end()
        return _with_refusals(done, refused)

    async def _run(self, job: SandboxJob) -> ProcessResult:
        with contextlib.ExitStack() as stack:
            try:
                program = self._start(stack, job)
            except OSError as error:
                return ProcessResult("error", error=f"the program could not be started: {error}")
            excess = await program.wait(job.timeout)
            return self._result(program, excess)

    def _start(self, stack: contextlib.ExitStack, job: SandboxJob) -> RunningProgram:
        group_ = stack.enter_context(group(self.settings.processes, self._whole_memory()))
        output, status, alive = (stack.enter_context(pipe()) for _ in range(3))
        with contextlib.ExitStack() as theirs:
            command, descriptors = self._command(theirs, job, status)
            process = subprocess.Popen(
                self._limited(command, job.timeout, group_.doors, alive.read),
                stdin=job.stdin or subprocess.DEVNULL,
                stdout=output.write,
                stderr=output.write,
                cwd=job.workspace if self.settings.sandbox == "off" else "/",
                env=self._environment(str(job.workspace), job.env),
                pass_fds=descriptors or [alive.read],  # descriptors given to bubblewrap reach the program
                start_new_session=True,
            )
        output.close_write()
        status.close_write()
        limits = ProgramLimits(self.settings.processes, self.settings.memory_mib)
        content = ProgramOutput(self.settings.output_kib * 1024, job.overflow)
        return RunningProgram(process, output, status, group_, limits, content)

    def _result(self, program: RunningProgram, excess: tuple[Literal["error", "timeout"], str] | None) -> ProcessResult:
        output, code = program.output(), program.process.returncode
        if excess is not None:
            return ProcessResult(excess[0], output=output, error=excess[1])
        if self.settings.sandbox == "bwrap" and "exit-code" not in program.report and code > 0:
            if "\nbwrap: execvp " not in f"\n{output}":
                self._trial = None  # what worked before does not any more: the next call tries anew
                return ProcessResult("blocked", error=f"the sandbox could not be made: {output.strip() or code}")
            code = 127
        code = 128 - code if code < 0 else code
        if code:
            return ProcessResult("error", code, output, f"the command ended with exit status {code}")
        return ProcessResult("success", 0, output)

    def _command(self, stack: contextlib.ExitStack, job: SandboxJob, status: Pipe) -> tuple[list[str], list[int]]:
        """The command line inside its sandbox, and the descriptors that the sandbox needs."""
        if self.settings.sandbox == "off":
            return list(job.argv), []
        program = self._trial.program if self._trial is not None else None
        assert program is not None, "detect comes first"
        return self._confined(program, stack, job, status)

    def _confined(
        self, program: str, stack: contextlib.ExitStack, job: SandboxJob, status: Pipe
    ) -> tuple[list[str], list[int]]:
        """The command line of a job in the sandbox that `program` makes, and the descriptors that it needs."""
        users = stack.enter_context(text(bubblewrap.USERS.encode()))
        gitconfig = stack.enter_context(text(bubblewrap.GITCONFIG.encode()))
        refused = bubblewrap.seccomp_filter()
        seccomp = stack.enter_context(text(refused)) if refused else None
        options = bubblewrap.arguments(
            job.workspace.resolve(),
            self._environment(bubblewrap.INSIDE, job.env),
            mounts=job.mounts,
            tmp_bytes=self.settings.file_mib * 2**20,
            passwd=users,
            gitconfig=gitconfig,
            status=status.write,
            seccomp=seccomp,
        )
        descriptors = [users, gitconfig, status.write, *([] if seccomp is None else [seccomp])]
        return [program, *options, "--", *job.argv], descriptors

    def _limited(self, command: list[str], timeout: float, doors: tuple[Path, ...], alive: int) -> list[str]:
        limits = {
            "-c": 0,
            "-f": _at_most(resource.RLIMIT_FSIZE, self.settings.file_mib * 2**20) // 512,
            "-n": _at_most(resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
            "-t": _at_most(resource.RLIMIT_CPU, math.ceil(timeout) + 1),
        }
        if sys.platform == "linux":
            limits["-v"] = _at_most(resource.RLIMIT_AS, self.settings.memory_mib * 2**20) // 1024
        setting = [f"ulimit {flag} {limit}" for flag, limit in limits.items()]
        setting += [f"echo $$ >{door}" for door in doors]
        watched = _WATCHED.format(alive) if self.settings.sandbox == "off" else ""
        return ["/bin/sh", "-c", _LIMITED.format(watched, " && ".join(setting)), "sh", *command]

    def _whole_memory(self) -> int:
        """Bytes in all, including files in /tmp and /dev/shm and the kernel's memory for the program."""
        return (self.settings.memory_mib + 2 * self.settings.file_mib + KERNEL_MIB) * 2**20

    def _environment(self, home: str, env: Mapping[str, str]) -> dict[str, str]:
        """The whole environment. Python writes no .pyc: their time stamps are too coarse for an agent's edits."""
        own = {"HOME": home, "LANG": "C.UTF-8", "PATH": bubblewrap.search_path(), "TERM": "dumb", "USER": "agent"}
        return own | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"} | dict(env)

    def _try(self) -> BubblewrapTrial:
        with contextlib.ExitStack() as stack:
            workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conch-")))
            job, status = SandboxJob(("true",), workspace, 10.0), stack.enter_context(pipe())
            return try_bubblewraps(lambda program: self._confined(program, stack, job, status))


def _with_refusals(done: ProcessResult, refused: list[str]) -> ProcessResult:
    """Make the result an error if the program tried something forbidden, also if it succeeded itself."""
    if not refused or done.status == "timeout":
        return done
    shown = "; ".join(refused[:MAX_REFUSALS]) + ("; ..." if len(refused) > MAX_REFUSALS else "")
    return replace(done, status="error", error=f"not kept, because git would run it or take orders from it: {shown}")


def _is_directory(path: Path) -> bool:
    return path.is_dir()


def _at_most(which: int, wanted: int) -> int:
    """The wanted limit, at most that of this process, which cannot be raised."""
    hard = resource.getrlimit(which)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
