"""`conch reward weights`: show and change the weight of each part of the reward."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from conch.cli.common import CommonOptions, emit, open_bus, say, table, warn
from conch.cli.options import COMMON
from conch.cli.people_facts import agent_named, names_in
from conch.config import BUILTIN_COMPONENTS, BUILTIN_WEIGHTS, WATCHED_COMPONENTS, Settings
from conch.consumer import asked_weights, expected_parts, report_weights, set_aside_weights, weights_in_force
from conch.consumer.plugins import Discovery, discover, reserved, rules_of
from conch.errors import ConfigError, UsageError
from conch.home import Home
from conch.rewards import absent_weights, weights_version
from conch.rules import sums_to_one
from conch.run_info import RunInfo
from conch.text import instead
from conch.views import Weights, WeightsChanged, WeightSetRow, range_words, role_words
from conch_schemas import Part, WeightsSet

if TYPE_CHECKING:
    from conch.bus import Bus

BEARING = {"diversity": "boost", "starving": "factor", "repetition": "penalty", "ethical": "gate"}
"""Component -> what it is to the total, which no weight changes."""
DIGITS = 9
"""Decimals of a weight: enough for a sum within 1e-6."""

Given = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", consume_multiple=True, help="NAME=WEIGHT, several; the others keep theirs."),
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

    The weights must sum to 1. A change is a fact of its own (weights.set), and stands in conch.yaml (rewards.weights).
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
    file = None if agent is not None and len(agents_of(home, settings)) > 1 else _file(common, run)
    found = _found(run, rules, settings)
    why = "conch reward weights --reset" if reset else f"conch reward weights --set {' '.join(set_ or ())}"
    async with open_bus(home, settings) as bus:
        in_force = (await _sets(bus, list(agents)))[0][1]
        numbers = _numbers(set_ or ())
        _refuse_unpayable(settings, found, in_force, numbers)
        wanted = None if reset else changed(settings, found, in_force if run is not None else None, numbers)
        after = _with(settings, wanted)
        parts = expected_parts(after, found)
        if file is not None:
            from conch.config import write_weights

            write_weights(file, wanted)
        told = await report_weights(bus, agents, parts, why)
    _done(common, parts, told, why, _lasting(file, settings, reset=reset), file, begun=bool(agents))
    for name, weight in set_aside_weights(after, found).items():
        warn(f"{name} is set aside with its weight {weight:g} in the table: nothing scores it; --rules names its file")


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


def _file(common: CommonOptions, run: RunInfo | None) -> Path:
    """The file to write. Raises ConfigError where its contents would not be what a run reads."""
    from conch.config import chosen_file, read_environment

    home = common.where()
    said = read_environment(os.environ)
    if (place := said.part(("rewards", "weights")) or said.places.get(("rewards", "weights"))) is not None:
        raise ConfigError(f"{place} settles the weights, before any file: unset it, or change the weights there")
    chosen = chosen_file(common.config, home)
    if chosen is not None and chosen.absolute() != home.config_file:
        raise ConfigError(f"the settings are those of {chosen}: change rewards.weights there, or do not name that file")
    if run is not None and run.config not in (None, str(home.config_file)):
        raise ConfigError(f"the run in progress has its settings from {run.config}: change rewards.weights there")
    return home.config_file


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


def changed(
    settings: Settings, found: Discovery, in_force: WeightsSet | None, given: Mapping[str, float]
) -> dict[str, float]:
    """The table with what is given; the others keep the weight in force, or that the next run would give them.

    A part that is new to a table of one's own has the weight 0 there. A weight whose rule is not there stays in the
    table, and the others have their share beside it. Given is only that such weights become 0: the others grow to the
    sum 1 in proportion. Raises UsageError where they do not sum to 1.
    """
    asked = asked_weights(settings, found)
    absent = absent_weights(settings.rewards.weights, asked)
    base = dict.fromkeys((*BUILTIN_WEIGHTS, *asked), 0.0) | _before(settings, found, in_force)
    if in_force is not None:
        share = 1 - math.fsum(absent.values())
        base = {name: weight * share for name, weight in base.items() if name not in absent} | absent
    whole = {**base, **given}
    if given and not any(given.values()) and not set(given) & {*BUILTIN_COMPONENTS, *asked}:
        whole = {name: weight / (math.fsum(whole.values()) or 1.0) for name, weight in whole.items()}
    wanted = {name: round(weight, DIGITS) for name, weight in whole.items()}
    if not sums_to_one(wanted):
        raise UsageError(_wrong_sum(wanted))
    return {name: weight for name, weight in wanted.items() if weight or name not in WATCHED_COMPONENTS}


def _refuse_unpayable(
    settings: Settings, found: Discovery, in_force: WeightsSet | None, given: Mapping[str, float]
) -> None:
    """Raises UsageError for a name that can be given no weight: why, and what can.

    A component whose rule is not there can be given the weight 0, where it had one.
    """
    known = {*BUILTIN_WEIGHTS, *WATCHED_COMPONENTS, *asked_weights(settings, found)}
    had = {*(settings.rewards.weights or ()), *(part.component for part in (in_force.parts if in_force else ()))}
    for name in sorted(set(given) - known):
        if name == "ethical" and not settings.constitution.gate:
            raise UsageError(f"--set {name}: with constitution.gate off it is watched, it takes no weight")
        if name in BEARING:
            raise UsageError(f"--set {name}: {name} is a {BEARING[name]}: it bears on the total without a weight")
        if name in had and not given[name]:
            continue
        if name in had:
            why = f"{name} has a weight, but nothing here scores it now"
            raise UsageError(f"--set {name}: {why}: name its file with --rules, or set it to 0")
        advice = instead(name, known - _held_out(settings, found))
        raise UsageError(
            f"--set {name}: nothing scores it that can be paid; {advice} (--rules names the file of a rule; what a "
            "program of yours scores is declared under rewards.parts in conch.yaml)"
        )


def _held_out(settings: Settings, found: Discovery) -> set[str]:
    """Components that are never paid."""
    rewards = settings.rewards
    return {
        *(rule.name for rule in found.rules if rule.held_out),
        *(name for name, judge in rewards.judges.items() if judge.held_out),
        *(name for name, part in rewards.parts.items() if part.held_out),
    }


def _before(settings: Settings, found: Discovery, in_force: WeightsSet | None) -> dict[str, float]:
    if in_force is not None:
        return {part.component: part.weight for part in in_force.parts if part.weight}
    if settings.rewards.weights is not None:
        return dict(settings.rewards.weights)
    try:
        return {part.component: part.weight for part in expected_parts(settings, found) if part.weight}
    except ConfigError:  # they ask for more than there is
        return asked_weights(settings, found)


def _wrong_sum(wanted: Mapping[str, float]) -> str:
    total = math.fsum(wanted.values())
    gap = f"{1 - total:.6g} is missing" if total < 1 else f"{total - 1:.6g} too much"
    shares = ", ".join(f"{name} {weight:g}" for name, weight in wanted.items() if weight)
    return f"the weights would sum to {total:.6g}, {gap}: {shares or 'all are 0'}; set more of them at once"


def _with(settings: Settings, table: Mapping[str, float] | None) -> Settings:
    rewards = settings.rewards.model_copy(update={"weights": None if table is None else dict(table)})
    return settings.model_copy(update={"rewards": rewards})


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
