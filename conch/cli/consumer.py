"""`conch consumer list | lag | reset | forget`: the positions of consumers, their lag, and changing them."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, open_bus, say, table
from conch.cli.options import COMMON
from conch.errors import BusError, ConchError, ContractError, UsageError
from conch.text import safe_text

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.config import Settings
    from conch.home import Home
    from conch.views import ConsumerRow

app = App(name="consumer", help="Who reads the facts, and how far each has come.")

STORE = "store"
"""The store keeps its position beside its rows; its key on the bus only reports that position to others."""
SIGN_SECONDS = 2.5
"""A worker that lives gives a sign every second."""

Yes = Annotated[bool, Parameter(name="--yes", negative="", help="Do not ask.")]


@app.command(name="list")
async def list_(*, common: CommonOptions = COMMON) -> None:
    """Every consumer that has a place on this bus, whether it runs or not."""
    from conch.views import consumers_shown

    last, found = await standings(common)
    if common.json:
        emit(consumers_shown(last, found))
    else:
        rows = [(one.name, f"{one.acknowledged} of {last}", one.lag, one.letters or "") for one in found]
        table(("consumer", "done", "lag", "dead letters"), rows)


@app.command
async def lag(*, common: CommonOptions = COMMON) -> None:
    """How many events wait for each consumer, the most first. Places are written once a second, of folds of many agents
    every few seconds."""
    from conch.views import lag_shown, most_behind

    last, found = await standings(common)
    if common.json:
        emit(lag_shown(last, found))
    else:
        table(("consumer", "events waiting"), [(one.name, one.lag) for one in most_behind(found)])


@app.command
async def reset(name: str, /, *, common: CommonOptions = COMMON) -> None:
    """Let a consumer read the stream again from its start, with the state it was born with. Not during a run.

    What it publishes again has the same ids as before, so nothing is scored twice.

    Parameters
    ----------
    name
        The consumer's name, as `conch consumer list` shows it.
    """
    from conch.consumer.runtime import reset

    home, settings = common.existing(), common.settings()
    if home.running() is not None:
        raise ConchError(f"{home.path} has a run in progress: conch stop, then reset {name}")
    async with open_bus(home, settings) as bus:
        await _refuse_unknown(bus, name)
        await _refuse_at_work(bus, name)
        if name == STORE:
            _reset_store(home, settings)
        await reset(bus, name)
    if common.json:
        from conch.views import ConsumerReset

        emit(ConsumerReset(consumer=name))
    else:
        say(f"{name} begins at the start of the stream when it runs again")


@app.command
async def forget(name: str, /, *, yes: Yes = False, common: CommonOptions = COMMON) -> None:
    """Give up the place of a consumer that is gone for good, so that the stream is trimmed without it.

    Its states go too. Should it come back, it begins at the start of what there is then.

    Parameters
    ----------
    name
        The consumer's name, as `conch consumer list` shows it, or `agent/NAME`: what that agent's written memory lacks
        is given up then, and the memory stays.
    """
    from conch.bus import memory_agent
    from conch.consumer.group import forget

    home, settings = common.existing(), common.settings()
    if name == STORE:
        raise ConchError("without the store nobody knows what is recorded, and nothing is trimmed: it is not forgotten")
    async with open_bus(home, settings) as bus:
        is_memory = memory_agent(name) is not None
        await (_refuse_unknown_agent(bus, name) if is_memory else _refuse_unknown(bus, name))
        await _refuse_at_work(bus, name)
        _confirm(f"Give up the place of {name} and what it has not read?", yes=yes)
        await (_give_up_unread(bus, name) if is_memory else forget(bus, name))
    if common.json:
        from conch.views import ConsumerForgotten

        emit(ConsumerForgotten(consumer=name))
    else:
        say(f"{name} holds up no trimming any more")


async def standings(common: CommonOptions) -> tuple[int, list[ConsumerRow]]:
    """(the stream's last sequence, every consumer); starts the embedded server for a while without a run."""
    from conch.views import standings

    async with open_bus(common.existing(), common.settings()) as bus:
        return await standings(bus)


async def _refuse_unknown(bus: Bus, name: str) -> None:
    """Raises UsageError for a name that has no position on the bus, and never had one."""
    from conch.bus import position_consumer

    positions = (position_consumer(key) for key in await bus.keys())
    known = sorted({one for one in positions if one is not None} | {reader.name for reader in await bus.readers()})
    if name not in known:
        raise UsageError(f"no consumer {name!r} keeps its place on the bus: {', '.join(known) or 'none does yet'}")


async def _refuse_unknown_agent(bus: Bus, key: str) -> None:
    from conch.bus import memory_agent

    known = [one for one in await bus.keys() if memory_agent(one) is not None]
    if key not in known:
        raise UsageError(f"no memory stands on the bus under {key!r}: {', '.join(known) or 'there is none'}")


async def _refuse_at_work(bus: Bus, name: str) -> None:
    """Raises ConchError for a consumer that a live worker takes part in, or an agent that answers."""
    from conch.bus import memory_agent
    from conch.consumer.group import signs
    from conch_schemas import control_subject

    if (agent := memory_agent(name)) is not None:
        try:
            await bus.request(control_subject(agent, "status"), b"{}", timeout=1.0)
        except BusError:
            return
        raise ConchError(f"{name} is at work: conch stop, then again")
    before = await signs(bus, name)
    if before:
        await asyncio.sleep(SIGN_SECONDS)  # a worker that was killed left its last heartbeat
        for worker, revision in (await signs(bus, name)).items():
            if worker in before and revision != before[worker]:
                raise ConchError(f"{name} is at work in {worker}: end that first")


def _confirm(question: str, *, yes: bool) -> None:
    """Ask the person to confirm. Raises UsageError without a terminal to ask on, ConchError for a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to be asked: add --yes")
    sys.stderr.write(f"{safe_text(question, one_line=True)} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConchError("nothing was done")


async def _give_up_unread(bus: Bus, key: str) -> None:
    """Say of an agent's memory that it holds everything up to now."""
    from conch.bus import advance

    entry, state = await bus.get(key), await bus.state()
    assert entry is not None
    try:
        value = advance(entry.value, state)
    except ContractError:
        raise ConchError(f"the memory under {key} cannot be read: conch doctor") from None
    await bus.put(key, value, revision=entry.revision)


def _reset_store(home: Home, settings: Settings) -> None:
    """Reset the store's own position; what it has joined stays."""
    from conch.experience import store_location

    path = store_location(settings.store.url, home.path)
    if not path.exists():
        raise ConchError(f"there is no store at {path}: one that is made begins at the start of the stream")
    with path.writer() as store:
        store.set_position(0)
