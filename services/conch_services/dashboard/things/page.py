"""`/things/{kind}/{name}`: what a name on a page stands for, in short: for the panel beside it, or as a page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Final
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.consumer.runtime import open_dead_letters
from conch.data import find_row
from conch.experience import CycleFilter, ExperienceReader
from conch.memory import LongTermMemory
from conch.views import dead_letter_row, memories_shown, role_words, scored_share, share_words
from conch_schemas import ExperienceRecorded, WeightsSet
from conch_services.dashboard.api.memories import memory_read
from conch_services.dashboard.asking import asked
from conch_services.dashboard.drawings.numerals import fixed, signed
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.pages.cycle import policy_set, shown
from conch_services.dashboard.story.component import look as look_at_component
from conch_services.dashboard.stream.history import goals
from conch_services.dashboard.world import DashboardContext

LAST: Final = 1000
"""Cycles over which it is told what a policy earned."""
ACTS: Final = 5
"""Acts of a goal or a rule that are named, the newest."""
ALIKE: Final = 20
"""Notes of nearly the same words among which the one that begins so is looked for."""
LARGEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Fact:
    """A line of what is known of a thing."""

    title: str
    value: str | datetime
    path: str = ""
    """Where the value leads; empty: nowhere. Begins with a slash, without the agent."""


@dataclass(frozen=True)
class Thing:
    """What a name stands for."""

    title: str
    text: str = ""
    """What it says of itself: a statement, a prompt, a reason."""
    facts: Sequence[Fact] = ()
    path: str = ""
    """Its place on a page of its own or of its kind; empty: this is all."""


async def thing(request: Request) -> Response:
    """The thing in short: a piece of a page for one that asks so, else a page. 404: there is none, or no such kind."""
    world: DashboardContext = request.app.state.world
    agent, kind, name = await agent_of(request), request.path_params["kind"], request.path_params["name"]
    make = KINDS.get(kind)
    if make is None:
        raise HTTPException(404, f"There are things of these kinds: {', '.join(KINDS)}.")
    found = await asked(make(world, agent, name))
    template = "thing_peek.html" if "hx-request" in request.headers else "thing.html"
    told = {
        "kind": "weight set" if kind == "weights" else kind.replace("-", " "),
        "thing": found.found,
        "why": found.why,
        "broken": found.broken,
        "shown": shown,
        "after": world.hub.last,
    }
    return await page(request, template, told, 503 if found.broken else 200 if found.found is not None else 404)


async def _component(world: DashboardContext, agent: str, name: str) -> Thing | None:
    found = await world.read(lambda reader: look_at_component(reader, agent, name))
    if not found.rows:
        return None
    row = found.rows[0]
    facts = [
        Fact("Counts as", f"weight {row.weight:.3f}" if row.weight else row.role),
        Fact("Scored by", f"{row.scorer} {row.version}".strip()),
        Fact("Mean", "–" if row.mean is None else signed(row.mean) + scored_share(name, row.scored, row.count)),
        Fact("Errors", f"{row.errors}, and {row.timeouts} too late"),
        Fact("Its cycles", "those it spoke of", f"/cycles?{urlencode({'rule': name})}"),
        *(
            Fact("Adds most", f"cycle {one.cycle}: {signed(one.amount)}", f"/cycles/{one.cycle}")
            for one in found.most[:2]
        ),
        *(Fact("Failed", f"cycle {one.cycle}: {one.why}", f"/cycles/{one.cycle}") for one in found.errors[:2]),
    ]
    return Thing(name, "", facts, f"/rewards/component/{quote(name, safe='')}")


async def _goal(world: DashboardContext, agent: str, name: str) -> Thing | None:
    def read(reader: ExperienceReader) -> list[ExperienceRecorded]:
        return reader.cycles.find(agent, CycleFilter(goal=name), ACTS)

    acts = await world.read(read)
    told = (await asked(goals(world.bus, agent))).found if world.hub.state == "live" else None
    known = (told or {}).get(name)
    check = next((one for act in acts for one in act.goals if one.goal == name), None)
    if known is None and check is None:
        return None
    facts = []
    if known is not None:
        facts += [Fact("State", known.state), Fact("Check", known.check), Fact("Set by", known.by)]
        facts += [Fact("Set", known.begun)] if known.begun else []
        facts += [Fact("Ended", known.ended)] if known.ended else []
        facts += [Fact("Why", known.why)] if known.why else []
    for act in acts:
        moved = next(one for one in act.goals if one.goal == name)
        said = f"cycle {act.cycle}: {fixed(moved.best, 2)} → {fixed(moved.measure, 2)}"
        facts.append(Fact("Moved by", said, f"/cycles/{act.cycle}"))
    facts.append(Fact("All acts that moved it", "as a list", f"/cycles?{urlencode({'goal': name})}"))
    statement = known.statement if known is not None and known.statement else check.statement if check else ""
    return Thing(name, statement, facts, "/needs#goals-title")


async def _policy(world: DashboardContext, agent: str, name: str) -> Thing | None:
    acted = await world.read(lambda reader: reader.charts.policies(agent, LAST))
    own = [(cycle, total) for cycle, policy, total in acted if policy == name]
    told = await asked(policy_set(world, agent, name))
    if not own and told.found is None:
        return None
    facts, prompt = [], told.why
    if told.found is not None:
        one = told.found
        facts = [Fact("Mind", one.mind), Fact("Model", one.model or "–"), Fact("Adapter", one.adapter or "none")]
        prompt = one.system_prompt
    if own:
        first, last = own[0][0], own[-1][0]
        facts += [
            Fact("Acts", f"{len(own):,} of the last {len(acted):,}, mean {signed(fmean(one for _, one in own))}"),
            Fact("Cycles", f"{first:,} to {last:,}", f"/cycles?{urlencode({'first': first, 'last': last})}"),
        ]
    return Thing(name, prompt, facts, "/training#policies-title")


async def _weights(world: DashboardContext, agent: str, name: str) -> Thing | None:
    def read(reader: ExperienceReader) -> list[WeightsSet]:
        return [one for one in reader.charts.weight_sets(agent) if one.version == name]

    sets = await world.read(read)
    if not sets:
        return None
    parts = [
        Fact(
            one.component,
            share_words(one.weight, role_words(one)),
            f"/rewards/component/{quote(one.component, safe='')}",
        )
        for one in sets[-1].parts
    ]
    return Thing(name[:12], sets[-1].why, [*(Fact("In force from", one.time) for one in sets), *parts], "/rewards#sets")


async def _letter(world: DashboardContext, agent: str, name: str) -> Thing | None:
    async for letter in open_dead_letters(world.bus):
        row = dead_letter_row(letter)
        if row.id == name:
            facts = [
                Fact("Consumer", f"{row.consumer} {row.version}"),
                Fact("Event", f"{row.seq:,}, {row.subject}"),
                Fact("Tries", str(row.tries)),
                Fact("When", datetime.fromisoformat(row.time)),
            ]
            return Thing(row.id[:8], row.reason, facts, "/bus#letters")
    return None


async def _note(world: DashboardContext, agent: str, name: str) -> Thing | None:
    """By its id, or by how its text begins: a cycle knows the notes that it recalled by their words alone."""

    def read(store: LongTermMemory) -> Thing | None:
        named = store.find(name, 1)
        if not named:
            near = store.recall(name, ALIKE, now=time.time())
            named = tuple(one.memory for one in near if one.memory.text.startswith(name))[:1]
        rows = memories_shown(agent, len(store), named).memories
        if not rows:
            return None
        one = rows[0]
        sources = [Fact("From", f"cycle {each.cycle}", f"/cycles/{each.cycle}") for each in one.sources if each.cycle]
        facts = [Fact("Kind", one.kind), Fact("Importance", fixed(one.importance, 2)), *sources]
        return Thing(one.time[:10], one.text, facts, f"/memory/{one.id}")

    return await memory_read(world, agent, read)


async def _row(world: DashboardContext, agent: str, name: str) -> Thing | None:
    snapshot, row = await asyncio.to_thread(find_row, world.home.path / "data", name)

    def read(reader: ExperienceReader) -> list[int | None]:
        return [reader.cycles.cycle_of(action) for action in row.action_ids]

    cycles = (await asked(world.read(read))).found or []
    of_row: list[tuple[str, object]] = [
        ("Format", f"{row.format}, {row.split}"),
        ("Tool", row.skill),
        ("Outcome", row.status),
        ("Reward", None if row.reward is None else signed(row.reward)),
        ("Margin", None if row.margin is None else signed(row.margin)),
        ("Tier", row.tier),
        ("Origin", row.origin),
    ]
    facts = [Fact("Snapshot", snapshot.name, f"/data?{urlencode({'set': snapshot.name})}")]
    facts += [Fact(title, str(value)) for title, value in of_row if value]
    facts += [
        Fact("From", f"cycle {cycle}", f"/cycles/{cycle}" if row.agent == agent else "")
        for cycle in cycles
        if cycle is not None
    ]
    texts = ((part, row.columns.get(part)) for part in ("completion", "chosen", "rejected"))
    said = [
        f"{part}: {one['content']}"
        for part, some in texts
        if isinstance(some, list)
        for one in some
        if isinstance(one, dict)
    ]
    return Thing(row.row_id[:12], "\n\n".join(said), facts)


async def _mark(world: DashboardContext, agent: str, name: str) -> Thing | None:
    if not (name.isascii() and name.isdecimal()):
        return None
    number = min(int(name), LARGEST) if len(name) < 20 else LARGEST

    def read(reader: ExperienceReader) -> Thing | None:
        one = next(iter(reader.chain.marks(agent, number)), None)
        if one is None or one.sequence != number:
            return None
        cycle = reader.cycles.cycle_of(one.action_id) if one.action_id else None
        facts = [Fact("Cycle", str(cycle), f"/cycles/{cycle}")] if cycle is not None else []
        facts += [Fact("Witness", one.origin), Fact("About", one.domain), Fact("Hash", one.hash)]
        return Thing(str(number), one.response, [*facts, Fact("Follows", one.previous)], f"/witness/{number}")

    return await world.read(read)


KINDS: Final[dict[str, Callable[[DashboardContext, str, str], Awaitable[Thing | None]]]] = {
    "component": _component,
    "goal": _goal,
    "policy": _policy,
    "weights": _weights,
    "letter": _letter,
    "note": _note,
    "mark": _mark,
    "row": _row,
}
ROUTES = [Route("/things/{kind}/{name:path}", thing)]
