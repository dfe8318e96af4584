"""How it goes: `conch status` and `conch watch`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli import people_facts, status, watch
from conch.cli.common import CommonOptions
from conch.cli.watch import lines
from conch.consumer.group.lag import report_position
from conch.consumer.group.membership import joined
from conch.errors import BusUnreachableError
from conch.experience import SqliteReader, SqliteStore
from conch.home import Home, write_whole
from conch.views.run import status as shown
from conch_schemas import ActionTaken, ExperienceRecorded

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Kept, Life, Publish


Printed = Callable[[], str]
REPLY = {
    "ok": True,
    "agent": "echo",
    "state": "paused",
    "why": "by request",
    "cycle": 2,
    "needs": {"curiosity": 0.4},
    "goals": [{"id": f"g{n}", "statement": "a goal [/nope]\x1b[2J", "best": None} for n in range(9)],
    "tokens_in_hour": 1234,
    "policy": "p",
    "waiting": [],
}


async def answer(_: str, __: bytes) -> bytes:
    return json.dumps(REPLY).encode()


async def test_status_of_a_run_fits_one_screen(
    filled: Life, common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """During a run: processes and why one is down, the agent, rewards, needs, goals; harmless, within 24 lines."""
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", answer):
        await status.status(common=common)

    text = printed()
    lines = text.splitlines()
    assert len(lines) <= 24
    assert "agent        echo paused: by request, last cycle 2, 1234 tokens in the last hour" in lines
    assert "consumers down (5 restarts)" in text
    assert "mean total +0.275 of the last 3 cycles, coverage 1.00" in text
    assert "and 4 more: conch goal list" in text
    assert "\x1b" not in text


async def test_status_tells_no_secret(
    filled: Life, common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """The document has all figures and not the token of the bus."""
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", answer):
        token = json.loads(filled.home.run_file.read_text())["bus"]["token"]
        await status.status(common=replace(common, json=True))

    text = printed()
    found = json.loads(text)
    assert (found["schema"], found["running"], found["agent"]["state"]) == ("conch.v1.status", True, "paused")
    assert (found["figures"]["count"], found["dead_letters"], found["consumers"]) == (3, 0, [])
    assert token not in text


async def test_status_says_who_lags_and_who_holds_up_the_trimming(
    filled: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each consumer's lag; and whoever is in the way, with what to do about it."""
    monkeypatch.setenv("CONCH_BUS__KEEP__GIB", "1e-9")
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", answer):
        await publish(bus, *(filled.act(cycle) for cycle in range(4)))
        await report_position(bus, "store", [ActionTaken], 4)
        await report_position(bus, "joy", [ActionTaken], 1)
        await status.status(common=common)
        text = printed()
        await status.status(common=replace(common, json=True))

    assert "  lag        joy 3  store 0" in text
    assert "conch consumer forget joy" in text
    found = json.loads(printed())
    assert found["consumers"] == [{"name": "joy", "lag": 3}, {"name": "store", "lag": 0}]
    assert [line.split()[0] for line in found["held"]] == ["joy"]


async def test_status_names_the_judges_and_rules_that_are_left_over(
    filled: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who lags and is neither configured nor in the run nor at work beside it, with what to do; nobody else."""
    judges = {"kept": {"rubric": "kept.md"}}
    monkeypatch.setenv("CONCH_REWARDS__JUDGES", json.dumps(judges))
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", answer), joined(bus, ["rule-beside"]):
        await publish(bus, *(filled.act(cycle) for cycle in range(4)))
        for name in ("judge-kept", "judge-old", "rule-beside", "rule-gone", "mine"):
            await report_position(bus, name, [ActionTaken], 1)
        await report_position(bus, "judge-idle", [ActionTaken], 4)
        await status.status(common=common)
        text = printed()
        await status.status(common=replace(common, json=True))

    assert json.loads(printed())["left_over"] == ["judge-old", "rule-gone"]
    assert "judge-old: conch consumer forget judge-old if it is gone for good (it is not configured any more)" in text
    assert text.count("conch consumer forget") == 2


async def test_status_explains_what_is_incomplete(
    home: Home, life: Life, kept: Kept, common: CommonOptions, printed: Printed
) -> None:
    """Not by its number alone."""
    kept(life.weights(), life.act(0))
    with SqliteStore(home.path / "store.db") as store:
        store.expire(datetime.now(UTC) + timedelta(days=1))
    await status.status(common=common)

    assert "1 incomplete (a part has not come in its time)" in printed()


async def test_status_without_a_run_shows_what_is_stored(filled: Life, common: CommonOptions, printed: Printed) -> None:
    """Without a run no server is started: the store's figures, and that nothing runs."""
    await status.status(common=common)

    text = printed()
    assert "no run in progress" in text
    assert "needs        curiosity 0.65  excellence 0.25" in text
    assert not filled.home.bus.exists()


async def test_status_of_a_new_home(common: CommonOptions, printed: Printed) -> None:
    """A home without experiences has a status too."""
    await status.status(common=common)

    assert "no experience yet" in printed()


async def test_status_says_that_the_bus_is_gone(
    filled: Life, home: Home, common: CommonOptions, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose server is down still has a status, with the reason."""
    monkeypatch.setattr(shown, "BUS_SECONDS", 0.2)
    state = {"url": "nats://127.0.0.1:1", "token": None, "embedded": True}
    run = {"pid": os.getpid(), "agent": "echo", "started": "", "bus": state, "metrics": None, "workspace": ""}
    with home.owned():
        write_whole(home.run_file, json.dumps(run | {"processes": [], "consumers": [], "rules": [], "set_aside": []}))
        await status.status(common=common)

    text = printed()
    assert "bus          no answer from nats://127.0.0.1:1 within 0.2 s" in text
    assert "echo not answering" in text


async def test_watch_prints_each_cycle_as_it_is_recorded(
    filled: Life,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a pipe every recorded cycle is one line of JSON in the shape of `cycle list`; the run's end ends it."""
    seen: asyncio.Queue[Any] = asyncio.Queue()
    monkeypatch.setattr(lines, "emit", seen.put_nowait)
    monkeypatch.setattr(people_facts, "POLL_SECONDS", 0.02)
    with SqliteReader(filled.home.path / "store.db") as store:
        before, experience = store.cycles.last("echo", 2)
    async with in_progress() as bus:
        await publish(bus, before)
        watching = asyncio.create_task(watch.watch(common=common))
        while seen.empty():
            await publish(bus, experience)
            await asyncio.wait({watching}, timeout=0.05)
            experience = again(experience)
        row = await seen.get()
        filled.home.run_file.unlink()
        await asyncio.wait_for(watching, 30)
        filled.home.run_file.touch()

    assert row.cycle == 2
    assert row.revision > 1
    assert {"scores", "outcome", "ms"} <= row.document().keys()


def again(experience: ExperienceRecorded) -> ExperienceRecorded:
    """The same experience in its next revision."""
    revision = experience.revision + 1
    return experience.model_copy(update={"id": f"revision-{revision}", "revision": revision})


async def test_there_is_nothing_to_watch_without_a_run(common: CommonOptions) -> None:
    """`watch` without a run is exit status 3."""
    with pytest.raises(BusUnreachableError, match="no run is in progress"):
        await watch.watch(common=common)
