"""`/cycles/{number}`: one cycle from thought to reward."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from conch.errors import NoStoreError
from conch.experience import ChainReader, CycleFilter, CycleReader, ExperienceReader, removed_words
from conch.rewards import unjudged_reason
from conch.text import safe_text, without_escapes
from conch.views import (
    action_words,
    compliance,
    decoding_words,
    price_words,
    principles,
    scored_of,
    sealed_principles,
    whole_row,
)
from conch.witness import ChainStart, ForgottenRecords, MarkProblem, Verification
from conch_schemas import (
    ActionTaken,
    ContractViolationError,
    ExperienceRecorded,
    ForkScored,
    GoalCheck,
    Mark,
    PolicySet,
    decode,
    subject_filter,
    trace_id,
)
from conch_services.dashboard.asking import after, asked
from conch_services.dashboard.cycles.alike import BetterAct, better_acts
from conch_services.dashboard.cycles.filters import WantedCycles, wanted_cycles
from conch_services.dashboard.drawings.waterfall import BEARING, unweighted, waterfall
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.story.strip import adds, reward_strip
from conch_services.dashboard.world import DashboardContext

LARGEST = 2**63 - 1
"""A number beyond is no cycle's."""
SHOWN = 6000
"""Characters of one text on the page; the whole of it is a file."""
SHOWN_JSON = 60_000
NEAR = 2000
"""Marks between the first and the last of a cycle that are read at once for the one before each."""


@dataclass(frozen=True)
class ShownText:
    """A text as the page shows it, cut where it is long."""

    text: str
    left_out: int
    """Characters that are not shown."""


def shown(text: str, most: int = SHOWN) -> ShownText:
    """The head of a hostile text, harmless, without a terminal's escape sequences."""
    return ShownText(safe_text(without_escapes(text[: 2 * most]))[:most], max(0, len(text) - most))


@dataclass(frozen=True)
class CycleHistory:
    """What the store knows of a cycle."""

    place: int
    """Stream sequence up to which the other fields are complete, at least."""
    last: int | None
    """The last cycle of the agent that is stored, recorded or not."""
    before: int | None
    behind: int | None
    experience: ExperienceRecorded | None
    act: ActionTaken | None
    """The act of its last step, recorded or not."""
    removed: str = ""
    """A sentence, where it was removed."""
    marks: Sequence[Mark] = ()
    problems: Sequence[MarkProblem] = ()
    """Problems of these marks and their links to the ones before."""
    forks: Sequence[ForkScored] = ()
    """Candidates of forks of this cycle, the best first."""
    better: Sequence[BetterAct] = ()


def look(reader: ExperienceReader, agent: str, number: int) -> CycleHistory:
    """The cycle, as far as it is known."""
    place, last = reader.position(), reader.cycles.last_cycle(agent)
    before, behind = reader.cycles.neighbours(agent, number)
    experience = reader.cycles.get(agent, number)
    act = reader.cycles.act(agent, number)
    acted = experience or act
    marks = [] if acted is None else reader.chain.marks_of(agent, str(acted.action_id))
    removed = "" if acted is not None else removed_words(reader.retention.removals(agent), agent, number)
    problems = list(broken(reader.chain, agent, marks))
    forks = sorted(reader.forks.of_cycle(agent, number), key=lambda fork: (-fork.total, fork.seed))
    better = () if experience is None else better_acts(reader, experience)
    return CycleHistory(place, last, before, behind, experience, act, removed, marks, problems, forks, better)


def broken(stored: ChainReader, agent: str, marks: Sequence[Mark]) -> Iterator[MarkProblem]:
    """The problems of these marks: their hashes, and their references to the mark before. A link to a mark that is not
    read here, as to the act before of the same episode, is left to the verification of the whole chain."""
    own = {mark.sequence for mark in marks}
    chain = Verification(agent, ForgottenRecords(stored.forgotten(agent)))
    read = sorted([*marks, *_before(stored, agent, own)], key=lambda one: one.sequence)
    for mark in read:
        chain.take(mark)
    if read and read[0].sequence:
        chain.begin_at(ChainStart(0, read[0].sequence, read[0].previous))
    yield from (one for one in chain.broken() if one.kind != "missing" and one.sequence in own)


def _before(stored: ChainReader, agent: str, own: set[int]) -> Iterator[Mark]:
    """The marks right before these, without these themselves."""
    wanted = {sequence - 1 for sequence in own if sequence > 0} - own
    if not wanted:
        return
    if max(wanted) - min(wanted) < NEAR:
        near = islice(stored.marks(agent, min(wanted)), max(wanted) - min(wanted) + 1)
        yield from (mark for mark in near if mark.sequence in wanted)
    else:
        for sequence in wanted:
            yield from (mark for mark in islice(stored.marks(agent, sequence), 1) if mark.sequence == sequence)


async def cycle(request: Request) -> Response:
    """The cycle's page. Without all scores it shows what is known, and the rest when it comes; 404 for an unknown
    cycle.

    Raises StoreError where the history cannot be read: then it is unknown whether there is such a cycle.
    """
    world: DashboardContext = request.app.state.world
    agent, number = await agent_of(request), request.path_params["number"]
    if number > LARGEST:
        return await _unknown(request, number, "")
    try:
        found = await world.read(lambda reader: look(reader, agent, number))
        found = replace(found, place=after(request, found.place))
    except NoStoreError as none:
        return await _unknown(request, number, safe_text(str(none), one_line=True))
    wanted = wanted_cycles(request.query_params)
    if _narrows(wanted):
        before, behind = await world.read(
            lambda reader: near(reader.cycles, agent, number, wanted.within(reader, agent))
        )
        found = replace(found, before=before, behind=behind)
    if found.experience is None and found.act is None:
        return await _unknown(request, number, f"{found.removed[:1].upper()}{found.removed[1:]}", found)
    if request.query_params.get("view") == "json" and found.experience is not None:
        whole = json.dumps(whole_row(found.experience, found.marks).document(), indent=2, ensure_ascii=False)
        told = {"number": number, "found": found, "whole": shown(whole, SHOWN_JSON)}
        return await page(request, "cycle_json.html", told | _kept(request, wanted))
    return await page(request, "cycle.html", {"number": number, "found": found} | _kept(request, wanted) | story(found))


def _narrows(wanted: WantedCycles) -> bool:
    return bool(wanted.given) or wanted.range.kind not in ("usual", "life")


def _kept(request: Request, wanted: WantedCycles) -> dict[str, object]:
    """The filter that the neighbours are taken from, as the links keep it, and in words."""
    agent = {"agent": named} if (named := request.query_params.get("agent")) else {}
    query = urlencode({**agent, **wanted.query})
    words = {**wanted.given, **({"range": wanted.range.title} if wanted.range.text else {})}
    return {
        "of_filter": f"?{query}" if query else "",
        "given": words if _narrows(wanted) else {},
        "times": {"from": wanted.begin, "until": wanted.end},
    }


def near(cycles: CycleReader, agent: str, number: int, filters: CycleFilter) -> tuple[int | None, int | None]:
    """The cycles before and behind this number that the filters let through; None: there is none.

    The one behind is found by halves: a list of cycles begins with the newest.
    """
    below = cycles.find(agent, filters, 1, number)
    low, high = max(number + 1, filters.first or 0), cycles.find(agent, filters, 1)
    last = high[0].cycle if high and high[0].cycle is not None and high[0].cycle > number else None
    while last is not None and low < last:
        middle = (low + last) // 2
        lower = cycles.find(agent, replace(filters, first=low, last=middle), 1)
        if lower and lower[0].cycle is not None:
            last = lower[0].cycle
        else:
            low = middle + 1
    return (below[0].cycle if below else None), last


async def _unknown(request: Request, number: int, why: str, found: CycleHistory | None = None) -> Response:
    last = None if found is None else found.last
    return await page(request, "no_cycle.html", {"number": number, "why": why, "last": last}, status=404)


def story(found: CycleHistory) -> dict[str, object]:
    """The template's variables, for an experience or for an act that waits for its scores."""
    experience = found.experience
    told = experience or found.act
    assert told is not None
    needs = told.needs if isinstance(told, ActionTaken) else told.needs_before or {}
    after = None if experience is None else experience.needs_after
    scored, parts = (0, 0) if experience is None else scored_of(experience)
    judged = principles(found.act, found.marks)
    judged_by = [name for name, score in judged.items() if score is not None]
    return {
        "told": told,
        "recorded": experience,
        "checks": [check for check in told.goals if not _leaves(check)],
        "unmoved": [check for check in told.goals if _leaves(check)],
        "acted_at": told.time if experience is None else experience.acted_at,
        "needs": [(need, level, (after or {}).get(need, level)) for need, level in needs.items()],
        "fall": None if experience is None else waterfall(experience),
        "unweighted": () if experience is None else unweighted(experience),
        "bearing": BEARING,
        "scored": scored,
        "parts": parts,
        "principles": judged,
        "constitution": compliance(sealed_principles(found.marks), told) if judged_by else None,
        "unjudged": unjudged_reason(told),
        "human": () if experience is None else [one for one in experience.scores if one.scorer == "human"],
        "trace": trace_id(told.traceparent),
        "arguments": [
            (name, shown(value if isinstance(value, str) else json.dumps(value), 2000))
            for name, value in told.action.args.items()
        ],
        "shown": shown,
        "action_words": action_words,
        "decoding_words": decoding_words,
        "price_words": price_words,
    }


def _leaves(check: GoalCheck) -> bool:
    """Whether the act left the goal as it was."""
    return check.outcome == "neutral" and (check.detail == "untouched" or check.measure == check.best)


async def peek(request: Request) -> Response:
    """The cycle in short, as a piece of the page; the links in it keep the query."""
    world: DashboardContext = request.app.state.world
    agent, number = await agent_of(request), min(request.path_params["number"], LARGEST)
    found = await asked(world.read(lambda reader: _short(reader, agent, number)))
    told = found.found
    recorded = told if isinstance(told, ExperienceRecorded) else None
    return await page(
        request,
        "peek.html",
        {
            "number": number,
            "query": f"?{request.url.query}" if request.url.query else "",
            "told": told,
            "why": found.why,
            "acted_at": None if told is None else told.time if recorded is None else recorded.acted_at,
            "needs": told.needs if isinstance(told, ActionTaken) else recorded and recorded.needs_before,
            "sum": recorded and reward_strip(adds(recorded), recorded.total),
            "shown": shown,
        },
        200 if told is not None else 404,
    )


def _short(reader: ExperienceReader, agent: str, number: int) -> ExperienceRecorded | ActionTaken | None:
    return reader.cycles.get(agent, number) or reader.cycles.act(agent, number)


TEXTS = ("raw", "output", "thought", "reflection", "json")


async def text(request: Request) -> Response:
    """One text of the cycle, whole, as a file: as it came."""
    world: DashboardContext = request.app.state.world
    agent, number, what = await agent_of(request), request.path_params["number"], request.path_params["what"]
    if number > LARGEST or what not in TEXTS:
        raise HTTPException(404, f"A cycle has these texts: {', '.join(TEXTS)}.")
    found = await world.read(lambda reader: look(reader, agent, number))
    told = found.experience or found.act
    if told is None or (what in ("reflection", "json") and found.experience is None):
        raise HTTPException(404, f"There is no such text of cycle {number} of {agent}.")
    name = f"{agent}-{number}-{what}.{'json' if what == 'json' else 'txt'}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return PlainTextResponse(_whole(told, what, found.marks), headers=headers)


def _whole(told: ExperienceRecorded | ActionTaken, what: str, marks: Sequence[Mark]) -> str:
    if what == "output":
        return told.outcome.output.text
    if isinstance(told, ExperienceRecorded) and what == "json":
        return json.dumps(whole_row(told, marks).document(), indent=2, ensure_ascii=False)
    return str(getattr(told, what))


async def policy(request: Request) -> Response:
    """The policy with `?digest=`, as a fragment of the page: mind, model, and its system prompt."""
    world: DashboardContext = request.app.state.world
    agent, digest = await agent_of(request), request.query_params.get("digest", "")
    found = await asked(policy_set(world, agent, digest))
    words = found.why or f"The stream has no policy {digest} of {agent} any more."
    return await page(request, "policy.html", {"policy": found.found, "why": words, "shown": shown})


async def policy_set(world: DashboardContext, agent: str, digest: str) -> PolicySet | None:
    """The event with the policy of a digest; None where it was trimmed. Raises BusError."""
    subject = subject_filter(PolicySet, agent)
    newest = await world.bus.last(subject)
    if newest is not None and (held := _policy(newest.data, digest)) is not None:
        return held
    async for delivery in world.bus.read([subject], after=0):
        if (held := _policy(delivery.data, digest)) is not None:
            return held
    return None


def _policy(data: bytes, digest: str) -> PolicySet | None:
    try:
        event = decode(data)
    except ContractViolationError:
        return None
    return event if isinstance(event, PolicySet) and event.policy == digest else None


ROUTES = [
    Route("/cycles/{number:int}", cycle),
    Route("/cycles/{number:int}/peek", peek),
    Route("/cycles/{number:int}/policy", policy),
    Route("/cycles/{number:int}/text/{what}", text),
]
