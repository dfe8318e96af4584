"""Scoring the past: recorded acts through the function that scores live ones, and what it says onto the stream.

What was published is the only mark of how far it came: the store's rows, and what the stream holds behind them. So it
may be killed anywhere and begun again; no act is left out, and none is said twice. What is scored is published within
a second, however long the rest of its page takes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pydantic import BaseModel

from conch.bus import Bus, OutgoingMessage
from conch.consumer.follow import follow
from conch.consumer.plugins.pipeline import PipelinedRuleWorker
from conch.consumer.plugins.rule_process import assigned
from conch.consumer.plugins.rule_state import at_first, carried_by
from conch.consumer.spec import ConsumerSpec
from conch.errors import ConchError
from conch.experience import BackfillReader, CycleReader, ExperienceReader, RecordedAct, UnscoredActs
from conch.folds import evolve
from conch.judge import Judge
from conch.rules import RuleInfo
from conch_schemas import (
    ActionTaken,
    RewardAssigned,
    Score,
    consequence_id,
    encode,
    passed_on,
    subject_filter,
    subject_of,
)

AT_ONCE = 3
"""Pages of a lane that are in hand: one is read, one scored, one published."""
PAGE = 256
"""Acts of a page of rules: each may have as many bytes as an event."""
ROUNDS = 4
"""Acts of a page of a judge, for each question that may be asked at once."""
PUBLISH_SECONDS = 0.5
"""Whatever of a page is scored by then is published; what a rule is faster with goes as a whole page."""
SLOW_SECONDS = 5.0
"""A page that is not published by then waits for something: for room, or for the bus."""

Done = Callable[[Sequence[RewardAssigned], int, int], None]
"""Is told what the stream has now, how many more of the scores it had before, and up to which place."""
Say = Callable[[RewardAssigned], object]
"""Takes one score."""


class BackfillWorker(Protocol):
    """Scores pages of acts. Of a scorer that goes by what came before, each agent's in order, from its first act."""

    in_order: bool
    most: int
    """Acts of a page."""

    async def score(self, page: Sequence[RecordedAct], say: Say) -> None:
        """What it says of those that are wanted, each as soon as it is known."""
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


class RuleBackfill:
    """A plug-in rule in a process of its own."""

    most = PAGE

    def __init__(self, rule: RuleInfo, *, timeout: float, memory_mib: int) -> None:
        self._worker = PipelinedRuleWorker(rule, timeout=timeout, memory_mib=memory_mib)
        self.in_order = carried_by(rule) is not None
        self._first = at_first(rule)
        self._carried: dict[str, BaseModel | None] = {}

    async def score(self, page: Sequence[RecordedAct], say: Say) -> None:
        """Whatever the rule does, each act has its score."""
        if not self.in_order:
            await self._worker.score_all([one.act for one in page], lambda act, score: say(assigned(act, score)))
            return
        for act, wanted in page:
            before = self._carried.get(act.agent, self._first)
            self._carried[act.agent], score = await self._worker.fold(before, act)
            if wanted:
                say(assigned(act, score))

    async def close(self) -> None:
        """End the rule's process."""
        await self._worker.close()


class PureConsumerBackfill:
    """A consumer that comes with Conch and has no state; `version`: what its scores are to name, None: its own."""

    in_order, most = False, PAGE

    def __init__(self, spec: ConsumerSpec, version: str | None) -> None:
        self._spec, self._version = spec, version

    async def score(self, page: Sequence[RecordedAct], say: Say) -> None:
        """In this process: our own rules never block."""
        await asyncio.sleep(0)
        for act, _ in page:
            say(self._named(act, self._spec.handle(act)))

    def _named(self, act: ActionTaken, said: RewardAssigned) -> RewardAssigned:
        if self._version is None:
            return said
        identity = consequence_id(act.id, self._spec.name, self._version, RewardAssigned)
        scores = tuple(evolve(score, version=self._version) for score in said.scores)
        trace = passed_on(act.traceparent, identity)
        return said.model_copy(
            update={"id": identity, "version": self._version, "scores": scores, "traceparent": trace}
        )

    async def close(self) -> None:
        """It holds nothing."""


class JudgeBackfill:
    """A model that judges; `version`: what its scores are to name, None: its own.

    Whatever it answered is kept, so that an act is paid for once. Without an answer an act stays unscored: it is asked
    about again when the past is scored again.
    """

    in_order = False

    def __init__(self, judge: Judge, cycles: CycleReader, version: str | None, concurrency: int) -> None:
        self._judge, self._cycles, self._version = judge, cycles, version or judge.version
        self.most = ROUNDS * concurrency
        self.failed = 0
        """Acts without an answer."""

    async def score(self, page: Sequence[RecordedAct], say: Say) -> None:
        """Raises ConchError where no act of the page has an answer: nobody is there, or the budget is used."""
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._judge_one(one.act, say)) for one in page]
        silent = [score for task in asked if (score := task.result()).status == "error"]
        if len(silent) == len(page):
            raise ConchError(f"{self._judge.scorer} gives no answer ({silent[0].explanation})")
        self.failed += len(silent)

    async def _judge_one(self, act: ActionTaken, say: Say) -> Score:
        prompt = await asyncio.to_thread(self._cycles.prompt, act.action_id or "")
        score = await self._judge.judge_act(act, prompt)
        if score.status != "error":
            say(self._said(act, score))
        return score

    def _said(self, act: ActionTaken, score: Score) -> RewardAssigned:
        name, version = self._judge.scorer, self._version
        scores = (evolve(score, version=version),)
        return follow(act, RewardAssigned, consumer=name, version=version, scorer=name, scores=scores)

    async def close(self) -> None:
        """Let go of its file and connections."""
        await self._judge.close()


class ActPages:
    """The acts of some agents, page by page, read in a thread; several may take from it."""

    def __init__(self, reader: BackfillReader, wanted: Sequence[UnscoredActs], worker: BackfillWorker) -> None:
        self._pages = (page for one in wanted for page in reader.past(one, worker.most, whole=worker.in_order))
        self._reading = asyncio.Lock()

    async def next(self) -> list[RecordedAct] | None:
        """The next page; None: there is none."""
        async with self._reading:
            return await asyncio.to_thread(next, self._pages, None)


async def rescore(
    bus: Bus,
    reader: ExperienceReader,
    wanted: Sequence[UnscoredActs],
    workers: Sequence[BackfillWorker],
    stop: asyncio.Event,
    done: Done,
    waits: Callable[[], None] = lambda: None,
) -> None:
    """Score what is wanted and publish it, until all is done or `stop` is set: what is scored by then is published,
    what is being scored is dropped. `done` is told, and `waits` when the stream takes nothing for a while.

    The lanes are all of one scorer. A stream that is full is waited for. Raises a group of ConchErrors. Cancelled, it
    lets go at once.
    """
    way = _ScorePublisher(bus, await _on_stream(bus, reader, wanted), stop, done, waits)
    asked = [one for one in wanted if one.missing]
    in_order, shared = workers[0].in_order, ActPages(reader.backfill, asked, workers[0])
    async with asyncio.TaskGroup() as group:
        for number, worker in enumerate(workers):
            pages = ActPages(reader.backfill, asked[number :: len(workers)], worker) if in_order else shared
            for _ in range(1 if in_order else AT_ONCE):
                group.create_task(way.work(worker, pages), name="conch.rescore")


class _ScorePublisher:
    """The way of scores onto the stream."""

    def __init__(self, bus: Bus, known: set[str], stop: asyncio.Event, done: Done, waits: Callable[[], None]) -> None:
        self._bus, self._known, self._stop, self._done, self._waits = bus, known, stop, done, waits

    async def work(self, worker: BackfillWorker, pages: ActPages) -> None:
        """Page after page."""
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(self._stop.wait(), name="conch.rescore.stop")
            while not self._stop.is_set() and (page := await pages.next()) is not None:
                await self._work_page(worker, page, stopping)
            stopping.cancel()

    async def _work_page(
        self, worker: BackfillWorker, page: Sequence[RecordedAct], stopping: asyncio.Task[Any]
    ) -> None:
        """Publish what there is of it from time to time, and once it ends: all, until told to stop, or up to what
        raised."""
        said: list[RewardAssigned] = []
        scoring = asyncio.create_task(worker.score(page, said.append), name="conch.rescore.score")
        try:
            while not scoring.done():
                await asyncio.wait((scoring, stopping), timeout=PUBLISH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if stopping.done():
                    scoring.cancel()
                    await asyncio.wait((scoring,))
                if said:
                    ready, said[:] = said[:], ()
                    await self._publish(ready)
            if said:
                await self._publish(said)
        finally:
            scoring.cancel()
            await asyncio.gather(scoring, return_exceptions=True)
        if not scoring.cancelled():
            scoring.result()

    async def _publish(self, said: Sequence[RewardAssigned]) -> None:
        new = [one for one in said if one.id not in self._known]
        waiting = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._waits)
        try:
            stored = await self._bus.publish_many(
                [OutgoingMessage(subject_of(one), encode(one), one.id) for one in new]
            )
        finally:
            waiting.cancel()
        first = [one for one, at in zip(new, stored, strict=True) if not at.duplicate]
        self._done(first, len(said) - len(first), max((at.seq for at in stored), default=0))


async def _on_stream(bus: Bus, reader: ExperienceReader, wanted: Sequence[UnscoredActs]) -> set[str]:
    """Ids of this scorer's events that the store has not read: a time before published them."""
    state = await bus.state()
    after = reader.position() if reader.epoch() == state.epoch else 0
    found = set()
    filters = [subject_filter(RewardAssigned, one.agent) for one in wanted]
    scorers = {one.scorer for one in wanted}
    async for delivery in bus.read(filters, after=after):
        try:
            event = json.loads(delivery.data)
            if event["data"]["scorer"] in scorers:
                found.add(str(event["id"]))
        except (ValueError, LookupError, TypeError, RecursionError):
            continue  # no event: its readers make a dead letter of it
    return found
