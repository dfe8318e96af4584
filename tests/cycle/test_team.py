"""A team in the cycle: turns, messages, decisions, switches, and a process that dies at any point of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus, memory_key
from conch.config import TeamSettings
from conch.cycle.state.recover import RecoveryStart, recover
from conch.cycle.team.context import TeamContext
from conch.cycle.team.workers import RoleSilentError
from conch.errors import ContractError, FencedError
from conch.minds import Situation
from conch.tools import tell
from conch_schemas import (
    ActionTaken,
    CycleReflected,
    Goal,
    GoalReached,
    TaskProgressed,
    TeamDecided,
    TeamFormed,
    TeamMessage,
    TeamRewarded,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
    TestsCheck,
    source_of,
)

if TYPE_CHECKING:
    from tests.cycle.conftest import Life, Start

TASK = Goal(id="mend", statement="All tests pass.", check=TestsCheck(command="cat summary"))
RED, GREEN = "FAILED (failures=1)\n", "OK\n"


@pytest.fixture
def team(life: Life, tmp_path: Path) -> Life:
    """A team of four whose test suite is red until `mend` is written; the controller draws at random."""
    directory = tmp_path / "crew"
    directory.mkdir()
    life.tools.append(tell)
    form(life, directory)
    (life.workspace / "summary").write_text("Ran 2 tests in 0.001s\n\nFAILED (failures=1)\n")
    life.mind.decides = _by_role
    return life


def form(life: Life, directory: Path, **settings: Any) -> None:
    """The team of these settings."""
    own = TeamSettings.model_validate({"goal": TASK, "controller": {"kind": "random"}} | settings)
    life.team = TeamContext("echo", own, directory)


def _by_role(situation: Situation) -> str:
    turn = situation.turn
    assert turn is not None
    if turn.role == "planner":
        return f'TOOL: tell(to="{turn.reachable[0]}", text="step {turn.step}")'
    if turn.role == "coder" and turn.step >= 8:
        return 'TOOL: filesystem(operation="write", path="summary", content="Ran 2 tests in 0.001s\n\nOK\n")'
    if turn.role == "critic":
        return "DO_NOTHING: all is said"
    return 'TOOL: filesystem(operation="read", path="summary")'


async def test_each_step_one_role_acts_and_its_act_says_so(team: Life) -> None:
    """Team, role, step, epoch and topology stand on each act; the planner begins, and steps have no gap."""
    await team.run(6)

    turns = [act.team for act in team.facts(ActionTaken)]
    assert [turn.step for turn in turns] == list(range(6))
    assert turns[0].role == "planner"
    assert {turn.team for turn in turns} == {"echo"}
    assert len({turn.role for turn in turns}) > 1


async def test_the_role_that_was_told_has_the_turn_and_reads_the_message(team: Life, tmp_path: Path) -> None:
    """In a star the planner tells the runner: the runner's prompt has the message once, the planner gets its report."""
    form(team, tmp_path / "crew", controller={"kind": "fixed"})
    says = {"planner": 'TOOL: tell(to="runner", text="run the tests")', "runner": "REFLECT: it is red"}
    team.mind.decides = lambda situation: says[situation.turn.role] if situation.turn is not None else ""
    await team.run(3)

    seen = [prompt.situation.turn for prompt in team.mind.asked if prompt.purpose == "decide"]
    assert [turn.role for turn in seen if turn is not None] == ["planner", "runner", "planner"]
    assert [turn.messages for turn in seen if turn is not None] == [
        (),
        (("planner", "run the tests"),),
        (("runner", "I reflected: it is red"),),
    ]
    decisions = [prompt for prompt in team.mind.asked if prompt.purpose == "decide"]
    text = decisions[1].messages[0].content
    assert "You have the turn as runner of the team echo (step 1, star):" in text
    assert "- planner: run the tests" in text


async def test_a_team_ends_when_its_task_is_done(team: Life) -> None:
    """The tests pass after the coder's change: the episode is terminal, its reward has the bonus, no cycle follows."""
    await team.run(None)

    [*_, last] = team.facts(TaskProgressed)
    [*_, reward] = team.facts(TeamRewarded)
    assert (last.terminal, last.test_pass_rate) == (True, 1.0)
    assert reward.terminal
    assert reward.reward > 1.0
    assert len(team.facts(GoalReached)) == 1
    assert len(team.facts(ActionTaken)) == len(team.facts(CycleReflected)) < 40


async def test_each_decision_is_rewarded_by_the_step_after_it(team: Life) -> None:
    """All decisions but the last have one reward, of the next step, and the logs have the same rows."""
    assert team.team is not None
    await team.run(None)

    decisions, rewards = team.facts(TeamDecided), team.facts(TeamRewarded)
    assert [reward.decision for reward in rewards] == [decision.id for decision in decisions]
    assert [reward.step for reward in rewards] == [decision.step + 1 for decision in decisions]
    rows = _rows(team.team.directory / "controller_decisions.jsonl")
    assert [(row["step"], row["action"], tuple(row["x"])) for row in rows] == [
        (one.step, one.action, one.x) for one in decisions
    ]
    assert [row["i"] for row in _rows(team.team.directory / "controller_latency.jsonl")] == [*range(len(decisions))]
    assert sum(row["switch"]["committed"] for row in rows) == len(team.facts(TeamSwitched)) > 0


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


PUBLISHES = 40
"""The events of the first steps, with a switch among them."""


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("at", range(6, PUBLISHES, 3))
async def test_a_process_that_dies_at_any_event_of_a_team_loses_and_doubles_nothing(
    team: Life, at: int, stored: bool
) -> None:
    """After the next start every step has one decision, every message is there once, and every prepared switch has one
    end; the state is that of the whole stream."""
    await team.crash(8, at, stored=stored)
    agent = await team.run(8)

    decisions, state = team.facts(TeamDecided), agent.memory.team
    assert state is not None
    assert [one.step for one in decisions] == list(range(8))
    assert len({fact.id for fact in team.facts()}) == len(team.facts())
    assert len(team.facts(TeamSwitchPrepared)) == len(team.facts(TeamSwitched)) == state.router.epoch
    assert [one.epoch for one in team.facts(TeamSwitched)] == list(range(1, state.router.epoch + 1))
    assert state.router.target is None
    assert len(team.facts(TeamFormed)) == 1
    senders = [one.step for one in team.facts(TeamMessage)]
    assert senders == sorted(set(senders))
    assert team.team is not None
    assert [row["step"] for row in _rows(team.team.directory / "controller_decisions.jsonl")] == list(range(8))


async def test_a_state_that_cannot_be_read_is_told_and_nothing_is_lost(team: Life) -> None:
    """One sentence; stream and snapshot stay as they are, and with the snapshot mended the next step follows."""
    await team.run(3)
    async with MemoryBus(team.journal) as bus:
        await team.save(bus)
        kept = await bus.get(memory_key("echo"))
        assert kept is not None
        revision = await bus.put(memory_key("echo"), kept.value[:100], revision=kept.revision)
        before = team.facts()
        with pytest.raises(ContractError, match="memory of agent echo on the bus cannot be read by this version"):
            await recover(bus, "echo", RecoveryStart(team.agentuid))
        assert team.facts() == before
        await bus.put(memory_key("echo"), kept.value, revision=revision)
    agent = await team.run(5)

    assert [one.step for one in team.facts(TeamDecided)] == list(range(5))
    assert agent.memory.team is not None
    assert agent.memory.team.controller.decisions == 5


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("tester", "has no role 'tester'"),
        ("planner", "planner cannot send a message to itself"),
        ("other-team", "has no role 'other-team'"),
        ("", "has no recipient"),
    ],
)
async def test_a_message_to_a_role_that_is_not_there_is_an_error_of_the_act(team: Life, to: str, why: str) -> None:
    """The act says why; no message is sent, and the next role has its turn."""
    team.mind.decides = lambda _: f'TOOL: tell(to="{to}", text="hello")'
    await team.run(1)

    [act] = team.facts(ActionTaken)
    assert act.outcome.status == "error"
    assert why in (act.outcome.error or "")
    assert team.facts(TeamMessage) == []


async def test_the_report_of_a_failed_command_has_what_it_said(team: Life, tmp_path: Path) -> None:
    """A role ran the tests and sent nothing: the next one reads which of them failed, not the exit status alone."""
    form(team, tmp_path / "crew", controller={"kind": "fixed"})
    team.mind.decides = lambda _: 'TOOL: shell(command="echo FAIL: test_slack; exit 1")'
    await team.run(1)

    [message] = team.facts(TeamMessage)
    assert message.is_report
    assert message.text.splitlines()[-2:] == ["error: the command ended with exit status 1", "FAIL: test_slack"]


async def test_a_message_beyond_the_limit_is_an_error_of_the_act(team: Life, tmp_path: Path) -> None:
    """Of 20 bytes where 10 are allowed; the sentence says what to do."""
    form(team, tmp_path / "crew", message_bytes=10)
    team.mind.decides = lambda _: f'TOOL: tell(to="coder", text="{"a" * 20}")'
    await team.run(1)

    [act] = team.facts(ActionTaken)
    assert act.outcome.error == "the message has 20 bytes, more than 10: shorten it, or write it to a file"


async def test_a_role_that_is_silent_is_passed_the_turn_all_the_same(team: Life, tmp_path: Path) -> None:
    """Roles that rest send nothing; in a chain each has its turn."""
    form(team, tmp_path / "crew", topology="chain", controller={"kind": "fixed"})
    team.mind.decides = lambda _: "DO_NOTHING: resting"
    await team.run(5)

    assert [act.team.role for act in team.facts(ActionTaken)] == ["planner", "coder", "runner", "critic", "planner"]
    assert team.facts(TeamMessage) == []


async def test_a_flooded_role_that_is_silent_loses_nothing(team: Life, tmp_path: Path) -> None:
    """With room for one message in inbox and queue, the third is an error of its act, and switches are aborted. Once it
    is back it reads both in their order, and the next switch is committed."""
    form(
        team,
        tmp_path / "crew",
        roles={"runner": None},
        topology="flat",
        queued=1,
        delivered=1,
        controller={"kind": "random", "dwell": 0, "cooldown": 0},
    )
    away = True

    def floods(situation: Situation) -> str:
        turn = situation.turn
        assert turn is not None
        if turn.role != "critic":
            return (
                f'TOOL: tell(to="{"critic" if "critic" in turn.reachable else turn.reachable[0]}", text="{turn.step}")'
            )
        if away:
            raise RoleSilentError("no worker of the role critic answered within 1 s")
        return "DO_NOTHING: resting"

    team.mind.decides = floods
    await team.run(8)
    refused = {act.outcome.error for act in team.facts(ActionTaken) if act.outcome.status == "error"}
    aborted, switched = team.facts(TeamSwitchAborted), team.facts(TeamSwitched)
    away = False
    await team.run(14)

    assert refused == {"1 messages wait for critic, as many as may: it must take its turn first"}
    assert "1 messages were not delivered within 50 ms" in {one.why for one in aborted}
    assert len(team.facts(TeamSwitched)) > len(switched)
    sent = [one.text for one in team.facts(TeamMessage) if one.to == ("critic",)]
    turns = [prompt.situation.turn for prompt in team.mind.asked if prompt.purpose == "decide"]
    read = [text for turn in turns if turn is not None and turn.role == "critic" for _, text in turn.messages]
    assert list(dict.fromkeys(read)) == sent[: len(set(read))]
    assert len(set(read)) >= 2


async def test_a_role_cannot_use_a_tool_that_is_not_its_own(team: Life, tmp_path: Path) -> None:
    """The planner without the shell is blocked, and told which tools it has."""
    form(team, tmp_path / "crew", roles={"planner": {"tools": ["filesystem"]}, "runner": None, "critic": None})
    team.mind.decides = lambda _: 'TOOL: shell(command="true")'
    await team.run(2)

    first, second = team.facts(ActionTaken)
    assert first.outcome.error == "the role planner may not use the tool shell: it has filesystem, tell"
    assert (first.outcome.status, second.outcome.status) == ("blocked", "success")


async def test_a_person_switches_and_the_controller_waits_for_it(team: Life, tmp_path: Path, start: Start) -> None:
    """The switch is prepared at once and committed at the end of the step; a second one is refused as busy, and so is
    an unknown topology."""
    form(team, tmp_path / "crew", controller={"kind": "fixed", "dwell": 0, "cooldown": 0})
    running = await start(None)
    running.agent.control.pause()
    await running.idle()

    first = await running.ask("switch", {"topology": "flat"})
    busy = await running.ask("switch", {"topology": "chain"})
    unknown = await running.ask("switch", {"topology": "ring"})
    running.agent.control.resume()
    while not team.facts(TeamSwitched):
        await running.idle()

    assert first == {"ok": True, "accepted": True, "committed": False, "reason": "prepared", "epoch": 0}
    assert (busy["accepted"], busy["reason"]) == (False, "busy")
    assert (unknown["accepted"], unknown["reason"]) == (False, "unknown")
    [switched] = team.facts(TeamSwitched)
    assert (switched.epoch, switched.topology) == (1, "flat")


async def test_a_second_process_of_a_team_stops_the_first(team: Life, tmp_path: Path, start: Start) -> None:
    """An event of the team that this process did not publish is another router's: it ends with one sentence."""
    form(team, tmp_path / "crew", controller={"kind": "fixed"})
    running = await start(None)
    running.agent.control.pause()
    await running.idle()
    await running.put(
        TeamSwitchPrepared(
            id="other",
            source=source_of("echo", team.agentuid),
            agent="echo",
            team="echo",
            epoch=0,
            source_topology="star",
            target="flat",
            by="user",
        )
    )

    with pytest.raises(FencedError, match=r"another copy of echo runs on this bus \(it said team.switch_prepared\)"):
        await running.task
