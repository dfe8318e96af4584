"""What is compared: `?of=range:1-200`, `of=policy:DIGEST`, `of=weights:VERSION`, `of=adapter:DIGEST`.

Each has `AGENT/` in front where it is another agent's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from conch.experience import DecidedAct, ExperiencePoint, ExperienceReader
from conch.views import one_weighing
from conch_schemas import AdapterPromoted, AdapterRolledBack
from conch_services.dashboard.ranges.wanted import WantedRange, wanted_range
from conch_services.dashboard.ranges.window import CycleWindow, cycle_since, points_in, window_of
from conch_services.dashboard.story.strip import distinct_colours

MOST: Final = 6
SEARCHED: Final = 4000
"""The newest acts that are searched for policies and adapters."""
MOST_ACTS: Final = 1000
"""Acts of a subject that are compared, the newest."""
BASE: Final = "base"
"""Value of `adapter:` for the model without an adapter."""
MOST_OFFERED: Final = 20
"""Subjects of a kind that are offered, the newest."""
_SUBJECT: Final = re.compile(
    r"(?:([a-z0-9][a-z0-9-]{0,62})/)?(range|policy|weights|adapter):([A-Za-z0-9_.-]{1,80})", re.ASCII
)


class SubjectName(NamedTuple):
    """A subject as the address names it."""

    agent: str
    kind: str
    value: str
    text: str
    """As it was named."""


class ComparedSubject(NamedTuple):
    """A subject with its acts."""

    name: SubjectName
    title: str
    points: Sequence[ExperiencePoint]
    """Oldest first, at most MOST_ACTS."""
    states: Sequence[DecidedAct]
    """Of the same acts, as far as they are known."""
    total: Callable[[ExperiencePoint], float]
    """The total of an act as it is compared: under the weights that are in force for the first subject's agent."""
    colour: int
    """Of the page, by the subject's name: the same beside whatever else it is compared with, but where two would be
    alike."""


class ComparedWeights(NamedTuple):
    """How totals of several weight sets are compared."""

    is_other: bool
    """Whether they are made anew."""
    left_out: Sequence[str]
    """Components that count nothing, as some acts have no score of them."""


class Offer(NamedTuple):
    """A subject that can be added."""

    text: str
    title: str


def named_subjects(texts: Sequence[str], agent: str, agents: Sequence[str]) -> tuple[list[SubjectName], list[str]]:
    """(the subjects, each once, at most MOST; sentences on what cannot be)."""
    found: dict[str, SubjectName] = {}
    wrong: list[str] = []
    for text in texts:
        said = _SUBJECT.fullmatch(text)
        if said is None or (said[2] == "range" and wanted_range({"range": said[3]})[1]):
            wrong.append(
                f"“{text[:60]}” cannot be compared: it is range:1-200, range:last-400, policy:DIGEST, weights:VERSION "
                "or adapter:DIGEST."
            )
        elif said[1] is not None and said[1] not in agents:
            wrong.append(f"There is no agent {said[1]} here.")
        else:
            found.setdefault(text, SubjectName(said[1] or agent, said[2], said[3], text))
    if len(found) > MOST:
        wrong.append(f"At most {MOST} are compared: the first {MOST} are shown.")
    return list(found.values())[:MOST], wrong


def usual_subjects(reader: ExperienceReader, agent: str) -> list[SubjectName]:
    """The beginning and the end of a life, at most 400 cycles each; empty where it is too short for two ends."""
    window = window_of(reader, agent, WantedRange("life"))
    first = reader.charts.acted_at(agent, [0])
    if window.cycles < 4 or not first:
        return []
    ends = min(400, window.cycles // 2)
    texts = (f"range:0-{ends - 1}", f"range:{window.last + 1 - ends}-{window.last}")
    return [SubjectName(agent, "range", text.partition(":")[2], text) for text in texts]


def compared(
    reader: ExperienceReader, names: Iterable[SubjectName], *, several: bool
) -> tuple[list[ComparedSubject], ComparedWeights]:
    """(the subjects with their acts, how their totals are compared); `several`: the titles name the agent."""
    names = list(names)
    colours = distinct_colours(f"{one.agent}/{one.kind}:{one.value}" for one in names)
    read = [(name, *_acts(reader, name)) for name in names]
    agents = dict.fromkeys(one.agent for one in names)
    sets = [one for agent in reversed(agents) for one in reader.charts.weight_sets(agent)]  # the first agent's last
    weighing = one_weighing(sets, [one for _, _, points in read for one in points])
    found = []
    for name, title, points in read:
        behind = points[-1].cycle + 1 if points else 0
        mine = {one.cycle for one in points}
        span = points[-1].cycle - points[0].cycle + 1 if points else 0
        acts = reader.charts.decided(name.agent, min(span, SEARCHED), behind) if points else []
        states = [one for one in acts if one.cycle in mine]
        title = f"{name.agent}: {title}" if several else title
        colour = colours[f"{name.agent}/{name.kind}:{name.value}"]
        found.append(ComparedSubject(name, title, points, states, weighing.total, colour))
    return found, ComparedWeights(weighing.is_other, weighing.left_out)


def _acts(reader: ExperienceReader, name: SubjectName) -> tuple[str, list[ExperiencePoint]]:
    if name.kind == "range":
        wanted, _ = wanted_range({"range": name.value})
        return wanted.title, points_in(reader, name.agent, window_of(reader, name.agent, wanted), MOST_ACTS)
    if name.kind == "weights":
        return f"weights {name.value[:8]}", points_in(reader, name.agent, _of_weights(reader, name), MOST_ACTS)
    known = reader.charts.decided(name.agent, SEARCHED)
    cycles = [one.cycle for one in known if _is_of(one, name)][-MOST_ACTS:]
    title = f"policy {name.value[:8]}" if name.kind == "policy" else _generation(reader, name)
    if not cycles:
        return title, []
    wanted_cycles = set(cycles)
    points = points_in(reader, name.agent, CycleWindow(cycles[0], cycles[-1]), SEARCHED)
    return title, [one for one in points if one.cycle in wanted_cycles]


def _is_of(act: DecidedAct, name: SubjectName) -> bool:
    if name.kind == "policy":
        return (act.policy or "").startswith(name.value)
    return act.adapter is None if name.value == BASE else (act.adapter or "").startswith(name.value)


def _of_weights(reader: ExperienceReader, name: SubjectName) -> CycleWindow:
    """The cycles that were acted while the set was in force, the last time that it was."""
    sets = reader.charts.weight_sets(name.agent)
    last = window_of(reader, name.agent, WantedRange("life")).last
    for at in reversed(range(len(sets))):
        if sets[at].version.startswith(name.value):
            first = 0 if at == 0 else cycle_since(reader, name.agent, sets[at].time, last)
            behind = last + 1 if at + 1 == len(sets) else cycle_since(reader, name.agent, sets[at + 1].time, last)
            return CycleWindow(first, behind - 1)
    return CycleWindow(0, -1)


def _generation(reader: ExperienceReader, name: SubjectName) -> str:
    return next((one.title for one in _adapters(reader, name.agent) if one.text == f"adapter:{name.value}"), name.text)


def _adapters(reader: ExperienceReader, agent: str) -> list[Offer]:
    """The adapters that acted, by the moves of the lineage's pointer."""
    found: dict[str, str] = {}
    for event in reader.training.walk(agent, progress=False):
        if isinstance(event, AdapterPromoted):
            found[event.adapter[:12]] = f"generation {event.generation}"
        elif isinstance(event, AdapterRolledBack):
            found.setdefault(event.adapter[:12], f"adapter {event.adapter[:8]}")
    offers = [Offer(f"adapter:{digest}", title) for digest, title in found.items()]
    return [Offer(f"adapter:{BASE}", "generation 0, the model alone"), *offers] if offers else []


def offers(reader: ExperienceReader, agent: str, agents: Sequence[str]) -> dict[str, list[Offer]]:
    """What can be added, by the kind in words."""
    window = window_of(reader, agent, WantedRange("life"))
    fifth = max(1, window.cycles // 5)
    periods = [Offer("range:life", "whole life"), Offer("range:hour", "last hour"), Offer("range:last-400", "last 400")]
    if window.cycles >= 10:
        cuts = [(at * fifth, window.last if at == 4 else (at + 1) * fifth - 1) for at in range(5)]
        periods += [Offer(f"range:{first}-{last}", f"cycles {first:,} to {last:,}") for first, last in cuts]
    policies = dict.fromkeys(one.policy for one in reversed(reader.charts.decided(agent, SEARCHED)) if one.policy)
    sets = {one.version: one for one in reader.charts.weight_sets(agent)}
    found = {
        "Periods": periods,
        "Policies": [Offer(f"policy:{one[:12]}", f"policy {one[:8]}") for one in list(policies)[:MOST_OFFERED]],
        "Generations": _adapters(reader, agent)[-MOST_OFFERED:],
        "Weight sets": [
            Offer(f"weights:{one.version}", f"weights {one.version[:8]}, {one.time:%Y-%m-%d %H:%M} UTC")
            for one in reversed(sets.values())
        ][:MOST_OFFERED],
        "Agents": [Offer(f"{one}/range:last-400", f"{one}, last 400") for one in agents if one != agent][:200],
    }
    return {kind: some for kind, some in found.items() if some}
