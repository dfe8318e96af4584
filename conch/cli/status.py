"""`conch status`: the state of the run, its agents, processes, bus and store, on one screen."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from conch.cli.common import CommonOptions, emit, open_bus, open_store, say
from conch.cli.options import COMMON, AgentName
from conch.cli.people_facts import agent_named, names_in
from conch.text import safe_text
from conch.views import costs_words, lineage_words, scored_share, signed, waiting_words

if TYPE_CHECKING:
    from conch.config import Settings
    from conch.experience import ExperienceReader
    from conch.home import Home
    from conch.views import AgentStatus, AlarmRow, ProcessRow, Status, StatusGoal, StatusVerdict, StoreAnswer

SHOWN = 5
"""Goals, whys and plug-ins of each kind that fit one screen."""
INCOMPLETE = "incomplete (a part has not come in its time)"
WIDTH = 64
"""Characters of a free text."""
WHY_WIDTH = 240
"""Characters of why an agent waits or sleeps: its end stands in it."""
COST_WIDTH = 120
"""The same of the costs' sentence."""
LABEL = 13
"""Characters that the labels take."""
LEAST_COLUMNS, LEAST_ROWS = 40, 10
"""The least size of a terminal that is believed."""
_KEPT = "\ue000"
"""Stands for a space that no line may end at."""
_MORE = re.compile(r"and (\d+) more(: .*)?")


async def status(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Processes, the agent, its rewards, needs and goals, and how far the consumers are. Without a run: the store's.

    Of several agents a table; --agent shows one of them.
    """
    from conch.views import gather

    home, settings = common.existing(), common.settings()

    async def read(work: Callable[[ExperienceReader], StoreAnswer]) -> StoreAnswer:
        store = open_store(home, settings)
        try:
            return work(store)
        finally:
            store.close()

    found = await gather(home, settings, _who(home, settings, agent), lambda: open_bus(home, settings), read)
    if common.json:
        emit(found)
    else:
        lines = list(screen(found))
        say("\n".join(fitted(lines, *get_terminal_size()) if sys.stdout.isatty() else lines))


def _who(home: Home, settings: Settings, named: str | None) -> list[str]:
    """The agents that are meant: of the run, else of the settings where it has acted, else of the store."""
    from conch.experience import store_location

    if named is not None or home.running() is not None:
        return names_in(home, settings) if named is None else [agent_named(home, settings, named)]
    if not store_location(settings.store.url, home.path).exists():
        return [settings.agent]
    store = open_store(home, settings)
    try:
        there = store.agents()
    finally:
        store.close()
    return [settings.agent] if settings.agent in there or not there else list(there)


def screen(found: Status) -> Iterator[str]:
    """The status for a person, one line per subject. Free text is cut; print it with `say`, `fitted` on a terminal."""
    run = f"run in progress since {found.started} (process {found.pid})"
    by = f", last run by conch {found.written_by}" if found.written_by and not found.running else ""
    yield f"home         {found.home}: {run if found.running else 'no run in progress'}{by}"
    agent = found.agent
    yield from _agent(agent, found.last_cycle) if agent is not None else _agents(found)
    yield from _processes(found)
    yield from _rewards(found)
    if needs := (agent is not None and agent.needs) or found.needs:
        yield "needs        " + "  ".join(f"{_short(need)} {level:.2f}" for need, level in needs.items())
    if agent is not None and agent.budget:
        yield "budget       " + "  ".join(f"{one.budget} {one.used:,.6g} of {one.limit:,.6g}" for one in agent.budget)
    yield from _goals(agent.goals if agent is not None else ())
    if found.lineage is not None:
        yield f"lineage      {safe_text(lineage_words(found.lineage), one_line=True)}"
    yield from _stream(found)
    yield from _kept(found)
    if found.ui:
        yield f"page         {found.ui} (conch ui --link prints a way in)"
    if found.metrics:
        yield f"metrics      {found.metrics}"


def _agent(agent: AgentStatus, last: int | None) -> Iterator[str]:
    tokens = f", {agent.tokens_in_hour} tokens in the last hour" if agent.tokens_in_hour else ""
    yield f"agent        {agent.agent} {agent.state}{_why(agent)}, {_last(last)}{tokens}"
    if (team := agent.team) is not None:
        turn = safe_text(team.turn, one_line=True)
        said = f"{team.topology}, epoch {team.epoch}, step {team.step}"
        yield f"team         {said}: {turn} has the turn, {team.tokens} tokens"


def _agents(found: Status) -> Iterator[str]:
    states, rows = found.states, found.agents
    total = sum(states.values())
    yield f"agents       {total}: " + ", ".join(f"{count} {state}" for state, count in states.items())
    for row in rows:
        mean = "" if row.mean is None else f", mean total {signed(row.mean)}"
        yield f"             {row.agent} {row.state}{_why(row)}, {_last(row.last_cycle)}{mean}"
    if total > len(rows):
        yield f"             and {total - len(rows)} more: --agent NAME shows one"


def _why(agent: AgentStatus) -> str:
    if agent.asks is not None:
        return f", waits for its mind: {waiting_words(agent.asks.phase, agent.asks.seconds, agent.asks.tokens)}"
    return f": {_short(agent.why, WHY_WIDTH)}" if agent.why else ""


def _last(cycle: int | None) -> str:
    return "no cycle yet" if cycle is None else f"last cycle {cycle}"


def _processes(found: Status) -> Iterator[str]:
    processes = found.processes
    if processes:
        yield "processes    " + "  ".join(_process(one) for one in processes)
    yield from (f"             {one.name}: {_short(one.why)}" for one in processes if one.why)
    yield from (f"set aside    {_short(one.origin)}: {_short(one.why)}" for one in found.set_aside[:SHOWN])


def _process(one: ProcessRow) -> str:
    again = f" ({one.restarts} restarts)" if one.restarts else ""
    return f"{_short(one.name)} {one.state}{again}"


def _rewards(found: Status) -> Iterator[str]:
    figures = found.figures
    if figures is None or figures.mean_total is None or figures.coverage is None:
        yield "rewards      no experience yet"
        return
    yield from _pace(found.verdict)
    late = "".join(f", {n} {what}" for n, what in ((figures.incomplete, INCOMPLETE), (found.unscored, "unscored")) if n)
    yield (
        f"rewards      mean total {signed(figures.mean_total)} of the last {figures.count} cycles, "
        f"coverage {figures.coverage:.2f}{late}"
    )
    means = [
        f"{_short(one.component)} {signed(one.mean, 2)}{scored_share(one.component, one.scored, one.count)}"
        for one in found.components
        if one.weight > 0 and one.mean is not None
    ]
    yield "  mean       " + "  ".join(means)
    yield "  outcomes   " + "  ".join(f"{outcome} {count}" for outcome, count in figures.outcomes.items())
    if found.verdict is not None:
        yield f"  verdict    {found.verdict.headline}"
    if found.cost is not None and (cost := costs_words(found.cost)):
        yield f"  cost       {_short(cost, COST_WIDTH)}"
    yield from _alarms(found.alarms or ())


def _pace(verdict: StatusVerdict | None) -> Iterator[str]:
    """Acts for a goal at last, and at first; nothing where there was no goal at one of the ends."""
    pace = None if verdict is None else verdict.pace
    if pace is None or pace.first is None or pace.last is None:
        return
    yield f"goals        {pace.last:.1f} acts for a goal at last, {pace.first:.1f} at first"
    if pace.times is not None:
        yield f"  typical    {pace.times:.2f} times as many as at first (95 %: {pace.low:.2f} to {pace.high:.2f})"
    blind = "" if pace.blind_rate is None else f", {pace.blind_rate:.1f} by blind choice"
    yield f"  reached    {pace.last_rate:.1f} in 100 acts at last, {pace.first_rate:.1f} at first{blind}"


def _alarms(alarms: Sequence[AlarmRow]) -> Iterator[str]:
    fresh = [one for one in alarms if one.acknowledged is None]
    for one in fresh[:SHOWN]:
        mark = "! " if one.severity == "serious" else ""
        since = "" if one.since is None else f" since cycle {one.since}"
        yield f"  alarm      {mark}{one.agent}: {one.name}{since}: {safe_text(one.what, one_line=True)}"
    if len(fresh) > SHOWN:
        yield f"             and {len(fresh) - SHOWN} more: conch status --json"
    if seen := len(alarms) - len(fresh):
        yield f"             {seen} more acknowledged"


def _goals(goals: Sequence[StatusGoal]) -> Iterator[str]:
    for place, goal in enumerate(goals[:SHOWN]):
        best = "  - " if goal.best is None else f"{goal.best:.2f}"
        yield f"{'goals' if place == 0 else '':<12} {best}  {_short(goal.id)}: {_short(goal.statement)}"
    if len(goals) > SHOWN:
        yield f"             and {len(goals) - SHOWN} more: conch goal list"


def _stream(found: Status) -> Iterator[str]:
    if found.bus_error:
        yield f"bus          {_short(found.bus_error)}"
    if found.stream:
        stream = found.stream
        yield f"bus          {stream.messages} events, {stream.bytes / 2**20:.1f} MiB"
    if found.consumers:
        behind = sorted(found.consumers, key=lambda one: -one.lag)
        yield "  lag        " + "  ".join(f"{_short(one.name)} {one.lag}" for one in behind)
    for name in map(_short, found.left_over[:SHOWN]):
        advice = f"conch consumer forget {name} if it is gone for good (it is not configured any more)"
        yield f"  left over  {name}: {advice}"
    yield from (f"  trimming   {safe_text(sentence, one_line=True)}" for sentence in found.held[:SHOWN])
    if found.dead_letters:
        yield f"  letters    {found.dead_letters} dead letters: conch dlq list"


def _kept(found: Status) -> Iterator[str]:
    if found.store:
        removed, late = found.store.removed, found.store.came_late
        gone = f", {removed} acts were removed by store.keep (sums over them stay)" if removed else ""
        came = f", {late} events came for removed acts" if late else ""
        yield f"store        {found.store.bytes / 2**20:.1f} MiB{gone}{came}"
    if found.disk and found.disk.warning:
        yield f"disk         {safe_text(found.disk.warning, one_line=True)}"


def fitted(lines: Sequence[str], columns: int, rows: int) -> list[str]:
    """These lines, wrapped at `columns`, in at most `rows`: long lists are shown in part, with the number of the rest;
    then long lines are cut. The last row is left to the prompt."""
    columns, rows = max(columns, LEAST_COLUMNS), max(rows, LEAST_ROWS) - 1
    groups = [_StatusSection([_wrapped(line, columns) for line in group], columns) for group in _groups(lines)]
    while sum(map(len, groups)) > rows and (longest := max(groups, key=_StatusSection.spare)).spare():
        longest.shorten()
    return [_cut(line, columns) for group in groups for line in group.told()]


def _wrapped(line: str, columns: int) -> list[str]:
    """The line wrapped between words where possible, with continuation lines under its text; of a list, whose things
    have two spaces between them, between its things: a name keeps its figure."""
    from rich.console import Console
    from rich.text import Text

    room = columns - LABEL
    things = safe_text(line[LABEL:]).split("  ")
    whole = (one.replace(" ", _KEPT) if len(things) > 1 and len(one) <= room else one for one in things)
    parts = [part.plain.replace(_KEPT, " ") for part in Text("  ".join(whole)).wrap(Console(), room, overflow="fold")]
    return [f"{'' if number else line[:LABEL]:<{LABEL}}{part}".rstrip() for number, part in enumerate(parts)]


def _cut(line: str, columns: int) -> str:
    from rich.text import Text

    text = Text(line)
    text.truncate(columns, overflow="ellipsis")
    return text.plain


def _groups(lines: Sequence[str]) -> Iterator[list[str]]:
    """Lines grouped by label; a line without one belongs to the group above it."""
    label = ""

    def labelled(line: str) -> str:
        nonlocal label
        label = line[:LABEL].strip() or label
        return label

    return (list(group) for _, group in groupby(lines, labelled))


class _StatusSection:
    """A section of the screen: entries of one kind, each in one or several lines."""

    def __init__(self, things: list[list[str]], columns: int) -> None:
        self._things, self._columns, self._left_out, self._where = things, columns, 0, ""
        if len(things) > 1 and (more := _MORE.fullmatch(things[-1][0].strip())) is not None:
            self._left_out, self._where = int(more[1]), more[2] or ""
            things.pop()

    def __len__(self) -> int:
        return len(self.told())

    def spare(self) -> int:
        """Lines that it could do without."""
        return len(self) - 1

    def shorten(self) -> None:
        """Remove the last entry; or where that is the only one, its last line."""
        if len(self._things) > 1:
            self._things.pop()
            self._left_out += 1
        elif len(self._things[0]) > 1:
            self._things[0] = [*self._things[0][:-2], _cut(f"{self._things[0][-2]} …", self._columns)]
        else:
            more = f"  (and {self._left_out} more{self._where})"
            self._things[0] = [_cut(self._things[0][0].removesuffix(" …"), self._columns - len(more)) + more]
            self._left_out = 0

    def told(self) -> list[str]:
        """Its lines."""
        lines = [line for thing in self._things for line in thing]
        return [*lines, f"{'':<{LABEL}}and {self._left_out} more{self._where}"] if self._left_out else lines


def _short(text: str, width: int = WIDTH) -> str:
    flat = safe_text(str(text), one_line=True)
    return flat if len(flat) <= width else flat[: width - 1] + "…"
