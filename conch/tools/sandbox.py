"""Where programs run: bubblewrap around them, limits on them, and nothing of them left when they are done."""

from __future__ import annotations

import asyncio
import contextlib
import math
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from conch.config import ToolSettings
from conch.tools import bubblewrap
from conch.tools.cgroup import group
from conch.tools.pipes import Pipe, pipe, text
from conch.tools.program import Limits, Program

HOW = (
    "install bubblewrap 0.8 or newer (apt-get install bubblewrap), allow it user namespaces, "
    "or set tools.sandbox: off to run programs unconfined"
)

MAX_OPEN_FILES = 512
"""Descriptors of one process."""

_LIMITED = 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; {} || exit 125; exec "$@"'
"""Limits are set by a shell that becomes the program: code of ours between fork and exec may hang where there are
threads. When memory is short the program goes first."""


@dataclass(frozen=True)
class ProcessResult:
    """How a program came out."""

    status: Literal["success", "error", "timeout", "blocked"]
    """`error`: an exit status that is not 0, or a limit. `blocked`: nothing was run."""
    exit_code: int | None = None
    """128 + the signal for a program that a signal ended; None for one that a limit ended or that was not run."""
    output: str = ""
    """Standard output and standard error as they came."""
    error: str | None = None
    """One sentence; None on success."""


class Sandbox:
    """Runs programs in a workspace, confined as `settings.sandbox` says. May be shared.

    Confined, a program sees the system's programs and libraries read-only, the workspace at /workspace, a /tmp of its
    own, nothing else; there is no network. Time, output, processes and memory are bounded in both modes. Memory means
    `memory_mib` for one process and for all of them together.
    """

    def __init__(self, settings: ToolSettings) -> None:
        self.settings = settings
        self._works = settings.sandbox == "off"

    def detect(self) -> str | None:
        """Why programs cannot be confined here and what to do, in one sentence; None when they can, or need not be.

        Runs bubblewrap for real (some milliseconds), until it has worked once.
        """
        problem = None if self._works else self._try()
        self._works = problem is None
        return None if problem is None else f"programs cannot be confined here ({problem}): {HOW}"

    async def run(
        self, argv: Sequence[str], *, workspace: Path, timeout: float, env: Mapping[str, str] | None = None
    ) -> ProcessResult:
        """Run a program in `workspace` for at most `timeout` seconds, with `env` added to the few variables there are.

        Returns, also when the time is up or a limit is reached, once everything that the program started has died
        (unconfined: what has not left its session). Raises nothing of its own; a cancelled call ends it all first.
        """
        problem = None if self._works else await asyncio.to_thread(self.detect)
        if problem is not None:
            return ProcessResult("blocked", error=problem)
        if not _is_directory(workspace):
            return ProcessResult("error", error=f"the workspace {workspace} is gone; make the directory again")
        if any("\0" in word for word in argv):
            return ProcessResult("error", error="a NUL character cannot be in a command")
        with contextlib.ExitStack() as stack:
            try:
                program = self._start(stack, list(argv), workspace, timeout, env or {})
            except OSError as error:
                return ProcessResult("error", error=f"the program could not be started: {error}")
            excess = await program.wait(timeout)
            return self._result(program, excess)

    def _start(
        self, stack: contextlib.ExitStack, argv: list[str], workspace: Path, timeout: float, env: Mapping[str, str]
    ) -> Program:
        group_ = stack.enter_context(group(self.settings.processes))
        output, status = stack.enter_context(pipe()), stack.enter_context(pipe())
        with contextlib.ExitStack() as theirs:
            command, descriptors = self._command(theirs, argv, workspace, env, status)
            process = subprocess.Popen(
                self._limited(command, timeout, group_.door if group_ else None),
                stdin=subprocess.DEVNULL,
                stdout=output.write,
                stderr=output.write,
                cwd=workspace if self.settings.sandbox == "off" else "/",
                env=self._environment(str(workspace), env),
                pass_fds=descriptors,
                start_new_session=True,
            )
        output.close_write()
        status.close_write()
        limits = Limits(self.settings.processes, self.settings.memory_mib, self.settings.output_kib)
        return Program(process, output, status, group_, limits)

    def _result(self, program: Program, excess: tuple[Literal["error", "timeout"], str] | None) -> ProcessResult:
        output, code = program.output(), program.process.returncode
        if excess is not None:
            return ProcessResult(excess[0], output=output, error=excess[1])
        if self.settings.sandbox == "bwrap" and "exit-code" not in program.report and code > 0:
            if "\nbwrap: execvp " not in f"\n{output}":
                return ProcessResult("blocked", error=f"the sandbox could not be made: {output.strip() or code}")
            code = 127
        code = 128 - code if code < 0 else code
        if code:
            return ProcessResult("error", code, output, f"the command ended with exit status {code}")
        return ProcessResult("success", 0, output)

    def _command(
        self, stack: contextlib.ExitStack, argv: list[str], workspace: Path, env: Mapping[str, str], status: Pipe
    ) -> tuple[list[str], list[int]]:
        """The program inside of its sandbox, and the descriptors that the sandbox needs."""
        if self.settings.sandbox == "off":
            return argv, []
        users = stack.enter_context(text(bubblewrap.USERS.encode()))
        refused = bubblewrap.seccomp_filter()
        seccomp = stack.enter_context(text(refused)) if refused else None
        options = bubblewrap.arguments(
            workspace.resolve(),
            self._environment(bubblewrap.INSIDE, env),
            tmp_bytes=self.settings.file_mib * 2**20,
            passwd=users,
            status=status.write,
            seccomp=seccomp,
        )
        descriptors = [users, status.write] if seccomp is None else [users, status.write, seccomp]
        return [shutil.which("bwrap") or "bwrap", *options, "--", *argv], descriptors

    def _limited(self, command: list[str], timeout: float, door: Path | None) -> list[str]:
        limits = {
            "-c": 0,
            "-f": _at_most(resource.RLIMIT_FSIZE, self.settings.file_mib * 2**20) // 512,
            "-n": _at_most(resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
            "-t": _at_most(resource.RLIMIT_CPU, math.ceil(timeout) + 1),
        }
        if sys.platform == "linux":
            limits["-v"] = _at_most(resource.RLIMIT_AS, self.settings.memory_mib * 2**20) // 1024
        setting = [f"ulimit {flag} {limit}" for flag, limit in limits.items()]
        setting += [f"echo $$ >{door}"] if door else []
        return ["/bin/sh", "-c", _LIMITED.format(" && ".join(setting)), "sh", *command]

    def _environment(self, home: str, env: Mapping[str, str]) -> dict[str, str]:
        """All the variables there are. Python writes no .pyc, whose times are too coarse for an agent's edits."""
        own = {"HOME": home, "LANG": "C.UTF-8", "PATH": bubblewrap.search_path(), "TERM": "dumb", "USER": "agent"}
        return own | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"} | dict(env)

    def _try(self) -> str | None:
        if shutil.which("bwrap") is None:
            return "there is no bwrap"
        with contextlib.ExitStack() as stack:
            workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conch-")))
            command, descriptors = self._command(stack, ["true"], workspace, {}, stack.enter_context(pipe()))
            try:
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, env={}, pass_fds=descriptors, timeout=10
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return str(error)
        if done.returncode == 0:
            return None
        return " ".join(done.stderr.decode(errors="replace").split()) or f"bwrap ended with {done.returncode}"


def _is_directory(path: Path) -> bool:
    return path.is_dir()


def _at_most(which: int, wanted: int) -> int:
    """A limit cannot be raised over what this process itself is held to."""
    hard = resource.getrlimit(which)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
