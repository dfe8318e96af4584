"""The operation `edit` replaces an exact text, or says what is there in its place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from conch.actions import call_schemas, from_call, parse
from conch.errors import ToolError
from conch.tools import BUILTIN_TOOLS, Toolbox
from conch.tools.files.editing import EditedText, EditRefusal, edited
from conch.tools.workspace import Workspace
from conch_schemas import Outcome
from tests.calls import filesystem_call as call

Act = Callable[..., Awaitable[Outcome]]

POEM = "one\n\ttwo = 2\nthree\none more\n"


def refusal(text: str, old: str, new: str = "new", *, everywhere: bool = False) -> EditRefusal:
    found = edited(text, old, new, everywhere=everywhere)
    assert isinstance(found, EditRefusal)
    return found


async def test_an_exact_text_is_replaced(act: Act, workspace: Path) -> None:
    """One place of a file is another one afterwards; the rest, its mode and its bytes that are no text stay."""
    (workspace / "f").write_bytes(b"a\xff\nold line\nc\n")
    (workspace / "f").chmod(0o777)

    done = await act(call("edit", "f", old="old line", new="new\nlines"))

    assert (done.status, done.output.text) == ("success", "1 place changed in f, at line 2; it has 15 bytes now")
    assert (workspace / "f").read_bytes() == b"a\xff\nnew\nlines\nc\n"
    assert (workspace / "f").stat().st_mode & 0o777 == 0o777
    assert [path.name for path in workspace.iterdir()] == ["f"]


async def test_a_refused_edit_shows_the_file_as_it_is(act: Act, workspace: Path) -> None:
    """The error is one sentence; the lines that the next try can be made from are the result; the file is as it was."""
    (workspace / "f").write_text(POEM)

    refused = await act(call("edit", "f", old="two = 3", new="x"))

    assert (refused.status, refused.error) == (
        "error",
        "f is unchanged: old is not there; the nearest text is at line 2",
    )
    assert refused.output.text == "1\tone\n2\t\ttwo = 2\n3\tthree\n4\tone more\n5\t"
    assert (workspace / "f").read_text() == POEM


def test_a_text_that_stands_several_times_is_refused_with_its_lines() -> None:
    """Their number and their lines are told; `everywhere` replaces all."""
    assert refusal(POEM, "one").why == (
        "old stands 2 times, at lines 1, 4: give more of the text around the place, or all=true"
    )
    assert edited(POEM, "one", "1", everywhere=True) == EditedText("1\n\ttwo = 2\nthree\n1 more\n", (1, 4))


def test_a_text_that_stands_twice_in_one_place_is_refused() -> None:
    """Overlapping places are several: which is meant cannot be told."""
    assert refusal("aaa", "aa").why.startswith("old stands 2 times, at line 1")
    assert refusal("x\n\n\ny\n", "\n\n").why.startswith("old stands 2 times")


def test_other_blanks_are_told() -> None:
    """A text that differs by an indent, a tab or blanks inside a line is refused with the lines as they are."""
    found = refusal(POEM, "two=2\n  three")

    assert found.why == "old is not there as it is given: at lines 2 to 3 it differs only by blanks, tabs or line ends"
    assert found.shown == "2\t\ttwo = 2\n3\tthree"


def test_line_ends_are_kept_and_told() -> None:
    """In a file of CR LF the ends of old and new are CR LF; in a mixed one another line end is told as that."""
    assert edited("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz") == EditedText("x\r\ny\r\nz\r\nc\r\n", (1,))
    assert edited("a\r\nb\r\n", "a\r\nb", "x") == EditedText("x\r\n", (1,))
    assert refusal("a\r\nb\nc\n", "a\nb").why == (
        "old is not there as it is given: at lines 1 to 2 it differs only by line ends"
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("", "x", "old is empty: give the exact text to replace; write makes a whole file"),
        ("one", "one", "old and new are the same text: nothing would change"),
        ("qqqqqqqqqqqqqqq", "x", "old is not there, and no line is like it: read the file again"),
        (" \n ", "x", "old is not there, and no line is like it: read the file again"),
    ],
)
def test_an_edit_that_cannot_be_is_refused(old: str, new: str, why: str) -> None:
    """Nothing to look for, nothing to change, nothing like it: one sentence each."""
    assert refusal(POEM, old, new).why == why


@pytest.mark.parametrize("everywhere", [None, True])
async def test_a_native_call_edits_as_the_grammar_does(act: Act, workspace: Path, everywhere: bool | None) -> None:
    """The arguments that a model leaves out come as null; what is recorded is the same action."""
    registry = Toolbox(BUILTIN_TOOLS).registry
    (workspace / "f").write_text("old line\n")
    [schema] = [schema for name, _, schema in call_schemas(registry) if name == "filesystem"]
    given: dict[str, JsonValue] = dict.fromkeys(schema["properties"])
    given |= {"operation": "edit", "path": "f", "old": "old", "new": "new", "all": everywhere}

    reply = from_call("filesystem", given, registry)

    assert reply is not None
    assert parse(reply, registry).args == {name: value for name, value in given.items() if value is not None}
    assert (await act(reply)).status == "success"
    assert (workspace / "f").read_text() == "new line\n"


@given(st.text("ab\n \t", max_size=30), st.text("ab\n ", min_size=1, max_size=4), st.text("ab\nc", max_size=4))
def test_an_edit_changes_the_one_place_or_nothing(text: str, old: str, new: str) -> None:
    """An edit is done where the text stands exactly once, and then all before and behind it is as it was."""
    found = edited(text, old, new)
    if old != new and text.count(old) == 1:
        before, _, behind = text.partition(old)
        assert found == EditedText(before + new + behind, (before.count("\n") + 1,))
    elif old == new or text.count(old) != 1:
        assert isinstance(found, EditRefusal)


def test_a_file_that_changes_meanwhile_is_left(workspace: Path) -> None:
    """A change by another program between the reading and the replacement stands; nothing is left beside the file."""
    file = workspace / "f"
    file.write_text("old")

    def changed(data: bytes) -> bytes:
        file.write_text("other")
        return data + b" new"

    with pytest.raises(ToolError, match="f was changed meanwhile by another program, and nothing is written"):
        Workspace(workspace, 1000).change("f", changed)

    assert file.read_text() == "other"
    assert [path.name for path in workspace.iterdir()] == ["f"]


async def test_a_file_that_changed_since_it_was_read_is_refused_with_what_is_there(act: Act, workspace: Path) -> None:
    """What was read before is not there any more: the edit changes nothing and shows the present text."""
    (workspace / "f").write_text("limit = 10\n")
    await act(call("read", "f"))
    (workspace / "f").write_text("limit = 20\n")

    refused = await act(call("edit", "f", old="limit = 10", new="limit = 30"))

    assert refused.status == "error"
    assert "1\tlimit = 20" in refused.output.text
    assert (workspace / "f").read_text() == "limit = 20\n"


@pytest.mark.parametrize("path", ["none", "d", "l", "../f", "/etc/passwd", ".git/config"])
async def test_what_is_no_file_of_the_workspace_is_not_edited(act: Act, workspace: Path, path: str) -> None:
    """Neither a directory, a link, a missing file, nor anything outside, nor of git."""
    (workspace / "d").mkdir()
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("old")
    (workspace / "l").symlink_to("/etc/passwd")

    refused = await act(call("edit", path, old="old", new="new"))

    assert refused.status in ("error", "blocked")
    assert (workspace / ".git" / "config").read_text() == "old"


async def test_a_file_that_would_be_too_large_is_left(act: Act, workspace: Path) -> None:
    """The size after the edit counts."""
    (workspace / "f").write_bytes(b"old" + b"x" * (4 * 2**20 - 3))

    refused = await act(call("edit", "f", old="old", new="older"))

    assert refused.error == "f would have 4194306 bytes, more than 4194304"
    assert (workspace / "f").stat().st_size == 4 * 2**20


async def test_the_texts_of_an_edit_are_needed(act: Act, workspace: Path) -> None:
    """An edit without new is an error, and not an edit that deletes."""
    (workspace / "f").write_text("old")

    assert (await act(call("edit", "f", old="old"))).error == "edit needs new"
    assert (await act(call("edit", "f", new="old"))).error == "edit needs old"
    assert (workspace / "f").read_text() == "old"


EDITS_FOR_EVER = """
import sys
from pathlib import Path
from conch.tools.files.editing import edited
from conch.tools.workspace import Workspace
workspace, turn = Workspace(Path(sys.argv[1]), 2**26), 0
print("ready", flush=True)
while True:
    old, new = ("a" * 50, "b" * 50) if turn % 2 == 0 else ("b" * 50, "a" * 50)
    workspace.change("f", lambda data: edited(data.decode(), old, new, everywhere=True).text.encode())
    turn += 1
"""


def test_a_killed_edit_leaves_the_old_or_the_new_file(workspace: Path) -> None:
    """kill -9 at any moment of an edit: the file is whole, as it was before or after it."""
    whole = {sign.encode() * 50 + b"\n" for sign in "ab"}
    (workspace / "f").write_bytes(b"a" * 50 + b"\n" + (b"a" * 50 + b"\n") * 40_000)
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", EDITS_FOR_EVER, workspace], stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            program.stdout.readline()
            before = (workspace / "f").stat().st_ino
            while (workspace / "f").stat().st_ino == before:
                os.sched_yield()
            program.send_signal(signal.SIGKILL)
        lines = set((workspace / "f").read_bytes().splitlines(keepends=True))
        assert len(lines) == 1
        assert lines <= whole
        for left in workspace.glob(".f.*"):
            left.unlink()
        assert (workspace / "f").stat().st_size == 51 * 40_001
        if lines != {b"a" * 50 + b"\n"}:
            (workspace / "f").write_bytes((b"a" * 50 + b"\n") * 40_001)
