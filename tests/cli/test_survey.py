"""`conch bus info`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli import survey
from conch.cli.common import CommonOptions
from conch.consumer.group.lag import report_position
from conch.views.run import bus as shown
from conch_schemas import ActionTaken

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life, Publish


Printed = Callable[[], str]


async def test_the_bus_is_told_with_and_without_a_run(
    life: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """What the stream holds, its room, its epoch, the bucket, and how far the consumers are: the same both times."""
    async with in_progress() as bus:
        await publish(bus, *(life.act(cycle) for cycle in range(5)))
        await bus.trim(3)
        await report_position(bus, "needs", [ActionTaken], 4)
        epoch = (await bus.state()).epoch
        await survey.info(common=replace(common, json=True))
        during = json.loads(printed())
    await survey.info(common=replace(common, json=True))
    after = json.loads(printed())
    await survey.info(common=common)
    text = printed()

    assert during["schema"] == "conch.v1.bus"
    stream = during["stream"]
    assert (stream["first"], stream["last"], stream["messages"], stream["missing"]) == (3, 5, 3, 0)
    assert (stream["epoch"], stream["replicas"], during["durability"]) == (epoch, 1, "strict")
    assert during["consumers"] == [{"name": "needs", "seq": 4, "lag": 1}]
    assert (during["server"]["level"] >= 5, during["embedded"], during["warnings"]) == (True, True, [])
    same = ("stream", "consumers", "bucket", "peers", "warnings")
    assert [after[name] for name in same if name != "stream"] == [during[name] for name in same if name != "stream"]
    assert (after["stream"]["epoch"], after["stream"]["last"]) == (epoch, 5)
    assert "stream     3 events, 3 to 5" in text
    assert "needs        at 4, lag 1" in text
    assert "of 16.0 GiB" in text


async def test_what_is_to_be_looked_after_is_said(
    life: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who holds up the trimming, and how full the stream is."""
    async with in_progress() as bus:
        await publish(bus, *(life.act(cycle) for cycle in range(40)))
        await report_position(bus, "store", [ActionTaken], 40)
        await report_position(bus, "joy", [ActionTaken], 1)
    monkeypatch.setenv("CONCH_BUS__KEEP__GIB", str((45 * 1200) / 4 / 2**30))

    await survey.info(common=replace(common, json=True))

    found = json.loads(printed())
    assert found["stream"]["full"] > shown.FULL
    joy, full = found["warnings"]
    assert joy.startswith("joy is far behind, at 1 of 40")
    assert "% full; once it is, everybody who publishes waits" in full


PEERS = {"leader": "n1", "replicas": [{"name": "n2\x1b[2J", "current": True, "lag": 0}, {"name": "n3", "lag": 9}]}


def described(**changes: Any) -> shown.BusInfo:
    """A survey as `survey` makes it, of a stream in three copies."""
    stream = {
        "first": 1, "first_time": None, "last": 4, "last_time": None, "messages": 0, "missing": 0, "bytes": 2**31,
        "limit": None, "full": None, "replicas": 3, "epoch": "e",
    }  # fmt: skip
    return shown.BusInfo.model_validate(
        {
            "server": {"name": "n1", "version": "2.15.1", "level": 5},
            "url": "nats://n1:4222",
            "embedded": False,
            "durability": "strict",
            "stream": stream | changes,
            "bucket": {"keys": 2, "bytes": 10},
            "consumers": [],
            "peers": list(shown._peers(PEERS)),
            "warnings": [],
        }
    )


def test_the_copies_of_a_stream_are_told_with_how_they_are() -> None:
    """Who leads, who is behind or away; of a single copy there is nothing to tell."""
    found = described()

    told = list(shown._warnings(found.stream, found.peers))
    lines = list(survey.screen(found))

    assert told == ["the copy on n3 is not up to date (9 behind, or it is away)"]
    assert "peers      n1 leader, up to date" in lines
    assert "           n3 follower, 9 behind" in lines
    assert "\x1b" not in "".join(lines)
    assert any("as far as that server's sync_interval goes" in line for line in lines)
    assert any(line == "room       no limit of its own" for line in lines)
    assert list(shown._peers({"name": "C1", "leader": "conch"})) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"full": 0.85}, "the stream is 85% full"),
        ({"missing": 3}, "3 events between 1 and 4 are damaged or gone"),
    ],
)
def test_a_stream_in_danger_is_said_in_one_sentence(changes: dict[str, Any], why: str) -> None:
    """Before anything stands still."""
    found = described(**changes)

    assert any(why in sentence for sentence in shown._warnings(found.stream, found.peers))


def test_a_stream_without_a_leader_is_said() -> None:
    """As nothing can be published then."""
    found = described().model_copy(update={"peers": tuple(shown._peers(PEERS | {"leader": ""}))})

    assert "the stream has no leader now: nothing can be published" in shown._warnings(found.stream, found.peers)
