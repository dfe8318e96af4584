"""The verification of an agent's marks: the check and its view, for `conch mark verify --json` and the pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from conch.bus import Bus
from conch.errors import HomeError
from conch.experience import ChainReader, Removal, StreamLoss
from conch.home import Home
from conch.views.base import View
from conch.views.witness.sealed import Compared
from conch.witness import (
    ChainStart,
    CheckpointFile,
    ForgottenRecords,
    MarkProblem,
    Verification,
    key_file,
    signature_problems,
)
from conch_schemas import (
    ActionTaken,
    ContractViolationError,
    Event,
    ExperienceRecorded,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    PersonForgotten,
    RewardAssigned,
    decode,
    subject_filter,
)

_WITNESSED: tuple[type[Event], ...] = (
    ActionTaken,
    RewardAssigned,
    NeedsChanged,
    NoveltyMeasured,
    ExperienceRecorded,
    PersonForgotten,
)


class MarkRemoval(View):
    """Marks that were removed on one day for one reason."""

    why: str
    """The setting that they were removed by."""
    first: int | None
    """Sequence of the first mark."""
    last: int | None
    time: str


class RemovedMarks(View):
    """The marks that store.keep removed from the chain."""

    first: int
    """Sequence of the first of them."""
    last: int
    marks: int
    """How many there were."""
    hash: str
    """The last removed mark's hash: the chain goes on from it."""
    removals: tuple[MarkRemoval, ...]


class ForgottenActs(View):
    """What was removed at people's requests."""

    requests: int
    acts: int
    marks: int
    """Marks that are without their words, with the hashes that they had."""
    last: str
    """When the last removal was, in ISO 8601."""


class Verified(View):
    """The result of a verification, as the HTTP API answers it."""

    schema_: Literal["conch.v1.verification"] = Field(default="conch.v1.verification", alias="schema")
    agent: str
    ok: bool
    """Whether nothing was found wrong."""
    acts: int
    marks: int
    waiting: int
    """Acts that have no mark yet."""
    removed: RemovedMarks | None
    forgotten: ForgottenActs | None = None
    """None: nothing was removed at a person's request."""
    compared: Compared | None = None
    """How much of what the marks seal was compared."""
    problems: tuple[MarkProblem, ...]


class Signed(View):
    """The checkpoints of a chain, checked with one key."""

    checkpoints: int
    """How many bear the key's signature and fit the chain, or are of removed marks."""
    upto: int | None
    """Sequence of the last mark that one of them signs; None: there is none."""
    time: str | None
    """When that one was signed."""


class VerifiedLocally(Verified):
    """The result of a verification, as `conch mark verify --json` prints it."""

    lost: tuple[StreamLoss, ...]
    """Streams before this one that were lost."""
    signed: Signed | None = None
    """None: no key was named, so that no signature was checked."""


@dataclass(frozen=True)
class ActsDue:
    """What must have a mark."""

    acts: tuple[str, ...]
    scored: Sequence[tuple[str, str]]
    """(action, scorer)."""
    recorded: Sequence[tuple[str, int]]
    """(action, revision of its experience)."""

    def among(self, actions: Set[str]) -> ActsDue:
        """Only what is about these actions."""
        return ActsDue(
            tuple(act for act in self.acts if act in actions),
            [one for one in self.scored if one[0] in actions],
            [one for one in self.recorded if one[0] in actions],
        )

    def unwitnessed(self, chain: Verification) -> list[MarkProblem]:
        """What of it has no mark in the chain."""
        return chain.unwitnessed(self.acts, self.scored, self.recorded)


def acts_due(chain: ChainReader, agent: str) -> ActsDue:
    """What must have a mark by now: every act, and the scores of those that wait for nothing."""
    waiting = chain.unrecorded(agent)
    return ActsDue(
        tuple(action for action, _ in chain.acts(agent)),
        [one for one in chain.score_sets(agent) if one[0] not in waiting],
        [one for one in chain.revisions(agent) if one[0] not in waiting],
    )


def signed_by(home: Home, chain: Verification, key: str) -> tuple[Signed, list[MarkProblem]]:
    """The home's checkpoints of the chain, checked with a public key, and what they find wrong. Raises HomeError."""
    file = CheckpointFile(home.path)
    try:
        known = [one for one in file.read(chain.agent) if one.key == key]
    except OSError as error:
        raise HomeError(f"{file.path} cannot be read ({error.strerror}): mend its rights") from None
    problems, last = signature_problems(chain, known, key)
    good = len(known) - len(problems) if known else 0
    upto, time = (None, None) if last is None else (last.count - 1, last.time.isoformat())
    return Signed(checkpoints=max(0, good), upto=upto, time=time), problems


def signed_words(signed: Signed | None) -> str:
    """Up to where the chain is signed, in a sentence."""
    if signed is None:
        return (
            "signatures were not checked: without them whoever can write in the home could have made the whole chain "
            f"anew; conch mark verify --key {key_file()} checks them"
        )
    if signed.upto is None:
        return "no checkpoint of this key fits the chain"
    return f"signed up to mark {signed.upto} on {signed.time} ({signed.checkpoints} checkpoints)"


def chain_start(removals: Iterable[Removal]) -> ChainStart | None:
    """The start of the chain behind the removed marks; None where none was removed."""
    ends = [
        (one.last_mark, one.first_mark, one.hash)
        for one in removals
        if one.first_mark is not None and one.last_mark is not None and one.hash is not None
    ]
    if not ends:
        return None
    last, _, digest = max(ends)
    return ChainStart(min(first for _, first, _ in ends), last + 1, digest)


def removed_marks_words(removals: Sequence[Removal]) -> str:
    """The removed marks in words, and where the chain goes on; empty where none was removed."""
    start = chain_start(removals)
    if start is None:
        return ""
    days = sorted(f"{one.time:%Y-%m-%d}" for one in removals if one.marks)
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    last = start.sequence - 1
    which = f"mark {last} was" if start.first == last else f"marks {start.first} to {last} were"
    return f"{which} removed by store.keep {when}, the chain goes on from hash {start.previous[:12]}…"


def forgotten_acts(records: ForgottenRecords) -> ForgottenActs | None:
    """What these records come to; None where there is none."""
    if not (requests := records.requests):
        return None
    last = requests[-1].time.isoformat()
    return ForgottenActs(requests=len(requests), acts=len(records.actions), marks=records.marks, last=last)


def forgotten_words(found: ForgottenActs) -> str:
    """What was removed at people's requests, in a line."""
    times = "at a person's request" if found.requests == 1 else f"at {found.requests} requests of people"
    return f"{found.acts} acts and the words of {found.marks} marks were removed {times}, last on {found.last[:10]}"


def verification(
    agent: str,
    problems: Sequence[MarkProblem],
    *,
    acts: int,
    marks: int,
    waiting: int,
    removals: Sequence[Removal] = (),
    forgotten: ForgottenRecords | None = None,
    compared: Compared | None = None,
) -> Verified:
    """The findings about the marks of a number of acts, `waiting` of which have no mark yet."""
    return Verified(
        agent=agent,
        ok=not problems,
        acts=acts,
        marks=marks,
        waiting=waiting,
        removed=_removed(removals),
        forgotten=None if forgotten is None else forgotten_acts(forgotten),
        compared=compared,
        problems=tuple(problems),
    )


def _removed(removals: Sequence[Removal]) -> RemovedMarks | None:
    start = chain_start(removals)
    if start is None:
        return None
    rows = [
        MarkRemoval(why=one.why, first=one.first_mark, last=one.last_mark, time=one.time.isoformat())
        for one in removals
        if one.marks
    ]
    return RemovedMarks(
        first=start.first,
        last=start.sequence - 1,
        marks=sum(one.marks for one in removals),
        hash=start.previous,
        removals=tuple(rows),
    )


async def unmarked_yet(bus: Bus, agent: str, position: int, epoch: str | None) -> set[str]:
    """Actions with a mark that is not in the store *yet*: the witness has not read the fact, or the store not the mark.
    Of a fact without an action the event's id is among them.

    `position`, `epoch`: of the store, as they were before its acts were read. Raises BusError.
    """
    from conch.consumer.group import standings
    from conch.witness import CONSUMER

    # The witness first: a mark that it publishes meanwhile is on the stream when that is read.
    read = next((one.seq for one in await standings(bus) if one.name == CONSUMER), 0)
    stored = position if epoch == (await bus.state()).epoch else 0
    unread = await _actions(bus, [subject_filter(kind, agent) for kind in _WITNESSED], read)
    return unread | await _actions(bus, [subject_filter(MarkWitnessed, agent)], stored)


async def _actions(bus: Bus, filters: Sequence[str], after: int) -> set[str]:
    """The actions that the events behind `after` are about, and the ids of events that are about none. What is no event
    is skipped: consumers write dead letters of it."""
    found: set[str] = set()
    async for delivery in bus.read(filters, after=after):
        try:
            event = decode(delivery.data)
        except ContractViolationError:
            continue
        if isinstance(event, MarkWitnessed):
            found.add(event.mark.action_id or event.mark.event)
        else:
            found.add(event.action_id or event.id)
    return found
