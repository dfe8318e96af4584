"""Backfill: scores recorded acts with the function that scores live ones, and publishes the scores.

Progress is known only from published scores: rows of the store, and the part of the stream behind them. So a backfill
may be killed anywhere and started again; no act is left out, and none is scored twice. A score is published within a
second, however long the rest of its page takes.
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
from conch.tasks import background
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
"""Pages in progress per worker: one is read, one scored, one published."""
PAGE = 256
"""Acts in a page of rules: each may be as large as an event."""
ROUNDS = 4
"""Acts of a page of a judge, for each question that may be asked at once."""
PUBLISH_SECONDS = 0.5
"""Interval at which the scores of a page are published; a page that is scored faster is published whole."""
SLOW_SECONDS = 5.0
"""A page that is not published by then waits for something: for room, or for the bus."""

Done = Callable[[Sequence[RewardAssigned], int, int], None]
"""Called with the events that are on the stream now, how many more of the scores it had before, and the stream sequence
so far."""
Say = Callable[[RewardAssigned], object]
"""Takes one score."""


class BackfillWorker(Protocol):
    """Scores pages of acts. A stateful scorer gets each agent's acts in order, from the first."""

    in_order: bool
    most: int
    """Acts of a page."""

    async def score(self, page: Sequence[RecordedAct], say: Say) -> None:
        """Score the acts that are wanted, and call `say` with each score as soon as it is known."""
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


class RuleBackfill:
    """Backfill with a plug-in rule, in a process of its own."""

    most = PAGE

    def __init__(self, rule: RuleInfo, *, timeout: float, memory_mib: int) -> None:
        self._worker = PipelinedRuleWorker(rule, timeout=timeout, memory_mib=memory_mib)
        self.in_order = carried_by(rule) is not None
        self._first = at_first(rule)
        self._carried: dict[str, BaseModel | None] = {}

    async def score(self, page: Sequence[RecordedAct], say: Say) -> None:
        """Score each act of the page; an error of the rule becomes a Score, too."""
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
    """Backfill with a stateless built-in consumer; `version`: the version its scores name, None: its own."""

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
    """Backfill with a model as judge; `version`: the version its scores name, None: its own.

    All answers are cached, so that an act is paid for once. Without an answer an act stays unscored: it is asked about
    again when the past is scored again.
    """

    in_order = False

    def __init__(self, judge: Judge, cycles: CycleReader, version: str | None, concurrency: int) -> None:
        self._judge, self._cycles, self._version = judge, cycles, version or judge.version
        self.most = ROUNDS * concurrency
        self.failed = 0
        """Acts without an answer."""

    async def score(self, page: Sequence[RecordedAct], say: Say) -> None:
        """Raises ConchError where no act of the page has an answer: the endpoint is away, or the budget is used."""
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
    """The acts of some agents, page by page, read in a thread; several workers may take from it."""

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
    """Score what is wanted and publish it, until all is done or `stop` is set: scores that are ready then are
    published, acts in progress are dropped. `done` is called after each publication, `waits` when the stream accepts
    nothing for a while.

    All workers belong to one scorer. A full stream is waited for. Raises a group of ConchErrors. Cancelled, it ends at
    once.
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
    """Publishes scores to the stream, with retries while it is full."""

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
        """Publish available scores at intervals. At the end: all of them, unless stopped, or those before the act that
        raised."""
        said: list[RewardAssigned] = []
        async with background(worker.score(page, said.append), name="conch.rescore.score") as scoring:
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
            continue  # no event: consumers write a dead letter of it
    return found
