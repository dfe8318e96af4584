"""Rules with a state of their own, and rules over a window of acts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.bus import MemoryBus, MemoryJournal, shared_subscription
from conch.bus.checkpoints import state_key
from conch.consumer import ConsumerRuntime, ConsumerSpec
from conch.consumer.plugins.discover import discover
from conch.consumer.plugins.rule_process import RuleWorker, rule_consumer
from conch.consumer.plugins.rule_state import ACT_BYTES, TEXT_LENGTHS, OwnRuleState, RuleWindow, at_first, shortened
from conch.consumer.runtime.state import UnreadableStateError
from conch.errors import ContractError
from conch.text import cut
from conch_schemas import Action, ActionTaken, ConsumerFailed, Outcome, RewardAssigned, decode, encode

if TYPE_CHECKING:
    from tests.conftest import MakeAct
    from tests.consumer.conftest import Facts


STREAK = """
import os, time
from pydantic import BaseModel
from conch import rule

class Streak(BaseModel):
    cycles: list[int] = []

@rule(state=Streak, range=(0, 1000), version={version!r})
def streak(state, action):
    {body}
    state.cycles.append(action.cycle)
    return state, {value}
"""
WINDOW = """
from conch import rule

@rule(window=3, range=(0, 10))
def last(actions):
    {body}
    return sum(action.cycle for action in actions) / 100
"""

Make = Callable[..., RuleWorker]


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Callable[..., tuple[ConsumerSpec, RuleWorker]]]:
    """Make `rule_consumer` of a file with this text: (the spec, the worker)."""
    workers: list[RuleWorker] = []

    def make(text: str, *, timeout: float = 10.0) -> tuple[ConsumerSpec, RuleWorker]:
        path = tmp_path / f"rules_{len(workers)}.py"
        path.write_text(text)
        found = discover([str(path)])
        assert not found.broken, found.broken
        spec, worker = rule_consumer(found.rules[0], timeout=timeout, memory_mib=512)
        workers.append(worker)
        return spec, worker

    yield make
    for one in workers:
        await one.close()


def streak(body: str = "pass", value: str = "float(len(state.cycles))", version: str = "1") -> str:
    return STREAK.format(body=body, value=value, version=version)


async def folded(worker: RuleWorker, acts: list[ActionTaken]) -> tuple[Any, list[Any]]:
    """What it carries after these acts, and their scores."""
    carried: Any = at_first(worker.rule)
    scores = []
    for act in acts:
        carried, score = await worker.fold(carried, act)
        scores.append(score)
    return carried, scores


async def test_a_state_goes_from_act_to_act(made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct) -> None:
    """It starts as the model's defaults, and is what the rule returned for the act before."""
    _, worker = made(streak())

    carried, scores = await folded(worker, [act(cycle) for cycle in (1, 2, 3)])

    assert [score.value for score in scores] == [1.0, 2.0, 3.0]
    assert json.loads(carried.text) == {"cycles": [1, 2, 3]}


BAD = [
    ("raise ValueError('no good')", "error", "no good"),
    ("os._exit(3)", "error", "status 3"),
    ("time.sleep(60)", "timeout", "no value within"),
    ("return state, float('nan')", "error", "not a finite number"),
    ("return state, 5000.0", "error", "outside its range"),
    ("return 0.5", "error", "returned 0.5, not (Streak, a number or None)"),
    ("return {'cycles': []}, 0.5", "error", "not (Streak"),
    ("return state.model_copy(update={'cycles': [0] * 200_000}), 1.0", "error", "its state takes"),
    ("return state.model_copy(update={'cycles': 'no list'}), 1.0", "error", "read again"),
]


async def test_an_act_that_goes_wrong_leaves_the_state_as_it_was(
    made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct
) -> None:
    """It costs its own score; the next act finds the state of the one before, whatever the rule did to its copy."""
    lines = [f"if action.cycle == {2 * number + 2}: {body}" for number, (body, _, _) in enumerate(BAD)]
    _, worker = made(streak("\n    ".join(["state.cycles.append(99)", *lines, "state.cycles.pop()"])), timeout=1.5)

    carried, scores = await folded(worker, [act(cycle) for cycle in range(1, 2 * len(BAD) + 2)])

    for number, (body, status, says) in enumerate(BAD):
        score, after = scores[2 * number + 1 : 2 * number + 3]
        assert (score.status, after.status) == (status, "scored"), body
        assert says in score.explanation, body
    assert json.loads(carried.text) == {"cycles": list(range(1, 2 * len(BAD) + 2, 2))}


async def test_a_state_that_is_too_large_is_one_clear_error(
    made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct
) -> None:
    """How large, how large it may be, and what to do; one just small enough goes, over the bus too."""
    body = "state.cycles = [777_777_777] * (26_000 if action.cycle == 1 else 27_000)"
    spec, _ = made(streak(body, value="1.0"))

    async with MemoryBus() as bus, shared_subscription(bus) as shared_events:
        [first, second] = await scored(bus, shared_events, spec, [act(1), act(2)])

    assert (first.status, second.status) == ("scored", "error")
    assert "its state takes 263 KiB, more than 256: keep less of the past" in second.explanation


async def scored(bus: Any, shared_events: Any, spec: Any, acts: list[ActionTaken]) -> list[Any]:
    """Publish these and have them scored by a consumer that runs for just that."""
    for one in acts:
        await bus.publish(f"conch.v1.{one.agent}.action.taken", encode(one), id=one.id)
    stop, runtime = asyncio.Event(), ConsumerRuntime(shared_events, spec)
    task = asyncio.create_task(runtime.run(stop))
    last = (await bus.state()).last
    async with asyncio.timeout(30):
        while not task.done() and runtime.handled < last:
            await asyncio.sleep(0.005)
    stop.set()
    await task
    wanted = {one.id for one in acts}
    said = [decode(one.data) async for one in bus.read(["conch.v1.*.reward.assigned"])]
    return [one.scores[0] for one in said if isinstance(one, RewardAssigned) and one.causation_id in wanted]


@asynccontextmanager
async def entered(journal: MemoryJournal) -> AsyncIterator[tuple[Any, Any]]:
    async with MemoryBus(journal) as bus, shared_subscription(bus) as shared_events:
        yield bus, shared_events


async def test_a_state_survives_its_processes(
    made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct
) -> None:
    """Another process of the consumers, another of the rule: it goes on where it was; one state for each agent."""
    journal = MemoryJournal()
    values = {"echo": [], "delta": []}
    for cycles in ((1, 2), (3,), (4, 5)):
        spec, worker = made(streak())
        async with entered(journal) as (bus, shared_events):
            for agent, found in values.items():
                found += [
                    score.value for score in await scored(bus, shared_events, spec, [act(one, agent) for one in cycles])
                ]
        await worker.close()

    assert values == {"echo": [1.0, 2.0, 3.0, 4.0, 5.0], "delta": [1.0, 2.0, 3.0, 4.0, 5.0]}


async def test_a_state_that_the_new_version_cannot_read_is_one_sentence(
    made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct, facts: Facts
) -> None:
    """As for a consumer: who, for which agent, what to do; no act is blamed, and the version that wrote it goes on."""
    journal = MemoryJournal()
    other = streak(version="2").replace("cycles: list[int] = []", "cycles: dict[str, int] = {}\n    more: int = 1")
    spec, _ = made(streak())
    async with entered(journal) as (bus, shared_events):
        await scored(bus, shared_events, spec, [act(1)])
    spec, _ = made(other)
    async with entered(journal) as (bus, shared_events):
        with pytest.raises(ContractError) as raised:
            await scored(bus, shared_events, spec, [act(2)])
        assert await facts(bus, ConsumerFailed) == []
    spec, _ = made(streak())
    async with entered(journal) as (bus, shared_events):
        [third] = await scored(bus, shared_events, spec, [act(3)])

    assert str(raised.value).startswith("consumer rule-streak version 2 cannot read its state for agent echo (Streak: ")
    assert str(raised.value).endswith("run the version that wrote it, or: conch consumer reset rule-streak")
    assert third.value == 3.0


async def test_a_rule_of_another_kind_does_not_take_the_state_for_its_own(
    made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct
) -> None:
    """A window where there was a state: said in the same sentence, not begun anew in silence."""
    journal = MemoryJournal()
    spec, _ = made(streak())
    async with entered(journal) as (bus, shared_events):
        await scored(bus, shared_events, spec, [act(1)])
    spec, _ = made(WINDOW.format(body="pass").replace("def last", "def streak"))
    async with entered(journal) as (bus, shared_events):
        with pytest.raises(UnreadableStateError, match="conch consumer reset rule-streak"):
            await scored(bus, shared_events, spec, [act(2)])


async def test_a_window_is_the_last_acts_this_one_last(
    made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct
) -> None:
    """Fewer at the beginning; an act that went wrong, and one that ended the process, are acts all the same."""
    body = "import os\n    if actions[-1].cycle == 4: os._exit(3)\n    if actions[-1].cycle == 3: raise ValueError"
    _, worker = made(WINDOW.format(body=body))

    acts = [act(cycle) for cycle in range(1, 8)]
    carried, scores = await folded(worker, acts)

    assert [score.value for score in scores] == [0.01, 0.03, None, None, 0.12, 0.15, 0.18]
    assert isinstance(carried, RuleWindow)
    assert [decode(one.encode()) for one in carried.acts] == acts[-2:]


async def test_a_window_survives_its_processes(
    made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct
) -> None:
    """It is kept like any fold's state, and a smaller one is cut from a larger one."""
    journal = MemoryJournal()
    spec, _ = made(WINDOW.format(body="pass"))
    async with entered(journal) as (bus, shared_events):
        await scored(bus, shared_events, spec, [act(cycle) for cycle in (1, 2, 3)])
        entry = await bus.get(state_key("rule-last", "echo"))
    spec, _ = made(WINDOW.format(body="pass").replace("window=3", "window=2"))
    async with entered(journal) as (bus, shared_events):
        [fourth] = await scored(bus, shared_events, spec, [act(4)])

    assert len(json.loads(entry.value)["state"]["acts"]) == 2
    assert fourth.value == 0.07


async def test_in_a_window_long_texts_keep_their_ends(
    made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct
) -> None:
    """Of the acts before: the one to be scored is whole."""
    big = [act(cycle, outcome=Outcome(status="success", output=cut(f"{'a' * 5000}{cycle}"))) for cycle in (1, 2)]
    body = "return sum(len(action.outcome.output.text) for action in actions) / 10_000"
    _, worker = made(WINDOW.format(body=body))

    _, scores = await folded(worker, big)

    marker = len("\n[… 4001 characters left out …]\n")
    assert scores[1].value == (5001 + TEXT_LENGTHS[0] + marker) / 10_000


texts = st.text(max_size=30_000) | st.sampled_from(["\x00" * 5000, '"' * 9000, "é" * 8000, "\U0001f41a" * 3000])


@settings(max_examples=40, deadline=None)
@given(raw=texts, output=texts, memory=st.lists(texts, max_size=40), args=st.dictionaries(st.text(max_size=9), texts))
def test_an_earlier_act_is_small_and_still_an_act(raw: str, output: str, memory: list[str], args: Any) -> None:
    """Whatever is in it: at most ACT_BYTES of JSON, that can be read, of the same act."""
    raw, output = cut(raw).text, cut(output, 20_000).text
    action = ActionTaken(
        id="00000000-0000-5000-8000-000000000001",
        source="conch/echo/00000000-0000-4000-8000-000000000000",
        agent="echo",
        cycle=1,
        action_id="00000000-0000-5000-8000-000000000000",
        action=Action(
            kind="TOOL", valid=True, tool="notes", args={key: cut(one, 999).text for key, one in args.items()}
        ),
        raw=raw,
        raw_length=len(raw),
        raw_sha256="0" * 64,
        outcome=Outcome(status="success", output=cut(output)),
        needs={"curiosity": 0.5},
        memory=tuple(cut(one, 2000).text for one in memory),
        model="test",
        ms={"think": 1.0},
    )

    text = shortened(action)
    kept = decode(text.encode())

    assert len(text.encode()) <= ACT_BYTES
    assert isinstance(kept, ActionTaken)
    assert (kept.id, kept.action_id, kept.cycle, kept.needs) == (action.id, action.action_id, 1, action.needs)


async def test_what_is_no_state_of_its_own_is_never_begun(
    made: Callable[..., tuple[ConsumerSpec, RuleWorker]], act: MakeAct
) -> None:
    """`score` by itself is that of a first act, for a rule of any kind."""
    _, worker = made(streak())

    assert [(await worker.score(act(cycle))).value for cycle in (5, 6)] == [1.0, 1.0]
    assert at_first(worker.rule) == OwnRuleState(text=None)
