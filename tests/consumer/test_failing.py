"""What a consumer cannot handle: it is tried again, becomes a letter, and stops nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus.checkpoints import position_key
from conch.consumer import ConsumerSpec, follow
from conch.errors import BusError
from conch_schemas import (
    ActionTaken,
    ConsumerFailed,
    CycleReflected,
    Drives,
    Event,
    NoveltyMeasured,
    RewardAssigned,
    Score,
    encode,
    subject_of,
)
from tests.consumer.conftest import Alone, seen

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct, Until
    from tests.consumer.conftest import Facts, Handle, MakeFold, Publish, Run


MEASURED = {
    "fingerprint": "f",
    "skill": "reflect",
    "novelty": 1.0,
    "new_information": False,
    "learning_progress": 0.0,
    "success_rate": 0.0,
    "exploration_bonus": 0.0,
    "drives": Drives(curiosity=0, competence=0, autonomy=0, social=0, intrinsic=0),
    "entropy": 0.0,
}
"""What a measure says beside its score."""


async def test_a_failing_event_is_tried_again_and_the_agents_next_one_waits(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """Back-off holds up that agent alone; then it succeeds and everything goes on."""
    tried: list[tuple[str, int]] = []

    def handle(action: ActionTaken) -> None:
        tried.append((action.agent, action.cycle or 0))
        if action.agent == "echo" and tried.count(("echo", 1)) < 3:
            raise RuntimeError("not yet")

    spec = ConsumerSpec("flaky", "1", (ActionTaken,), handle)
    async with run(bus, spec, retry=0.1) as runtime:
        for agent, cycle in (("echo", 1), ("echo", 2), ("delta", 1)):
            await publish(bus, act(cycle, agent))
        await until(lambda: runtime.tally.handled == 3)

    assert tried == [("echo", 1), ("delta", 1), ("echo", 1), ("echo", 1), ("echo", 2)]
    assert (runtime.tally.failures, runtime.tally.letters) == (2, 0)


async def test_after_the_last_try_there_is_a_letter_and_the_consumer_goes_on(
    bus: Bus, act: MakeAct, fold: MakeFold, counting: Handle, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """The letter says which event, by whom, why, after how many tries, and holds its bytes."""

    def handle(state: Any, action: ActionTaken) -> Any:
        if action.cycle == 2:
            raise ValueError("two\x1b[31m is bad")
        return counting(state, action)

    async with run(bus, fold(handle)) as runtime:
        for cycle in (1, 2, 3):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled == 2)

    [letter] = await facts(bus, ConsumerFailed)
    assert (letter.consumer, letter.version, letter.agent, letter.tries) == ("count", "1", "echo", 3)
    assert (letter.letter_subject, letter.letter_seq) == (subject_of(act(2)), 2)
    assert letter.reason == "ValueError: two�[31m is bad"
    assert letter.letter
    assert await seen(bus) == [1, 3]
    assert (runtime.tally.failures, runtime.tally.letters) == (3, 1)


@pytest.mark.parametrize("whose", ["reward", "another", "rule-liar"])
@pytest.mark.parametrize("kind", [RewardAssigned, NoveltyMeasured])
async def test_a_score_in_anothers_name_becomes_a_letter(
    whose: str, kind: Any, bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """Whoever scores says so: nobody buys a part that another one scores. In its own name it may."""

    def handle(action: ActionTaken) -> Event:
        name = whose if action.cycle == 1 else "liar"
        score = Score(component="goal", value=1.0, range=(0, 2), status="scored", scorer=name, version="9")
        said = {"scorer": name, "scores": (score,)} if kind is RewardAssigned else {"score": score} | MEASURED
        return follow(action, kind, consumer="liar", version="9", **said)

    async with run(bus, ConsumerSpec("liar", "9", (ActionTaken,), handle)) as runtime:
        for cycle in (1, 2):
            await publish(bus, act(cycle))
        await until(lambda: runtime.tally.handled + runtime.tally.letters == 2)

    [letter] = await facts(bus, ConsumerFailed)
    assert f"consumer liar scored as '{whose}'" in letter.reason
    assert [fact.cycle for fact in await facts(bus, kind)] == [2]


@pytest.mark.parametrize("what", ["garbage", "empty", "NUL", "huge", "deep", "another's", "another kind", "no agent"])
async def test_what_cannot_be_decoded_becomes_a_letter_at_once(
    what: str, bus: Bus, act: MakeAct, fold: MakeFold, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """It is not tried, nothing else stops, and there is one letter about it."""
    subject = subject_of(act(1))
    subject = {"no agent": "conch.v1._.action.taken"}.get(what, subject)
    data = {
        "garbage": b"\xff\xfe{{{",
        "empty": b"",
        "NUL": b"\x00" * 100,
        "huge": b"[" * 900_000,
        "deep": b'{"data":' * 5000 + b"1" + b"}" * 5000,
        "another's": encode(act(1, "delta")),
        "another kind": encode(follow(act(1), CycleReflected, consumer="x", version="1", reflection="", sleep=0, ms=0)),
        "no agent": encode(act(1)),
    }[what]

    async with run(bus, fold()) as runtime:
        await bus.publish(subject, data, id="forged")
        await publish(bus, act(2))
        await until(lambda: runtime.tally.handled == 1 and runtime.tally.letters == 1)

    [letter] = await facts(bus, ConsumerFailed)
    assert (letter.tries, letter.letter_seq, letter.letter_subject) == (0, 1, subject)
    assert (letter.letter == "") == (what in ("huge", "empty"))
    assert runtime.tally.failures == 0
    assert await seen(bus) == [2]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), RecursionError("deep")])
async def test_whatever_a_handler_raises_is_its_failure_alone(
    error: BaseException, bus: Bus, act: MakeAct, run: Run, publish: Publish, until: Until
) -> None:
    """Exiting and cancelling too: it is tried again, becomes a letter, and the consumer goes on."""

    async def handle(action: ActionTaken) -> None:
        if action.cycle == 1:
            raise error

    async with run(bus, ConsumerSpec("odd", "1", (ActionTaken,), handle, tries=2)) as runtime:
        await publish(bus, act(1))
        await publish(bus, act(2))
        await until(lambda: runtime.tally.handled == 1)

    assert (runtime.tally.failures, runtime.tally.letters) == (2, 1)


@pytest.mark.parametrize("result", ["text", 3, object()])
async def test_what_is_no_event_is_a_failure(
    result: object, bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """A consumer returns events; anything else becomes a letter that says so."""
    async with run(bus, ConsumerSpec("odd", "1", (ActionTaken,), lambda _: [result], tries=1)) as runtime:
        await publish(bus, act(1))
        await until(lambda: runtime.tally.letters == 1)

    [letter] = await facts(bus, ConsumerFailed)
    assert "not an event" in letter.reason


async def test_a_fold_that_returns_no_state_of_its_own_is_a_failure(
    bus: Bus, act: MakeAct, fold: MakeFold, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """It is found where it happens, not when the state is written."""
    async with run(bus, fold(lambda state, _: ({"cycles": ()}, None), tries=1)) as runtime:
        await publish(bus, act(1))
        await until(lambda: runtime.tally.letters == 1)

    [letter] = await facts(bus, ConsumerFailed)
    assert "Seen" in letter.reason


async def test_a_letter_about_a_letter_is_not_written(
    bus: Bus, act: MakeAct, run: Run, publish: Publish, facts: Facts, until: Until
) -> None:
    """A consumer of letters that fails on each would otherwise write them without end."""

    def handle(event: Event) -> None:
        raise RuntimeError("never")

    spec = ConsumerSpec("bad", "1", (ActionTaken, ConsumerFailed), handle, tries=1)
    async with run(bus, spec) as runtime:
        await publish(bus, act(1))
        await until(lambda: runtime.tally.letters == 2)

    assert len(await facts(bus, ConsumerFailed)) == 1


async def test_a_bus_that_refuses_is_no_failure_of_the_handler(
    bus: Bus, act: MakeAct, fold: MakeFold, publish: Publish, facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` raises; no letter blames the event, and it is handled the next time."""
    await publish(bus, act(1))
    real = type(bus).publish_many

    async def refuse(*_: Any, **__: Any) -> None:
        raise BusError("no permission")

    monkeypatch.setattr(type(bus), "publish_many", refuse)
    with pytest.raises(BusError, match="no permission"):
        async with asyncio.timeout(30):
            await Alone(bus, fold()).run(asyncio.Event())
    monkeypatch.setattr(type(bus), "publish_many", real)

    assert await facts(bus, ConsumerFailed) == []
    assert json.loads((await bus.get(position_key("count"))).value)["seq"] == 0
