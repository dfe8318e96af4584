"""`conch train run | list | show | diff | prove | promote | rollback | stop`: the adapters of the agent's model."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, quiet, say, warn
from conch.cli.options import COMMON, AgentName, meant
from conch.cli.people_facts import names_in, several
from conch.errors import BusUnreachableError, CheckError, TrainingError, UsageError

if TYPE_CHECKING:
    from conch.cli.reward.history import RecordedHistory
    from conch.config import Settings
    from conch.rounds import LineageLog, LineageTrainer, RoundPlan
    from conch.rules import RuleInfo
    from conch.training import AdapterShelf, ProbeLine, TrainingForecast, TrainingRound
    from conch_schemas import Event

app = App(
    name="train",
    help="Adapters of the agent's model: run, list, show, diff, prove, promote, rollback, stop.",
)

app.command("conch.cli.train_show:list_", name="list", help="The rounds of an agent's adapters, and how each ended.")
app.command("conch.cli.train_show:show", name="show", help="A round whole: data, curve, gate, trials, replies.")

SHOWN = 12
"""Digits of a digest that are printed."""
BY_PERSON = "A person asked for it."

RoundName = Annotated[str, Parameter(help="A round, an adapter or a generation, as conch train list shows them.")]


@dataclass
class OpenLineage:
    """The lineage of one agent, with the bus and the store of its home."""

    found: RecordedHistory
    settings: Settings
    """With the agent's name."""
    log: LineageLog

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.log.agent


@app.command
async def run(
    *,
    dry_run: Annotated[bool, Parameter(negative="", help="Only say what would be trained, and what it takes.")] = False,
    rules: Annotated[
        list[Path] | None,
        Parameter(consume_multiple=True, help="Python file of rules that the gate scores by, without a run; several."),
    ] = None,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Train an adapter on the experiences now, and judge it.

    Beside a run its trainer does it (training.enabled), and tries the adapter on some cycles if the gate lets it pass.
    Without a run this command trains, and judges by the built-in rules, those of installed packages and of --rules:
    conch train promote, or the next run's trial, lets it act.
    """
    from conch.requests import ask_trainer
    from conch.views import trained_round

    quiet()
    async with _opened(common, agent) as lineage:
        if dry_run:
            await _forecast(lineage, common)
            return
        if not lineage.found.alone:
            if rules:
                raise UsageError("a run is in progress, whose rules count: leave --rules out")
            said = await ask_trainer(lineage.found.bus, "run", lineage.agent)
            if common.json:
                emit(trained_round(lineage.agent, lineage.log.state, None, said))
            else:
                say(f"{said}; conch train show follows it")
            return
        round = await _train(lineage, _rules(lineage, rules or ()))
        why = _ended(round)
        if common.json:
            emit(trained_round(lineage.agent, lineage.log.state, round, why))
        else:
            say(why)
    if round.finished is None:
        raise TrainingError(why)


@app.command
async def promote(
    adapter: RoundName,
    /,
    *,
    despite: Annotated[bool, Parameter(name="--despite-gate", negative="", help="Also one that did not pass.")] = False,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Let an adapter act from the next cycle on, without a trial."""
    from conch.rounds import promote as move
    from conch.rounds import round_named

    async with _opened(common, agent) as lineage:
        round = round_named(lineage.log.state, adapter)
        if round.adapter is None:
            raise UsageError(f"the round {round.started.round[:SHOWN]} has made no adapter: it is {round.phase}")
        if not despite and (round.gated is None or round.gated.verdict != "passed"):
            verdict = "has not judged" if round.gated is None else f"{_past(round.gated.verdict)}"
            raise UsageError(f"the gate {verdict} this adapter (conch train show): --despite-gate lets it act anyway")
        home, evidence = lineage.found.home, "" if round.gated is None else round.gated.id
        moved = await move(lineage.log, home, round.adapter, by="person", why=BY_PERSON, evidence=evidence)
        await _taken_in(lineage)
        why = f"generation {moved.generation}, adapter {moved.adapter[:SHOWN]}, acts from the next cycle on"
        _said(lineage, lineage.log.state.made(moved.adapter), why, common)


@app.command
async def rollback(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Take back the adapter that acts: what acted before it acts from the next cycle on."""
    from conch.rounds import roll_back

    async with _opened(common, agent) as lineage:
        moved = await roll_back(lineage.log, None, trigger="person", why=BY_PERSON)
        await _taken_in(lineage)
        if moved is None:
            why = "the trial is ended; what acted goes on"
        else:
            back = (
                "the base alone" if moved.to is None else f"generation {moved.generation}, adapter {moved.to[:SHOWN]},"
            )
            why = f"{back} acts from the next cycle on; {moved.adapter[:SHOWN]} does not"
        made = None if moved is None else lineage.log.state.made(moved.adapter)
        _said(lineage, made or lineage.log.state.round, why, common)


@app.command
async def stop(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """End the round in progress: its training, its gate or its trial. What acts goes on acting."""
    from conch.requests import ask_trainer
    from conch.rounds import read_lineage, stop_round, under_lease

    async with _opened(common, agent) as lineage:
        log, found = lineage.log, lineage.found
        try:
            if found.alone:
                raise BusUnreachableError("there is no run")
            why = await ask_trainer(found.bus, "stop", lineage.agent)
            log.state = await read_lineage(found.bus, found.reader, lineage.agent)
        except BusUnreachableError:
            digest = await under_lease(found.bus, lineage.agent, lambda: stop_round(log))
            await _taken_in(lineage)
            why = f"round {digest[:SHOWN]} is stopped"
        _said(lineage, log.state.round, why, common)


@app.command
async def prove(cycle: int, /, *, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Show which adapter decided a cycle, and check each step that allowed it: files, training, gate, trial, probe.

    Exit status 4 where a link is broken.

    Parameters
    ----------
    cycle
        The cycle's number.
    """
    from conch.rounds import prove_act
    from conch.views import TrainProof, TrainProofStep

    async with _opened(common, agent) as lineage:
        reader, log = lineage.found.reader, lineage.log
        act = reader.cycles.act(lineage.agent, cycle)
        if act is None:
            raise UsageError(
                f"there is no recorded cycle {cycle} of {lineage.agent}: conch cycle list shows the last ones"
            )
        events = list(reader.training.walk(lineage.agent))
        proof = await asyncio.to_thread(prove_act, act, events, log.state, lineage.found.home, log.agentuid)
    shown = TrainProof(
        agent=lineage.agent,
        cycle=cycle,
        action_id=act.action_id or "",
        adapter=proof.adapter,
        generation=proof.generation,
        holds=proof.holds,
        steps=tuple(TrainProofStep(name=one.name, holds=one.holds, why=one.why) for one in proof.steps),
    )
    if common.json:
        emit(shown)
    else:
        who = "the base alone" if proof.adapter is None else f"generation {proof.generation}, adapter {proof.adapter}"
        say(f"cycle {cycle} of {lineage.agent} was decided by {who}")
        for one in shown.steps:
            say(f"  {_MARKS[one.holds]} {one.name}: {one.why}")
    if not proof.holds:
        broken = next(one for one in proof.steps if one.holds is False)
        raise CheckError(f"the proof of cycle {cycle} is broken at {broken.name}: {broken.why}")


@app.command
async def diff(
    first: RoundName, second: RoundName, /, *, agent: AgentName = None, common: CommonOptions = COMMON
) -> None:
    """Two adapters side by side: their data, settings and gates, and their replies to the same prompts."""
    from conch.rounds import round_named
    from conch.training import AdapterShelf
    from conch.views import TrainDiff, diff_prompts, diff_side

    async with _opened(common, agent) as lineage:
        rounds = [round_named(lineage.log.state, name) for name in (first, second)]
        for one in rounds:
            if one.adapter is None:
                raise UsageError(f"the round {one.started.round[:SHOWN]} has made no adapter: it is {one.phase}")
        shelf = AdapterShelf(lineage.found.home.adapters)
        lines = [_replies(shelf, one) for one in rounds]
    left, right = map(diff_side, rounds)
    shown = TrainDiff(agent=lineage.agent, first=left, second=right, prompts=diff_prompts(*lines))
    if common.json:
        emit(shown)
        return
    for name in ("adapter", "generation", "phase", "method", "base", "rows", "snapshot", "gate", "difference", "pairs"):
        mine, theirs = getattr(left, name), getattr(right, name)
        say(f"{name:12} {_cell(mine):24} {_cell(theirs):24}{'' if mine == theirs else ' *'}")
    for name in sorted(left.settings.keys() | right.settings.keys()):
        set_here, set_there = left.settings.get(name, "-"), right.settings.get(name, "-")
        if set_here != set_there:
            say(f"{name:12} {set_here:24} {set_there:24} *")
    for prompt in shown.prompts:
        say(f"prompt: {_cell(prompt.prompt)}")
        for who, text in (("base", prompt.base), ("first", prompt.first), ("second", prompt.second)):
            say(f"  {who:7}| {'-' if text is None else _line(text)}")


@asynccontextmanager
async def _opened(common: CommonOptions, agent: str | None) -> AsyncIterator[OpenLineage]:
    """The lineage of the agent that is meant, as of now."""
    from conch.cli.reward.history import history
    from conch.rounds import LineageLog, read_lineage

    home, settings = common.existing(), common.settings()
    async with history(common) as found:
        name = meant(agent, found.reader.agents(), names_in(home, settings))
        if name is None:
            raise several(found.reader.agents())
        state = await read_lineage(found.bus, found.reader, name)
        log = LineageLog(found.bus, name, home.agentuid(name), state, (lambda _: None) if common.json else _tell)
        yield OpenLineage(found, settings.model_copy(update={"agent": name}), log)


def _rules(lineage: OpenLineage, files: Sequence[Path]) -> tuple[RuleInfo, ...]:
    """The rules of these files and of installed packages, told in a sentence. Raises UsageError for a file that cannot
    be used, and where one lacks that the newest act was scored by: the gate would leave its part out."""
    from conch.consumer.plugins import discover, reserved
    from conch.rounds import judges_one_act

    taken = reserved(lineage.settings)
    looked = discover([str(file) for file in files], taken)
    if looked.broken:
        raise UsageError(f"{looked.broken[0].origin} is no file of rules: {looked.broken[0].why}")
    scored = {one.component for act in lineage.found.reader.cycles.last(lineage.agent, 1) for one in act.scores}
    if lacking := sorted(scored - taken - {one.name for one in looked.rules}):
        raise UsageError(
            f"the last run scored by {', '.join(lacking)}, of which no rule is here: --rules names its file"
        )
    judging = [f"{one.name}{' (held out)' * one.held_out}" for one in looked.rules if judges_one_act(one)]
    warn(f"the gate scores by the built-in rules{''.join(f', {name}' for name in judging)}")
    return looked.rules


async def _train(lineage: OpenLineage, rules: Sequence[RuleInfo]) -> TrainingRound:
    """Train and judge in this process; the round as it stands then."""
    from conch.rounds import LineageTrainer, acting_engine, under_lease

    found, log = lineage.found, lineage.log
    trainer = LineageTrainer(log, lineage.settings, found.home, acting_engine, rules=rules)
    try:
        await under_lease(found.bus, lineage.agent, lambda: _judged(lineage, trainer))
    finally:
        await _taken_in(lineage)
    round = log.state.round
    assert round is not None
    return round


async def _judged(lineage: OpenLineage, trainer: LineageTrainer) -> None:
    """Go on with the round that is open, else with a new one, up to the verdict of its gate."""
    from conch.rounds import is_open_round

    log = lineage.log
    if log.state.round is None or not is_open_round(log.state.round):
        plan = await asyncio.to_thread(_planned, lineage)
        say_plan(plan)
        await trainer.attempt(plan)
    while (round := log.state.round) is not None and is_open_round(round):
        if round.gated is not None and round.gated.verdict == "passed":
            return
        if await trainer.advance() == "waits":
            return


def _planned(lineage: OpenLineage) -> RoundPlan:
    from conch.rounds import prepare_round

    found = lineage.found
    return prepare_round(found.reader, lineage.settings, found.home, lineage.agent, lineage.log.state, "person")


async def _forecast(lineage: OpenLineage, common: CommonOptions) -> None:
    """Say what would be trained on, and what it would take."""
    from conch.rounds import forecast_round
    from conch.views import TrainForecast

    plan = await asyncio.to_thread(_planned, lineage)
    found: TrainingForecast = await forecast_round(plan, lineage.settings, lineage.found.home)
    if common.json:
        shown = TrainForecast(
            agent=plan.agent,
            round=plan.round,
            method=plan.method,
            method_why=plan.method_why,
            base=plan.base,
            generation=plan.generation,
            rows=plan.rows,
            eval_rows=plan.eval_rows,
            held_out=plan.held_out,
            tokens=found.counts.tokens,
            too_long=found.counts.too_long,
            steps=found.steps,
            minutes=found.minutes,
            mib=found.mib,
        )
        emit(shown)
        return
    say_plan(plan)
    counts = found.counts
    say(
        f"{counts.tokens} tokens in {counts.rows} rows, the longest of {counts.longest}; {counts.too_long} are too long"
    )
    minutes = math.ceil(found.minutes)
    time = f"some {minutes} minutes" if minutes > 1 else "at most a minute"
    say(f"{found.steps} steps, {time}, {found.mib:.0f} MiB; nothing was trained")


def say_plan(plan: RoundPlan) -> None:
    """What a round is made of, in two lines on stderr."""
    warn(f"round {plan.round[:SHOWN]}: {plan.method} on {plan.rows} rows of {plan.base}. {plan.method_why}")
    warn(f"{plan.held_out} recorded decisions are held out for the gate, {plan.eval_rows} rows for the loss")


async def _taken_in(lineage: OpenLineage) -> None:
    """Let the store take in what was published."""
    bus = lineage.found.bus
    if not await lineage.found.take_in((await bus.state()).last):
        warn("the events are published; the store takes them in when it runs")


def _said(lineage: OpenLineage, round: TrainingRound | None, why: str, common: CommonOptions) -> None:
    from conch.views import trained_round

    if common.json:
        emit(trained_round(lineage.agent, lineage.log.state, round, why))
    else:
        say(why)


def _tell(event: Event) -> None:
    """A line on stderr for an event of training."""
    from conch_schemas import AdapterGated, TrainingFinished, TrainingProgressed, TrainingStarted

    match event:
        case TrainingStarted(attempt=attempt) if attempt > 1:
            warn(f"attempt {attempt}: it goes on")
        case TrainingProgressed():
            loss = "" if event.loss is None else f", loss {event.loss:.3f}"
            left = "" if event.eta is None else f", {event.eta:.0f} s left"
            warn(f"step {event.step} of {event.steps}{loss}{left}")
        case TrainingFinished():
            warn(f"adapter {event.adapter[:SHOWN]} is made in {event.seconds:.0f} s; the gate decodes held-out states")
        case AdapterGated():
            for one in event.conditions:
                warn(f"  {_MARKS[one.holds]} {one.name}: {one.why}")


def _ended(round: TrainingRound) -> str:
    """What `conch train run` says at the end."""
    name = f"round {round.started.round[:SHOWN]}"
    if round.finished is None:
        return f"{name} failed: {'it has not ended' if round.failed is None else round.failed.why}"
    if round.refused is not None:
        return f"{name}: the adapter {round.finished.adapter[:SHOWN]} is refused: {round.refused.why}"
    if round.gated is not None and round.gated.verdict == "passed":
        made = round.finished.adapter[:SHOWN]
        return f"{name}: the gate passed {made}; conch train promote {made} lets it act, a run with training tries it"
    return f"{name}: the gate has no verdict yet; conch train run asks it again"


def _past(verdict: str) -> str:
    return "refused" if verdict == "refused" else "has no verdict on"


def _replies(shelf: AdapterShelf, round: TrainingRound) -> tuple[ProbeLine, ...]:
    """The recorded replies under a round's adapter, of the first engine that has some; none where it is gone."""
    return next((lines for lines in shelf.replies(round.adapter or "").values() if lines), ())


_MARKS = {True: "ok     ", False: "broken ", None: "unknown"}


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:+.3f}"
    return "-" if value is None else _line(str(value))[:24]


def _line(text: str) -> str:
    from conch.text import safe_text

    return safe_text(text, one_line=True)
