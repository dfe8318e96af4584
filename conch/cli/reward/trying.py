"""`conch reward test`: run a rule over recorded acts, without a bus."""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, emit, quiet, say
from conch.cli.options import COMMON, AgentName, reading
from conch.consumer.plugins import (
    Discovery,
    RuleWorker,
    at_first,
    discover,
    look,
    own_words,
    recorded_acts,
    reserved,
    together,
)
from conch.errors import CheckError, ContractError, UsageError
from conch.experience import ScoredSince
from conch.rules import RuleInfo
from conch.text import instead, safe_text
from conch.views import ACTION_WIDTH, RuleTested, TestedAct, TestedRule, action_words, range_words, signed
from conch_schemas import ActionTaken, Score

if TYPE_CHECKING:
    from pydantic import BaseModel

    from conch.config import Settings
    from conch.experience import ExperienceReader

PAGE = 256
"""Acts that are read at a time."""

Replay = Annotated[
    Path | None, Parameter(help="JSON Lines of acts, as conch bus tail --json prints; else the store's.")
]
Rules = Annotated[list[Path] | None, Parameter(help="Python file that NAME stands in; repeatable.")]
Last = Annotated[int, Parameter(validator=Number(gte=1), help="The last N acts of the store, oldest first.")]


@dataclass
class RuleTrialTally:
    """The scores of one rule over the acts so far."""

    rule: RuleInfo
    scores: list[tuple[ActionTaken, Score, float]] = field(default_factory=list)
    """Act, score, microseconds from asking the rule's process to its answer: at first with the process's start."""

    def document(self) -> TestedRule:
        """The result as the view that is printed."""
        values = [score.value for _, score, _ in self.scores if score.value is not None]
        count = {status: sum(score.status == status for _, score, _ in self.scores) for status in _STATUSES}
        applicable = len(self.scores) - count["not_applicable"]
        return TestedRule(
            name=self.rule.name,
            version=self.rule.version,
            origin=self.rule.origin,
            range=(self.rule.low, self.rule.high),
            acts=len(self.scores),
            **count,
            coverage=len(values) / applicable if applicable else 1.0,
            mean=statistics.fmean(values) if values else None,
            least=min(values, default=None),
            greatest=max(values, default=None),
            us=statistics.median([us for _, _, us in self.scores][1:] or [self.scores[0][2]]),
            scores=tuple(_row(*one) for one in self.scores),
        )

    @property
    def bad(self) -> list[Score]:
        """Those that could not be made."""
        return [score for _, score, _ in self.scores if score.status in ("error", "timeout")]


_STATUSES = ("scored", "not_applicable", "error", "timeout")


async def try_(
    rule: str,
    /,
    *,
    replay: Replay = None,
    rules: Rules = None,
    limit: Last = 100,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Score recorded acts with a rule, in a process like the one it has live. Nothing is published or stored.

    What the rule prints goes to stderr. Exit status 4 where a score could not be made.

    Parameters
    ----------
    rule
        A rule's name, or a Python file: then all of its rules.
    """
    quiet(least="info")
    settings = common.settings()
    meant = _meant(rule, rules or (), settings)
    acts = _acts(common, agent, limit, meant) if replay is None else recorded_acts(replay)
    shown = limit if replay is None else len(acts)
    tallies = []
    for one in meant:
        tally = RuleTrialTally(one)
        tallies.append(tally)
        words = own_words(one)
        if words and not common.json:
            say(f"{one.name} {one.version}: {words}")
        async for act, score, us in scored(one, acts, settings, shown):
            tally.scores.append((act, score, us))
            if not common.json:
                say(_line(act, score, words))
        if not common.json:
            say(_summary(tally.document()))
    if common.json:
        emit(RuleTested(rules=tuple(tally.document() for tally in tallies)))
    for tally in tallies:
        if bad := tally.bad:
            number, name = len(tally.scores), tally.rule.name
            raise CheckError(f"{len(bad)} of {number} scores of {name} could not be made: {bad[0].explanation}")


async def scored(
    rule: RuleInfo, acts: Sequence[ActionTaken], settings: Settings, last: int
) -> AsyncIterator[tuple[ActionTaken, Score, float]]:
    """(act, score, microseconds) of the last acts; a rule that carries something has seen those before too."""
    rewards = settings.rewards
    worker = RuleWorker(rule, timeout=rewards.rule_timeout, memory_mib=rewards.rule_memory_mib)
    carried: dict[str, BaseModel | None] = {}
    try:
        for left, act in zip(range(len(acts), 0, -1), acts, strict=True):
            before = carried.get(act.agent, at_first(rule))
            began = time.perf_counter()
            carried[act.agent], score = await worker.fold(before, act)
            if left <= last:
                yield act, score, (time.perf_counter() - began) * 1e6
    finally:
        await worker.close()


def _meant(rule: str, files: Sequence[Path], settings: Settings) -> tuple[RuleInfo, ...]:
    """The rules that are meant. Raises UsageError where there is none, ContractError where it cannot be loaded."""
    taken = reserved(settings)
    if rule.endswith(".py") or Path(rule).is_file():
        if not Path(rule).is_file():
            raise UsageError(f"there is no file {rule}")
        found = look(str(Path(rule).absolute()))
        _refuse_broken(found)
        if not found.rules:
            raise UsageError(f"{rule} declares no @rule")
        if named_twice := together({rule: found}, taken).broken:
            raise UsageError(f"{rule}: {named_twice[0].why}, and conch run would set it aside: choose another one")
        return found.rules
    if rule in taken:
        raise UsageError(f"no rule is called {rule!r}: that name is taken, by what comes with Conch or by conch.yaml")
    found = discover([str(file) for file in files], taken=taken)
    named = tuple(one for one in found.rules if one.name == rule)
    if not named:
        _refuse_broken(found)
        there = instead(rule, (one.name for one in found.rules))
        raise UsageError(f"there is no rule {rule!r}; {there} (a rule's file is named by its path)")
    return named


def _refuse_broken(found: Discovery) -> None:
    if found.broken:
        raise ContractError(f"{found.broken[0].origin}: {found.broken[0].why}")


def _acts(common: CommonOptions, agent: str | None, limit: int, rules: Sequence[RuleInfo]) -> list[ActionTaken]:
    """The last acts of the store, in the order of the stream; all of them for a rule that keeps a state."""
    with reading(common, agent) as (store, name):
        return _last_acts(store, name, None if any(rule.stateful for rule in rules) else limit, rules)


def _last_acts(store: ExperienceReader, agent: str, limit: int | None, rules: Sequence[RuleInfo]) -> list[ActionTaken]:
    last = store.cycles.last_cycle(agent)
    if last is None:
        raise UsageError(f"{agent} has done nothing yet: conch run, or name a file with --replay")
    before = max(rule.window or 1 for rule in rules) - 1
    since = ScoredSince(0 if limit is None else max(0, last - limit - before + 1))
    everything = store.backfill.unscored(agent, None, None, since)
    return [one.act for page in store.backfill.past(everything, PAGE) for one in page]


def _line(act: ActionTaken, score: Score, words: str) -> str:
    """`    12  filesystem.read notes.md      +0.500  why`, cut to the terminal's width; `why` is left out where it
    equals the rule's description, which is printed above."""
    told = signed(score.value) if score.value is not None else score.status.replace("_", " ")
    why = "" if score.explanation == words else safe_text(score.explanation, one_line=True)
    line = f"{act.cycle or 0:>6}  {action_words(act.action):<{ACTION_WIDTH}}  {told:>14}  {why}".rstrip()
    width = shutil.get_terminal_size().columns
    return line if not sys.stdout.isatty() or len(line) <= width else f"{line[: width - 1]}…"


def _summary(told: TestedRule) -> str:
    counts = f"{told.scored} of {told.acts} scored, {told.not_applicable} not applicable"
    values = (
        "-"
        if told.mean is None or told.least is None or told.greatest is None
        else f"{signed(told.mean)} ({signed(told.least)} to {signed(told.greatest)})"
    )
    return (
        f"{told.name} {told.version}: {counts}, {told.error} errors, {told.timeout} timeouts, "
        f"coverage {told.coverage:.0%}\n"
        f"  range {range_words(*told.range)}   mean {values}   "
        f"{time_words(told.us)} an act (median, to its process and back)"
    )


def time_words(us: float) -> str:
    """Microseconds in their unit: `85 µs`, `4.3 ms`, `1.5 s`."""
    if us < 1e3:
        return f"{us:.0f} µs"
    return f"{us / 1e3:.1f} ms" if us < 1e6 else f"{us / 1e6:.1f} s"


def _row(act: ActionTaken, score: Score, us: float) -> TestedAct:
    return TestedAct(
        agent=act.agent,
        cycle=act.cycle,
        action_id=act.action_id,
        value=score.value,
        status=score.status,
        explanation=score.explanation,
        us=round(us, 1),
    )
