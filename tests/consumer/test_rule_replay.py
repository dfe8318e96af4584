"""A rule with a state that answers otherwise when its acts are handled again: the state follows what was published."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus, shared_subscription
from conch.bus.checkpoints import state_key
from conch.consumer import ConsumerRuntime, ConsumerSpec
from conch.consumer.plugins.discover import discover
from conch.consumer.plugins.rule_process import RuleWorker, rule_consumer
from conch.consumer.runtime.output import StateBeforeEvent
from conch_schemas import ConsumerFailed, RewardAssigned

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until
    from tests.consumer.conftest import Facts, Publish, Run


RULE = """
import os, time
from pydantic import BaseModel
from conch import rule

class Streak(BaseModel):
    cycles: list[int] = []

@rule(state=Streak, range=(0, 1000))
def streak(state, action):
    if action.cycle == 2 and os.path.exists({flag!r}):
        {failing}
    state.cycles.append(action.cycle)
    return state, float(len(state.cycles))
"""
ONCE = "os.remove({flag!r}); raise ValueError('once')"
SLOW = "os.remove({flag!r}); time.sleep(60)"
ALWAYS = "raise ValueError('always')"


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """While it is there, the rule fails on its second act."""
    return tmp_path / "flag"


@pytest.fixture
async def made(tmp_path: Path, flag: Path) -> AsyncIterator[Callable[[str], ConsumerSpec]]:
    """`made(how it fails)`: the spec of the rule."""
    workers: list[RuleWorker] = []

    def make(failing: str) -> ConsumerSpec:
        path = tmp_path / "streaks.py"
        path.write_text(RULE.format(flag=str(flag), failing=failing.format(flag=str(flag))))
        spec, worker = rule_consumer(discover([str(path)]).rules[0], timeout=2.0, memory_mib=512)
        workers.append(worker)
        return spec

    yield make
    for one in workers:
        await one.close()


async def _handled(run: Any, until: Any, bus: MemoryBus, spec: Any) -> None:
    async with run(bus, spec) as runtime:
        last = (await bus.state()).last
        await until(lambda: runtime.handled >= last)


async def _left(bus: MemoryBus, facts: Any) -> tuple[list[int], list[str]]:
    """(the acts in the rule's state, the statuses of its published scores)."""
    entry = await bus.get(state_key("rule-streak", "echo"))
    assert entry is not None
    state = json.loads(json.loads(entry.value)["state"]["text"])
    return state["cycles"], [fact.scores[0].status for fact in await facts(bus, RewardAssigned)]


@pytest.mark.parametrize("failing", [ONCE, SLOW])
async def test_an_act_that_was_scored_is_in_the_state_though_the_rule_fails_on_it_again(
    failing: str,
    made: Callable[[str], ConsumerSpec],
    flag: Path,
    act: MakeAct,
    publish: Publish,
    facts: Facts,
    run: Run,
    until: Until,
) -> None:
    """A crash before the state was written; then the rule raises, or takes too long: it is asked again."""
    async with MemoryBus() as bus:
        for cycle in (1, 2, 3):
            await publish(bus, act(cycle))
        await _handled(run, until, bus, made(failing))
        bus.journal.bucket.clear()
        flag.touch()

        await _handled(run, until, bus, made(failing))

        assert await _left(bus, facts) == ([1, 2, 3], ["scored"] * 3)


async def test_an_act_whose_error_was_published_stays_out_of_the_state_though_the_rule_answers_now(
    made: Callable[[str], ConsumerSpec],
    flag: Path,
    act: MakeAct,
    publish: Publish,
    facts: Facts,
    run: Run,
    until: Until,
) -> None:
    """A crash before the state was written; the score of the next act follows from a state without it."""
    flag.touch()
    async with MemoryBus() as bus:
        for cycle in (1, 2, 3):
            await publish(bus, act(cycle))
        await _handled(run, until, bus, made(ONCE))
        bus.journal.bucket.clear()

        await _handled(run, until, bus, made(ONCE))

        assert await _left(bus, facts) == ([1, 3], ["scored", "error", "scored"])


async def test_an_act_that_the_rule_never_answers_again_is_a_dead_letter_whose_retry_brings_it_into_the_state(
    made: Callable[[str], ConsumerSpec],
    flag: Path,
    act: MakeAct,
    publish: Publish,
    facts: Facts,
    run: Run,
    until: Until,
) -> None:
    """The letter says what to do; once the rule answers, its state is rebuilt, and nothing is published twice."""
    async with MemoryBus() as bus:
        for cycle in (1, 2, 3):
            await publish(bus, act(cycle))
        await _handled(run, until, bus, made(ALWAYS))
        bus.journal.bucket.clear()
        flag.touch()
        await _handled(run, until, bus, made(ALWAYS))
        [letter] = await facts(bus, ConsumerFailed)
        assert (await _left(bus, facts))[0] == [1, 3]

        flag.unlink()
        async with shared_subscription(bus) as shared_events:
            await ConsumerRuntime(shared_events, made(ALWAYS)).retry_alone(2)

        assert "rule streak answered this act before" in letter.reason
        assert await _left(bus, facts) == ([1, 2, 3], ["scored"] * 3)


async def test_a_retry_of_another_act_keeps_out_of_the_state_what_was_published_as_an_error(
    made: Callable[[str], ConsumerSpec],
    flag: Path,
    act: MakeAct,
    publish: Publish,
    facts: Facts,
    run: Run,
    until: Until,
) -> None:
    """What comes after the letter is folded again: an act that the rule failed on then, and answers now, too."""
    spec = made(ONCE)
    flag.touch()
    async with MemoryBus() as bus:
        await publish(bus, act(1))
        async with run(bus, spec) as runtime:
            await until(lambda: runtime.tally.handled == 1)
            for cycle in (2, 3):
                await publish(bus, act(cycle))
            await until(lambda: runtime.tally.handled == 3)
            await runtime._context.output.keep(1, _before(runtime))
            await runtime.retry(1)

        assert await _left(bus, facts) == ([1, 3], ["scored", "error", "scored"])


def _before(runtime: ConsumerRuntime) -> Any:
    assert runtime.spec.initial is not None
    return StateBeforeEvent("echo", runtime.spec.initial(), 0, runtime._context.stream.epoch)
