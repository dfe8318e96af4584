"""Commands where several agents run: one is named, or all are meant, or a sentence asks for a name."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.cli import cycle, goal, status, talk
from conch.cli.common import CommonOptions
from conch.cli.run.agents import MOST_AGENTS, agent_processes, members, names_in_range, names_of, spread
from conch.config import BudgetSettings
from conch.errors import UsageError
from conch.home import Home, write_whole
from conch.views.run import status as shown
from conch_schemas import JsonObject

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Kept, Life


Printed = Callable[[], str]
NAMES = ["echo-1", "echo-2", "echo-3"]


@pytest.fixture
def three(
    home: Home, in_progress: InProgress
) -> Callable[[], AbstractAsyncContextManager[list[tuple[str, JsonObject]]]]:
    """`async with three() as asked`: a run of three agents; what they are asked, as (subject, body)."""

    @asynccontextmanager
    async def run() -> AsyncIterator[list[tuple[str, JsonObject]]]:
        asked: list[tuple[str, JsonObject]] = []

        async def answer(subject: str, data: bytes) -> bytes:
            body = json.loads(data)
            asked.append((subject, body))
            rows = [{"agent": name, "state": "running", "why": "", "cycle": 4} for name in NAMES[1:]]
            rows.insert(0, {"agent": "echo-1", "state": "failed", "why": "its disk \x1b[2J is gone", "cycle": None})
            table = {"agents": rows, "states": {"failed": 1, "running": 2}} if body.get("all") else {}
            return json.dumps(
                {"ok": True, "id": "m1", "agent": subject.split(".")[2], "state": "running", "why": ""} | table
            ).encode()

        async with in_progress() as bus, bus.serve("conch.ctl.*.*", answer):
            write_whole(home.run_file, json.dumps(json.loads(home.run_file.read_text()) | {"agents": NAMES}))
            yield asked

    return run


async def test_pause_resume_and_stop_mean_all_where_none_is_named(
    common: CommonOptions,
    three: Callable[[], AbstractAsyncContextManager[list[tuple[str, JsonObject]]]],
    printed: Printed,
) -> None:
    """One request says it to all; --agent to one alone, and then nobody waits for the run's end."""
    async with three() as asked:
        await talk.pause(common=common)
        await talk.resume(agent="echo-2", common=common)
        await talk.stop(agent="echo-3", common=common)

    assert asked == [
        ("conch.ctl.echo-1.pause", {"all": True}),
        ("conch.ctl.echo-2.resume", {"budget": BudgetSettings().model_dump()}),
        ("conch.ctl.echo-3.stop", {}),
    ]
    assert printed() == "paused\nrunning\nstopping\n"


async def test_what_is_for_one_asks_for_its_name(
    common: CommonOptions,
    three: Callable[[], AbstractAsyncContextManager[list[tuple[str, JsonObject]]]],
    printed: Printed,
) -> None:
    """A message and a goal are somebody's: without --agent one sentence says who there is."""
    async with three() as asked:
        for said in (talk.tell("hello", common=common), goal.list_(common=common), goal.drop("x", common=common)):
            with pytest.raises(
                UsageError, match=r"there are 3 agents \(echo-1, echo-2, echo-3\): name one with --agent"
            ):
                await said
        await talk.tell("hello", agent="echo-3", common=common)

    assert [subject for subject, _ in asked] == ["conch.ctl.echo-3.say"]


async def test_one_that_rests_is_told_all_the_same(
    home: Home,
    common: CommonOptions,
    three: Callable[[], AbstractAsyncContextManager[list[tuple[str, JsonObject]]]],
    printed: Printed,
) -> None:
    """It reads the message when it runs again; it cannot be paused, for it does not run."""
    home.agentuid("echo")
    async with three() as asked:
        await talk.tell("hello", agent="echo", common=common)
        with pytest.raises(UsageError, match="the agent echo does not run"):
            await talk.pause(agent="echo", common=common)

    assert asked == []
    assert "reads it when it runs" in printed()


async def test_status_of_several_is_a_table_those_in_trouble_first(
    common: CommonOptions,
    three: Callable[[], AbstractAsyncContextManager[list[tuple[str, JsonObject]]]],
    kept: Kept,
    life: Life,
    printed: Printed,
) -> None:
    """How many are in which state, and a line for each of the first; --agent shows one."""
    async with three():
        await status.status(common=common)
        screen = printed()
        await status.status(common=replace(common, json=True))
        found = json.loads(printed())
        await status.status(agent="echo-2", common=common)
        one = printed()

    assert "agents       3: 1 failed, 2 running" in screen
    assert "             echo-1 failed: its disk �[2J is gone, no cycle yet" in screen
    assert "agent        echo-2 running, no cycle yet" in one
    assert (found["agent"], found["states"]) == (None, {"failed": 1, "running": 2})
    assert [row["agent"] for row in found["agents"]] == NAMES


async def test_a_table_of_very_many_is_bounded(
    common: CommonOptions,
    home: Home,
    three: Callable[[], AbstractAsyncContextManager[list[tuple[str, JsonObject]]]],
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What does not fit one screen is counted."""
    monkeypatch.setattr(shown, "SHOWN_AGENTS", 2)
    async with three():
        await status.status(common=common)

    assert "             and 1 more: --agent NAME shows one" in printed()


def test_the_store_of_several_is_listed_with_their_names(
    common: CommonOptions, kept: Kept, life: Life, printed: Printed
) -> None:
    """Without --agent the cycles of all; what is about one cycle asks for a name."""
    for name in NAMES[:2]:
        one = replace(life, agent=name)
        kept(one.weights(), *one.cycle(0))

    cycle.list_(common=common)
    lines = printed().splitlines()
    cycle.list_(agent="echo-2", common=replace(common, json=True))

    assert [line.split()[0] for line in lines] == ["agent", "echo-1", "echo-2"]
    assert [row["agent"] for row in json.loads(printed())["cycles"]] == ["echo-2"]
    with pytest.raises(UsageError, match=r"there are 2 agents \(echo-1, echo-2\)"):
        cycle.show(0, common=common)


def test_all_are_listed_though_one_is_the_settings_own(
    common: CommonOptions, kept: Kept, life: Life, printed: Printed
) -> None:
    """What is about one cycle means that one."""
    for name in ("echo", "echo-1"):
        one = replace(life, agent=name)
        kept(one.weights(), *one.cycle(0))

    cycle.list_(common=common)
    listed = [line.split()[0] for line in printed().splitlines()]
    cycle.show(0, common=common)

    assert listed == ["agent", "echo", "echo-1"]
    assert printed().startswith("cycle 0 of echo,")


@pytest.mark.parametrize("number", ["0", "-3", "10000000"])
def test_a_number_of_agents_that_cannot_be_is_one_sentence(
    home: Home, conch: Callable[..., subprocess.CompletedProcess[str]], number: str
) -> None:
    """It says how many there may be, and nothing was made."""
    done = conch("run", "--agents", number)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"conch: --agents {number}: 1 to {MOST_AGENTS} agents\n"
    assert not home.config_file.exists()


def test_agents_are_named_after_the_one_of_the_settings() -> None:
    """One is that one itself; a name may not grow too long."""
    assert names_of("echo", None) == names_of("echo", 1) == ["echo"]
    assert names_of("echo", 3) == NAMES
    with pytest.raises(UsageError, match="is longer than 63 characters"):
        names_of("e" * 62, 3)


def test_a_range_names_the_agents_that_a_larger_run_would_have() -> None:
    """The same names, whatever machine they are on; a process has at most so many."""
    assert names_in_range("echo", "2..3") == names_of("echo", 3)[1:]
    assert names_in_range("echo", "7..7") == ["echo-7"]
    assert len(names_in_range("echo", "1..20000", processes=2)) == len(names_of("echo", 20_000, 2)) == 2 * MOST_AGENTS
    with pytest.raises(UsageError, match="10001 agents, at most 10000 run in one worker"):
        names_in_range("echo", "1..10001")


@given(st.integers(1, 300), st.integers(1, 20))
def test_agents_are_spread_evenly_and_in_order(agents: int, processes: int) -> None:
    """Each in one process, none left out, no process empty, numbers that differ by one at most."""
    names = names_of("echo", agents)

    shares = spread(names, processes)

    assert [name for share in shares for name in share] == names
    assert len(shares) == len(agent_processes(len(shares))) == min(agents, processes)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_each_agent_of_a_home_has_an_id_for_ever(home: Home) -> None:
    """Those that cannot be had are named, and the others are there all the same."""
    (home.path / "agents" / "echo-2").write_text("a file")

    first, failed = members(home, NAMES)
    again, _ = members(home, NAMES)

    assert [(member.name, member.fresh) for member in first] == [("echo-1", True), ("echo-3", True)]
    assert [(member.name, member.fresh) for member in again] == [("echo-1", False), ("echo-3", False)]
    assert [member.agentuid for member in first] == [member.agentuid for member in again]
    assert home.agents() == {member.name: member.agentuid for member in first}
    assert "cannot be written" in str(failed["echo-2"])
