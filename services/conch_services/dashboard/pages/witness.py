"""`/witness`: the chain of marks, and its verification."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.experience import ExperienceReader
from conch.rewards import unjudged_reason
from conch.views import act_of_mark, compliance, removed_marks_words
from conch_schemas import Mark
from conch_services.dashboard.asking import after, asked
from conch_services.dashboard.checking import ChainCheck
from conch_services.dashboard.page import agent_of, page

MARKS = 50
"""Marks of a page."""
SHORT_CHAIN = 20_000
"""Marks up to which a chain is verified whenever its page is opened: two seconds' work."""
MOST_PROBLEMS = 100
"""Problems that are listed."""
LARGEST = 2**63 - 1
FIELDS = ("stimulus", "response", "reasoning", "evidence", "values", "event", "content", "id", "previous", "hash")
"""Fields of a mark that are texts and shown whole, in this order."""


@dataclass(frozen=True)
class MarksPage:
    """A page of the chain, the newest mark first."""

    rows: tuple[Mark, ...]
    last: int | None
    """Sequence of the newest mark there is; None: there is none."""
    position: int
    """The store's position on the stream."""

    @property
    def older(self) -> int | None:
        """The sequence at which the next page begins; None: this is the last one."""
        return self.rows[-1].sequence if self.rows and self.rows[-1].sequence > 0 else None


async def witness(request: Request) -> Response:
    """The newest marks, or those `?before=` one; and how the chain was found."""
    world, agent = request.app.state.world, await agent_of(request)
    before = _number(request.query_params.get("before"))
    found = await asked(world.read(lambda reader: _marks(reader, agent, before)))
    marks, check = found.found, request.app.state.checks.of(agent)
    again = "hx-request" in request.headers
    if marks is not None and marks.last is not None and marks.last < SHORT_CHAIN and not again:
        check = request.app.state.checks.upto(agent, marks.last)
    place = after(request, marks.position if marks else 0)
    told = {"marks": marks, "before": before, "why": found.why, "broken": found.broken, "after": place}
    template = "witness_marks.html" if again else "witness.html"
    return await page(request, template, told | _shown(check, marks))


async def verdict(request: Request) -> Response:
    """The result of the last verification: for a page that waits for it. A POST begins a new one."""
    agent = await agent_of(request)
    found = await asked(request.app.state.world.read(lambda reader: reader.chain.last_mark(agent)))
    check = request.app.state.checks.of(agent)
    if request.method == "POST" and found.found is not None:
        check = request.app.state.checks.begin(agent, found.found)
    marks = MarksPage((), found.found, 0)
    return await page(request, "witness_check.html", {"why": found.why, "marks": marks} | _shown(check, marks))


async def mark(request: Request) -> Response:
    """One mark, whole, with the marks that it follows and links to."""
    agent, sequence = await agent_of(request), min(int(request.path_params["sequence"]), LARGEST)
    found = await asked(request.app.state.world.read(lambda reader: _mark(reader, agent, sequence)))
    there = found.found or {"twins": (), "links": {}, "cycle": None, "act": None, "last": None}
    why = found.why or ("" if there["twins"] else f"There is no mark {sequence} of {agent}.")
    told = {
        "sequence": sequence,
        "why": why,
        "broken": found.broken,
        "fields": FIELDS,
        "compliance": compliance,
        "unjudged": unjudged_reason,
    } | there
    return await page(request, "mark.html", told, 503 if found.broken else 200 if there["twins"] else 404)


def _shown(check: ChainCheck | None, marks: MarksPage | None) -> dict[str, object]:
    newer = 0 if check is None or marks is None or marks.last is None else max(0, marks.last - check.last)
    problems = () if check is None else tuple(check.problems[:MOST_PROBLEMS])
    broken = frozenset(one.sequence for one in problems)
    removed = removed_marks_words(() if check is None else check.removals)
    words = removed and f"{removed[0].upper()}{removed[1:]}."
    return {"check": check, "newer": newer, "problems": problems, "broken": broken, "removed": words}


def _marks(reader: ExperienceReader, agent: str, before: int | None) -> MarksPage:
    position, last = reader.position(), reader.chain.last_mark(agent)
    if last is None:
        return MarksPage((), None, position)
    end = last + 1 if before is None else min(before, last + 1)
    read = reader.chain.marks(agent, max(0, end - MARKS))
    rows = [one for one in islice(read, 2 * MARKS) if one.sequence < end]
    return MarksPage(tuple(reversed(rows)), last, position)


def _mark(reader: ExperienceReader, agent: str, sequence: int) -> dict[str, object]:
    """The marks of this sequence (one, where all is well), and the sequences of those that they link to."""
    twins = []
    for one in reader.chain.marks(agent, sequence):
        if one.sequence != sequence:
            break
        twins.append(one)
    near = {
        one.id: one.sequence for twin in twins if twin.action_id for one in reader.chain.marks_of(agent, twin.action_id)
    }
    cycle = reader.cycles.cycle_of(twins[0].action_id) if twins and twins[0].action_id else None
    act = act_of_mark(reader.cycles, twins[0]) if twins else None
    return {"twins": twins, "links": near, "cycle": cycle, "act": act, "last": reader.chain.last_mark(agent)}


def _number(told: str | None) -> int | None:
    return min(int(told), LARGEST) if told and told.isascii() and told.isdecimal() and len(told) < 20 else None


ROUTES = [
    Route("/witness", witness),
    Route("/witness/check", verdict, methods=["GET", "POST"]),
    Route("/witness/{sequence:int}", mark),
]
