"""`conch consumer list | lag | reset`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from cyclopts import App

from conch.cli.common import Common, emit, open_bus, say, table
from conch.cli.options import COMMON
from conch.errors import ConchError

app = App(name="consumer", help="Who reads the facts, and how far each has come.")


@dataclass(frozen=True)
class Standing:
    """How far a consumer is."""

    name: str
    acknowledged: int
    """Everything up to this place in the stream is done; written once a second."""
    lag: int
    """Events that wait for it, by what is acknowledged."""
    letters: int
    """Its dead letters that are open."""


@app.command(name="list")
async def list_(*, common: Common = COMMON) -> None:
    """Every consumer that has ever read from this bus."""
    last, found = await standings(common)
    if common.json:
        emit({"schema": "conch.v1.consumers", "last": last, "consumers": [vars(one) for one in found]})
    else:
        rows = [(one.name, f"{one.acknowledged} of {last}", one.lag, one.letters or "") for one in found]
        table(("consumer", "acknowledged", "lag", "dead letters"), rows)


@app.command
async def lag(*, common: Common = COMMON) -> None:
    """How many events wait for each consumer, the most first. Acknowledgements are written once a second."""
    last, found = await standings(common)
    found = sorted(found, key=lambda one: -one.lag)
    if common.json:
        rows = [{"name": one.name, "lag": one.lag} for one in found]
        emit({"schema": "conch.v1.lag", "last": last, "consumers": rows})
    else:
        table(("consumer", "events waiting"), [(one.name, one.lag) for one in found])


@app.command
async def reset(name: str, /, *, common: Common = COMMON) -> None:
    """Let a consumer read the stream again from its start, with the state it was born with. Not during a run.

    What it publishes again has the same ids as before, so nothing is scored twice.

    Parameters
    ----------
    name
        The consumer's name, as `conch consumer list` shows it.
    """
    from conch.consumer.snapshot import position_key, reset

    home, settings = common.existing(), common.settings()
    if home.running() is not None:
        raise ConchError(f"{home.path} has a run in progress: conch stop, then reset {name}")
    async with open_bus(home, settings) as bus:
        there = [key.removeprefix(position_key("")) for key in await bus.keys() if key.startswith(position_key(""))]
        if name not in there:
            raise ConchError(f"no consumer {name!r} keeps its place on the bus: {', '.join(there) or 'none does yet'}")
        await reset(bus, name)
    if common.json:
        emit({"schema": "conch.v1.reset", "consumer": name})
    else:
        say(f"{name} begins at the start of the stream when it runs again")


async def standings(common: Common) -> tuple[int, list[Standing]]:
    """(the stream's last sequence, every durable reader); starts the embedded server for a while without a run."""
    from conch.consumer.letters import open_letters

    async with open_bus(common.existing(), common.settings()) as bus:
        readers, last = await bus.readers(), (await bus.state()).last
        letters = Counter([letter.consumer async for letter in open_letters(bus)])
    return last, [Standing(one.name, one.acknowledged, one.pending, letters[one.name]) for one in readers]
