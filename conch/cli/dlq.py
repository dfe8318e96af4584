"""`conch dlq list | show | retry | drop`: the dead letters, that is, events that a consumer could not handle."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, open_bus, say, table, warn
from conch.cli.options import COMMON, Limit
from conch.errors import BusError, ConchError, UsageError
from conch.text import safe_text
from conch.views import LetterSettled, LetterShown, dead_letter_row, dead_letters_shown, whole_letter

if TYPE_CHECKING:
    from conch.bus import Bus, SharedSubscription
    from conch_schemas import ConsumerFailed

app = App(name="dlq", help="Dead letters: events that a consumer could not handle.")

Retry = Callable[[int], Awaitable[None]]
"""Handles the event at this stream sequence once more."""

Every = Annotated[bool, Parameter(name="--all", negative="", help="All letters that there are.")]
OfConsumer = Annotated[str | None, Parameter(name="--consumer", help="With --all: of this consumer alone.")]
Id = Annotated[str, Parameter(help="Id of a letter, or how it begins; several are taken one after the other.")]
Rules = Annotated[list[Path] | None, Parameter(help="File of the plug-in that the letter is for, without a run.")]


@app.command(name="list")
async def list_(*, limit: Limit = 50, common: CommonOptions = COMMON) -> None:
    """The letters that nobody has retried with success or dropped yet."""
    from conch.consumer.runtime import open_dead_letters

    async with open_bus(common.existing(), common.settings()) as bus:
        found = [letter async for letter in open_dead_letters(bus)][-limit:]
    if common.json:
        emit(dead_letters_shown(found))
        return
    if not found:
        say("there is no dead letter: every event was handled, retried or dropped")
        return
    rows = [(one.id[:8], one.consumer, one.letter_seq, one.tries, one.letter_subject, one.reason) for one in found]
    table(("letter", "consumer", "event", "tries", "subject", "why"), rows)


@app.command
async def show(letter: str, /, *, common: CommonOptions = COMMON) -> None:
    """One letter with what it holds.

    Parameters
    ----------
    letter
        Its id, or how it begins.
    """
    from conch.consumer.runtime import dead_letter_named

    async with open_bus(common.existing(), common.settings()) as bus:
        found = await dead_letter_named(bus, letter)
        event = await bus.at(found.letter_seq)
    data = event.data if event is not None else base64.b64decode(found.letter)
    text = data.decode(errors="replace") or "(no longer on the stream)"
    if common.json:
        emit(LetterShown(letter=whole_letter(found, text)))
        return
    for field, value in dead_letter_row(found).document().items():
        say(f"{field:<9} {safe_text(str(value), one_line=True)}")
    for line in safe_text(text).split("\n"):
        say(f"  | {line}")


@app.command
async def retry(
    *letters: Id,
    every: Every = False,
    consumer: OfConsumer = None,
    rules: Rules = None,
    common: CommonOptions = COMMON,
) -> None:
    """Have letters handled once more: by the run in progress, else by their consumer, started for the moment.

    With --all one that fails again does not keep the others from being tried.
    """
    from conch.bus import shared_subscription
    from conch.consumer.runtime import settle
    from conch.requests import retried

    _refuse_unclear(letters, consumer, every=every)
    home, settings = common.existing(), common.settings()
    running, failed = home.running() is not None, 0
    async with open_bus(home, settings) as bus, AsyncExitStack() as stack:
        shared_events = None if running else await stack.enter_async_context(shared_subscription(bus))
        hosted: dict[str, Retry] = {}
        async for letter in _chosen(bus, letters, consumer):
            try:
                if shared_events is None:
                    await retried(bus, letter)
                else:
                    await _handled_here(shared_events, common, letter, rules or (), hosted, stack)
            except ConchError as error:
                if not every:
                    raise
                failed += 1
                warn(str(error))
            else:
                await settle(bus, letter, "retried")
                _done(common, letter, "retried")
    if failed:
        raise ConchError(f"{failed} dead letters are left: conch dlq list")


@app.command
async def drop(*letters: Id, every: Every = False, consumer: OfConsumer = None, common: CommonOptions = COMMON) -> None:
    """Give letters up: they stay on the stream as facts and are listed no more."""
    from conch.consumer.runtime import settle

    _refuse_unclear(letters, consumer, every=every)
    async with open_bus(common.existing(), common.settings()) as bus:
        async for letter in _chosen(bus, letters, consumer):
            await settle(bus, letter, "dropped")
            _done(common, letter, "dropped")


def _refuse_unclear(letters: tuple[str, ...], consumer: str | None, *, every: bool) -> None:
    """Raises UsageError where no dead letters are chosen, or in two ways at once."""
    if every and letters:
        raise UsageError("--all takes no ids beside it")
    if consumer is not None and not every:
        raise UsageError("--consumer narrows --all down: add that")
    if not every and (not letters or not all(letters)):
        raise UsageError("which letters? conch dlq list shows their ids; --all means all of them")


async def _chosen(bus: Bus, ids: tuple[str, ...], consumer: str | None) -> AsyncIterator[ConsumerFailed]:
    """The dead letters with these ids, each looked up when its turn comes; without ids all open ones, of one consumer
    if named."""
    from conch.consumer.runtime import dead_letter_named, open_dead_letters

    for id in ids:
        yield await dead_letter_named(bus, id)
    if not ids:
        for letter in [one async for one in open_dead_letters(bus) if consumer in (None, one.consumer)]:
            yield letter


def _done(common: CommonOptions, letter: ConsumerFailed, how: Literal["retried", "dropped"]) -> None:
    if common.json:
        emit(LetterSettled(id=letter.id, settled=how))
    else:
        say(f"{letter.id[:8]} {how}")


async def _handled_here(
    shared_events: SharedSubscription,
    common: CommonOptions,
    letter: ConsumerFailed,
    rules: Sequence[Path],
    hosted: dict[str, Retry],
    stack: AsyncExitStack,
) -> None:
    """Retry the dead letter in its consumer, which is made at its first one and kept in `hosted`."""
    if letter.consumer not in hosted:
        hosted[letter.consumer] = _hosted(shared_events, common, letter.consumer, rules, stack)
    try:
        await hosted[letter.consumer](letter.letter_seq)
    except BusError:
        raise
    except (Exception, SystemExit) as error:  # a handler may raise anything; the dead letter stays
        raise ConchError(f"{letter.id[:8]} failed again: {type(error).__name__}: {error}") from None


def _hosted(
    shared_events: SharedSubscription,
    common: CommonOptions,
    consumer: str,
    rules: Sequence[Path],
    stack: AsyncExitStack,
) -> Retry:
    """The consumer, made for the retry without reading. Raises ConchError where none with that name can retry."""
    from conch.consumer import ConsumerRuntime, RetryingService, ServiceContext, builtin, plugin
    from conch.consumer.group import Membership, SharedConsumer
    from conch.consumer.plugins import builtin_names, discover, reserved

    members = Membership(shared_events.bus, "dlq")  # it takes part in nothing
    context = ServiceContext(settings := common.settings(), common.existing().path)
    if consumer in builtin_names(settings):
        [running] = builtin(context, [consumer], members)
    else:
        found = discover([str(rule) for rule in rules], reserved(settings), settings)
        named = [one for one in found.plugins if consumer == one.consumer]
        if not named:
            raise UsageError(f"there is no consumer {consumer!r} here: name its file with --rules, or drop the letter")
        running = plugin(named[0], context, members, stack)
    made = running.make()
    if isinstance(made, SharedConsumer):
        if made.spec.close is not None:
            stack.push_async_callback(made.spec.close)
        return ConsumerRuntime(shared_events, made.spec).retry_alone
    if isinstance(made, RetryingService):
        return partial(made.retry_alone, shared_events.bus)
    raise ConchError(f"the {consumer} takes no letter again: conch dlq drop gives it up")
