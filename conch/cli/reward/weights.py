"""`conch reward weights`: show and change the weight of each part of the reward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from conch.cli.common import CommonOptions, emit, open_bus, say, table, warn
from conch.cli.options import COMMON
from conch.cli.people_facts import agent_named, names_in
from conch.config import Settings
from conch.consumer import expected_parts, report_weights, set_aside_weights, weights_in_force
from conch.consumer.plugins import Discovery, discover, reserved, rules_of
from conch.errors import UsageError
from conch.home import Home
from conch.requests import changed_weights, refuse_unpayable, weights_file, with_weights
from conch.rewards import weights_version
from conch.rewards.progress import SCORER as PROGRESS
from conch.run_info import RunInfo
from conch.views import Weights, WeightsChanged, WeightSetRow, range_words, role_words
from conch_schemas import Part, WeightsSet

if TYPE_CHECKING:
    from conch.bus import Bus

Given = Annotated[
    list[str] | None,
    Parameter(
        name="--set", negative="", consume_multiple=True, help="NAME=WEIGHT, several; the others share the rest."
    ),
]
Reset = Annotated[bool, Parameter(negative="", help="Every part the weight that it asks for: no table of your own.")]
Rules = Annotated[
    list[Path] | None,
    Parameter(consume_multiple=True, help="Python file of rules that the next run has, without a run; several."),
]
Agent = Annotated[str | None, Parameter(name="--agent", help="This agent alone, until the next start.")]


async def weights(
    *,
    set_: Given = None,
    reset: Reset = False,
    rules: Rules = None,
    agent: Agent = None,
    common: CommonOptions = COMMON,
) -> None:
    """The weight set in force; with --set another one, at once and for every run after this one.

    The weights sum to 1: those that --set does not name keep theirs, or are rescaled in proportion.
    A change is a fact of its own (weights.set), and stands in conch.yaml (rewards.weights).
    """
    if set_ and reset:
        raise UsageError("--reset takes every weight back: it goes without --set")
    home, settings = common.existing(), common.settings()
    run = home.running()
    agents = _agents(home, settings, agent)
    if not set_ and not reset:
        async with open_bus(home, settings) as bus:
            sets = await _sets(bus, list(agents))
        none_yet = any(event is None for _, event in sets)
        _show(common, sets, expected_parts(settings, _found(run, rules, settings)) if none_yet else ())
        return
    file = None if agent is not None and len(agents_of(home, settings)) > 1 else weights_file(home, common.config, run)
    found = _found(run, rules, settings)
    why = "conch reward weights --reset" if reset else f"conch reward weights --set {' '.join(set_ or ())}"
    async with open_bus(home, settings) as bus:
        in_force = (await _sets(bus, list(agents)))[0][1]
        numbers = _numbers(set_ or ())
        refuse_unpayable(settings, found, in_force, numbers)
        wanted, rescaled = None, ""
        if not reset:
            changed = changed_weights(settings, found, in_force if run is not None else None, numbers)
            wanted, rescaled = changed.table, changed.words
            why += f" ({rescaled})" if rescaled else ""
        after = with_weights(settings, wanted)
        parts = expected_parts(after, found)
        if file is not None:
            from conch.config import write_weights

            write_weights(file, wanted)
        told = await report_weights(bus, agents, parts, why)
    lasting = _lasting(file, settings, reset=reset) + (f"; {rescaled}" if rescaled else "")
    _done(common, parts, told, why, lasting, file, begun=bool(agents))
    for name, weight in set_aside_weights(after, found).items():
        warn(f"{name} is set aside with its weight {weight:g} in the table: nothing scores it; --rules names its file")
    if settings.rewards.weights is None and wanted is not None and PROGRESS not in wanted:
        warn(f"{PROGRESS} is not paid in tasks any more: the table has to name it (--set {PROGRESS}=0.1, others less)")


def agents_of(home: Home, settings: Settings) -> list[str]:
    """The agents of the run in progress, else all that this home ever had."""
    return names_in(home, settings) if home.running() is not None else list(home.agents())


def _agents(home: Home, settings: Settings, named: str | None) -> dict[str, str]:
    """Name -> UUID of those that are meant."""
    known = home.agents()
    names = [agent_named(home, settings, named)] if named is not None else agents_of(home, settings)
    return {name: known[name] for name in names if name in known}


def _found(run: RunInfo | None, rules: Sequence[Path] | None, settings: Settings) -> Discovery:
    """The rules of the run in progress, else those that the next one finds."""
    if run is None:
        return discover([str(rule) for rule in rules or ()], taken=reserved(settings))
    if rules:
        raise UsageError("a run is in progress, whose rules count: leave --rules out")
    return Discovery(rules_of(run.rules))


def _numbers(given: Sequence[str]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for one in given:
        name, _, text = one.partition("=")
        try:
            weight = float(text)
        except ValueError:
            weight = math.nan
        if not name or not 0.0 <= weight <= 1.0:
            raise UsageError(f"--set {one}: write NAME=WEIGHT, a weight is 0 to 1")
        if name in numbers:
            raise UsageError(f"--set names {name} twice")
        numbers[name] = weight
    return numbers


async def _sets(bus: Bus, agents: Sequence[str]) -> list[tuple[str, WeightsSet | None]]:
    return [(agent, event) for agent, (_, event) in zip(agents, await weights_in_force(bus, agents), strict=True)] or [
        ("", None)
    ]


def _show(common: CommonOptions, sets: Sequence[tuple[str, WeightsSet | None]], coming: Sequence[Part]) -> None:
    """Each set once, with the agents that have it; for agents without a set the `coming` one, of their first run."""
    groups: dict[str, list[str]] = {}
    by_version = {event.version: event for _, event in sets if event is not None}
    for agent, event in sets:
        groups.setdefault(event.version if event is not None else "", []).append(agent)
    rows: list[WeightSetRow] = []
    for version, agents in groups.items():
        event = by_version.get(version)
        parts = event.parts if event is not None else coming
        rows.append(
            WeightSetRow(
                agents=tuple(agent for agent in agents if agent),
                in_force=event is not None,
                version=version or weights_version(parts),
                since=event.time.isoformat() if event is not None else None,
                why=event.why if event is not None else "",
                parts=tuple(parts),
            )
        )
        if not common.json:
            since = f"since {event.time:%Y-%m-%d %H:%M:%S} UTC, by {event.why}" if event else "from the first run on"
            whose = f" of {', '.join(agents[:5])}{', …' if len(agents) > 5 else ''}" if any(agents) else ""
            say(f"weight set {rows[-1].version}{whose} {since}")
            tabled(parts)
    if common.json:
        emit(Weights(sets=tuple(rows)))


def tabled(parts: Sequence[Part]) -> None:
    """The parts as a table for a person, with the sum beneath."""
    rows = [
        (
            part.component,
            f"{part.weight:.3f}" if part.weight else "-",
            role_words(part),
            range_words(*part.range),
            part.scorer,
            f"{part.deadline:g} s",
        )
        for part in parts
    ]
    total = math.fsum(part.weight for part in parts)
    table(
        ("component", "weight", "role", "range", "scored by", "deadline"), [*rows, ("sum", f"{total:.3f}", *[""] * 4)]
    )


def _lasting(file: Path | None, settings: Settings, *, reset: bool) -> str:
    """What happened to the file, in words."""
    if file is None:
        return "until the next start: conch.yaml is for all agents"
    if not reset:
        return f"and in {file}"
    had = settings.rewards.weights is not None
    return f"and the table rewards.weights was taken out of {file}" if had else f"and {file} has no table of weights"


def _done(
    common: CommonOptions,
    parts: Sequence[Part],
    told: Sequence[str],
    why: str,
    lasting: str,
    file: Path | None,
    *,
    begun: bool,
) -> None:
    if common.json:
        document = WeightsChanged(
            version=weights_version(parts),
            why=why,
            agents=tuple(told),
            file=str(file) if file is not None else None,
            parts=tuple(parts),
        )
        emit(document)
        return
    tabled(parts)
    whose = "in force already" if begun else "in force from the first run on"
    if told:
        whose = f"in force for {', '.join(told[:5])}{', …' if len(told) > 5 else ''}"
    say(f"weight set {weights_version(parts)} is {whose}, {lasting}")
