"""`conch mark list | show | verify`: the hash chain of an agent's marks, and its verification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, open_bus, say, table
from conch.cli.options import COMMON, AgentName, Limit, reading
from conch.errors import BusError, CheckError, HomeBusyError, HomeError, UsageError
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
from conch.witness import ForgottenRecords, Verification

if TYPE_CHECKING:
    from conch.experience import StreamLoss
    from conch.witness import MarkProblem

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
    acts: int = 0
    marks: int = 0
    waiting: int = 0
    """Acts that have no mark yet."""
    problems: list[MarkProblem] = field(default_factory=list)
    losses: Sequence[StreamLoss] = ()
    removals: Sequence[Removal] = ()
    forgotten: ForgottenRecords = field(default_factory=ForgottenRecords)
    compared: Compared | None = None
    unread: str = ""
    """Why the stream was not compared, where the home has one."""
    signed: Signed | None = None


@app.command
async def verify(
    *,
    key: Annotated[Path | None, Parameter(help="Check the signed checkpoints with this key, secret or public.")] = None,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Whether every act has its mark, all that marks seal is as it was, and no mark was changed, lost, swapped or cut
    off; exit status 4 where not."""
    home = common.existing()
    with reading(common, agent) as (store, name):
        found = FoundMarks(name)
        place = store_place(store, name)
        found.forgotten = ForgottenRecords(store.chain.forgotten(name))
        chain = Verification(name, found.forgotten)
        sealed = SealedFacts(name, stream=has_stream(common), forgotten=found.forgotten)
        for piece in pieces(store.chain.marks(name)):
            for mark in piece:
                chain.take(mark)
            sealed.take(store, piece)
            found.marks += len(piece)
        found.removals, found.losses = store.retention.removals(name), store.chain.losses(name)
        sealed.finish(store, chain)
        found.acts = sum(1 for _ in store.chain.acts(name))
    chain.begin_at(chain_start(found.removals))
    try:
        if not sealed.with_stream:
            await sealed.prove(None, chain, place)
        else:
            async with open_bus(home, common.settings()) as bus:
                await sealed.prove(bus, chain, place)
    except HomeBusyError:
        raise
    except (HomeError, BusError) as error:
        found.unread = str(error)
        await sealed.prove(None, chain, place)
    with reading(common, name) as (store, _):
        sealed.problems += lost_acts(store, name, sealed.recorded)
    found.waiting = len(sealed.waiting)
    found.problems = [*chain.broken(), *chain.unrecorded(sealed.unread), *sealed.problems]
    found.compared = sealed.compared()
    found.signed, wrong = signed_by(home, chain, key)
    found.problems += wrong
    _tell(common, found)
    if found.problems:
        what = f"the marks of {name} do not hold: {len(found.problems)} found wrong"
        lost = f"; {REMEDY}" if any(one.kind in LOST for one in found.problems) else ""
        unread = f"; the stream, where marks may still wait, could not be looked at: {found.unread}"
        raise CheckError(what + lost + (unread if found.unread else ""))


def has_stream(common: CommonOptions) -> bool:
    """Whether the home has a stream, or reads one elsewhere."""
    from conch.bus import access_to

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
    if found.unread:
        say(f"the stream was not compared: {safe_text(found.unread, one_line=True)}")
    say(signed_words(found.signed))
