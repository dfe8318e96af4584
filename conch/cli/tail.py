"""`conch bus tail`: print the events of the stream as they come."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, emit, open_bus, say
from conch.cli.options import COMMON
from conch.cli.people_facts import following
from conch.errors import BusUnreachableError, UsageError
from conch.text import instead, safe_text
from conch.views import action_words, signed
from conch_schemas import (
    EVENTS,
    ActionDecided,
    ActionTaken,
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterShadowed,
    AdapterTried,
    AgentSlept,
    AgentWoke,
    AlarmRaised,
    AnswerRated,
    BudgetReached,
    BudgetReserved,
    ConsumerFailed,
    ContractViolationError,
    CycleReflected,
    Event,
    ExperienceRecorded,
    ForkScored,
    GoalAccepted,
    GoalSet,
    MarkWitnessed,
    MemoryConsolidated,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    NoveltyMeasured,
    ReviewDecided,
    RewardAssigned,
    SenseMeasured,
    TaskProgressed,
    TeamDecided,
    TeamFormed,
    TeamMessage,
    TeamPassed,
    TeamRewarded,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
    ThoughtFormed,
    TrainingFailed,
    TrainingFinished,
    TrainingProgressed,
    TrainingStarted,
    type_filter,
)

if TYPE_CHECKING:
    from conch.bus import Bus, Delivery
    from conch.home import Home
    from conch.views import StoredBytes, StoredEvent

_TOKEN = re.compile(r"[^\s.*>\x00-\x1f\x7f]+")
WIDTH = 90
"""Characters of an event's summary in a line."""

Kinds = Annotated[list[str] | None, Parameter(name="--kind", help="Facts of this kind, e.g. action.taken; repeatable.")]
Of = Annotated[str | None, Parameter(name="--agent", help="Facts of this agent alone.")]
After = Annotated[
    int | None, Parameter(validator=Number(gte=0), help="From behind this place in the stream, not from now on.")
]


async def tail(*, kind: Kinds = None, agent: Of = None, after: After = None, common: CommonOptions = COMMON) -> None:
    """A line for every fact as it is stored, until the run ends or Ctrl-C; JSON Lines with --json or in a pipe.

    Without a run, what the stream holds behind --after.
    """
    home, settings = common.existing(), common.settings()
    running = home.running() is not None
    live = running or settings.bus.url is not None
    if not live and after is None:
        raise BusUnreachableError(f"no run is in progress in {home.path}: start one, or read what was with --after 0")
    if agent is not None and not _TOKEN.fullmatch(agent):
        raise UsageError(f"no agent can be called {agent!r} (--agent)")
    filters = [type_filter(one, agent or "*") for one in _known(kind)]
    as_json = common.json or not sys.stdout.isatty()
    async with (
        open_bus(home, settings) as bus,
        aclosing(_read(bus, filters, after, home if running else None, live=live)) as found,
    ):
        async for delivery in found:
            if as_json:
                emit(row(delivery))
            else:
                say(line(delivery))


def _known(kinds: Sequence[str] | None) -> Sequence[str]:
    """The ends of the subjects that are meant. Raises UsageError for a kind that there is not."""
    there = [kind.TYPE for kind in EVENTS]
    for kind in kinds or ():
        if kind not in there:
            raise UsageError(f"there are no facts {kind!r}; {instead(kind, there)} (--kind)")
    return kinds or [">"]


async def _read(
    bus: Bus, filters: Sequence[str], after: int | None, home: Home | None, *, live: bool
) -> AsyncGenerator[Delivery, None]:
    if not live:
        async for delivery in bus.read(filters, after=after or 0):
            yield delivery
        return
    begin = (await bus.state()).last if after is None else after
    async with aclosing(following(bus, filters, after=begin, home=home)) as found:
        async for deliveries in found:
            for delivery in deliveries:
                yield delivery


def row(delivery: Delivery) -> StoredEvent | StoredBytes:
    """A message as a line of JSON: sequence, time, subject and the event as stored; of what is no event, its bytes."""
    from conch.bus import decoded
    from conch.views import StoredBytes, StoredEvent

    seq, time, subject = delivery.seq, _stored(delivery).isoformat(), delivery.subject
    try:
        decoded(delivery.subject, delivery.data)
        return StoredEvent(seq=seq, time=time, subject=subject, event=json.loads(delivery.data))
    except ContractViolationError as error:
        data = base64.b64encode(delivery.data).decode()
        return StoredBytes(seq=seq, time=time, subject=subject, error=str(error), bytes=data)


def line(delivery: Delivery) -> str:
    """A fact in one line; hostile text in it is made safe."""
    from conch.bus import decoded

    at = f"{delivery.seq:>7}  {_stored(delivery):%H:%M:%S.%f}"[:-3]
    try:
        event = decoded(delivery.subject, delivery.data)
    except ContractViolationError as error:
        return _cut(f"{at}  ?  {delivery.subject}: {error}", WIDTH + 60)
    cycle = "-" if event.cycle is None else event.cycle
    return f"{at}  {event.agent:<8} {cycle:>6}  {event.TYPE:<19} {_cut(words(event), WIDTH)}".rstrip()


def words(event: Event) -> str:
    """A summary of an event in a few words; empty where its type says all."""
    said = _WORDS.get(type(event))
    return said(event) if said is not None else ""


_WORDS: dict[type[Event], Callable[[Any], str]] = {
    ThoughtFormed: lambda event: event.thought.text,
    ActionDecided: lambda event: action_words(event.action),
    ActionTaken: lambda event: f"{action_words(event.action)}: {event.outcome.status}",
    CycleReflected: lambda event: event.reflection,
    RewardAssigned: lambda event: "  ".join(f"{one.component} {_value(one)}" for one in event.scores),
    NeedsChanged: lambda event: f"needs {_value(event.score)}  least satisfied {event.most_pressing}",
    NoveltyMeasured: lambda event: f"exploration {_value(event.score)}  novelty {event.novelty:.2f}",
    ExperienceRecorded: lambda event: f"total {signed(event.total)}, coverage {event.coverage:.2f}",
    MarkWitnessed: lambda event: f"mark {event.mark.sequence} of {event.mark.origin}'s {event.mark.domain}",
    MessageReceived: lambda event: event.text,
    MessageSent: lambda event: event.text,
    AnswerRated: lambda event: f"{event.rating} {event.text}",
    ReviewDecided: lambda event: f"{event.decision} {event.format} row {event.row[:12]} {event.reason}",
    GoalSet: lambda event: event.goal.statement,
    GoalAccepted: lambda event: event.goal,
    ConsumerFailed: lambda event: f"{event.consumer} at {event.letter_seq}: {event.reason}",
    TaskProgressed: lambda event: f"{event.episode} {event.phase or ''} {_rate(event.test_pass_rate)}",
    MemoryConsolidated: lambda event: f"{len(event.merged)} merged, {len(event.contradictions)} contradictions",
    ForkScored: lambda event: f"seed {event.seed}: {action_words(event.action)}: {signed(event.total)}",
    TeamFormed: lambda event: f"{', '.join(event.roles)}: {event.topology}, controller {event.controller}",
    TeamMessage: lambda event: f"{event.sender} to {', '.join(event.to)}: {event.text}",
    TeamPassed: lambda event: f"{event.role}: {event.why}",
    TeamDecided: lambda event: f"{event.action}{f', refused: {event.refused}' if event.refused else ''}",
    TeamRewarded: lambda event: f"step {event.step} earned {signed(event.reward)}",
    TeamSwitchPrepared: lambda event: f"{event.source_topology} to {event.target}, by the {event.by}",
    TeamSwitched: lambda event: f"{event.topology}, epoch {event.epoch}",
    TeamSwitchAborted: lambda event: event.why,
    TrainingStarted: lambda event: f"{event.method} on {event.rows} rows for generation {event.generation}",
    TrainingProgressed: lambda event: f"step {event.step} of {event.steps}  loss {_figure(event.loss)}",
    TrainingFinished: lambda event: f"adapter {event.adapter[:12]} in {event.seconds:.0f} s",
    TrainingFailed: lambda event: event.why,
    AdapterGated: lambda event: f"{event.adapter[:12]} {event.verdict}: {event.pairs} pairs",
    AdapterTried: lambda event: f"{event.adapter[:12]} {event.stage} {event.verdict or 'begins'} {event.why}",
    AdapterRefused: lambda event: f"{event.adapter[:12]} by the {event.at}: {event.why}",
    AdapterPromoted: lambda event: f"{event.adapter[:12]} is generation {event.generation}: {event.why}",
    AdapterRolledBack: lambda event: f"{event.adapter[:12]} to {(event.to or 'the base')[:12]}: {event.why}",
    AdapterProbed: lambda event: f"{event.served_as} {'proven' if event.proven else event.why}",
    AdapterShadowed: lambda event: f"{event.adapter[:12]} would have done {event.action.skill}",
    AlarmRaised: lambda event: event.what,
    BudgetReserved: lambda event: f"{event.purpose}: {event.tokens} tokens",
    BudgetReached: lambda event: event.why,
    AgentSlept: lambda event: f"until {event.until:%H:%M:%S} UTC: {event.why}",
    AgentWoke: lambda event: event.why,
    SenseMeasured: lambda event: f"{event.sense} {event.value} {event.unit}",
}


def _value(score: Any) -> str:
    if score is None:
        return "-"
    return score.status if score.value is None else signed(score.value)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"tests {rate:.0%}"


def _stored(delivery: Delivery) -> datetime:
    return datetime.fromtimestamp(delivery.time, UTC)


def _cut(text: str, width: int) -> str:
    flat = safe_text(text, one_line=True)
    return flat if len(flat) <= width else flat[: width - 1] + "…"
