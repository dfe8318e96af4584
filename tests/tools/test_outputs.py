"""A long output of a command is kept in a file that is named and can be read, bounded in number and size."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conch.tools import ToolContext
from conch.tools.files.outputs import MOST_FILES, OutputFile, is_output
from conch.tools.isolation.output import SHOWN_BYTES, ProgramOutput
from conch_schemas import Outcome
from tests.calls import filesystem_call as call

Act = Callable[..., Awaitable[Outcome]]


@pytest.fixture
def keeping(context: ToolContext, tmp_path: Path) -> ToolContext:
    """A context in which long outputs are kept, of at most 64 MiB each."""
    return replace(context, outputs=tmp_path / "outputs", settings=context.settings.model_copy(update={"file_mib": 64}))


async def test_a_long_output_is_kept_and_read(act: Act, keeping: ToolContext, workspace: Path) -> None:
    """The result shows the beginning and the end and names the file, which `read` and `grep` take; the workspace has
    no file more."""
    done = await act('TOOL: shell(command="seq 1 30000")', keeping)
    middle = await act(call("read", "@output/1.txt", offset=15000, lines=1), keeping)
    found = await act(call("grep", "@output/1.txt", pattern="^14999$"), keeping)

    assert done.status == "success"
    assert done.output.text.startswith("1\n2\n3\n")
    assert done.output.text.endswith(
        "\n29999\n30000\n\n[168894 bytes in all are in @output/1.txt: read it with offset and lines, or grep it]"
    )
    assert f"[… {168894 - SHOWN_BYTES} bytes left out …]" in done.output.text
    assert middle.output.text.startswith("[@output/1.txt: lines 15000 to 15000 of ")
    assert middle.output.text.endswith("\n15000\t15000")
    assert found.output.text == "@output/1.txt:14999:14999"
    assert not list(workspace.iterdir())


async def test_a_short_output_is_not_kept(act: Act, keeping: ToolContext) -> None:
    """Nothing is added to an output that can be shown whole, and no file is made."""
    done = await act('TOOL: shell(command="seq 1 3")', keeping)

    assert done.output.text == "1\n2\n3\n"
    assert keeping.outputs is not None
    assert not keeping.outputs.exists()


async def test_fifty_megabytes_do_not_fill_the_memory(act: Act, keeping: ToolContext) -> None:
    """An output of 50 MB is kept whole, and neither it nor a read of its middle is ever in memory as a whole."""
    keeping = replace(keeping, settings=keeping.settings.model_copy(update={"timeout": 120}))  # tracing is slow
    tracemalloc.start()
    done = await act(
        "TOOL: shell(command=\"yes 'a line of fifty bytes, which comes again and more' | head -1000000\")", keeping
    )
    middle = await act(call("read", "@output/1.txt", offset=500_000, lines=2), keeping)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert done.status == "success"
    assert keeping.outputs is not None
    assert (keeping.outputs / "1.txt").stat().st_size == 50_000_000
    assert "lines 500000 to 500001 of 1000000, 50000000 bytes" in middle.output.text
    assert peak < 3_000_000


async def test_an_output_beyond_the_largest_file_ends_the_program(act: Act, keeping: ToolContext) -> None:
    """What was written until then is kept, and the error says why the program was ended."""
    small = replace(keeping, settings=keeping.settings.model_copy(update={"file_mib": 1}))

    done = await act('TOOL: shell(command="yes")', small)

    assert (done.status, done.error) == ("error", "the program wrote more than 1 MiB and was ended")
    assert small.outputs is not None
    assert (small.outputs / "1.txt").stat().st_size == 2**20
    assert "in @output/1.txt" in done.output.text


@pytest.mark.parametrize("operation", ["write", "edit", "delete", "mkdir"])
async def test_kept_outputs_are_not_changed(act: Act, keeping: ToolContext, operation: str) -> None:
    """They are of no workspace: what was written is there to be read."""
    await act('TOOL: shell(command="seq 1 30000")', keeping)

    refused = await act(call(operation, "@output/1.txt", content="x", old="1", new="2"), keeping)

    assert refused.status == "error"
    assert refused.error == "@output holds outputs of commands, which can be read and searched, and not be changed"


@pytest.mark.parametrize("path", ["@output/../notes.db", "@output/./../x", "@output/9.txt"])
async def test_nothing_else_is_read_by_way_of_them(act: Act, keeping: ToolContext, path: str) -> None:
    """No path leads out of their folder."""
    await act('TOOL: shell(command="seq 1 30000")', keeping)

    assert (await act(call("read", path), keeping)).status == "error"


def test_only_the_folder_itself_is_meant() -> None:
    """Paths of the workspace that only look like it are the workspace's."""
    assert is_output("@output")
    assert is_output("./@output//1.txt")
    assert not is_output("a/@output/1.txt")
    assert not is_output("@outputs/1.txt")


def test_the_oldest_outputs_go(tmp_path: Path) -> None:
    """At most MOST_FILES are kept, and at most twice the bytes that one may have."""
    for _ in range(MOST_FILES + 3):
        with OutputFile(tmp_path, 1000) as file:
            file.write(b"x")
    for _ in range(3):
        with OutputFile(tmp_path, 1000) as file:
            file.write(b"x" * 900)

    assert sorted(int(path.stem) for path in tmp_path.iterdir())[-2:] == [MOST_FILES + 5, MOST_FILES + 6]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2000
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_an_output_that_cannot_be_kept_ends_the_program(tmp_path: Path) -> None:
    """A full disk is told as that, and what came before is shown."""

    class FullDisk:
        most, size, name = 2**20, 0, None

        def write(self, data: bytes) -> None:
            raise OSError(28, os.strerror(28))

    output = ProgramOutput(2**20, FullDisk())
    output.add(b"a" * SHOWN_BYTES + b"b")

    assert output.excess == "wrote more than could be kept (No space left on device)"
    assert output.text().startswith("aaa")


@pytest.mark.parametrize("size", [SHOWN_BYTES, SHOWN_BYTES + 1, SHOWN_BYTES * 3])
@pytest.mark.parametrize("piece", [1000, 65_536])
def test_beginning_and_end_are_those_of_the_output(tmp_path: Path, size: int, piece: int) -> None:
    """In whatever pieces it comes: the file has all of it, the text its first and its last bytes."""
    whole = b"".join(f"{number % 10}".encode() for number in range(size))
    with OutputFile(tmp_path, 2**20) as file:
        output = ProgramOutput(2**20, file)
        for at in range(0, size, piece):
            output.add(whole[at : at + piece])

        text, half = output.text(), SHOWN_BYTES // 2

    if size <= SHOWN_BYTES:
        assert text.encode() == whole
        assert file.name is None
    else:
        assert text.encode().startswith(whole[:half])
        assert f"\n{whole[-half:].decode()}\n[{size} bytes in all" in text
        assert (tmp_path / "1.txt").read_bytes() == whole


async def test_a_command_may_be_given_less_time(act: Act, context: ToolContext) -> None:
    """The time of a call is the one it asks for, and never more than the setting; none is refused."""
    quick = replace(context, settings=context.settings.model_copy(update={"timeout": 0.3}))

    asked = await act('TOOL: shell(command="sleep 30", timeout=0.2)', context)
    bounded = await act('TOOL: shell(command="sleep 30", timeout=60)', quick)
    none = await act('TOOL: shell(command="true", timeout=0)', context)

    assert (asked.status, asked.error) == ("timeout", "the program took longer than 0.2 seconds and was ended")
    assert (bounded.status, bounded.error) == ("timeout", "the program took longer than 0.3 seconds and was ended")
    assert (none.status, none.error) == ("error", "timeout is 0 seconds: it must be more than 0")
