"""A blind vote between two subjects: a pair of replies to one state, the one of one subject, the other of the other.

Pairs are rows of training data, and a vote is a review of its row as on the page Review: nothing is decided twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from starlette.requests import Request

from conch.data import Row
from conch.errors import UsageError
from conch.experience import ExperienceReader
from conch.review import reviewer_named
from conch.views import ReviewCard
from conch_schemas import ReviewDecided
from conch_services.dashboard.compare.subjects import ComparedSubject
from conch_services.dashboard.row_reviews import card_of, open_pool
from conch_services.dashboard.world import DashboardContext

FORMAT: Final = "dpo"
MOST_SKIPPED: Final = 200


class Ballot(NamedTuple):
    """The next pair, and how often each subject's reply was found the better one."""

    card: ReviewCard | None
    left: int
    """Pairs of the pool that this reviewer has not decided on."""
    won: Sequence[int]
    """By subject."""
    reviewer: str


async def ballot(request: Request, agent: str, subjects: Sequence[ComparedSubject], named: str | None) -> Ballot:
    """The next ballot of the reviewer. Raises UsageError, StoreError, BusError."""
    world: DashboardContext = request.app.state.world
    reviewer = _reviewer(named)
    opened = await open_pool(request, agent, FORMAT, reviewer)
    skipped = request.query_params.get("without", "").split(",")[:MOST_SKIPPED]
    queue = list(opened.pool.queue(opened.decisions, skipped))
    voted = [one for one in opened.decisions if one.preferred is not None and one.reviewer == reviewer]
    acts = {act for one in (*(row.row.action_ids for row in queue), *(said.acts for said in voted)) for act in one}

    def cycles(reader: ExperienceReader) -> dict[str, int]:
        known = ((act, reader.cycles.cycle_of(act)) for act in acts)
        return {act: cycle for act, cycle in known if cycle is not None}

    owner = owners(await world.read(cycles), subjects, agent)
    between = [one for one in queue if is_between(one.row, owner)]
    card = await card_of(request, opened, between[0], blind=True) if between else None
    return Ballot(card, len(between), won(voted, owner, len(subjects)), reviewer)


def owners(cycles: Mapping[str, int], subjects: Sequence[ComparedSubject], agent: str) -> dict[str, int]:
    """Action id -> place of the one subject that has the act; an act of several, or of none, has none."""
    found: dict[str, int] = {}
    own = [{point.cycle for point in one.points} if one.name.agent == agent else set() for one in subjects]
    for act, cycle in cycles.items():
        mine = [at for at, some in enumerate(own) if cycle in some]
        if len(mine) == 1:
            found[act] = mine[0]
    return found


def is_between(row: Row, owner: Mapping[str, int]) -> bool:
    """Whether the two replies of the pair are of different subjects."""
    return len({owner.get(act, -1) for act in row.action_ids} - {-1}) == 2


def won(voted: Iterable[ReviewDecided], owner: Mapping[str, int], subjects: int) -> list[int]:
    """How often the reply of each subject was preferred to that of another one."""
    counts: Counter[int] = Counter()
    for said in voted:
        if len(said.acts) != 2 or said.preferred is None:
            continue
        chosen, rejected = (owner.get(act) for act in said.acts)
        better = chosen if said.preferred == "chosen" else rejected
        if better is not None and None not in (chosen, rejected) and chosen != rejected:
            counts[better] += 1
    return [counts[at] for at in range(subjects)]


def _reviewer(named: str | None) -> str:
    try:
        return reviewer_named(named or None)
    except UsageError:
        return reviewer_named(None)
