"""A file is read in parts, with line numbers, however long it or one of its lines is."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.errors import ToolError
from conch.tools.files.reading import LINE_BYTES, READ_BYTES, line_shown, read_shown, without_numbers
from conch_schemas import Outcome
from tests.calls import filesystem_call as call

Act = Callable[..., Awaitable[Outcome]]


def shown(text: str, offset: int | None = None, lines: int | None = None) -> str:
    data = text.encode()
    return read_shown(io.BytesIO(data), "f", len(data), offset, lines)


def test_a_small_file_is_shown_as_it_is() -> None:
    """Without offset and lines, no line and no character is added to a file that fits."""
    assert shown("héllo\r\n1\tx\n") == "héllo\r\n1\tx\n"
    assert shown("") == ""


def test_a_part_is_shown_with_numbers_and_the_size() -> None:
    """The line above the part says which lines it has, how many there are, the file's bytes and where it goes on."""
    text = "".join(f"line {number}\n" for number in range(1, 101))

    assert (
        shown(text, 40, 2) == "[f: lines 40 to 41 of 100, 792 bytes; it goes on at offset=42]\n40\tline 40\n41\tline 41"
    )
    assert shown(text, 99) == "[f: lines 99 to 100 of 100, 792 bytes]\n99\tline 99\n100\tline 100"
    assert (
        shown("a\r\nb", lines=1)
        == "[f: lines 1 to 1 of 2, 4 bytes; its lines end with CR LF; it goes on at offset=2]\n1\ta"
    )
    assert shown("", 1) == "[f: no lines, 0 bytes]"


def test_a_large_file_is_shown_in_parts_that_follow_each_other() -> None:
    """The first read of a file of 60 KB shows its first half with numbers; the second one, where it says, the rest."""
    lines = [f"{number}: {'x' * 50}" for number in range(1, 1001)]
    text = "\n".join(lines) + "\n"

    first = shown(text)
    header = first.partition("\n")[0]
    second = shown(text, int(header.rpartition("offset=")[2].removesuffix("]")))

    assert header.startswith("[f: lines 1 to ")
    assert header.endswith("]")
    assert len(first.encode()) < READ_BYTES + 200
    assert [*without_numbers(first).split("\n"), *without_numbers(second).split("\n")] == lines


@pytest.mark.parametrize(
    ("offset", "lines", "why"),
    [
        (0, None, "offset is 0, and lines are counted from 1"),
        (-3, None, "offset is -3, and lines are counted from 1"),
        (3, None, "f has 2 lines: there is no line 3"),
        (1, 0, "lines is 0: ask for one line or more"),
    ],
)
def test_lines_that_there_are_not_are_refused(offset: int, lines: int | None, why: str) -> None:
    """The sentence says how many lines there are."""
    with pytest.raises(ToolError, match=why):
        shown("a\nb\n", offset, lines)


def test_a_long_line_is_clipped_and_takes_no_memory() -> None:
    """Of a line of 20 MB its beginning is shown, with the bytes that are left out, and no more than that is held."""
    data = b"a\n" + b"x" * 20_000_000 + b"\nb\n"
    tracemalloc.start()
    text = read_shown(io.BytesIO(data), "f", len(data), 1, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert text.split("\n")[2] == f"2\t{'x' * LINE_BYTES}[… {20_000_000 - LINE_BYTES} bytes of this line left out …]"
    assert text.split("\n")[3] == "3\tb"
    assert peak < 2_000_000
    assert without_numbers(text) == "a\nb"


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=300), st.integers(1, 5))
def test_lines_without_their_numbers_are_the_file(text: str, offset: int) -> None:
    """Whatever a file holds, a numbered read without its numbers is its lines, and a plain one is what it was."""
    lines = text.split("\n")[: -1 if text.endswith("\n") else None] if text else []

    assert without_numbers(shown(text)).removesuffix("\n") in (text, text.removesuffix("\n"))
    if offset <= len(lines):
        expected = "\n".join(line.removesuffix("\r") if line is not lines[-1] else line for line in lines[offset - 1 :])
        found = without_numbers(shown(text, offset))
        assert found.replace("\r", "") == expected.replace("\r", "")


def test_a_file_that_looks_like_a_numbered_read_is_numbered() -> None:
    """What a read showed can be told from a file that was written to look like it."""
    text = "[f: lines 1 to 1 of 1, 9 bytes]\n1\tpaid twice\n"

    assert without_numbers(shown(text)) == text.removesuffix("\n")


def test_the_last_line_shown_is_known() -> None:
    """Of the beginning of a numbered read the number of the last line is told, of another text none."""
    part = shown("".join(f"{number}\n" for number in range(50)), 10)

    assert line_shown(part[: part.index("\n21")]) == 20
    assert line_shown("10\tx") is None


async def test_the_tool_reads_parts(act: Act, workspace: Path) -> None:
    """By the text grammar: offset and lines are whole numbers."""
    (workspace / "f").write_text("a\nb\nc\n")

    found = await act(call("read", "f", offset=2, lines=1))

    assert (found.status, found.output.text) == (
        "success",
        "[f: lines 2 to 2 of 3, 6 bytes; it goes on at offset=3]\n2\tb",
    )
    assert (await act(call("read", "f", offset=4))).error == "f has 3 lines: there is no line 4"
