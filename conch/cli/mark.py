"""`conch mark list | show | verify`: the hash chain of an agent's marks, and its verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cyclopts import App

from conch.cli.common import CommonOptions, emit, open_bus, say, table
from conch.cli.options import COMMON, AgentName, Limit, reading
from conch.errors import CheckError, ConchError, HomeBusyError, HomeError
from conch.experience import Removal
from conch.text import safe_text
from conch.views import (
    MarkShown,
    VerifiedLocally,
    chain_start,
    last_marks,
    marks_shown,
    removed_marks_words,
    unmarked_yet,
    verification,
)
from conch_schemas import Mark

if TYPE_CHECKING:
    from conch.experience import StreamLoss
    from conch.witness import MarkProblem

app = App(name="mark", help="The witness's chain of marks: what was done and scored, and that it was not changed.")


LOST = frozenset({"missing", "unwitnessed"})
"""Kinds of problems that a copy of what was lost mends."""
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
    with reading(common, agent) as (store, name):
        mark = next(iter(store.chain.marks(name, sequence)), None)
        removals = store.retention.removals(name)
    if mark is None or mark.sequence != sequence:
        start = chain_start(removals)
        gone = start is not None and start.first <= sequence < start.sequence
        what = (
            f"mark {sequence} of {name} was removed by store.keep" if gone else f"there is no mark {sequence} of {name}"
        )
        raise ConchError(f"{what}: conch mark list shows the last ones")
    from conch.views import compliance  # only here: lists do without the rules

    judged = compliance(mark.principles)
    if common.json:
        emit(MarkShown(mark=mark, constitution=judged))
        return
    for field, value in mark.model_dump(mode="json").items():
        if value not in (None, "", [], {}):
            say(f"{field:<10} {safe_text(_words(value), one_line=True)}")
        if field == "principles" and judged is not None:
            say(f"{'total':<10} {judged.words}")


def _words(value: Any) -> str:
    """A field's value for a person."""
    if isinstance(value, dict):
        return ", ".join(
            f"{name} {one:g}" if isinstance(one, float) else f"{name} {one}" for name, one in value.items()
        )
    return "; ".join(map(_words, value)) if isinstance(value, list) else str(value)


@dataclass(frozen=True)
class StoredMarks:
    """The marks of the store, read so that every mark it takes later is on the stream behind `position`."""

    position: int
    epoch: str | None
    acts: tuple[str, ...]
    scored: Sequence[tuple[str, str]]
    """(action, scorer)."""
    marks: Sequence[Mark]
    losses: Sequence[StreamLoss]
    removals: Sequence[Removal]


@app.command
async def verify(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Whether every act has its mark and no mark was changed, lost, swapped or cut off; exit status 4 where not."""
    from conch.witness import verify

    with reading(common, agent) as (store, name):
        position, epoch = store.position(), store.epoch()
        acts, scored = tuple(action for action, _ in store.chain.acts(name)), store.chain.score_sets(name)
        marks, removals, losses = (
            list(store.chain.marks(name)),
            store.retention.removals(name),
            store.chain.losses(name),
        )
        there = {action for action, _ in store.chain.acts(name)}  # what was removed meanwhile is not missed
    acts, scored = tuple(act for act in acts if act in there), [one for one in scored if one[0] in there]
    kept = StoredMarks(position, epoch, acts, scored, marks, losses, removals)
    starts = {name: start} if (start := chain_start(kept.removals)) is not None else {}
    problems: Sequence[MarkProblem] = verify(kept.marks, kept.acts, kept.scored, starts)
    waiting: set[str] = set()
    unasked = ""
    if any(problem.kind == "unwitnessed" for problem in problems):
        try:
            async with open_bus(common.existing(), common.settings()) as bus:
                waiting = await unmarked_yet(bus, name, kept.position, kept.epoch)
        except HomeBusyError:
            raise
        except HomeError as error:
            unasked = f"; the stream, where marks may still wait, could not be looked at: {error}"
        acts = tuple(act for act in kept.acts if act not in waiting)
        problems = verify(kept.marks, acts, [one for one in kept.scored if one[0] not in waiting], starts)
    _tell(common, name, kept, problems, len(waiting & set(kept.acts)))
    if problems:
        what = f"the marks of {name} do not hold: {len(problems)} found wrong"
        raise CheckError((f"{what}; {REMEDY}" if any(one.kind in LOST for one in problems) else what) + unasked)


def _tell(common: CommonOptions, name: str, kept: StoredMarks, problems: Sequence[MarkProblem], waiting: int) -> None:
    acts, marks = len(kept.acts), len(kept.marks)
    if common.json:
        found = verification(name, problems, acts=acts, marks=marks, waiting=waiting, removals=kept.removals)
        emit(VerifiedLocally(**vars(found), lost=tuple(kept.losses)))
        return
    for loss in kept.losses:
        cycle = "before its first cycle" if loss.cycle is None else f"after cycle {loss.cycle}"
        mark = "with no mark before" if loss.mark is None else f"the chain goes on behind mark {loss.mark}"
        say(f"lost: {cycle} the stream was made anew, what stood on it alone is gone; {mark}")
    for problem in problems:
        say(f"{problem.kind}: {safe_text(problem.what, one_line=True)}")
    if not problems:
        later = f"; {waiting} {'waits for its' if waiting == 1 else 'wait for their'} mark" if waiting else ""
        say(f"{marks} marks of {acts} acts of {name} hold{later}")
    if removed := removed_marks_words(kept.removals):
        say(removed)
