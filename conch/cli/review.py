"""`conch review next | list | approve | reject | edit | stats`: people's decisions on rows of training data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from conch.cli.common import QUOTED, CommonOptions, emit, open_store, say, table, tell
from conch.cli.options import COMMON
from conch.data import Format, Row
from conch.errors import UsageError

if TYPE_CHECKING:
    from conch.cli.reward.history import RecordedHistory
    from conch.config import Settings
    from conch.experience import ExperienceReader
    from conch.review import QueuedRow, Redact, ReviewDecisions, ReviewPool, ReviewVerdict
    from conch.views import ReviewCard, ReviewReply
    from conch_schemas import ReviewDecided

app = App(
    name="review", help="Rows of training data, for a person to decide on: next, list, approve, reject, edit, stats."
)

SHOWN = 12
"""Digits of a row's hash that are printed, and that name a row."""

ReviewedFormat = Annotated[Format, Parameter(name="--format", help="Rows of sft, dpo, kto, grpo or reward.")]
ReviewerName = Annotated[str | None, Parameter(name="--reviewer", help="Your name; default the user's.")]
RowName = Annotated[str, Parameter(help="The row's hash, or its first 12 digits, as conch review list shows it.")]
AnyFormat = Annotated[Format | None, Parameter(name="--format", help="The row's format; none looks at all.")]


@app.command(name="list")
def list_(
    *,
    format: ReviewedFormat = "sft",
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=200), help="Rows at most.")] = 20,
    reviewer: ReviewerName = None,
    agent: Annotated[str | None, Parameter(help="Rows of this agent alone.")] = None,
    common: CommonOptions = COMMON,
) -> None:
    """The rows that wait for you, in the order in which they are shown."""
    from conch.review import ReviewDecisions
    from conch.views import review_queue

    home, settings = common.existing(), common.settings()
    store = open_store(home, settings)
    try:
        decisions = ReviewDecisions(store.reviews.walk())
        pool = _pool(store, settings, format, reviewer, decisions, agent)
    finally:
        store.close()
    shown = review_queue(pool, list(pool.queue(decisions))[:limit], settings.training.review)
    if common.json:
        emit(shown)
        return
    if shown.rows:
        rows = [(one.row[:SHOWN], ", ".join(one.reasons), one.reply) for one in shown.rows]
        table(("row", "why", "reply"), rows)
    say(
        f"{shown.open} rows of {shown.format} that {shown.reviewer} has not decided on; {shown.waiting} wait for a "
        f"person (training.review: {shown.policy}); each 20th at random, seed {shown.seed}"
    )


@app.command(name="next")
async def next_(
    *,
    format: ReviewedFormat = "sft",
    blind: Annotated[bool, Parameter(negative="", help="Pairs without saying which reply was chosen.")] = False,
    reviewer: ReviewerName = None,
    agent: Annotated[str | None, Parameter(help="Rows of this agent alone.")] = None,
    common: CommonOptions = COMMON,
) -> None:
    """The next row with all that is known of it; on a terminal one row after the other, decided on by keys.

    In a pipe, and with --json, the next row is printed and the command ends.
    """
    from conch.review import ReviewDecisions
    from conch.views import ReviewNext

    if common.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        home, settings = common.existing(), common.settings()
        store = open_store(home, settings)
        try:
            decisions = ReviewDecisions(store.reviews.walk())
            pool = _pool(store, settings, format, reviewer, decisions, agent)
            one = next(pool.queue(decisions), None)
            card = None if one is None else _card(store, one, pool.reviewer, decisions, blind=blind)
        finally:
            store.close()
        if common.json:
            emit(ReviewNext(card=card, left=pool.open))
        elif card is None:
            say(f"no row of {format} waits for {pool.reviewer}")
        else:
            _show(card, pool.open)
        return
    from conch.cli.review_session import ReviewSession
    from conch.cli.reward.history import history

    async with history(common) as found:
        decisions = ReviewDecisions(found.reader.reviews.walk())
        pool = _pool(found.reader, found.settings, format, reviewer, decisions, agent)
        session = ReviewSession(
            pool,
            decisions,
            card=lambda one: _card(found.reader, one, pool.reviewer, decisions, blind=blind),
            show=_show,
            say=say,
            decide=lambda one, verdict: _publish(found, one.row, pool.reviewer, verdict),
        )
        await session.run()


@app.command
async def approve(
    row: RowName,
    /,
    *,
    why: Annotated[str, Parameter(help="Your reason, if you like.")] = "",
    format: AnyFormat = None,
    reviewer: ReviewerName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Approve a row: it may be trained on."""
    from conch.review import ReviewVerdict

    await _decide(common, row, format, reviewer, ReviewVerdict("approved", why))


@app.command
async def reject(
    row: RowName,
    /,
    *,
    why: Annotated[str, Parameter(help="What is wrong with it.")],
    format: AnyFormat = None,
    reviewer: ReviewerName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Reject a row: it is never trained on, whatever others decide."""
    from conch.review import ReviewVerdict

    await _decide(common, row, format, reviewer, ReviewVerdict("rejected", why))


@app.command
async def edit(
    row: RowName,
    /,
    *,
    text: Annotated[str | None, Parameter(help="The reply that would have been right.")] = None,
    file: Annotated[
        Path | None, Parameter(help="A file with that reply; - is stdin.", allow_leading_hyphen=True)
    ] = None,
    why: Annotated[str, Parameter(help="Your reason, if you like.")] = "",
    format: AnyFormat = None,
    reviewer: ReviewerName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Correct the reply of a row: the corrected row is trained on in its place, and as a pair with the original."""
    from conch.review import ReviewVerdict

    if (text is None) == (file is None):
        raise UsageError("give the corrected reply either by --text or by --file")
    if file is not None:
        try:
            if str(file) == "-":  # not as text: what stdin's encoding cannot read would be replaced in it
                text = sys.stdin.buffer.read().decode(sys.stdin.encoding)
            else:
                text = file.read_text(encoding="utf-8")
            text = text.removeprefix("\ufeff")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--file {file}: cannot be read as text ({error})") from error
    await _decide(common, row, format, reviewer, ReviewVerdict("edited", why, text or ""))


@app.command
def stats(*, common: CommonOptions = COMMON) -> None:
    """How often reviewers decided how, and how far each rule agrees with each of them (Cohen's kappa)."""
    from conch.review import ReviewDecisions, rule_agreement, scores_beside
    from conch.views import review_stats

    store = open_store(common.existing(), common.settings())
    try:
        decisions = ReviewDecisions(store.reviews.walk())
        shown = review_stats(decisions, rule_agreement(decisions, scores_beside(store, decisions)))
    finally:
        store.close()
    if common.json:
        emit(shown)
        return
    if not shown.reviewers:
        say("no row was reviewed yet: conch review next shows one")
        return
    table(
        ("reviewer", "approved", "rejected", "edited"),
        [(one.reviewer, one.approved, one.rejected, one.edited) for one in shown.reviewers],
    )
    if shown.agreement:
        say("")
        cells = [
            (one.reviewer, one.component, one.scorer, one.rows, one.agreed, _number(one.kappa))
            for one in shown.agreement
        ]
        table(("reviewer", "component", "rule", "rows", "agreed", "kappa"), cells)


def _redact(settings: Settings) -> Redact:
    from conch.config import Masker
    from conch.review import export_redact

    return export_redact(Masker.of(settings))


def _pool(
    store: ExperienceReader,
    settings: Settings,
    format: Format,
    reviewer: str | None,
    decisions: ReviewDecisions,
    agent: str | None,
) -> ReviewPool:
    from conch.review import ReviewPolicy, review_pool, reviewer_named

    policy, name = ReviewPolicy.of(settings.training.review), reviewer_named(reviewer)
    return review_pool(store, format, name, decisions, policy, agent=agent, redact=_redact(settings))


def _card(
    store: ExperienceReader, one: QueuedRow, reviewer: str, decisions: ReviewDecisions, *, blind: bool
) -> ReviewCard:
    from conch.views import review_card

    return review_card(store.cycles, one, reviewer, decisions, blind=blind)


async def _decide(
    common: CommonOptions, named: str, format: Format | None, reviewer: str | None, verdict: ReviewVerdict
) -> None:
    from conch.cli.reward.history import history
    from conch.review import reviewer_named, row_of
    from conch.views import review_done

    name = reviewer_named(reviewer)
    async with history(common) as found:
        row = row_of(found.reader, named, format=format, redact=_redact(found.settings))
        said = review_done(await _publish(found, row, name, verdict))
    if common.json:
        emit(said)
        return
    say(f"row {said.row[:SHOWN]} of {said.format}: {said.decision} by {said.reviewer}, decision {said.number}")
    for one in said.corrected:
        say(f"corrected row {one[:SHOWN]}")


async def _publish(found: RecordedHistory, row: Row, reviewer: str, verdict: ReviewVerdict) -> ReviewDecided:
    """Publish the decision and let the store take it in."""
    from conch.review import history_of, publish_review

    known, redact = history_of(found.reader, row), _redact(found.settings)
    said = await publish_review(found.bus, found.home, known, reviewer, verdict, redact=redact)
    await found.take_in((await found.bus.state()).last)
    return said


def _show(card: ReviewCard, left: int) -> None:
    """The card as text; lines of minds and people begin with `  | `."""
    say(f"row {card.row[:SHOWN]}  {card.format}  {card.agent}  ({left} left)")
    say(f"shown for: {', '.join(card.reasons) or 'no signal'}")
    if card.said is not None:
        say(f"you decided: {card.said.decision} {card.said.reason}".rstrip())
    for message in card.prompt:
        _quote(f"prompt, {message.role}", message.content)
    for reply in card.replies:
        of = "" if reply.cycle is None else f" (cycle {reply.cycle})"
        _quote(f"{reply.name}{of}", reply.text)
        _breakdown(reply)
    if card.diff and not card.blind:
        _quote("rejected -, chosen +", "\n".join(card.diff))
    if card.label is not None:
        say(f"taught as a {'good' if card.label else 'bad'} reply")
    of_reward = "" if card.reward is None else f", reward {card.reward:+.3f}"
    margin = "" if card.margin is None else f", margin {card.margin:+.3f}"
    tier = "" if card.tier is None else f", tier {card.tier}"
    say(f"{card.origin}{tier}{of_reward}{margin}, revision {card.revision}, weights {card.weights[:SHOWN] or '-'}")
    say(f"policy {card.policy or '-'}, state {card.state_key or '-'}, acts {' '.join(card.acts) or '-'}")


def _quote(title: str, text: str) -> None:
    say(f"{title}:")
    tell("\n".join(QUOTED + line for line in text.splitlines() or [""]))


def _breakdown(reply: ReviewReply) -> None:
    scored = [f"{one.component} {one.value:+.2f}×{one.weight:g}" for one in reply.scores if one.value is not None]
    if scored:
        say(f"scores: {', '.join(scored)}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
