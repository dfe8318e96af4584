"""`conch forget`: removes a person's data from all that a home holds."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from conch.cli.common import (
    CommonOptions,
    embedded_server,
    emit,
    open_bus,
    owned_in_turn,
    quiet,
    say,
    stream_bytes,
    table,
    warn,
)
from conch.cli.options import COMMON, AgentName
from conch.config import Settings
from conch.errors import ConchError, UsageError
from conch.forgetting import (
    SHORTEST,
    ForgetReport,
    ForgetRequest,
    Found,
    Needle,
    find_in,
    finish,
    message_text,
    read_report,
    read_request,
    write_request,
)
from conch.home import Home

if TYPE_CHECKING:
    from conch.bus import Bus

POLL_SECONDS = 0.1
"""Seconds between two looks whether the run has carried a request out."""
SAYS_ENOUGH = 12
"""Characters from which on a message's text is looked for elsewhere too: shorter ones stand in others' words."""


async def forget(
    *,
    match: Annotated[str | None, Parameter(help="Remove what holds this text, in upper or lower case.")] = None,
    message: Annotated[str | None, Parameter(help="Remove the message with this id, and what is about it.")] = None,
    yes: Annotated[bool, Parameter(negative="", help="Remove without asking.")] = False,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Remove a person's data: from store, stream, memories, notes, checkpoints and files of the home.

    An act is removed whole where one of its facts holds the words. Its marks keep their hashes, and conch mark verify
    says what was removed. A run in progress pauses for it. Copies elsewhere are not reached: backups, snapshots,
    exports.
    """
    if (match is None) == (message is None):
        raise UsageError("name what is to be forgotten: --match TEXT, or --message ID")
    if match is not None and len(match.strip()) < SHORTEST:
        raise UsageError(f"--match {match!r}: at least {SHORTEST} characters, or too much holds it")
    home, settings = common.existing(), common.settings()
    if home.running() is None and (cut_short := await _carried_out(common, settings)) is not None:
        say(f"an earlier request that was cut short is carried out: {words_of(cut_short)}")
    known = home.agents()
    if agent is not None and agent not in known:
        raise UsageError(f"there is no agent {agent!r} in {home.path} (--agent)")
    agents = tuple(known) if agent is None else (agent,)
    async with open_bus(home, settings) as bus:
        needle = await _needle(bus, match, message)
        found = await find_in(home, settings, bus, needle, agents)
    if found.nothing:
        raise ConchError("nothing in the home holds it: nothing was removed")
    if not common.json:
        _show(home, found)
    if not yes:
        _ask()
    request = ForgetRequest(needle=needle, agents=agents)
    if read_request(home) is not None:
        raise ConchError("another request is being carried out: try again when it is done")
    write_request(home, request)
    if (running := home.running()) is not None:
        warn("the run in progress removes it: one with --cycles ends by itself first")
        report = await _by_the_run(home, running.pid, request)
    else:
        report = await _carried_out(common, settings)
    if report is None:
        raise ConchError("the run ended before it was done: conch run, or the same command, finishes it")
    _tell(common, report)
    if (home.path / "data").is_dir():
        warn(f"data sets of before are not searched: remove those in {home.path / 'data'} that may hold it")


async def carry_out(common: CommonOptions, settings: Settings) -> ForgetReport | None:
    """Carry out the request of the home, if there is one; the caller owns the home. Raises as `conch.forgetting.finish`
    does."""
    home = common.where()
    if home.run_file.exists():
        await _end_in_order(common, settings)

    @asynccontextmanager
    async def bus_of_home() -> AsyncIterator[Bus]:
        from conch.bus import Access
        from conch.bus.jetstream import JetStreamBus
        from conch.processes import served

        strict = settings.bus.durability == "strict"
        if settings.bus.url is not None:
            async with JetStreamBus(Access.of(settings.bus), name="conch-forget", strict=strict) as bus:
                yield bus
            return
        server = embedded_server(home, settings)
        async with (
            served(server),
            JetStreamBus(server.access, name="conch-forget", max_bytes=stream_bytes(settings), strict=strict) as bus,
        ):
            yield bus

    return await finish(home, settings, bus_of_home)


def words_of(report: ForgetReport) -> str:
    """What was removed, in a line."""
    return (
        f"removed at a person's request: {report.acts} acts, {report.events} events of the stream, "
        f"{report.memories} rows of memories and notes, parts of {report.files} files; the words of {report.marks} "
        "marks, which keep their hashes"
    )


async def _end_in_order(common: CommonOptions, settings: Settings) -> None:
    """Let the consumers of a run that was killed read what they had in hand: the witness would make other marks where
    events are gone that it has made marks of, and not yet written down."""
    from conch.cli.run.tree import ProcessTree

    skipped = frozenset({"dashboard"})
    tree = ProcessTree(
        common.where(), settings, (), None, (), skipped, processes=0, reloads=False, as_json=True, forks={}
    )
    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)  # the tree hears it once it lives
    await tree.live(common)


async def _carried_out(common: CommonOptions, settings: Settings) -> ForgetReport | None:
    quiet()
    home = common.existing()
    if read_request(home) is None:
        return None
    async with owned_in_turn(home):
        return await carry_out(common, settings)


async def _needle(bus: Bus, match: str | None, message: str | None) -> Needle:
    if message is None:
        assert match is not None
        return Needle(texts=(match.strip(),))
    text = await message_text(bus, message)
    if text is None:
        raise UsageError(f"the stream has no message {message!r}: conch forget --match TEXT finds it by its words")
    return Needle(texts=(text.strip(),) if len(text.strip()) >= SAYS_ENOUGH else (), ids=(message,))


def _show(home: Home, found: Found) -> None:
    rows: list[tuple[str, object]] = [
        ("acts, with all their facts", len(found.actions)),
        ("events of the stream", len(found.events)),
        ("marks, of which the hashes stay", len(found.marks)),
        ("checkpoints of agents and consumers", len(found.values)),
    ]
    for one in found.files:
        what = "rows" if one.is_database else "lines"
        rows.append((f"{what} of {one.path.relative_to(home.path)}", one.number))
    table(("what holds it", "count"), rows, wraps=["what holds it"])


def _ask() -> None:
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here: --yes removes it without asking")
    say("This cannot be undone. Remove it? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConchError("nothing was removed")


async def _by_the_run(home: Home, pid: int, request: ForgetRequest) -> ForgetReport | None:
    """The report of the run in progress, which carries the request out; None: it ended before."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
    while (report := read_report(home)) is None or report.id != request.id:
        await asyncio.sleep(POLL_SECONDS)
        if not _is_there(pid):
            report = read_report(home)
            return report if report is not None and report.id == request.id else None
    return report


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _tell(common: CommonOptions, report: ForgetReport) -> None:
    if common.json:
        from conch.views import Forgotten

        emit(Forgotten(**report.model_dump()))
        return
    say(words_of(report))
    for path in report.left:
        say(f"it still stands in {path}, which this command does not change")
    if report.server_keeps:
        say("the server at bus.url keeps earlier checkpoints in its files until it writes over them")
    say("not reached: backups and snapshots, exports, copies on other machines, a repository's history, the model")
