"""The tool filesystem: what it does, and that nothing leads out of the workspace."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import render
from conch.errors import ToolError
from conch.tools import Sandbox, ToolContext
from conch.tools.search import glob
from conch.tools.workspace import Workspace
from conch_schemas import Action, Outcome
from tests.bubblewraps import MakeBubblewraps

Act = Callable[..., Awaitable[Outcome]]


def call(operation: str, path: str, **args: str) -> str:
    given = {"operation": operation, "path": path, **args}
    return render(Action.model_validate({"kind": "TOOL", "valid": True, "tool": "filesystem", "args": given}))


async def test_a_written_file_is_read_again(act: Act, workspace: Path) -> None:
    """What is written is there, whole, with its directories, and what was there before is replaced with its mode."""
    (workspace / "run").write_text("old")
    (workspace / "run").chmod(0o755)

    first = await act(call("write", "a/b/c.txt", content="héllo\n"))
    await act(call("write", "run", content="new"))
    read = await act(call("read", "./a//b/../b/c.txt"))

    assert (first.status, first.output.text) == ("success", "7 bytes written to a/b/c.txt")
    assert (read.status, read.output.text) == ("success", "héllo\n")
    assert (workspace / "run").read_text() == "new"
    assert (workspace / "run").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in workspace.rglob("*")) == ["a", "b", "c.txt", "run"]


async def test_listing_info_and_mkdir(act: Act, workspace: Path) -> None:
    """A listing tells directories and links from files; info says kind and size; mkdir takes what is there."""
    await act(call("mkdir", "d/e"))
    again = await act(call("mkdir", "d/e"))
    (workspace / "f").write_text("12345")
    (workspace / "l").symlink_to("f")

    listed = await act(call("list", "."))
    told = await act(call("info", "f"))

    assert again.status == "success"
    assert listed.output.text == "d/\nf\nl (symbolic link)"
    assert told.output.text.startswith("file, 5 bytes, mode -rw")
    assert (await act(call("info", "."))).output.text.startswith("directory")
    assert (await act(call("list", "d/e"))).output.text == "the directory is empty"


async def test_asking_whether_a_file_exists_is_a_success_either_way(act: Act, workspace: Path) -> None:
    """`no` is an answer, not a failure."""
    (workspace / "f").write_text("")

    for path, answer in (("f", "yes"), (".", "yes"), ("g", "no"), ("g/h", "no"), ("f/h", "no")):
        outcome = await act(call("exists", path))
        assert (outcome.status, outcome.output.text) == ("success", answer), path


@pytest.mark.parametrize("operation", ["read", "info", "delete", "list", "grep", "glob"])
async def test_what_is_missing_is_an_error(act: Act, operation: str) -> None:
    """Every operation but a question fails on a file that is not there, and names it."""
    outcome = await act(call(operation, "none", pattern="x"))

    assert (outcome.status, outcome.output.text) == ("error", "")
    assert "there is no none" in str(outcome.error)


@pytest.mark.parametrize(("operation", "needs"), [("write", "content"), ("grep", "pattern"), ("glob", "pattern")])
async def test_an_operation_says_what_it_needs(act: Act, operation: str, needs: str) -> None:
    """An operation without its argument is an error that names the argument."""
    assert (await act(call(operation, "."))).error == f"{operation} needs {needs}"


OPERATIONS = ["read", "write", "list", "info", "delete", "mkdir", "grep", "glob"]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "path", ["../token", "/etc/passwd", "a/../../token", "link/token", "file-link", "d/up/token", "..", "nul\0"]
)
async def test_no_path_leads_out(act: Act, workspace: Path, operation: str, path: str) -> None:
    """`..`, absolute paths and links, also as parents, are refused or find nothing, and nothing outside changes."""
    secret = workspace.parent / "token"
    secret.write_text("secret")
    (workspace / "d").mkdir()
    (workspace / "link").symlink_to("..")
    (workspace / "file-link").symlink_to(secret)
    (workspace / "d" / "up").symlink_to(workspace.parent)

    outcome = await act(call(operation, path, content="changed", pattern="secret|token"))

    harmless = path == "file-link" and operation in ("info", "delete")
    assert outcome.status == ("success" if harmless else "blocked"), outcome
    assert "secret" not in outcome.output.text
    assert secret.read_text() == "secret"
    assert [one.name for one in workspace.parent.iterdir() if one != workspace] == ["token"]


async def test_deleting_a_link_deletes_the_link(act: Act, workspace: Path) -> None:
    """A link goes; what it leads to stays."""
    (workspace.parent / "token").write_text("secret")
    (workspace / "link").symlink_to("../token")

    outcome = await act(call("delete", "link"))

    assert outcome.status == "success"
    assert list(workspace.iterdir()) == []
    assert (workspace.parent / "token").exists()


async def test_the_workspace_itself_cannot_be_deleted(act: Act, workspace: Path) -> None:
    """Deleting the root is refused; a directory with something in it is not deleted either."""
    (workspace / "d").mkdir()
    (workspace / "d" / "f").write_text("x")

    for path in (".", "", "d/.."):
        assert (await act(call("delete", path))).status == "blocked"
    full = await act(call("delete", "d"))
    await act(call("delete", "d/f"))

    assert full.status == "error"
    assert (await act(call("delete", "d"))).status == "success"
    assert workspace.exists()


@pytest.mark.timeout(20)
async def test_special_files_are_never_opened(act: Act, workspace: Path) -> None:
    """A FIFO, which would wait for ever, is refused for reading, writing and searching."""
    os.mkfifo(workspace / "pipe")

    assert (await act(call("read", "pipe"))).status == "blocked"
    assert (await act(call("write", "pipe", content="x"))).status == "blocked"
    assert (await act(call("grep", "pipe", pattern="x"))).status == "blocked"
    assert (await act(call("grep", ".", pattern="x"))).output.text == "no line matches"
    assert (await act(call("info", "pipe"))).output.text.startswith("special file")


def test_a_directory_exchanged_for_a_link_meanwhile_leads_nowhere(workspace: Path) -> None:
    """While somebody exchanges a directory for a link to outside and back, nothing outside is ever read."""
    (workspace.parent / "out").mkdir()
    (workspace.parent / "out" / "f").write_text("secret")
    (workspace / "d").mkdir()
    (workspace / "d" / "f").write_text("mine")
    (workspace / "link").symlink_to("../out")
    stop = threading.Event()

    def exchange() -> None:
        while not stop.wait(0.0002):
            os.rename(workspace / "d", workspace / "aside")
            os.rename(workspace / "link", workspace / "d")
            os.rename(workspace / "d", workspace / "link")
            os.rename(workspace / "aside", workspace / "d")

    thread = threading.Thread(target=exchange)
    thread.start()
    seen = set()
    for _ in range(1500):
        try:
            seen.add(Workspace(workspace, 1000).read("d/f"))
        except ToolError as error:
            seen.add(type(error).__name__)
    stop.set()
    thread.join()

    assert "mine" in seen
    assert "secret" not in seen


async def test_sizes_are_bounded(act: Act, workspace: Path, context: ToolContext) -> None:
    """A file that is too large is neither written nor read; of a large one a part is shown, with the file's size."""
    (workspace / "huge").write_bytes(b"x" * (context.settings.file_mib * 2**20 + 1))
    (workspace / "large").write_text("y\n" * 100_000)

    with pytest.raises(ToolError, match="more than 10"):
        Workspace(workspace, 10).write("f", "x" * 11)
    read = await act(call("read", "large"))

    assert (await act(call("read", "huge"))).status == "error"
    assert read.status == "success"
    assert read.output.text.startswith("[large: lines 1 to ")
    assert " of 100000, 200000 bytes; it goes on at offset=" in read.output.text
    assert len(read.output.text) == read.output.length < 34_000


async def test_bytes_that_are_no_text_are_read_all_the_same(act: Act, workspace: Path) -> None:
    """Undecodable bytes become replacement characters; undecodable names do no harm."""
    (workspace / "f").write_bytes(b"a\xffb")
    Path(os.fsdecode(os.fsencode(workspace) + b"/\xff")).write_text("x")

    assert (await act(call("read", "f"))).output.text == "a�b"
    assert (await act(call("list", "."))).status == "success"
    assert (await act(call("glob", ".", pattern="*"))).status == "success"


async def test_a_deleted_workspace_is_named(act: Act, workspace: Path) -> None:
    """Where the workspace is gone, every operation says so."""
    workspace.rmdir()

    for operation in [*OPERATIONS, "exists"]:
        outcome = await act(call(operation, "f", content="x", pattern="x"))
        assert outcome.status == "error", operation
        assert "is gone" in str(outcome.error)
    assert not workspace.exists()


async def test_grep_finds_lines(act: Act, workspace: Path) -> None:
    """Lines by text or expression, in a file or beneath a directory, with path and number; not in .git or binaries."""
    (workspace / "src").mkdir()
    (workspace / "src" / "a.py").write_text("one\ntwo\ndef three(x): pass\n")
    (workspace / "b.txt").write_text("two\n")
    (workspace / "bin").write_bytes(b"\0two\n")
    (workspace / ".git").mkdir()
    (workspace / ".git" / "c").write_text("two\n")

    assert (await act(call("grep", ".", pattern="two"))).output.text == "b.txt:1:two\nsrc/a.py:2:two"
    assert (await act(call("grep", "src", pattern=r"^def \w+\("))).output.text == "src/a.py:3:def three(x): pass"
    assert (await act(call("grep", "src/a.py", pattern="o.e"))).output.text == "src/a.py:1:one"
    assert (await act(call("grep", ".", pattern="nowhere"))).output.text == "no line matches"


async def test_grep_works_where_no_program_can_be_confined(
    act: Act, context: ToolContext, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens no file of its own; the shell is refused there."""
    (workspace / "b.txt").write_text("two\n")
    detect = Sandbox.detect
    monkeypatch.setattr(
        Sandbox, "detect", lambda self: detect(self) if self.settings.sandbox == "off" else "no bwrap works here"
    )
    given = replace(context, sandbox=Sandbox(context.settings.model_copy(update={"sandbox": "bwrap"})))

    found = await act(call("grep", ".", pattern="two"), given)
    refused = await act('TOOL: shell(command="cat b.txt")', given)

    assert (found.status, found.output.text) == ("success", "b.txt:1:two")
    assert refused.status == "blocked"


async def test_grep_searches_odd_files(act: Act, workspace: Path) -> None:
    """Files without a last line's end, with that of Windows, with bytes that are no text, and names with a colon."""
    (workspace / "a:1").write_bytes(b"\xffone\r\ntwo")
    (workspace / "b").write_bytes(b"")
    (workspace / "c").write_bytes(b"\n\none\n")
    (workspace / "d").symlink_to("c")

    found = (await act(call("grep", ".", pattern="one$|two"))).output.text
    every = (await act(call("grep", ".", pattern=""))).output.text

    assert found == "a:1:1:�one\na:1:2:two\nc:3:one"
    assert every == "a:1:1:�one\na:1:2:two\nc:1:\nc:2:\nc:3:one"


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "extended regular expression"),
        ("a{2,1}", "extended regular expression"),
        (r"\d+", r"the pattern has \d, and a pattern is a POSIX extended regular expression: [0-9]"),
        ("(?i)one", "the pattern has (?,"),
        (r"[\w.]+", "the pattern has \\ in [...]"),
        ("one\ntwo", "one line"),
        ("a\0", "one line"),
        ("x" * 1001, "at most 1000"),
    ],
)
async def test_a_pattern_of_another_language_is_refused(act: Act, workspace: Path, pattern: str, why: str) -> None:
    """In one sentence that says which language it is; nothing is misread for something else."""
    (workspace / "f").write_text("d\n")

    outcome = await act(call("grep", ".", pattern=pattern))

    assert outcome.status == "error"
    assert why in str(outcome.error)
    assert "\n" not in str(outcome.error)


@pytest.mark.parametrize(("pattern", "found"), [(r"\?\(", 1), ("[]x]", 1), ("[[:alpha:]]+", 1), (r"\bd\w", 0)])
async def test_patterns_of_grep_are_not_refused(act: Act, workspace: Path, pattern: str, found: int) -> None:
    """Escaped signs, brackets with a bracket in them, classes and word boundaries count."""
    (workspace / "f").write_text("d?(x]\n")

    outcome = await act(call("grep", ".", pattern=pattern))

    assert (outcome.status, outcome.output.text) == ("success", "f:1:d?(x]" if found else "no line matches")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["", "(a|a)*$", "((a)|b)*c", "(.*)(.*)(.*)x\\1", "(((a{1,200}){1,200}){1,200})b"])
async def test_no_pattern_takes_much_memory_or_time(
    act: Act, workspace: Path, context: ToolContext, pattern: str
) -> None:
    """A search of the most there may be is done, or reaches a limit; little of the agent's own memory is taken."""
    (workspace / "f").write_bytes(b"\n" * (4 * 2**20))
    (workspace / "g").write_bytes(b"a" * (4 * 2**20))
    brief = replace(context, settings=context.settings.model_copy(update={"timeout": 3}))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()

    outcome = await act(call("grep", ".", pattern=pattern), brief)

    assert outcome.status in ("success", "error", "timeout")
    assert time.monotonic() - began < 15
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 60 * 1024


async def test_grep_runs_without_bubblewrap(
    act: Act, workspace: Path, context: ToolContext, only_bubblewraps: MakeBubblewraps
) -> None:
    """Searching is no program of the agent's: it is not refused where those are."""
    (workspace / "f").write_text("one\n")
    bare = replace(context, sandbox=Sandbox(context.settings))
    only_bubblewraps()

    outcome = await act(call("grep", ".", pattern="o.e"), bare)

    assert outcome.output.text == "f:1:one"


async def test_grep_is_confined(act: Act, workspace: Path, context: ToolContext, bwrap: Sandbox) -> None:
    """Where programs can be confined, this one is."""
    (workspace / "f").write_text("one\ntwo\n")

    outcome = await act(call("grep", ".", pattern="t.o"), replace(context, sandbox=bwrap))

    assert outcome.output.text == "f:2:two"


async def test_results_are_bounded(act: Act, workspace: Path) -> None:
    """Hundreds of hits are shown, not all of them."""
    (workspace / "f").write_text("x\n" * 5000)

    outcome = await act(call("grep", ".", pattern="x"))

    assert outcome.output.text.endswith("f:500:x\n[at most 500 are shown]")


async def test_glob_finds_names(act: Act, workspace: Path) -> None:
    """`*` stays within a name, `**` does not; links are named but not followed."""
    (workspace / "a" / "b").mkdir(parents=True)
    for name in ("x.py", "a/y.py", "a/b/z.py", "a/b/z.txt"):
        (workspace / name).write_text("")
    (workspace / "loop").symlink_to(".")

    async def found(pattern: str, path: str = ".") -> list[str]:
        return (await act(call("glob", path, pattern=pattern))).output.text.split("\n")

    assert await found("*.py") == ["x.py"]
    assert await found("**/*.py") == ["a/b/z.py", "a/y.py", "x.py"]
    assert await found("a/**") == ["a", "a/b", "a/b/z.py", "a/b/z.txt", "a/y.py"]
    assert await found("*", "a/b") == ["z.py", "z.txt"]
    assert await found("l*") == ["loop"]
    assert await found("[!x].q") == ["nothing has such a name"]


def test_many_stars_take_no_longer(workspace: Path) -> None:
    """A pattern of many `**` is matched in linear time."""
    deep = workspace.joinpath(*["d"] * 30)
    deep.mkdir(parents=True)
    began = time.monotonic()

    assert glob(Workspace(workspace, 1000), ".", "**/" * 100 + "*a*a*a*a*b") == []
    assert time.monotonic() - began < 2


@given(st.text(max_size=30) | st.lists(st.sampled_from(["..", ".", "/", "a", "", "link", "\0", "é"])).map("/".join))
def test_no_path_breaks_it(path: str) -> None:
    """Whatever the path, there is an answer or a refusal; only what is inside is ever found."""
    with tempfile.TemporaryDirectory() as outer:
        root = Path(outer, "w")
        root.mkdir()
        (root / "link").symlink_to("..")
        Path(outer, "a").write_text("secret")
        with contextlib.suppress(ToolError):
            assert Workspace(root, 100).read(path) != "secret"
