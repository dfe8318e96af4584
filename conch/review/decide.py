"""A person's decision on a row: published as a fact."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from conch.data import Row
from conch.errors import UsageError
from conch.review.corrected import corrected_rows
from conch.review.decisions import ReviewDecisions
from conch.text import well_formed
from conch_schemas import (
    REVIEWER_PATTERN,
    ReviewDecided,
    ReviewDecision,
    consequence_id,
    decode,
    encode,
    source_of,
    subject_filter,
    subject_of,
)

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.experience import ExperienceReader
    from conch.home import Home
    from conch.review.pool import Redact

LONGEST = 1000
"""Longest reason, in characters."""


@dataclass(frozen=True)
class ReviewVerdict:
    """What a person says of a row.

    Raises UsageError for a rejection without a reason, and for a reason that is too long.
    """

    decision: ReviewDecision
    reason: str = ""
    text: str = ""
    """The reply that would have been right, of `edited` alone."""
    preferred: Literal["chosen", "rejected"] | None = None
    """As `ReviewDecided.preferred`."""

    def __post_init__(self) -> None:
        reason = well_formed(self.reason).strip()
        if self.decision == "rejected" and not reason:
            raise UsageError("a rejection needs its reason: what is wrong with the row")
        if len(reason) > LONGEST:
            raise UsageError(f"the reason has {len(reason):,} characters, at most {LONGEST:,} are kept: say it shorter")
        object.__setattr__(self, "reason", reason)


def reviewer_named(name: str | None) -> str:
    """The reviewer of this name; None: the user of this process. Raises UsageError for what is no name."""
    if name is None:
        try:
            name = re.sub(r"[^A-Za-z0-9._@-]", "-", getpass.getuser()).lstrip("._@-")[:64] or "user"
        except (KeyError, OSError, ImportError):  # a container may have no entry for its user
            name = "user"
    if not re.fullmatch(REVIEWER_PATTERN, name):
        raise UsageError(
            f"{name[:80]!r} is no name of a reviewer: letters, digits, `.`, `_`, `@` and `-`, at most 64, the first a "
            "letter or a digit"
        )
    return name


async def decisions_now(
    bus: Bus, stored: Iterable[ReviewDecided], position: int, epoch: str | None, agent: str = "*"
) -> ReviewDecisions:
    """The decisions of a store at `position` of the stream `epoch`, and those that stand further down the stream.

    `agent`: those of this agent's rows alone are read from the stream. Raises BusError.
    """
    found = ReviewDecisions(stored)
    state = await bus.state()
    after = position if epoch == state.epoch else 0
    async for delivery in bus.read([subject_filter(ReviewDecided, agent)], after=after):
        event = decode(delivery.data)
        if isinstance(event, ReviewDecided):
            found.add(event)
    return found


class RowHistory(NamedTuple):
    """What a store knows of a row before a decision."""

    row: Row
    cycle: int | None
    """Of its first act; None where the store has no such act."""
    agentuid: str | None
    """Of the agent; None where the store has no act of the row."""
    stored: list[ReviewDecided]
    position: int
    epoch: str | None


def history_of(reader: ExperienceReader, row: Row) -> RowHistory:
    """The history of the row, read without the bus. Raises StoreError."""
    position, epoch, stored = reader.position(), reader.epoch(), reader.reviews.of_row(row.row_id)
    cycle = reader.cycles.cycle_of(row.action_ids[0]) if row.action_ids else None
    act = None if cycle is None else reader.cycles.act(row.agent, cycle)
    return RowHistory(row, cycle, None if act is None else act.agentuid, stored, position, epoch)


async def publish_review(
    bus: Bus,
    home: Home,
    history: RowHistory,
    reviewer: str,
    verdict: ReviewVerdict,
    *,
    redact: Redact = well_formed,
) -> ReviewDecided:
    """Publish the decision; where it is the one that counts already, that one is returned: twice is once. Another
    decision of the same reviewer replaces it, and both are kept. `redact`: that of the export; the reason and the
    correction are published as it leaves them, and the corrected rows get their hashes so.

    Raises UsageError for a correction that cannot be one, and for a row of no agent; BusError. Cancelled, the decision
    may be on the stream.
    """
    row = history.row
    if not row.agent:
        raise UsageError(f"the row {row.row_id[:12]} is of no agent: it was not made of an act, and is not reviewed")
    clean = replace(verdict, reason=redact(verdict.reason), text=redact(verdict.text))
    fields = _fields(row, reviewer, clean)
    known = await decisions_now(bus, history.stored, history.position, history.epoch, row.agent)
    last = known.of(row.row_id, reviewer)
    if last is not None and _is_said(last, fields):
        return last
    number = 1 if last is None else last.number + 1
    while True:
        said = _event(history, history.agentuid or home.agentuid(row.agent), number, fields)
        stored = await bus.publish(subject_of(said), encode(said), id=said.id)
        if not stored.duplicate or await _is_at(bus, stored.seq, fields):
            return said
        number += 1  # taken by a decision that was published meanwhile


def _fields(row: Row, reviewer: str, verdict: ReviewVerdict) -> Mapping[str, object]:
    """The fields of the event that say what was decided."""
    is_edit = verdict.decision == "edited"
    corrected = corrected_rows(row, verdict.text) if is_edit else ()
    return {
        "row": row.row_id,
        "format": row.format,
        "acts": row.action_ids,
        "reviewer": reviewer,
        "decision": verdict.decision,
        "reason": verdict.reason,
        "text": well_formed(verdict.text).strip() if is_edit else None,
        "corrected": tuple(one.row_id for one in corrected),
        "preferred": verdict.preferred,
    }


def _event(history: RowHistory, agentuid: str, number: int, fields: Mapping[str, object]) -> ReviewDecided:
    row = history.row
    action = None if history.cycle is None else row.action_ids[0]
    identity = consequence_id(row.row_id, f"review/{fields['reviewer']}", str(number), ReviewDecided)
    envelope = {
        "id": identity,
        "source": source_of(row.agent, agentuid),
        "subject": action,
        "agent": row.agent,
        "cycle": history.cycle,
        "action_id": action,
        "policy": row.policy,
    }
    return ReviewDecided.model_validate({**envelope, **fields, "number": number})


def _is_said(event: ReviewDecided, fields: Mapping[str, object]) -> bool:
    return all(getattr(event, name) == value for name, value in fields.items())


async def _is_at(bus: Bus, seq: int, fields: Mapping[str, object]) -> bool:
    """Whether the event at that sequence says the same. A trimmed one counts as different."""
    there = await bus.at(seq)
    if there is None:
        return False
    event = decode(there.data)
    return isinstance(event, ReviewDecided) and _is_said(event, fields)
