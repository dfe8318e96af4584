"""`conch mark list | show | verify`: the hash chain of an agent's marks, and its verification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from conch.bus import access_to
from conch.cli.common import CommonOptions, emit, open_bus, say, table
from conch.cli.options import COMMON, AgentName, Limit, reading, reading_all
from conch.errors import BusError, BusUnreachableError, CheckError, ConchError, HomeBusyError, HomeError, UsageError
from conch.experience import Removal
from conch.text import safe_text
from conch.views import (
    Compared,
    MarkShown,
    SealedFacts,
    Signed,
    VerifiedLocally,
    chain_start,
    compared_words,
    forgotten_acts,
    forgotten_words,
    last_marks,
    lost_acts,
    marks_shown,
    pieces,
    removed_marks_words,
    signed_by,
    signed_words,
    store_place,
    verification,
)
from conch.witness import ForgottenRecords, MarkProblem, Verification

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.experience import StreamLoss

app = App(name="mark", help="The witness's chain of marks: what was done and scored, and that it was not changed.")


LOST = frozenset({"missing", "unwitnessed", "gone"})
"""Kinds of problems that a copy of what was lost mends."""
MOST_OF_A_KIND = 20
"""Problems of one kind that are told one by one, the first by sequence; the others are counted."""
REMEDY = (
    "marks that are missing may stand in a snapshot of the bus (conch bus restore FILE) or in an older copy of the "
    "store; without one, nothing tells a mark that was lost from one that was taken away"
)


@app.command(name="list")
def list_(*, limit: Limit = 20, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """The last marks."""
    with reading(common, agent) as (store, name):
        marks = last_marks(store.chain, name, limit)
    if common.json:
        emit(marks_shown(marks))
    else:
        rows = [(mark.sequence, mark.domain, mark.origin, mark.response, mark.hash[:12]) for mark in marks]
        table(("mark", "domain", "by", "what", "hash"), rows, wraps=["what"])


@app.command
def show(sequence: int, /, *, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """One mark, whole.

    Parameters
    ----------
    sequence
        Its place in the agent's chain, from 0.
    """
    from conch.rewards import unjudged_reason  # only here: lists do without the rules
    from conch.views import act_of_mark, compliance

    with reading(common, agent) as (store, name):
        mark = next(iter(store.chain.marks(name, sequence)), None)
        act = None if mark is None else act_of_mark(store.cycles, mark)
        removals = store.retention.removals(name)
    if mark is None or mark.sequence != sequence:
        start = chain_start(removals)
        gone = start is not None and start.first <= sequence < start.sequence
        what = (
            f"mark {sequence} of {name} was removed by store.keep" if gone else f"there is no mark {sequence} of {name}"
        )
        raise UsageError(f"{what}: conch mark list shows the last ones")
    judged = compliance(mark.principles, act)
    if common.json:
        emit(MarkShown(mark=mark, constitution=judged))
        return
    for name, value in mark.model_dump(mode="json").items():
        if value not in (None, "", [], {}):
            say(f"{name:<10} {safe_text(_words(value), one_line=True)}")
        if name == "principles" and judged is not None:
            say(f"{'total':<10} {judged.words}")
        elif name == "principles" and value and act is not None and (why := unjudged_reason(act)) is not None:
            say(f"{'total':<10} there is nothing to judge by. {why}")


def _words(value: Any) -> str:
    """A field's value for a person."""
    if isinstance(value, dict):
        return ", ".join(
            f"{name} {one:g}" if isinstance(one, float) else f"{name} {one}" for name, one in value.items()
        )
    return "; ".join(map(_words, value)) if isinstance(value, list) else str(value)


@dataclass
class FoundMarks:
    """What is found of the marks of one agent."""

    agent: str
    chain: Verification
    forgotten: ForgottenRecords
    acts: int = 0
    marks: int = 0
    waiting: int = 0
    """Acts that have no mark yet."""
    problems: list[MarkProblem] = field(default_factory=list)
    losses: Sequence[StreamLoss] = ()
    removals: Sequence[Removal] = ()
    compared: Compared | None = None
    signed: Signed | None = None


@app.command
async def verify(
    *,
    key: Annotated[Path | None, Parameter(help="Check the signed checkpoints with this key, secret or public.")] = None,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Whether every act has its mark, all that marks seal is as it was, and no mark was changed, lost, swapped or cut
    off; exit status 4 where not. Without --agent, of all agents that have acted."""
    home = common.existing()
    checked: list[FoundMarks] = []
    away: ConchError | None = None
    async with AsyncExitStack() as stack:
        bus: Bus | None = None
        names = _names(common, agent)
        if has_stream(common):
            try:
                bus = await stack.enter_async_context(open_bus(home, common.settings()))
            except HomeBusyError:
                raise
            except (HomeError, BusError) as error:
                away = error
        for name in names:
            found, unread = await _find(common, name, bus)
            away = away or unread
            found.signed, wrong = signed_by(home, found.chain, key)
            found.problems += wrong
            if away is not None:
                found.problems.append(MarkProblem("unread", name, None, _unread_words(away)))
            _tell(common, found)
            checked.append(found)
    _refuse(checked, away, is_elsewhere=away is not None and access_to(home, common.settings()) is not None)


def _names(common: CommonOptions, agent: str | None) -> Sequence[str]:
    with reading_all(common, agent) as (store, name):
        return store.agents() if name is None else (name,)


async def _find(common: CommonOptions, name: str, bus: Bus | None) -> tuple[FoundMarks, BusError | None]:
    """What is found of the marks of an agent, and why its stream could not be read."""
    unread = None
    with reading(common, name) as (store, _):
        place = store_place(store, name)
        forgotten = ForgottenRecords(store.chain.forgotten(name))
        found = FoundMarks(name, Verification(name, forgotten), forgotten)
        sealed = SealedFacts(name, stream=has_stream(common), forgotten=forgotten)
        for piece in pieces(store.chain.marks(name)):
            for mark in piece:
                found.chain.take(mark)
            sealed.take(store, piece)
            found.marks += len(piece)
        found.removals, found.losses = store.retention.removals(name), store.chain.losses(name)
        sealed.finish(store, found.chain)
        found.acts = sum(1 for _ in store.chain.acts(name))
    found.chain.begin_at(chain_start(found.removals))
    try:
        await sealed.prove(bus, found.chain, place)
    except BusError as error:
        unread = error
        await sealed.prove(None, found.chain, place)
    with reading(common, name) as (store, _):
        sealed.problems += lost_acts(store, name, sealed.recorded)
    found.waiting, found.compared = len(sealed.waiting), sealed.compared()
    found.problems = [*found.chain.broken(), *found.chain.unrecorded(sealed.unread), *sealed.problems]
    return found, unread


def _unread_words(why: ConchError) -> str:
    return f"The stream could not be read, and what it alone proves is not proven: {why}"


def _refuse(checked: Sequence[FoundMarks], away: ConchError | None, *, is_elsewhere: bool) -> None:
    """Raises CheckError where something was found wrong; where that is nothing but a stream that is elsewhere and away,
    BusUnreachableError."""
    wrong = [found for found in checked if found.problems]
    kinds = {problem.kind for found in wrong for problem in found.problems}
    if kinds == {"unread"}:
        assert away is not None
        raise (BusUnreachableError if is_elsewhere else CheckError)(
            f"the marks of {' and '.join(found.agent for found in wrong)} agree with the store, and were not compared "
            f"with the stream: {away}"
        )
    if wrong:
        counts = "; ".join(
            f"the marks of {found.agent} do not hold: {len(found.problems)} found wrong" for found in wrong
        )
        lost = f"; {REMEDY}" if kinds & LOST else ""
        unread = f"; the stream, where marks may still wait, could not be looked at: {away}"
        raise CheckError(counts + lost + (unread if away is not None else ""))


def has_stream(common: CommonOptions) -> bool:
    """Whether the home has a stream, or reads one elsewhere."""
    home = common.existing()
    return home.bus.exists() or access_to(home, common.settings()) is not None


def _tell(common: CommonOptions, found: FoundMarks) -> None:
    if common.json:
        plain = verification(
            found.agent,
            found.problems,
            acts=found.acts,
            marks=found.marks,
            waiting=found.waiting,
            removals=found.removals,
            forgotten=found.forgotten,
            compared=found.compared,
        )
        emit(VerifiedLocally(**vars(plain), lost=tuple(found.losses), signed=found.signed))
        return
    for loss in found.losses:
        cycle = "before its first cycle" if loss.cycle is None else f"after cycle {loss.cycle}"
        mark = "with no mark before" if loss.mark is None else f"the chain goes on behind mark {loss.mark}"
        say(f"lost: {cycle} the stream was made anew, what stood on it alone is gone; {mark}")
    told = Counter[str]()
    for problem in found.problems:
        told[problem.kind] += 1
        if told[problem.kind] <= MOST_OF_A_KIND:
            say(f"{problem.kind}: {safe_text(problem.what, one_line=True)}")
    for kind, count in told.items():
        if count > MOST_OF_A_KIND:
            say(f"{kind}: {count - MOST_OF_A_KIND:,} more (conch mark verify --json lists all)")
    if not found.problems:
        later = f"; {found.waiting} {'waits for its' if found.waiting == 1 else 'wait for their'} mark"
        say(f"{found.marks} marks of {found.acts} acts of {found.agent} hold{later if found.waiting else ''}")
    if removed := removed_marks_words(found.removals):
        say(removed)
    if (forgotten := forgotten_acts(found.forgotten)) is not None:
        say(forgotten_words(forgotten))
    if found.compared is not None:
        say(compared_words(found.compared))
    say(signed_words(found.signed))
