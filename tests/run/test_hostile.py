"""Hostile replies: each is a cycle that is scored, shown harmlessly, and changes nothing it should not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from conch_schemas import JsonObject

if TYPE_CHECKING:
    from tests.run.conftest import House, MakeHouse


REPLIES = {
    "prose": "I think I should look around first, then decide.",
    "markdown": '```tool\nTOOL: shell(command="ls")\n```',
    "two calls": 'TOOL: notes(operation="recall", text="a")\nTOOL: shell(command="touch second")',
    "brackets": "[" * 1_000_000,
    "calls in calls": 'TOOL: shell(command="' + "(" * 60_000,
    "nul": "DO_NOTHING: a\0b",
    "escapes": "DO_NOTHING: \x1b[2J\x1b]0;owned\x07 \r\u202e gone",
    "surrogate": "DO_NOTHING: \ud800 alone",
    "markup": "REFLECT: [/nope] <script>alert(1)</script>",
    "nothing": "",
    "outside": 'TOOL: filesystem(operation="read", path="../../home/bus/nats-server.conf")',
}


@dataclass(frozen=True)
class OffendedHouse:
    """A home whose mind has said the hostile replies."""

    house: House
    listed: dict[str, JsonObject]
    """Name of the reply -> its row of `cycle list`."""


@pytest.fixture(scope="module")
def offended(make_house: MakeHouse) -> OffendedHouse:
    """A run whose mind says these, in a home where it may act."""
    house = make_house()
    file = house.directory / "script.jsonl"
    lines = [json.dumps({"thought": reply[:1000], "reply": reply}) for reply in REPLIES.values()]
    file.write_text("\n".join(lines) + "\n")
    (house.workspace / "link").symlink_to(house.home)
    house.run("--script", str(file))
    listed = dict(zip(REPLIES, house.cycles(), strict=True))
    return OffendedHouse(house, listed)


def test_each_reply_is_one_scored_cycle(offended: OffendedHouse) -> None:
    """None is skipped, none ends the run, all are whole."""
    for row in offended.listed.values():
        assert row["complete"]
        assert row["coverage"] == 1.0
    offended.house.conch("mark", "verify")


@pytest.mark.parametrize("name", ["prose", "markdown", "two calls", "brackets", "calls in calls", "nothing"])
def test_what_is_no_action_does_nothing(offended: OffendedHouse, name: str) -> None:
    """It is invalid, says why, and is paid accordingly."""
    row = offended.listed[name]

    assert not row["action"]["valid"]
    assert row["action"]["reason"]
    assert row["outcome"] == "none"
    assert row["total"] < 0
    assert not (offended.house.workspace / "second").exists()


def test_a_long_reply_is_kept_in_part(offended: OffendedHouse) -> None:
    """Head and tail of at most 64 KiB; the stream never carries a megabyte."""
    assert len(offended.listed["brackets"]["raw"].encode()) <= 64 * 1024


def test_no_file_outside_of_the_workspace_is_read(offended: OffendedHouse) -> None:
    """The bus's token stands in the home: the agent's hand does not reach it."""
    row = offended.listed["outside"]

    assert row["outcome"] in ("blocked", "error")
    assert "token" not in row["output"]


@pytest.mark.parametrize("command", [("cycle", "list"), ("cycle", "show", "6"), ("cycle", "show", "5"), ("status",)])
def test_a_terminal_is_shown_nothing_that_acts(offended: OffendedHouse, command: tuple[str, ...]) -> None:
    """Control characters are replaced before they reach it."""
    shown = offended.house.conch(*command)

    assert not {character for character in shown if ord(character) < 32} - {"\n"}
    assert not {"\x7f", "\u202e"} & set(shown)
