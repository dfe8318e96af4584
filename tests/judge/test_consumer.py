"""A judge as a consumer, on both buses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus, OutgoingMessage, shared_subscription
from conch.config import Settings
from conch.consumer import ConsumerRuntime, ConsumerSpec
from conch.consumer.emitted import emitted
from conch.consumer.group.membership import Membership
from conch.consumer.group.shared import SharedConsumer
from conch.consumer.plugins.builtin import builtin_names, builtin_services, wanted_builtin
from conch.consumer.services import ServiceContext
from conch.processes.messages import ConsumerNote, ConsumerReport
from conch.retry import Backoff
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    Event,
    PromptMessage,
    RewardAssigned,
    cycle_event_id,
    decode,
    encode,
    subject_filter,
    subject_of,
)
from conch_services.judge.consumer import ROUNDS
from tests.judge.standin import HANGS, Endpoint, answer

if TYPE_CHECKING:
    from tests.conftest import Until


Acting = Callable[..., ActionTaken]
Specs = Callable[..., ConsumerSpec]


@pytest.fixture
def spec(endpoint: Endpoint, tmp_path: Path) -> Specs:
    """The consumer `judge-tone`; keywords are the judge's settings."""

    def make(begin: int = 0, **own: Any) -> ConsumerSpec:
        (tmp_path / "tone.md").write_text("Is it calm?")
        judge = {"rubric": str(tmp_path / "tone.md"), "base_url": endpoint.url, "tries": 1, **own}
        settings = Settings.model_validate({"rewards": {"judges": {"tone": judge}}})
        [name] = [one for one in wanted_builtin(settings, ()) if one.startswith("judge-")]
        made: ConsumerSpec = builtin_services([name])[name](ServiceContext(settings, tmp_path, begin=begin))
        return made

    return make


@asynccontextmanager
async def judging(bus: Bus, spec: ConsumerSpec) -> AsyncIterator[ConsumerRuntime]:
    """It runs; leaving stops it in order."""
    assert spec.close is not None
    async with shared_subscription(bus) as shared_events:
        runtime, stop = ConsumerRuntime(shared_events, spec, backoff=Backoff((0.001,))), asyncio.Event()
        running = asyncio.create_task(runtime.run(stop))
        try:
            yield runtime
        finally:
            stop.set()
            await running
            await spec.close()


async def publish(bus: Bus, *events: Event) -> None:
    await bus.publish_many([OutgoingMessage(subject_of(event), encode(event), event.id) for event in events])


async def scores(bus: Bus) -> list[RewardAssigned]:
    found = [decode(one.data) async for one in bus.read([subject_filter(RewardAssigned)])]
    return [event for event in found if isinstance(event, RewardAssigned)]


def decided(taken: ActionTaken, said: str) -> ActionDecided:
    """The decision before an act."""
    shared = {"source", "agent", "cycle", "action_id", "subject", "action", "raw", "raw_length", "raw_sha256"}
    same = {name: getattr(taken, name) for name in shared}
    prompt = (PromptMessage(role="user", content=said),)
    identity = cycle_event_id(str(taken.action_id), ActionDecided)
    return ActionDecided(**same, id=identity, messages=prompt, model="test", finish_reason="stop", ms=1.0)


async def test_many_acts_are_judged_at_once(
    bus: Bus, spec: Specs, endpoint: Endpoint, act: Acting, until: Until
) -> None:
    """One agent's acts too; each is one event of one score, its id derived from the act's."""
    endpoint.plan = [HANGS] * 4
    acts = [act(cycle, raw=str(cycle)) for cycle in range(1, 9)]
    await publish(bus, *acts)

    async with judging(bus, spec(concurrency=4)) as runtime:
        await until(lambda: endpoint.at_once == 4)
        endpoint.released.set()
        await until(lambda: runtime.tally.handled == 8)

    said = await scores(bus)
    assert sorted(str(event.causation_id) for event in said) == sorted(one.id for one in acts)
    assert {(event.scorer, event.version) for event in said} == {("judge-tone", said[0].scores[0].version)}
    assert {(score.component, score.status, score.value) for event in said for score in event.scores} == {
        ("tone", "scored", 0.5)
    }


async def test_a_score_is_said_while_another_answer_is_waited_for(
    bus: Bus, spec: Specs, endpoint: Endpoint, act: Acting, until: Until
) -> None:
    """Of one agent, and of many more acts than are in hand at once: the one whose answer is slow holds up itself."""
    endpoint.plan = [HANGS]
    many = 2 * ROUNDS * 2 + 1
    await publish(bus, *(act(cycle, raw=str(cycle)) for cycle in range(1, many + 1)))

    async with judging(bus, spec(concurrency=2)) as runtime:
        await until(lambda: runtime.tally.handled == many - 1)
        early = await scores(bus)
        assert endpoint.at_once == 1
        endpoint.released.set()
        await until(lambda: runtime.tally.handled == many)

    assert len({event.causation_id for event in early}) == len(early) == many - 1
    assert {event.id for event in await scores(bus)} > {event.id for event in early}
    assert len(await scores(bus)) == many


async def test_killed_between_two_answers_a_judge_asks_for_the_missing_one_alone(
    bus: Bus, spec: Specs, endpoint: Endpoint, act: Acting, until: Until
) -> None:
    """What was said is not said again, and what was answered is not paid for again."""
    endpoint.plan = [HANGS]
    await publish(bus, *(act(cycle, raw=str(cycle)) for cycle in range(1, 6)))
    one = spec(concurrency=2)
    async with shared_subscription(bus) as shared_events:
        runtime = ConsumerRuntime(shared_events, one)
        running = asyncio.create_task(runtime.run(asyncio.Event()))
        await until(lambda: runtime.tally.handled == 4)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert one.close is not None
    await one.close()
    early = [event.id for event in await scores(bus)]
    endpoint.usual = answer(0.9)

    async with judging(bus, spec(concurrency=2)) as again:
        await until(lambda: again.tally.handled == 5)

    said = await scores(bus)
    assert [event.id for event in said][:4] == early
    assert [event.scores[0].value for event in said] == [0.5] * 4 + [0.9]
    assert len({event.causation_id for event in said}) == 5
    assert len(endpoint.requests) == 6


async def test_a_judge_begins_where_it_was_first_given_a_weight(
    bus: Bus, spec: Specs, endpoint: Endpoint, act: Acting, until: Until
) -> None:
    """The past costs nothing unless it is asked for."""
    await publish(bus, *(act(cycle, raw=str(cycle)) for cycle in range(1, 6)))

    async with judging(bus, spec(begin=3)) as runtime:
        await until(lambda: runtime.tally.handled == 2)

    assert len(endpoint.requests) == 2


async def test_what_the_mind_was_given_is_judged_along(
    bus: Bus, spec: Specs, endpoint: Endpoint, act: Acting, until: Until
) -> None:
    """The decision's messages stand before the reply, each act's its own."""
    acts = [act(cycle, raw=str(cycle)) for cycle in (1, 2)]
    await publish(bus, *(event for one in acts for event in (decided(one, f"prompt of {one.cycle}"), one)))

    async with judging(bus, spec(concurrency=1)) as runtime:
        await until(lambda: runtime.tally.handled == 4)

    shown = [request["messages"][1]["content"] for request in endpoint.requests]
    assert ["prompt of 1" in shown[0], "prompt of 2" in shown[0]] == [True, False]
    assert "prompt of 2" in shown[1]


async def test_killed_after_the_answer_a_judge_asks_nobody_again(
    bus: Bus, spec: Specs, endpoint: Endpoint, act: Acting, until: Until
) -> None:
    """The answer is kept before the score is said: who takes over says it, and the same id."""
    one, taken = spec(), act()
    await one.handle(decided(taken, "be quick"))
    said_and_lost = await one.handle(taken)
    assert one.close is not None
    await one.close()
    endpoint.usual = answer(0.9)
    await publish(bus, decided(taken, "be quick"), taken)

    async with judging(bus, spec()) as runtime:
        await until(lambda: runtime.tally.handled == 2)

    [said] = await scores(bus)
    assert (said.id, said.scores) == (said_and_lost.id, said_and_lost.scores)
    assert len(endpoint.requests) == 1


async def test_a_failing_judge_says_an_error_for_each_act(
    bus: Bus, spec: Specs, endpoint: Endpoint, act: Acting, until: Until
) -> None:
    """No act is tried for ever, none is a dead letter, none a zero."""
    endpoint.usual = "I would rather not say."
    await publish(bus, *(act(cycle, raw=str(cycle)) for cycle in (1, 2, 3)))

    async with judging(bus, spec()) as runtime:
        await until(lambda: runtime.tally.handled == 3)

    found = [event.scores[0] for event in await scores(bus)]
    assert [(score.status, score.value) for score in found] == [("error", None)] * 3
    assert "not one JSON object" in found[0].explanation
    assert (runtime.tally.letters, runtime.tally.failures) == (0, 0)


async def test_a_judge_whose_file_cannot_be_written_says_so(
    bus: Bus, spec: Specs, act: Acting, until: Until, tmp_path: Path
) -> None:
    """As an error of the score, with the file."""
    (tmp_path / "judges").write_text("in the way")
    await publish(bus, decided(taken := act(), "x"), taken)

    async with judging(bus, spec()) as runtime:
        await until(lambda: runtime.tally.handled == 2)

    [said] = await scores(bus)
    assert "tone.db cannot be used" in said.scores[0].explanation


async def test_a_damaged_file_is_told_to_the_run(spec: Specs, act: Acting, endpoint: Endpoint, tmp_path: Path) -> None:
    """In a line of its own; the judge goes on."""
    (tmp_path / "judges").mkdir()
    (tmp_path / "judges" / "tone.db").write_bytes(b"no database" * 1000)
    (tmp_path / "tone.md").write_text("Is it calm?")
    judge = {"rubric": str(tmp_path / "tone.md"), "base_url": endpoint.url}
    settings = Settings.model_validate({"rewards": {"judges": {"tone": judge}}})
    lines: list[ConsumerReport] = []
    context = ServiceContext(settings, tmp_path, lines.append)
    one: ConsumerSpec = builtin_services(["judge-tone"])["judge-tone"](context)

    said = await one.handle(act())
    assert one.close is not None
    await one.close()

    assert said.scores[0].value == 0.5
    [line] = lines
    assert isinstance(line, ConsumerNote)
    assert line.consumer == "judge tone"
    assert "set aside as tone.db.damaged-1" in line.note


async def test_a_shared_judge_lets_go_of_its_file_when_it_ends(spec: Specs) -> None:
    """Whoever hosts it closes it."""
    from dataclasses import replace

    from conch.bus import MemoryBus, MemoryJournal

    closed: list[str] = []

    async def close() -> None:
        closed.append("now")

    stop = asyncio.Event()
    stop.set()
    async with MemoryBus(MemoryJournal()) as bus, shared_subscription(bus) as shared_events:
        await SharedConsumer(replace(spec(), close=close), Membership(bus, "here")).run(shared_events, stop)

    assert closed == ["now"]


def test_without_judges_nothing_of_them_is_loaded() -> None:
    """Neither the judge nor what it asks endpoints with is imported by a run that has none."""
    program = (
        "import sys; from conch.config import Settings; import conch.consumer.process, conch.cli.run.tree;"
        "from conch.consumer.plugins.builtin import builtin_services, wanted_builtin;"
        "builtin_services(wanted_builtin(Settings(), ()));"
        "judges = ('httpx2', 'conch.judge');"
        "sys.exit(any(name.startswith(judges) for name in sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", program], check=False)

    assert done.returncode == 0


def test_there_is_a_consumer_for_each_judge_of_the_settings(spec: Specs) -> None:
    """Named judge-NAME, which may publish scores and nothing else; without judges there is none."""
    judges = {name: {"rubric": f"{name}.md"} for name in ("tone", "depth")}
    settings = Settings.model_validate({"rewards": {"judges": judges}})

    assert {"judge-tone", "judge-depth"} <= set(wanted_builtin(settings, ()))
    assert "judge-depth" not in wanted_builtin(settings, ("judge-depth",))
    assert not [name for name in builtin_names(Settings()) if name.startswith("judge")]
    assert [kind.TYPE for kind in emitted(spec())] == ["reward.assigned"]
