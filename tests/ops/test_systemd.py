"""ops/systemd: units that systemd takes, that are closed where they can be, and that leave Conch what it needs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.bus.server import STOP_SECONDS
from conch.config.environment import NOT_KEYS, read_environment
from conch.processes.supervisor import GRACE_SECONDS
from tests.ops.containers import OPS, PROGRAMS

if TYPE_CHECKING:
    from conch_schemas import JsonObject


UNITS = sorted((OPS / "systemd").glob("*.service"))
INSTALLED = "/opt/conch/bin/conch"
MOST_EXPOSED = 3.0
"""What `systemd-analyze security` may say at most, of 10."""


@pytest.fixture(params=UNITS, ids=lambda unit: str(unit.stem))
def unit(request: pytest.FixtureRequest, tmp_path: Path, needs: Callable[[str, str], None]) -> Path:
    """One of the units, as it stands where Conch is installed in this environment."""
    needs("systemd-analyze", "install systemd")
    copy = tmp_path / str(request.param.name)
    copy.write_text(request.param.read_text().replace(INSTALLED, str(PROGRAMS / "conch")))
    return copy


def said(unit: Path) -> dict[str, list[str]]:
    """Its [Service], each key with all that is said of it."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def test_systemd_takes_it_without_a_word(unit: Path) -> None:
    """`systemd-analyze verify`."""
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_is_exposed_to_little(unit: Path) -> None:
    """`systemd-analyze security`, without a running systemd."""
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", unit]
    done = subprocess.run(command, capture_output=True, text=True)

    [exposure] = re.findall(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
    assert float(exposure) < MOST_EXPOSED, done.stdout


def test_it_waits_longer_than_an_end_in_order_takes(unit: Path) -> None:
    """A run ends its agent, its consumers and its server one after the other, a consumer itself."""
    [seconds] = said(unit)["TimeoutStopSec"]

    longest = GRACE_SECONDS if "@" in unit.name else 2 * GRACE_SECONDS + STOP_SECONDS
    assert float(seconds.removesuffix("s")) > longest


def test_its_variables_are_settings_and_its_home_is_its_state(unit: Path) -> None:
    """None is misspelt; where the rest of the system cannot be written, the home can."""
    words = [word.partition("=") for line in said(unit)["Environment"] for word in line.split()]
    variables = {name: value for name, _, value in words}

    read_environment({name: value for name, value in variables.items() if name not in NOT_KEYS})
    assert variables["CONCH_HOME"] == f"%S/{said(unit)['StateDirectory'][0]}"


def test_the_sandbox_starts_under_its_filter_of_system_calls(
    sandboxed: Callable[[JsonObject], subprocess.CompletedProcess[str]], needs: Callable[[str, str], None]
) -> None:
    """The whole run's filter leaves bubblewrap what it calls; that of a single consumer does not."""
    needs("systemd-analyze", "install systemd")
    run, consume = (OPS / "systemd" / name for name in ("conch.service", "conch-consume@.service"))

    done = sandboxed({"syscalls": [{"names": sorted(allowed(run)), "action": "SCMP_ACT_ALLOW"}]})

    assert done.returncode == 0, done.stderr
    assert not {"mount", "pivot_root", "sethostname"} & allowed(consume)


def allowed(unit: Path) -> set[str]:
    """The system calls that its filter lets through."""
    found: set[str] = set()
    for line in said(unit)["SystemCallFilter"]:
        names = set().union(*(expanded(word) for word in line.removeprefix("~").split()))
        found = found - names if line.startswith("~") else found | names
    return found


def expanded(name: str) -> set[str]:
    """The system calls of a group of systemd's, or the one of that name."""
    if not name.startswith("@"):
        return {name}
    told = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], capture_output=True, text=True)
    lines = [line.strip() for line in told.stdout.splitlines()[1:]]
    return set().union(*(expanded(line) for line in lines if line and not line.startswith("#")))
