"""Scoring the past: the same events as live, each once, however often it is broken off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus, MemoryJournal
from conch.consumer import ConsumerSpec, follow
from conch.consumer.plugins import backfill as rescoring
from conch.consumer.plugins.backfill import JudgeBackfill, PureConsumerBackfill, RuleBackfill, rescore
from conch.consumer.plugins.discover import discover
from conch.consumer.plugins.rule_process import rule_consumer
from conch.errors import ConchError
from conch.experience import MemoryStore, ScoredSince, UnscoredActs
from conch.rules import RuleInfo
from conch_schemas import ActionTaken, RewardAssigned, Score, decode, subject_filter

if TYPE_CHECKING:
    from tests.conftest import MakeAct


EVERYTHING = ScoredSince()


class BrokenError(Exception):
    """The power goes."""


class Breaking(MemoryBus):
    """A bus that breaks off after so many publishes, the last one stored or not."""

    left = -1
    stored_first = True

    async def publish_many(self, messages: Sequence[Any]) -> Any:
        self.left -= 1
        if self.left == 0 and not self.stored_first:
            raise BrokenError
        stored = await super().publish_many(messages)
        if self.left == 0:
            raise BrokenError
        return stored


@pytest.fixture
def store(act: MakeAct) -> Iterator[MemoryStore]:
    """Forty acts of one agent, thirty of another."""
    with MemoryStore() as opened:
        acts = [act(cycle, "echo") for cycle in range(40)] + [act(cycle, "fox") for cycle in range(30)]
        opened.set_epoch("of before")
        opened.apply(list(enumerate(acts, 1)), upto=len(acts), now=acts[0].time + timedelta(hours=1))
        yield opened


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], RuleInfo]:
    """The rule in this text."""

    def declared(text: str) -> RuleInfo:
        path = tmp_path / "rules.py"
        path.write_text("from conch import rule\nfrom pydantic import BaseModel\n" + text)
        [found] = discover([str(path)]).rules
        return found

    return declared


def agent_queue(one: RuleInfo) -> RuleBackfill:
    return RuleBackfill(one, timeout=10, memory_mib=512)


def wanted(store: MemoryStore, one: RuleInfo, since: ScoredSince = EVERYTHING) -> list[UnscoredActs]:
    return [store.backfill.unscored(agent, one.name, one.version, since) for agent in store.agents()]


async def scored(
    bus: Any, store: MemoryStore, one: RuleInfo, lanes: Sequence[Any], since: ScoredSince = EVERYTHING
) -> int:
    """Score what is wanted; how many were published first by this."""
    told: list[Any] = []
    try:
        await rescore(bus, store, wanted(store, one, since), lanes, asyncio.Event(), lambda said, *_: told.extend(said))
    finally:
        for each in lanes:
            await each.close()
    return len(told)


async def said(bus: Any) -> list[RewardAssigned]:
    """All scores on the stream."""
    found = [decode(delivery.data) async for delivery in bus.read([subject_filter(RewardAssigned)])]
    return [event for event in found if isinstance(event, RewardAssigned)]


TONE = "@rule(version='3')\ndef tone(action):\n    'How it sounds.'\n    return action.cycle / 100\n"
COUNT = """
class Seen(BaseModel):
    acts: int = 0
@rule()
def count(state, action):
    return Seen(acts=state.acts + 1), (state.acts + 1) / 100
"""
COUNT = COUNT.replace("@rule()", "@rule(state=Seen)")
WINDOW = "@rule(window=5)\ndef last(actions):\n    return sum(one.cycle for one in actions) / 1000\n"


async def test_the_past_is_scored_as_the_live_rule_would(store: MemoryStore, plugin: Callable[[str], RuleInfo]) -> None:
    """Every act once, with the very id that the rule's consumer gives; so what was scored live is not doubled."""
    one = plugin(TONE)
    spec, worker = rule_consumer(one, timeout=10, memory_mib=512)
    acts = [row.act for page in store.backfill.past(wanted(store, one)[0], 100) for row in page]
    async with MemoryBus() as bus:
        live = [await spec.handle(act) for act in acts[:5]]
        await worker.close()
        published = await scored(bus, store, one, [agent_queue(one)])
        events = await said(bus)

    assert published == len(events) == 70
    by_cause = {event.causation_id: event for event in events}
    assert [by_cause[event.causation_id].id for event in live] == [event.id for event in live]
    assert [by_cause[act.id].scores[0].value for act in acts] == [act.cycle / 100 for act in acts]


async def test_what_has_a_score_of_the_version_is_left_as_it_is(
    store: MemoryStore, plugin: Callable[[str], RuleInfo]
) -> None:
    """By the store's rows, and by what stands on the stream behind them; another version is scored beside it."""
    one = plugin(TONE)
    async with MemoryBus() as bus:
        await scored(bus, store, one, [agent_queue(one)])
        again = await scored(bus, store, one, [agent_queue(one)])
        events = await said(bus)
        store.apply(list(enumerate(events[:50], 1)), upto=50, now=events[0].time)
        left = sum(each.missing for each in wanted(store, one))
        newer = plugin(TONE.replace("'3'", "'4'"))
        await scored(bus, store, newer, [agent_queue(newer)])
        versions = [event.version for event in await said(bus)]

    assert again == 0
    assert left == 20
    assert (versions.count("3"), versions.count("4")) == (70, 70)


def pure(action: ActionTaken) -> RewardAssigned:
    """What a scorer without a process says."""
    score = Score(component="tone", value=0.5, range=(0, 1), status="scored", scorer="tone", version="3")
    return follow(action, RewardAssigned, consumer="tone", version="3", scorer="tone", scores=(score,))


@pytest.mark.parametrize("seed", range(8))
async def test_broken_off_anywhere_it_goes_on(store: MemoryStore, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever of the last publish came through and was read since: in the end each act has one score."""
    monkeypatch.setattr(PureConsumerBackfill, "most", 7)
    dice, journal, applied = random.Random(seed), MemoryJournal(), 0
    one: Any = SimpleNamespace(name="tone", version="3")
    spec = ConsumerSpec("tone", "3", (ActionTaken,), pure)
    for _ in range(4):
        async with Breaking(journal) as breaking:
            breaking.left, breaking.stored_first = dice.randint(1, 2), dice.random() < 0.5
            with pytest.raises(ExceptionGroup) as raised:
                await scored(breaking, store, one, [PureConsumerBackfill(spec, None)])
            assert raised.group_contains(BrokenError)
        async with MemoryBus(journal) as bus:
            events = await said(bus)
            bus.forget_ids()
            store.set_epoch((await bus.state()).epoch)
            upto = dice.randint(applied, len(events))
            store.apply(list(enumerate(events, 1))[applied:upto], upto=upto, now=datetime.now(UTC))
            applied = upto
    async with MemoryBus(journal) as bus:
        await scored(bus, store, one, [PureConsumerBackfill(spec, None)])
        ids = [event.id for event in await said(bus)]

    assert len(ids) == len(set(ids)) == 70


async def test_a_built_in_scorer_under_a_version_of_its_own(store: MemoryStore) -> None:
    """Event, scores and id name that version, so that it stands beside the one it was scored with live."""
    one: Any = SimpleNamespace(name="tone", version="4")
    spec = ConsumerSpec("tone", "3", (ActionTaken,), pure)
    async with MemoryBus() as bus:
        await scored(bus, store, one, [PureConsumerBackfill(spec, "4")])
        await scored(bus, store, SimpleNamespace(name="tone", version="3"), [PureConsumerBackfill(spec, None)])  # type: ignore
        events = await said(bus)

    assert {(event.version, event.scores[0].version) for event in events} == {("3", "3"), ("4", "4")}
    assert len({event.id for event in events}) == 140


@pytest.mark.parametrize(("text", "expected"), [(COUNT, [0.39, 0.4]), (WINDOW, [0.18, 0.185])])
async def test_a_rule_that_goes_by_what_came_before_begins_at_the_first_act(
    store: MemoryStore, plugin: Callable[[str], RuleInfo], text: str, expected: list[float]
) -> None:
    """Only what is asked for is published, with what every act before it has left; each agent's by itself."""
    one = plugin(text)
    async with MemoryBus() as bus:
        await scored(bus, store, one, [agent_queue(one), agent_queue(one)], ScoredSince(cycle=38))
        events = await said(bus)

    assert [(event.agent, event.cycle) for event in events] == [("echo", 38), ("echo", 39)]
    assert [event.scores[0].value for event in events] == pytest.approx(expected)


async def test_a_rule_that_does_harm_harms_its_own_scores_alone(
    store: MemoryStore, plugin: Callable[[str], RuleInfo]
) -> None:
    """An error is a score too: it is published, and not tried again."""
    one = plugin(TONE.replace("return", "1 / (action.cycle - 3)\n    return"))
    async with MemoryBus() as bus:
        await scored(bus, store, one, [agent_queue(one)])
        statuses = [event.scores[0].status for event in await said(bus)]

    assert (statuses.count("error"), statuses.count("scored")) == (2, 68)


async def test_told_to_stop_it_waits_for_what_is_published(
    store: MemoryStore, plugin: Callable[[str], RuleInfo]
) -> None:
    """What is being scored is dropped: nothing is left running, and what was told is what the stream has."""
    one, stop = plugin(TONE), asyncio.Event()
    told: list[RewardAssigned] = []
    each = agent_queue(one)

    def done(events: Sequence[RewardAssigned], *_: int) -> None:
        told.extend(events)
        stop.set()

    RuleBackfill.most, before = 5, RuleBackfill.most
    try:
        async with MemoryBus() as bus:
            await rescore(bus, store, wanted(store, one), [each], stop, done)
            events = await said(bus)
    finally:
        RuleBackfill.most = before
        await each.close()

    assert 0 < len(events) < 70
    assert {event.id for event in told} == {event.id for event in events}


async def test_a_full_stream_is_waited_for(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost; that it waits is said; once there is room it goes on."""
    monkeypatch.setattr(rescoring, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(PureConsumerBackfill, "most", 10)
    one: Any = SimpleNamespace(name="tone", version="3")
    waited = asyncio.Event()
    told: list[RewardAssigned] = []
    lanes = [PureConsumerBackfill(ConsumerSpec("tone", "3", (ActionTaken,), pure), None)]
    async with MemoryBus(MemoryJournal(), most=25) as bus:

        def done(events: Sequence[RewardAssigned], *_: int) -> None:
            told.extend(events)

        scoring = asyncio.create_task(rescore(bus, store, wanted(store, one), lanes, asyncio.Event(), done, waited.set))
        await waited.wait()
        assert len(told) < 70
        while not scoring.done():
            await bus.trim((await bus.state()).last + 1)
            await asyncio.sleep(0)
        await scoring

    assert len({event.id for event in told}) == 70


async def test_what_a_slow_scorer_has_said_is_published_before_its_page_is_full(
    store: MemoryStore, plugin: Callable[[str], RuleInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Piece by piece while it scores on; told to stop, all that it has said by then is kept, and no more is begun."""
    monkeypatch.setattr(rescoring, "PUBLISH_SECONDS", 0.0)
    one, stop = plugin(TONE.replace("return", "import time; time.sleep(0.02)\n    return")), asyncio.Event()
    told: list[int] = []
    each = agent_queue(one)

    def done(events: Sequence[RewardAssigned], *_: int) -> None:
        told.append(len(events))
        if len(told) == 3:
            stop.set()

    try:
        async with MemoryBus() as bus:
            await rescore(bus, store, wanted(store, one), [each], stop, done)
            events = await said(bus)
    finally:
        await each.close()

    assert len(told) >= 3
    assert sum(told) == len(events) < 70


class Stopping:
    """A lane that is told to stop in the midst of a page."""

    in_order, most = True, 256

    def __init__(self, stop: asyncio.Event) -> None:
        self.stop = stop

    async def score(self, page: Sequence[Any], say: Callable[[RewardAssigned], object]) -> None:
        for act, _ in page[:9]:
            say(pure(act))
        self.stop.set()
        await asyncio.Event().wait()


async def test_told_to_stop_what_is_scored_is_kept(store: MemoryStore) -> None:
    """All that was said of a page that is broken off."""
    stop = asyncio.Event()
    one: Any = SimpleNamespace(name="tone", version="3")
    stopping: Any = Stopping(stop)
    async with MemoryBus() as bus:
        await rescore(bus, store, wanted(store, one), [stopping], stop, lambda *_: None)
        events = await said(bus)

    assert len(events) == 9


class FakeJudge:
    """Answers about the acts of some cycles."""

    scorer, version = "judge-kind", "1-abc"

    def __init__(self, *silent: int) -> None:
        self.silent = silent

    async def judge_act(self, action: ActionTaken, prompt: Sequence[Any]) -> Score:
        known = action.cycle not in self.silent
        return Score(
            component="kind",
            value=0.5 if known else None,
            range=(0, 1),
            status="scored" if known else "error",
            explanation="" if known else "its budget is used",
            scorer=self.scorer,
            version=self.version,
        )

    async def close(self) -> None:
        """Nothing to let go of."""


async def test_an_act_that_a_judge_does_not_answer_about_stays_unscored(store: MemoryStore) -> None:
    """It is asked again another time; where it answers about none of a page, that is the end."""
    one: Any = SimpleNamespace(name="judge-kind", version="9")
    another: Any = SimpleNamespace(name="judge-kind", version="10")
    judge: Any = FakeJudge(2, 3)
    async with MemoryBus() as bus:
        some: Any = JudgeBackfill(judge, store.cycles, "9", 4)
        await scored(bus, store, one, [some])
        events = await said(bus)
        none: Any = JudgeBackfill(judge, store.cycles, "9", 4)
        with pytest.raises(ExceptionGroup) as raised:  # of one page or more: several are asked about side by side
            await scored(bus, store, another, [_silent(none)])

    assert raised.group_contains(ConchError, match="budget is used")
    assert some.failed == 4
    assert len(events) == 66
    assert {(event.scorer, event.version, event.scores[0].version) for event in events} == {("judge-kind", "9", "9")}


def _silent(agent_queue: Any) -> Any:
    agent_queue._judge = FakeJudge(*range(100))
    return agent_queue
