"""The model behind the screen of `conch watch`: events in, plain values out. Nothing here waits or draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conch.text import safe_text
from conch.training import LineageState, after
from conch.views import (
    action_words,
    lineage_line,
    lineage_words,
    needed,
    scored_share,
    scored_words,
    total_ms,
    urgent_need,
)
from conch_schemas import (
    OF_TRAINING,
    ActionDecided,
    ActionTaken,
    Event,
    ExperienceRecorded,
    GoalCheck,
    NeedsChanged,
    ThoughtFormed,
)

KINDS: tuple[type[Event], ...] = (
    ThoughtFormed,
    ActionDecided,
    ActionTaken,
    ExperienceRecorded,
    NeedsChanged,
    *OF_TRAINING,
)
"""Event types that are read from the stream."""
ROWS = 200
"""Cycles of one agent that are kept, the newest."""
SMOOTH = 20
"""Cycles that the moving mean is taken over."""
FLEET_ROWS = 200
"""Agents in the table of all."""
MOST_AGENTS = 1000
"""Agents whose cycles are kept at once."""
WORDS = 200
"""Characters of what was done."""
SCORING = "scoring"
PHASES: tuple[tuple[type[Event], str], ...] = (
    (ThoughtFormed, "decides"),
    (ActionDecided, "acts"),
    (ActionTaken, "is scored"),
    (ExperienceRecorded, "rests"),
)
"""What an agent does once this event of its cycle is there, in the order of a cycle."""
FAILURES = ("error", "timeout")
"""Statuses of a score that its rule failed to give."""


@dataclass(frozen=True)
class CycleRowModel:
    """One cycle in the table; its texts are made safe for a terminal."""

    cycle: int
    need: str
    action: str
    outcome: str
    ms: float
    total: float | None = None
    """None: it is being scored."""
    note: str = SCORING
    """`n of m scored` where a part has not come or could not be scored; else nothing."""
    revision: int = 0
    seq: int = 0
    """Stream sequence of its newest revision; 0: not known."""
    parts: Mapping[str, float | None] = field(default_factory=dict)
    """Value of each paid component; None: it has none."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Components whose rule failed on it, and why."""
    goals: tuple[tuple[str, float], ...] = ()
    """(statement, best measure so far) of each goal that was checked."""


@dataclass
class AgentPicture:
    """What is known of one agent from its events."""

    name: str
    state: str = ""
    why: str = ""
    rows: dict[int, CycleRowModel] = field(default_factory=dict)
    """Rows by cycle, the oldest first."""
    needs: dict[str, float] = field(default_factory=dict)
    needs_cycle: int = -1
    lineage: LineageState = field(default_factory=LineageState)
    verdict: str = ""
    """Whether it gets better, as the page Story says it; empty: not judged yet."""
    at: tuple[int, int] = (-1, -1)
    """(its newest cycle, the place of that cycle's newest event in PHASES)."""

    @property
    def phase(self) -> str:
        """What it does in its newest cycle; empty where that is not known."""
        return "" if self.at[1] < 0 else PHASES[self.at[1]][1]

    @property
    def goals(self) -> tuple[tuple[str, float], ...]:
        """(statement, best measure) of each goal that the newest scored cycle checked."""
        return next((row.goals for row in reversed(self.rows.values()) if row.total is not None), ())

    def failing(self) -> list[tuple[str, int, str]]:
        """(component, in how many cycles its rule failed, the newest reason), the most frequent first."""
        counts: dict[str, tuple[int, str]] = {}
        for row in self.rows.values():
            for name, why in row.failed.items():
                counts[name] = (counts.get(name, (0, ""))[0] + 1, why)
        return sorted(((name, count, why) for name, (count, why) in counts.items()), key=lambda one: -one[1])

    @property
    def trained(self) -> str:
        """Its lineage in a line, made safe for a terminal; empty where nothing was trained."""
        line = lineage_line(self.lineage)
        return "" if line is None else safe_text(lineage_words(line), one_line=True)

    @property
    def totals(self) -> list[float]:
        """The totals of the cycles that have one, the oldest first."""
        return [row.total for row in self.rows.values() if row.total is not None]

    @property
    def last(self) -> CycleRowModel | None:
        """The newest cycle."""
        return next(reversed(self.rows.values()), None)

    def components(self) -> list[tuple[str, float | None, float | None, str]]:
        """(component, its last value, its mean, of how many cycles where that is not all) of what is paid, in the order
        of the newest weight set."""
        scored = [row for row in self.rows.values() if row.total is not None]
        names = scored[-1].parts if scored else {}
        found = []
        for name in names:
            values = [value for row in scored if (value := row.parts.get(name)) is not None]
            mean = sum(values) / len(values) if values else None
            found.append((name, values[-1] if values else None, mean, scored_share(name, len(values), len(scored))))
        return found

    def put(self, row: CycleRowModel) -> bool:
        """Whether that is news: a later revision replaces an earlier one, never the other way."""
        known = self.rows.get(row.cycle)
        if known is not None and known.revision >= row.revision:
            if known.revision == row.revision and row.seq and not known.seq:
                self.rows[row.cycle] = replace(known, seq=row.seq)
            return False
        oldest = next(iter(self.rows), row.cycle)
        if known is None and len(self.rows) >= ROWS:
            if row.cycle < oldest:
                return False
            del self.rows[oldest]
        newest = next(reversed(self.rows), row.cycle)
        self.rows[row.cycle] = row
        if known is None and row.cycle < newest:
            self.rows = dict(sorted(self.rows.items()))
        return True


def means(totals: Sequence[float], over: int = SMOOTH) -> list[float]:
    """At each index the mean of the last `over` totals up to there."""
    return [sum(part) / len(part) for end in range(1, len(totals) + 1) if (part := totals[max(0, end - over) : end])]


@dataclass
class WatchPicture:
    """The whole picture. `version` grows with every change: the screen compares it with the one drawn last."""

    names: Sequence[str]
    version: int = 0
    trouble: str = "looking for the bus"
    """Why nothing comes; empty while facts come."""
    said: str = ""
    """The answer to the last key."""
    skipped: int = 0
    """Events that came faster than they could be read."""
    lives: dict[str, AgentPicture] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    """Number of agents of the run in each state."""
    lags: Sequence[tuple[str, int]] = ()
    alarms: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.lives = {name: AgentPicture(name) for name in self.names[:MOST_AGENTS]}

    def change(self, **parts: Any) -> None:
        """Set these, if that is news."""
        if any(getattr(self, name) != value for name, value in parts.items()):
            for name, value in parts.items():
                setattr(self, name, value)
            self.version += 1

    def take(self, event: Event, seq: int = 0) -> None:
        """Take an event of one of these agents, at this stream sequence; a known one changes nothing."""
        life = self.lives.get(event.agent)
        if life is not None and isinstance(event, OF_TRAINING):
            self._trained(life, after(life.lineage, event))
        if life is None or event.cycle is None:
            return
        news = self._phase(life, event)
        if isinstance(event, ActionTaken):
            news |= life.put(acted(event))
        elif isinstance(event, ExperienceRecorded):
            news |= life.put(scored(event, seq))
            if event.needs_after:
                self._needs(life, event.cycle, event.needs_after)
        elif isinstance(event, NeedsChanged):
            news |= self._needs(life, event.cycle, event.after)
        self.version += news

    def remember_lineage(self, agent: str, state: LineageState) -> None:
        """Set the lineage of an agent as the store has it, unless its events told of a newer round."""
        life = self.lives.get(agent)
        if life is None or state.round is None:
            return
        known = life.lineage.round
        if known is None or known.started.time < state.round.started.time:
            self._trained(life, state)

    def judge(self, agent: str, verdict: str) -> None:
        """Set the verdict on an agent."""
        life = self.lives.get(agent)
        if life is not None and life.verdict != verdict:
            life.verdict = verdict
            self.version += 1

    def _phase(self, life: AgentPicture, event: Event) -> bool:
        """Whether the event brings the agent on in its newest cycle."""
        place = next((place for place, (kind, _) in enumerate(PHASES) if isinstance(event, kind)), -1)
        if place < 0 or event.cycle is None or (event.cycle, place) <= life.at:
            return False
        life.at = (event.cycle, place)
        return True

    def _trained(self, life: AgentPicture, state: LineageState) -> None:
        self.version += life.lineage is not state
        life.lineage = state

    def _needs(self, life: AgentPicture, cycle: int, levels: Mapping[str, float]) -> bool:
        if cycle < life.needs_cycle:
            return False
        life.needs_cycle, before = cycle, life.needs
        life.needs = {safe_text(name, one_line=True): level for name, level in levels.items()}
        return life.needs != before

    def tell(self, agent: str, state: str, why: str) -> None:
        """Set the state that an agent reports."""
        life = self.lives.get(agent)
        if life is not None and (life.state, life.why) != (state, why):
            life.state, life.why = safe_text(state, one_line=True), safe_text(why, one_line=True)
            self.version += 1


def _acted(event: ActionTaken | ExperienceRecorded) -> str:
    """What was done; of a team behind the role that did it."""
    words = action_words(event.action, WORDS)
    return words if event.team is None else f"{safe_text(event.team.role, one_line=True)}: {words}"


def acted(event: ActionTaken) -> CycleRowModel:
    """A cycle that has acted and waits for its scores."""
    return CycleRowModel(
        cycle=event.cycle or 0,
        need=needed(event.needs),
        action=_acted(event),
        outcome=event.outcome.status,
        ms=sum(event.ms.values()),
    )


def scored(event: ExperienceRecorded, seq: int = 0) -> CycleRowModel:
    """A cycle as it was recorded."""
    whole = event.complete and event.coverage >= 1
    return CycleRowModel(
        cycle=event.cycle or 0,
        need=urgent_need(event),
        action=_acted(event),
        outcome=event.outcome.status,
        ms=total_ms(event),
        total=event.total,
        note="" if whole else scored_words(event),
        revision=event.revision,
        seq=seq,
        parts={safe_text(one.component, one_line=True): one.value for one in event.scores if one.weight > 0},
        failed={
            safe_text(one.component, one_line=True): safe_text(one.explanation, one_line=True)[:WORDS]
            for one in event.scores
            if one.status in FAILURES
        },
        goals=tuple(map(_goal, event.goals)),
    )


def _goal(check: GoalCheck) -> tuple[str, float]:
    best = check.best if check.outcome == "error" else max(check.best, check.measure)
    return safe_text(check.statement, one_line=True)[:WORDS], best
