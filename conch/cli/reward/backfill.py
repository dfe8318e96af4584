"""`conch reward backfill`: score recorded acts with a rule, and publish the scores."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, warn
from conch.cli.options import COMMON, AgentName, meant
from conch.cli.people_facts import names_in
from conch.cli.progress import counting
from conch.cli.reward.backfilled import BackfillResult, tell
from conch.cli.reward.history import RecordedHistory, When, history, since
from conch.config import BUILTIN_COMPONENTS, Settings
from conch.consumer import ConsumerSpec, ServiceContext
from conch.consumer.plugins import (
    BackfillWorker,
    JudgeBackfill,
    PureConsumerBackfill,
    RuleBackfill,
    builtin_services,
    discover,
    rescore,
    reserved,
    rules_of,
)
from conch.errors import ConchError, UsageError
from conch.experience import CycleReader, ScoredSince, UnscoredActs
from conch.home import Home
from conch.judge import Judge
from conch.rules import RuleInfo
from conch.tasks import ungrouped
from conch.text import instead
from conch_schemas import BUILTIN_SCORER, RewardAssigned

if TYPE_CHECKING:
    from rich.progress import Progress

VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""A version that `name@version` can name."""

Version = Annotated[
    str | None,
    Parameter(
        help="Record the scores as this version, whatever the rule says of itself. Of each act the highest version "
        "counts, 1.10 above 1.9, of builds behind a + the last said; the others stay beside it."
    ),
]


@dataclass(frozen=True)
class BackfillScorer:
    """The scorer of a backfill: a rule, a consumer or a judge."""

    scorer: str
    version: str
    workers: Callable[[int, CycleReader], Sequence[BackfillWorker]]
    """Makes this many workers, which run side by side."""


async def backfill(
    name: str,
    /,
    *,
    rules: Annotated[list[Path] | None, Parameter(negative="", help="Python file of rules; repeatable.")] = None,
    since_: When = None,
    version: Version = None,
    processes: Annotated[int, Parameter(validator=Number(gte=1, lte=64), help="Rule processes side by side.")] = 1,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Score recorded acts with NAME, as if it had been there: a rule, a judge, or the built-in scorer `reward`.

    An act that has a score of this version is left as it is, and older versions stay beside the new one. Ended at any
    time, even killed, the same command goes on where it was. A rule with a state or a window is given each agent's acts
    from the first one on. An act's total changes only where its weight set of then expects the component.

    Parameters
    ----------
    name
        The rule's, judge's or scorer's name.
    """
    if version is not None and not VERSION.fullmatch(version):
        raise UsageError(f"--version {version[:70]}: letters, digits and . _ + -, at most 64 of them")
    began = since(since_)
    home, settings = common.existing(), common.settings()
    source = await asyncio.to_thread(find_source, name, [str(rule) for rule in rules or ()], version, home, settings)
    ending = BackfillShutdown()
    try:
        with ending.asked():
            async with history(common) as found:
                there = found.reader.agents()
                agents = there if agent is None else [meant(agent, there, names_in(home, settings)) or agent]
                ran = await _run(found, source, agents, began, processes, ending)
    except asyncio.CancelledError:
        raise ConchError(f"the backfill of {name} was ended with work in hand: the same command goes on") from None
    tell(common, ran)
    if ending.stop.is_set() and ran.left:
        raise ConchError(f"the backfill of {name} was ended, {ran.left:,} acts are left: the same command goes on")


class BackfillShutdown:
    """Ctrl-C during a backfill: what is being published is waited for, all else is dropped."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        """Set to score no more."""
        self.scoring = False

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Signals are heard while entered."""
        loop, own = asyncio.get_running_loop(), asyncio.current_task()
        assert own is not None
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, self._asked, own)
        try:
            yield
        finally:
            for one in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(one)

    def _asked(self, task: asyncio.Task[None]) -> None:
        if not self.scoring or self.stop.is_set():
            task.cancel()
        self.stop.set()


# -- the scorer -------------------------------------------------------------------------------------------------------


def find_source(name: str, files: Sequence[str], version: str | None, home: Home, settings: Settings) -> BackfillScorer:
    """The scorer called `name`. Raises UsageError, with the nearest name that there is, or the reason why not."""
    rules = _rules(files, home, settings)
    judges = {f"judge-{one}": one for one in settings.rewards.judges}
    if name in rules:
        return _of_rule(rules[name] if version is None else replace(rules[name], version=version), settings)
    if name in judges or name in judges.values():
        return _of_judge(judges.get(name, name), version, home, settings)
    if name == BUILTIN_SCORER:
        return _of_builtin(version, home, settings)
    if name in settings.rewards.parts:
        raise UsageError(f"{name} is scored outside of Conch (rewards.parts): its program scores the past itself")
    if name in ("needs", "curiosity", *BUILTIN_COMPONENTS):
        raise UsageError(
            f"{name} cannot be scored again by itself: conch reward backfill {BUILTIN_SCORER} scores what goes by the "
            "act alone; what the services needs and curiosity say rests on everything before, and the agent lives by it"
        )
    there = instead(name, {*rules, *judges, *judges.values(), BUILTIN_SCORER})
    raise UsageError(f"there is no rule {name[:100]}; {there} (--rules names files of rules)")


def _rules(files: Sequence[str], home: Home, settings: Settings) -> Mapping[str, RuleInfo]:
    """Rules by name: of these files and the installed packages, else those that the run in progress has."""
    found = discover(files, taken=reserved(settings))
    for broken in found.broken:
        warn(f"set aside: {broken.origin}: {broken.why}")
    run = home.running()
    running = rules_of(run.rules) if run is not None else ()
    return {f"{prefix}{one.name}": one for one in (*running, *found.rules) for prefix in ("rule-", "")}


def _of_rule(rule: RuleInfo, settings: Settings) -> BackfillScorer:
    rewards = settings.rewards
    worker = partial(RuleBackfill, rule, timeout=rewards.rule_timeout, memory_mib=rewards.rule_memory_mib)
    return BackfillScorer(rule.name, rule.version, lambda number, _: [worker() for _ in range(number)])


def _of_judge(name: str, version: str | None, home: Home, settings: Settings) -> BackfillScorer:
    judge, concurrency = Judge(name, settings, home.path, warn=warn), settings.rewards.judges[name].concurrency
    version = version or judge.version
    return BackfillScorer(judge.scorer, version, lambda _, cycles: [JudgeBackfill(judge, cycles, version, concurrency)])


def _of_builtin(version: str | None, home: Home, settings: Settings) -> BackfillScorer:
    spec = builtin_services([BUILTIN_SCORER])[BUILTIN_SCORER](ServiceContext(settings, home.path))
    assert isinstance(spec, ConsumerSpec)
    return BackfillScorer(
        spec.name, version or spec.version, lambda _number, _cycles: [PureConsumerBackfill(spec, version)]
    )


# -- scoring ---------------------------------------------------------------------------------------------------------


async def _run(
    found: RecordedHistory,
    source: BackfillScorer,
    agents: Sequence[str],
    began: ScoredSince,
    processes: int,
    ending: BackfillShutdown,
) -> BackfillResult:
    reader = found.reader.backfill
    wanted = [await asyncio.to_thread(reader.unscored, one, source.scorer, source.version, began) for one in agents]
    stood: Counter[tuple[str, str]] = Counter()
    for one in agents:
        stood += await asyncio.to_thread(reader.statuses, one, source.scorer, began)
    ran = BackfillResult(
        source.scorer, source.version, sum(one.acts for one in wanted), sum(one.missing for one in wanted), stood
    )
    ran.removed = sum(one.removed for one in wanted)
    if ran.highest != ran.version:
        warn(
            f"{ran.scorer} {ran.highest} stands for some of these acts and goes on counting there, it is above "
            f"{ran.version}: {ran.above} would count"
        )
    if not ran.missing:
        return ran
    with counting() as bar:
        await _score(found, source, wanted, processes, ending, ran, bar)
        if not ending.stop.is_set():
            await _join(found, ran, bar)
    return ran


async def _join(found: RecordedHistory, ran: BackfillResult, bar: Progress) -> None:
    """Wait until the store has joined what was published. Fills in `ran`."""
    joining = bar.add_task("joined by the store", total=ran.published)

    def told(share: float) -> None:
        bar.update(joining, completed=int(share * ran.published))

    ran.joined = await found.take_in(ran.upto, told)
    if ran.joined:
        told(1.0)


async def _score(
    found: RecordedHistory,
    source: BackfillScorer,
    wanted: Sequence[UnscoredActs],
    processes: int,
    ending: BackfillShutdown,
    ran: BackfillResult,
    bar: Progress,
) -> None:
    """Fills in `ran`."""
    scoring = bar.add_task(f"{source.scorer} {source.version}", total=ran.missing)

    def done(said: Sequence[RewardAssigned], known: int, upto: int) -> None:
        ran.upto = max(ran.upto, upto)
        ran.published += len(said)
        ran.known += known
        ran.statuses.update(score.status for one in said for score in one.scores)
        bar.advance(scoring, len(said) + known)

    @cache
    def waits() -> None:
        bar.console.print("the stream takes nothing now: it is full, or the bus is away; waiting for it", markup=False)

    start = time.perf_counter()
    ending.scoring = True
    async with AsyncExitStack() as stack:
        workers = source.workers(processes, found.reader.cycles)
        for worker in workers:
            stack.push_async_callback(worker.close)
        try:
            with ungrouped():
                await rescore(found.bus, found.reader, wanted, workers, ending.stop, done, waits)
        except ConchError:
            bar.stop()
            warn(f"{ran.published:,} of {ran.missing:,} acts were scored: the same command goes on with the others")
            raise
        ran.unanswered = sum(worker.failed for worker in workers if isinstance(worker, JudgeBackfill))
    ending.scoring = False
    ran.seconds = time.perf_counter() - start
