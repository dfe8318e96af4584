"""What a user's limits and closed streams do to a run: one sentence, or nothing."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.run.conftest import CONCH, PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.run.conftest import House


def under(house: Any, shell: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`conch ARGUMENTS` on this home, started by a shell after `shell`, or with its streams as that says."""
    command = f"{shell.format(conch=f'exec {CONCH} ' + ' '.join(arguments) + f' --home {house.home}')}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=2 * PATIENCE, check=False)


@pytest.mark.parametrize(
    ("shell", "status", "why"),
    [
        (
            "ulimit -n 32; {conch}",
            2,
            r"a process may open 32 files here \(ulimit -n\), a run needs 48: raise the limit",
        ),
        (
            "ulimit -d 62000; {conch}",
            1,
            r"no further process or thread may be started: raise the limit \(ulimit -u or -d",
        ),
        (
            "ulimit -v 600000; {conch}",
            3,
            r"nats-server did not start: it had not enough memory \(fatal error: [^)]*\); "
            r"this process may have 585 MiB of address space \(ulimit -v\): raise that limit or remove it"
            r".*nats-server\.err",
        ),
    ],
)
def test_a_limit_that_is_too_low_is_one_sentence(house: House, shell: str, status: int, why: str) -> None:
    """Its name, its value and what to do; the home is as it was."""
    ended = under(house, shell, "run", "--cycles", "1")

    assert ended.returncode == status, ended.stderr
    assert re.fullmatch(rf"(made [^\n]*\n)*conch: {why}[^\n]*\n", ended.stderr), ended.stderr
    house.run("--cycles", "1", "--script", house.endless())


def test_a_low_limit_of_open_files_is_raised_where_it_may_be(house: House) -> None:
    """The soft limit of a shell is no reason to refuse."""
    ended = under(house, "ulimit -Sn 32; {conch}", "run", "--cycles", "1")

    assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), ended.stderr


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_matter_to_a_run(house: House, streams: str) -> None:
    """What would be said there leads nowhere; the cycles are recorded."""
    ended = under(house, f"{{conch}} {streams}", "run", "--cycles", "2")

    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    assert [row["cycle"] for row in house.cycles()] == [0, 1]


def test_a_limit_of_a_command_is_one_sentence(house: House) -> None:
    """Also where no run begins."""
    house.live_through(1)

    ended = under(house, "ulimit -n 9; {conch}", "dlq", "list")

    assert ended.returncode == 3
    assert "(Too many open files): raise the limit" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (("run", "--cycles", "2"), 0, "not all can be written to stdout (No space left on device); the run goes on"),
        (("config", "schema"), 1, "conch: there is no room left on the device: make room"),
    ],
)
def test_what_a_full_disk_does_not_take_is_one_sentence(
    house: House, arguments: tuple[str, ...], status: int, why: str
) -> None:
    """A command whose output goes to a file; a run makes its cycles all the same."""
    ended = under(house, "{conch} >/dev/full", *arguments)

    assert ended.returncode == status, ended.stderr
    assert ended.stderr.count(why) == 1
    assert "Traceback" not in ended.stderr
    if status == 0:
        assert [row["cycle"] for row in house.cycles()] == [0, 1]


def test_a_machine_without_proc_is_one_sentence(house: House, needs: Callable[[str, str], None]) -> None:
    """A run finds what an earlier one left, and what its own processes do, there."""
    needs("unshare", "install util-linux")
    if subprocess.run(["unshare", "-m", "umount", "-l", "/proc"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mount namespaces are for root here")

    ended = under(house, "unshare -m bash -c 'umount -l /proc; {conch}'", "run", "--cycles", "1")

    assert ended.returncode == 2, ended.stderr
    assert ended.stderr == "conch: /proc is not mounted, a run looks after its processes there: mount it\n"
