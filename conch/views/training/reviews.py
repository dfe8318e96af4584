"""The views of rows that people review, for `conch review --json`, the API and the pages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field, JsonValue

from conch.data import PAIRED, Row
from conch.experience import CycleReader
from conch.review import (
    SEED,
    QueuedRow,
    ReviewDecisions,
    ReviewPool,
    RuleAgreement,
    sides_of,
)
from conch.views.base import View
from conch_schemas import ExperienceRecorded, ReviewDecided, ReviewDecision


class ReviewQueueRow(View):
    """A row that waits, in a line."""

    row: str
    """Its hash."""
    agent: str
    acts: tuple[str, ...]
    reply: str
    """The reply that is taught; of a pair the chosen one."""
    reasons: tuple[str, ...]
    weight: float
    """The sum of risk, disagreement and novelty."""
    needed: bool
    """Whether it may not be used before a person decides."""


class ReviewQueue(View):
    """The rows that wait for a reviewer, as `conch review list --json` prints them."""

    schema_: Literal["conch.v1.reviews"] = Field(default="conch.v1.reviews", alias="schema")
    format: str
    reviewer: str
    policy: str
    """`training.review`."""
    seed: int
    """Of the rows at random."""
    waiting: int
    """Rows of the store that may not be used before a person decides."""
    open: int
    """Rows of the store that this reviewer has not decided on."""
    rows: tuple[ReviewQueueRow, ...]
    """The next ones, in the order in which they are shown."""


class ReviewMessage(View):
    """A message of a prompt."""

    role: str
    content: str


class ReviewScore(View):
    """A component of an act's breakdown."""

    component: str
    value: float | None
    weight: float
    scorer: str
    status: str


class ReviewReply(View):
    """A reply of a row, with the breakdown of its act's reward."""

    name: Literal["reply", "chosen", "rejected", "first", "second"]
    text: str
    cycle: int | None
    scores: tuple[ReviewScore, ...]
    """Empty where no act made it, and for a pair that is judged without knowing which reply was chosen."""


class ReviewSaid(View):
    """A decision that counts."""

    reviewer: str
    decision: ReviewDecision
    reason: str
    number: int
    text: str | None


class ReviewCard(View):
    """A row with all that a person needs to decide on it."""

    schema_: Literal["conch.v1.review.card"] = Field(default="conch.v1.review.card", alias="schema")
    row: str
    format: str
    agent: str
    blind: bool
    """Whether the replies are named without saying which was chosen."""
    reasons: tuple[str, ...]
    needed: bool
    prompt: tuple[ReviewMessage, ...]
    replies: tuple[ReviewReply, ...]
    """One, of a pair two, of a row of prompts none."""
    diff: tuple[str, ...]
    """Lines of the two replies of a pair: `- ` the second alone, `+ ` the first alone, `  ` both."""
    label: bool | None
    """Of a row of KTO: whether its reply is taught as a good one."""
    acts: tuple[str, ...]
    policy: str | None
    weights: str
    revision: int
    reward: float | None
    margin: float | None
    origin: str
    tier: str | None
    state_key: str
    prompt_hash: str
    said: ReviewSaid | None
    """This reviewer's decision so far."""


class ReviewNext(View):
    """The next card of a reviewer, as `conch review next --json` prints it."""

    schema_: Literal["conch.v1.review.next"] = Field(default="conch.v1.review.next", alias="schema")
    card: ReviewCard | None
    """None: no row waits."""
    left: int
    """Rows of the store that this reviewer has not decided on."""


class ReviewDone(View):
    """A decision as it was published."""

    schema_: Literal["conch.v1.review"] = Field(default="conch.v1.review", alias="schema")
    row: str
    format: str
    reviewer: str
    decision: ReviewDecision
    reason: str
    number: int
    corrected: tuple[str, ...]
    """Hashes of the rows that an edit made."""
    preferred: Literal["chosen", "rejected"] | None
    event: str
    """Id of the fact."""


class ReviewerCounts(View):
    """How often a reviewer decided how."""

    reviewer: str
    approved: int
    rejected: int
    edited: int


class ReviewerRule(View):
    """The agreement of a reviewer with a rule."""

    reviewer: str
    component: str
    scorer: str
    rows: int
    """Rows that both rated."""
    agreed: int
    kappa: float | None
    """Cohen's, -1 to 1; None where both rated all rows alike by chance alone."""


class ReviewStats(View):
    """What reviewers decided, and how far rules agree with them, as `conch review stats --json` prints it."""

    schema_: Literal["conch.v1.review.stats"] = Field(default="conch.v1.review.stats", alias="schema")
    reviewers: tuple[ReviewerCounts, ...]
    agreement: tuple[ReviewerRule, ...]


def review_queue(pool: ReviewPool, rows: Iterable[QueuedRow], policy: str) -> ReviewQueue:
    """These rows of the pool in lines."""
    return ReviewQueue(
        format=pool.format,
        reviewer=pool.reviewer,
        policy=policy,
        seed=SEED,
        waiting=pool.waiting,
        open=pool.open,
        rows=tuple(_line(one) for one in rows),
    )


def _line(one: QueuedRow) -> ReviewQueueRow:
    row = one.row
    taught = next((row.columns[name] for name in ("completion", "chosen", "prompt") if name in row.columns), None)
    return ReviewQueueRow(
        row=row.row_id,
        agent=row.agent,
        acts=row.action_ids,
        reply=_text(taught),
        reasons=one.reasons,
        weight=round(one.signals.weight, 6),
        needed=one.needed,
    )


def review_card(
    cycles: CycleReader, one: QueuedRow, reviewer: str, decisions: ReviewDecisions, *, blind: bool = False
) -> ReviewCard:
    """The card of a row. `blind`: a pair is shown without anything that says which reply was chosen. Raises
    StoreError."""
    row = one.row
    blind = blind and row.format in PAIRED
    said = decisions.of(row.row_id, reviewer)
    replies = _replies(cycles, row, reviewer if blind else None)
    lines = [reply.text.splitlines() for reply in replies]
    diff = [line for line in difflib.ndiff(lines[1], lines[0]) if line[0] != "?"] if len(lines) == 2 else []
    label = row.columns.get("label")
    return ReviewCard(
        row=row.row_id,
        format=row.format,
        agent=row.agent,
        blind=blind,
        reasons=one.reasons,
        needed=one.needed,
        prompt=tuple(ReviewMessage(role=role, content=content) for role, content in _messages(row.columns["prompt"])),
        replies=replies,
        diff=tuple(diff),
        label=label if isinstance(label, bool) else None,
        acts=tuple(sorted(row.action_ids)) if blind else row.action_ids,
        policy=row.policy,
        weights=row.weights,
        revision=row.revision,
        reward=None if blind else row.reward,
        margin=None if blind else row.margin,
        origin=row.origin,
        tier=row.tier,
        state_key=row.state_key,
        prompt_hash=row.prompt_hash,
        said=None if said is None else _said(said),
    )


def _replies(cycles: CycleReader, row: Row, blind_for: str | None) -> tuple[ReviewReply, ...]:
    if row.format not in PAIRED:
        return (_reply(cycles, row, "reply", "completion", 0),) if "completion" in row.columns else ()
    if blind_for is None:
        return _reply(cycles, row, "chosen", "chosen", 0), _reply(cycles, row, "rejected", "rejected", 1)
    sides = sides_of(row, blind_for)
    return (
        ReviewReply(name="first", text=_text(row.columns[sides.first]), cycle=None, scores=()),
        ReviewReply(name="second", text=_text(row.columns[sides.second]), cycle=None, scores=()),
    )


def _reply(
    cycles: CycleReader, row: Row, name: Literal["reply", "chosen", "rejected"], column: str, place: int
) -> ReviewReply:
    action = row.action_ids[place] if place < len(row.action_ids) and row.origin == "acted" else None
    cycle = None if action is None else cycles.cycle_of(action)
    whole = None if cycle is None else cycles.get(row.agent, cycle)
    scores = _scores(whole) if whole is not None and whole.action_id == action else ()
    return ReviewReply(name=name, text=_text(row.columns[column]), cycle=cycle, scores=scores)


def _scores(whole: ExperienceRecorded) -> tuple[ReviewScore, ...]:
    return tuple(
        ReviewScore(component=one.component, value=one.value, weight=one.weight, scorer=one.scorer, status=one.status)
        for one in whole.scores
    )


def _messages(value: JsonValue) -> Sequence[tuple[str, str]]:
    """(role, content) of the messages of a column."""
    found = value if isinstance(value, list) else []
    return [(str(one.get("role", "")), str(one.get("content", ""))) for one in found if isinstance(one, Mapping)]


def _text(value: JsonValue) -> str:
    return "\n".join(content for _, content in _messages(value))


def _said(event: ReviewDecided) -> ReviewSaid:
    return ReviewSaid(
        reviewer=event.reviewer,
        decision=event.decision,
        reason=event.reason,
        number=event.number,
        text=event.text,
    )


def review_done(event: ReviewDecided) -> ReviewDone:
    """A decision as it was published."""
    return ReviewDone(
        row=event.row,
        format=event.format,
        reviewer=event.reviewer,
        decision=event.decision,
        reason=event.reason,
        number=event.number,
        corrected=event.corrected,
        preferred=event.preferred,
        event=event.id,
    )


def review_stats(decisions: ReviewDecisions, agreement: Iterable[RuleAgreement]) -> ReviewStats:
    """The counts by reviewer, and the agreement with each rule."""
    counts: dict[str, dict[str, int]] = {}
    for event in decisions:
        mine = counts.setdefault(event.reviewer, {"approved": 0, "rejected": 0, "edited": 0})
        mine[event.decision] += 1
    return ReviewStats(
        reviewers=tuple(ReviewerCounts(reviewer=name, **said) for name, said in sorted(counts.items())),
        agreement=tuple(
            ReviewerRule(
                reviewer=one.reviewer,
                component=one.component,
                scorer=one.scorer,
                rows=one.kappa.rows,
                agreed=one.kappa.agreed,
                kappa=one.kappa.value,
            )
            for one in agreement
        ),
    )
