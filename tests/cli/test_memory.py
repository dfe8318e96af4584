"""`conch memory`: a person reads what an agent remembers, and has it forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.cli import memory
from conch.cli.common import CommonOptions
from conch.errors import ConchError, StoreError, UsageError
from conch.memory import MEMORY_FILE, LongTermMemory
from conch.tools import Notes
from tests.memories import made

if TYPE_CHECKING:
    from tests.cli.conftest import Life

HOSTILE = "\x1b[2J[bold]Obey[/]\nfrom 9 acts:\u2028  cycle 0 of root"
Printed = Callable[[], str]


@pytest.fixture
def file(filled: Life, common: CommonOptions) -> Path:
    """The memory of the home's agent, with some memories."""
    path = common.where().agent_dir("echo") / MEMORY_FILE
    store = LongTermMemory(path)
    store.add(
        [
            made("The tide at noon is 3 metres high", number=1, at=1.0),
            made("The tide at noon is 4 metres high", number=2, at=2.0),
            made("Please water the plants", "message", 3, at=3.0),
            made(HOSTILE, "lesson", 4, at=4.0),
        ]
    )
    store.close()
    return path


def test_the_last_memories_are_listed_and_of_one_kind_where_it_is_named(
    file: Path, common: CommonOptions, printed: Printed
) -> None:
    """A line each, the oldest first; none of them looks like two."""
    memory.list_(common=common)
    text = printed().splitlines()
    memory.list_(kind="message", common=common)
    messages = printed().splitlines()

    assert [line.split()[1] for line in text] == ["kind", "note", "note", "message", "lesson"]
    assert "\x1b" not in "".join(text)
    assert len(messages) == 2
    assert "Please water the plants" in messages[1]


def test_a_search_shows_what_fits_with_its_score(file: Path, common: CommonOptions, printed: Printed) -> None:
    """As a prompt would have it; nothing fits nothing."""
    memory.search("tides at noon", common=replace(common, json=True))
    found = json.loads(printed())
    memory.search("kraken", common=replace(common, json=True))

    assert [row["text"][:17] for row in found["memories"]] == ["The tide at noon "] * 2
    assert all(0 < row["score"] <= 1 for row in found["memories"])
    assert (found["total"], json.loads(printed())["memories"]) == (4, [])


def test_one_memory_is_shown_with_its_sources_and_its_text_cannot_pose_as_one(
    file: Path, common: CommonOptions, printed: Printed
) -> None:
    """Each line of it is marked; the beginning of its id is enough."""
    memory.show(made(HOSTILE, "lesson", 4).id[:10], common=common)

    lines = printed().splitlines()
    assert [line for line in lines if line.startswith("from ")] == ["from 1 act:"]
    assert sum(line.startswith("  cycle ") for line in lines) == 1
    assert "  cycle 4 of echo, event " in "\n".join(lines)


def test_a_forgotten_memory_is_gone_and_so_is_the_note(file: Path, common: CommonOptions, printed: Printed) -> None:
    """The agent will not find it by its tool either."""
    text = "The tide at noon is 3 metres high"
    with Notes(file.with_name("notes.db")) as notes:
        notes.remember(text)
        notes.remember("Kelp grows")

    memory.forget(made(text, number=1).id, common=common)

    assert printed() == "1 forgotten\n"
    assert len(LongTermMemory(file)) == 3
    with Notes(file.with_name("notes.db")) as notes:
        assert notes.recall("tide kelp") == ("Kelp grows",)


def test_a_contradiction_is_named_with_both_texts(file: Path, common: CommonOptions, printed: Printed) -> None:
    """A second call has nothing left to do."""
    memory.consolidate(common=common)
    first = printed()
    memory.consolidate(common=common)

    assert first.splitlines()[0] == "3 compared, 0 merged into others"
    assert "contradiction (other numbers)" in first
    assert "  | The tide at noon is 4 metres high" in first
    assert printed() == "0 compared, 0 merged into others\n"


def test_what_cannot_be_done_is_a_sentence(file: Path, common: CommonOptions) -> None:
    """An id that is none, the beginning of several, none at all, a damaged file."""
    with pytest.raises(ConchError, match="echo has no memory 'zzz': conch memory list and search show their ids"):
        memory.show("zzz", common=common)
    with pytest.raises(ConchError, match="the ids of several memories of echo begin with ''"):
        memory.forget("", common=common)
    with pytest.raises(UsageError, match="name at least one memory"):
        memory.forget(common=common)
    assert len(LongTermMemory(file)) == 4
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match=r"memory\.db cannot be used: .*; move the file away to begin an empty memory"):
        memory.list_(common=common)


def test_an_agent_without_memories_has_none(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """No file is made by looking."""
    memory.list_(common=replace(common, json=True))

    assert json.loads(printed())["total"] == 0
    assert not (common.where().agent_dir("echo") / MEMORY_FILE).exists()
