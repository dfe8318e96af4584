"""The consumer and what follows from an alarm: its event, its log line, its mark."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import structlog

from conch.bus.checkpoints import encode_state, state_key
from conch.bus.memory import MemoryBus
from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.consumer.operations.alarms import watched, watched_agents
from conch.rewards.watch import WatchState
from conch.witness import ChainState, content_hash, mark_hash, seal, verify
from conch_schemas import AlarmRaised, ExperienceRecorded, Mark, decode, encode
from conch_services.watch.consumer import watch

SETTINGS = Settings.model_validate({"watch": {"recent": 20, "earlier": 20}})


def _consumed(experiences: list[ExperienceRecorded]) -> tuple[Any, list[AlarmRaised]]:
    spec = bind(watch, ServiceContext(SETTINGS, Path()))
    assert spec.initial is not None
    state, alarms = spec.initial(), []
    for experience in experiences:
        state, facts = spec.handle(state, experience)
        alarms += facts
    return state, alarms


@pytest.fixture
def resting(simulated: ModuleType) -> list[ExperienceRecorded]:
    """Twenty acts that are all the same: diversity is low."""
    return [simulated.experience(seq, "shell.None", "x" * 40, {}) for seq in range(1, 21)]


def test_an_alarm_follows_from_the_experience_that_it_begins_with(resting: list[ExperienceRecorded]) -> None:
    """Its envelope is the experience's; handled anew from the start it has the same id."""
    _, [alarm] = _consumed(resting)

    assert (alarm.agent, alarm.cycle, alarm.action_id, alarm.causation_id) == ("echo", 20, "act-20", resting[-1].id)
    assert decode(encode(alarm)) == alarm
    assert [one.id for one in _consumed(resting)[1]] == [alarm.id]


def test_an_alarm_is_logged_in_its_words(resting: list[ExperienceRecorded]) -> None:
    """One warning, under the name of the event."""
    with structlog.testing.capture_logs() as lines:
        _, [alarm] = _consumed(resting)

    [line] = lines
    assert (line["event"], line["log_level"], line["agent_id"]) == ("alarm.raised", "warning", "echo")
    assert line["what"] == alarm.what


def test_the_witness_marks_an_alarm(resting: list[ExperienceRecorded]) -> None:
    """In its own domain, with figure and bound as the reasons; the chain holds, and a changed mark shows."""
    _, [alarm] = _consumed(resting)

    state, mark = seal(ChainState(), alarm)

    assert mark is not None
    assert (mark.domain, mark.origin, mark.evidence, mark.event) == ("alarm", "watch", "check", alarm.id)
    assert mark.response == alarm.what
    assert "falling_entropy over 20 acts is 0; its bound is 0.3: the alarm begins" in mark.reasoning
    assert (mark.content, mark.hash) == (content_hash(alarm), mark_hash(mark))
    assert verify([mark], []) == []
    forged = Mark.model_validate(mark.model_dump() | {"response": "all is well"})
    assert [problem.kind for problem in verify([forged], [])] == ["changed"]
    assert seal(state, alarm) == (state, None)


async def test_what_the_watchers_know_is_read_from_the_bus(resting: list[ExperienceRecorded]) -> None:
    """By agent; one that was never watched is left out, and a state that cannot be read."""
    state, [alarm] = _consumed(resting)
    async with MemoryBus() as bus:
        await bus.put(state_key("watch", "echo"), encode_state(state, 20, "epoch"), revision=0)
        await bus.put(state_key("watch", "other"), b'{"state": {"seqs": "none"}}', revision=0)
        await bus.put(state_key("curiosity", "third"), b"{}", revision=0)

        found = await watched(bus, ["echo", "other", "nobody"])

        assert found == {"echo": state}
        assert sorted(await watched_agents(bus)) == ["echo", "other"]
    assert isinstance(found["echo"], WatchState)
    assert [one.what for one in found["echo"].active] == [alarm.what]
