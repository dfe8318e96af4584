"""One hostile program a test: each tries a way out of the sandbox, or past its limits."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import conch.tools.isolation.sandbox
from conch.actions import render
from conch.tools import ProcessResult, Sandbox, ToolContext
from conch.tools.isolation.cgroup import ControlGroup
from conch_schemas import Action, Outcome

Act = Callable[..., Awaitable[Outcome]]

pytestmark = pytest.mark.timeout(90)


def files(operation: str, path: str, **args: str) -> str:
    given = {"operation": operation, "path": path, **args}
    return render(Action.model_validate({"kind": "TOOL", "valid": True, "tool": "filesystem", "args": given}))


@pytest.fixture
def python(bwrap: Sandbox, workspace: Path) -> Callable[..., Awaitable[ProcessResult]]:
    """Runs a program in the sandbox."""

    async def run(script: str) -> ProcessResult:
        return await bwrap.run(["python3", "-S", "-E", "-c", script], workspace=workspace, timeout=20)

    return run


Run = Callable[[str], Awaitable[ProcessResult]]

FILL_SOCKETS = """
import os, socket, time
for _ in range(7):
    if os.fork() == 0: break
held = []
try:
    while True:
        held += socket.socketpair()
        for one in held[-2:]:
            one.setblocking(False)
            try:
                while one.send(b"x" * 65536): pass
            except BlockingIOError: pass
except OSError: pass
time.sleep(30)
"""

NAMES = "n = 0\nwhile True:\n open(f'/tmp/{n}', 'x').close(); n += 1"


@pytest.mark.parametrize("option", ["SO_SNDBUF", "SO_RCVBUF"])
async def test_buffers_of_sockets_cannot_be_raised(python: Run, option: str) -> None:
    """What a socket holds is the machine's default."""
    done = await python(
        f"import socket; socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.{option}, 1 << 22)"
    )

    assert "Operation not permitted" in done.output


async def test_other_options_of_sockets_can_be_set(python: Run) -> None:
    """A server sets what servers set."""
    done = await python(
        "import socket; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); "
        "s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); "
        "s.setsockopt(socket.IPPROTO_IP, 8, 1); s.bind(('127.0.0.1', 0)); s.listen()"
    )

    assert (done.status, done.output) == ("success", "")


async def test_buffers_of_pipes_cannot_be_raised(python: Run) -> None:
    """A pipe holds 64 KiB; the other commands of fcntl work."""
    done = await python(
        "import os, fcntl; r, w = os.pipe(); print(fcntl.fcntl(w, 1032), fcntl.fcntl(w, fcntl.F_GETFD), flush=True); "
        "fcntl.fcntl(w, 1031, 1 << 20)"
    )

    assert done.output.startswith("65536 1\n")
    assert "Operation not permitted" in done.output


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("script", [FILL_SOCKETS, NAMES], ids=["sockets", "names"])
async def test_memory_of_the_kernel_counts(
    bwrap: Sandbox, workspace: Path, monkeypatch: pytest.MonkeyPatch, script: str, grouped: bool
) -> None:
    """What the kernel keeps for a program's sockets and for empty files in memory is the program's memory."""
    small = Sandbox(bwrap.settings.model_copy(update={"memory_mib": 64}))
    if not grouped:
        monkeypatch.setattr(conch.tools.isolation.sandbox, "group", no_group)

    done = await small.run(["python3", "-S", "-E", "-c", script], workspace=workspace, timeout=60)

    assert (done.status, done.error) == ("error", "the program took more than 64 MiB of memory and was ended")


@contextlib.contextmanager
def no_group(processes: int, memory_bytes: int) -> Iterator[ControlGroup]:
    yield ControlGroup(None, None)


@pytest.mark.parametrize("call", [(68, 186), (64, 190), (300, 262)], ids=["msgget", "semget", "fanotify_init"])
async def test_memory_that_nobody_counts_is_not_there(python: Run, call: tuple[int, int]) -> None:
    """Queues, semaphores and watches of the kernel's, which outlive the one that made them."""
    number = call[os.uname().machine == "aarch64"]

    done = await python(
        "import ctypes; c = ctypes.CDLL(None, use_errno=True); "
        f"print(c.syscall({number}, 0, 1, 0o1600), ctypes.get_errno())"
    )

    assert done.output == "-1 38\n"


async def test_no_root_of_another_process_leads_out(python: Run, workspace: Path) -> None:
    """Every /proc/PID/root and /proc/PID/cwd is the sandbox's own."""
    (workspace.parent / "token").write_text("secret")

    done = await python(
        "import glob, os\n"
        "for p in glob.glob('/proc/[0-9]*/root') + glob.glob('/proc/[0-9]*/cwd') + glob.glob('/proc/[0-9]*/fd/*'):\n"
        f" for name in ('{workspace.parent}/token', '../token', 'etc/shadow'):\n"
        "  try: print(open(p + '/' + name).read())\n"
        "  except OSError: pass"
    )

    assert done.output == ""


async def test_no_descriptor_is_inherited(python: Run, workspace: Path) -> None:
    """A program begins with its three streams: nothing of the agent's is open."""
    with open(workspace.parent / "secret", "w") as kept:
        os.set_inheritable(kept.fileno(), True)

        done = await python("import os; print(sorted(os.listdir('/proc/self/fd')))")

    assert done.output == "['0', '1', '2', '3']\n"


async def test_no_abstract_socket_of_the_machine_is_there(python: Run) -> None:
    """Sockets by name belong to a network, and this one is empty."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0conch-{os.getpid()}")
        server.listen()

        done = await python(f"import socket; socket.socket(1).connect('\\0conch-{os.getpid()}')")

    assert "Connection refused" in done.output


async def test_no_terminal_is_there_to_type_into(python: Run) -> None:
    """TIOCSTI has nothing to push its characters into."""
    done = await python(
        "import fcntl\n"
        "for n in (0, 1, 2):\n"
        " try: fcntl.ioctl(n, 0x5412, b'x'); print('typed')\n"
        " except OSError: pass\n"
        "open('/dev/tty')"
    )

    assert "typed" not in done.output
    assert "No such device or address" in done.output


async def test_no_device_can_be_made(python: Run, workspace: Path) -> None:
    """Neither a disk nor the memory: nothing that a program makes is a device."""
    done = await python("import os, stat; os.mknod('disk', 0o600 | stat.S_IFBLK, os.makedev(8, 0))")

    assert "Operation not permitted" in done.output
    assert list(workspace.iterdir()) == []


async def test_no_other_process_can_be_seen_or_ended(python: Run) -> None:
    """The processes there are are the sandbox's; there is none else to send a signal to."""
    done = await python(
        f"import os; print({os.getpid()} in map(int, filter(str.isdigit, os.listdir('/proc'))), flush=True); "
        "os.kill(-1, 9)"
    )

    assert done.output.startswith("False\n")
    assert "No such process" in done.output


async def test_no_file_outside_can_be_linked(python: Run, workspace: Path) -> None:
    """A hard link to the system's files is one to another file system, or not allowed."""
    done = await python(
        "import os\nfor f in ('/usr/bin/env', '/etc/passwd', '/workspace/../token'):\n"
        " try: os.link(f, 'mine'); print('linked')\n except OSError: pass"
    )

    assert done.output == ""
    assert list(workspace.iterdir()) == []


async def test_a_fifo_makes_nobody_wait(act: Act, python: Run, workspace: Path) -> None:
    """Nor does one with a name that is read often, in the workspace or where git keeps its files."""
    await python(
        "import os; [os.mkfifo(name) for name in ('README.md', '.gitignore')]; os.mkdir('sub'); os.mkfifo('sub/.git')"
    )

    read = await act(files("read", "README.md"))
    found = await act(files("grep", ".", pattern="x"))
    again = await python("print('well')")

    assert (read.status, found.output.text, again.output) == ("blocked", "no line matches", "well\n")


async def test_a_large_file_with_nothing_in_it_is_not_read(act: Act, python: Run, workspace: Path) -> None:
    """A sparse file takes its limit, and no tool reads more than that."""
    done = await python("import os; os.truncate(os.open('f', os.O_CREAT | os.O_WRONLY), 1 << 40)")

    assert "File too large" in done.output or done.exit_code == 153
    assert (workspace / "f").stat().st_size <= 4 * 2**20


async def test_names_cannot_write_on_a_terminal(act: Act, python: Run) -> None:
    """A name with a line's end or an escape is one line of a listing, with nothing in it that a terminal obeys."""
    await python("open('a\\nb: 5 bytes', 'w').close(); open('\\x1b[31mred', 'w').close()")

    listed = await act(files("list", "."))
    found = await act(files("glob", ".", pattern="*"))

    for outcome in (listed, found):
        assert "\x1b" not in outcome.output.text
        assert len(outcome.output.text.splitlines()) == 2


async def test_very_many_files_are_not_all_listed(act: Act, workspace: Path) -> None:
    """A directory with more names than anybody reads is cut, and tools still work."""
    for number in range(3000):
        (workspace / str(number)).touch()

    listed = await act(files("list", "."))

    assert len(listed.output.text.splitlines()) == 501


async def test_deep_directories_break_nothing(act: Act, python: Run, workspace: Path) -> None:
    """Deeper than a path can be long: the next program runs, and so do the tools."""
    deep = "for _ in range(1500): os.mkdir('d'); os.chdir('d')"
    for script in (f"import os; os.chdir('.git')\n{deep}", f"import os\n{deep}"):
        done = await python(f"{script}\nprint('made')")
        assert done.output == "made\n", done

    found = await act(files("glob", ".", pattern="**/x"))
    again = await python("print('well')")

    assert (found.status, again.output) == ("success", "well\n")
    assert [path.name for path in workspace.iterdir()] == ["d"]


async def test_files_without_rights_break_nothing(act: Act, python: Run, workspace: Path, context: ToolContext) -> None:
    """Directories that nobody may read or write stay what they are; the next program runs."""
    await python(
        "import os; os.makedirs('shut/in'); os.makedirs('.git/objects/aa/b'); os.makedirs('.git/refs/x')\n"
        "for d in ('shut/in', 'shut', '.git/objects/aa/b', '.git/objects/aa', '.git/refs', '.git'): os.chmod(d, 0)"
    )

    again = await python("print('well')")
    listed = await act(files("list", "."))

    assert (again.output, listed.output.text) == ("well\n", "shut/")


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o2775, 0o555, 0o300])
@pytest.mark.parametrize(
    "change", ["chmod 000 .", "chmod 777 .", "chmod +t .", "chmod 000 .; sleep 60", "chmod 0 .; kill -9 0"]
)
@pytest.mark.parametrize("confinement", ["bwrap", "off"])
async def test_no_program_leaves_the_root_with_another_mode(
    request: pytest.FixtureRequest, workspace: Path, confinement: str, change: str, mode: int
) -> None:
    """Whatever it sets, and however it ends: after the act the root has the mode that it had."""
    sandbox: Sandbox = request.getfixturevalue(confinement)
    workspace.chmod(mode)

    await sandbox.run(["/bin/sh", "-c", change], workspace=workspace, timeout=0.5)

    assert stat.S_IMODE(workspace.stat().st_mode) == mode


async def test_a_root_that_a_killed_act_left_without_rights_gets_them_back(python: Run, workspace: Path) -> None:
    """Where the agent died with its program, nothing restored the mode: the next program works all the same."""
    workspace.chmod(0)

    done = await python("print('well')")

    assert done.output == "well\n"
    assert workspace.stat().st_mode & 0o700 == 0o700


async def test_no_program_leaves_attributes_or_another_owner_on_the_root(off: Sandbox, workspace: Path) -> None:
    """Neither an access control list that gives others what is written later, nor a name of its own; what was there
    before stays."""
    try:
        os.setxattr(workspace, "user.mine", b"before")
    except OSError as error:
        pytest.skip(f"this file system keeps no extended attributes: {error}")
    owner = (workspace.stat().st_uid, workspace.stat().st_gid)
    # version 2; then tag, permissions, id of: owner, group, others, who may all read, write and enter
    acl = struct.pack("<I" + "HHI" * 3, 2, 1, 7, 2**32 - 1, 4, 7, 2**32 - 1, 0x20, 7, 2**32 - 1)
    script = (
        "import os\n"
        f"for name in ('user.own', 'system.posix_acl_default'):\n    os.setxattr('.', name, {acl!r})\n"
        "os.setxattr('.', 'user.mine', b'after')\n"
        "if os.geteuid() == 0:\n    os.chown('.', 65534, 65534)\n"
    )

    done = await off.run([sys.executable, "-c", script], workspace=workspace, timeout=10)

    assert done.status == "success", done
    assert {name: os.getxattr(workspace, name) for name in os.listxattr(workspace)} == {"user.mine": b"before"}
    assert (workspace.stat().st_uid, workspace.stat().st_gid) == owner


@pytest.mark.parametrize(
    "change", ["rmdir {0}", "rmdir {0}; mkdir -m 777 {0}", "mv {0} {0}2; ln -s /tmp {0}", "mv {0} {0}2"]
)
async def test_a_root_that_is_replaced_is_named(off: Sandbox, bwrap: Sandbox, workspace: Path, change: str) -> None:
    """In the sandbox no program can; without one the act is an error, and a new directory has the old one's mode."""
    workspace.chmod(0o750)
    before = workspace.stat()
    inside, outside = (f"cd /; {change.format(root)}" for root in ("/workspace", workspace))

    await bwrap.run(["/bin/sh", "-c", inside], workspace=workspace, timeout=10)
    confined = workspace.stat(follow_symlinks=False)
    done = await off.run(["/bin/sh", "-c", outside], workspace=workspace, timeout=10)

    assert (confined.st_ino, confined.st_mode) == (before.st_ino, before.st_mode)
    assert (done.status, done.error) == ("error", f"the command replaced the workspace: put {workspace} back")
    if workspace.is_dir() and not workspace.is_symlink():
        assert stat.S_IMODE(workspace.stat().st_mode) == 0o750


async def test_what_is_written_goes_through_no_link(act: Act, python: Run, workspace: Path) -> None:
    """A directory that a program exchanged for a link leads no tool out."""
    (workspace.parent / "out").mkdir()
    await python("import os; os.symlink('../out', 'd'); os.symlink('../out/f', 'f')")

    outcomes = [await act(files("write", path, content="x")) for path in ("d/f", "f", "d/e/f")]

    assert {outcome.status for outcome in outcomes} == {"blocked"}
    assert list((workspace.parent / "out").iterdir()) == []


async def test_a_program_reads_nothing_of_ours_while_it_is_made(python: Run) -> None:
    """Its own environment and those of the processes around it hold no variable of the agent's."""
    done = await python(
        "import glob; print([p for p in glob.glob('/proc/*/environ') if b'PYTEST' in open(p, 'rb').read()])"
    )

    assert done.output == "[]\n"


async def test_limits_cannot_be_raised(python: Run) -> None:
    """Descriptors, sizes of files, address space and processor time stay at what they were set to."""
    done = await python(
        "import resource as r\n"
        "for what in (r.RLIMIT_NOFILE, r.RLIMIT_FSIZE, r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_CORE):\n"
        " try: r.setrlimit(what, (r.getrlimit(what)[1] + 1,) * 2); print('raised', what)\n"
        " except (ValueError, OSError): print('kept')"
    )

    assert done.output == "kept\n" * 5


async def test_a_control_group_cannot_be_left(python: Run) -> None:
    """There is no file system of control groups inside."""
    done = await python("import os; print(os.path.exists('/sys/fs/cgroup'), os.path.exists('/sys'))")

    assert done.output == "False False\n"
