"""One transaction of the store: what its facts change in what is known, and the rows that this makes. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from conch.experience.assemble import ExperienceContext, ExperienceVerdict, assemble, fitting, revision_id
from conch.experience.join_case import JoinCase, takes
from conch.experience.write_batch import Row, WriteBatch
from conch.folds import evolve, json_of
from conch_schemas import (
    Action,
    ActionDecided,
    ActionTaken,
    AnswerRated,
    CycleReflected,
    Event,
    ExperienceRecorded,
    MarkWitnessed,
    NeedsChanged,
    PolicySet,
    ReviewDecided,
    Score,
    ThoughtFormed,
    ThoughtGrounded,
    encode,
    wire_form,
)

if TYPE_CHECKING:
    from conch.experience.queries.bodies import ShownAction

POLICY: Final = "policy:"
CORRECTION: Final = "correction:"
"""Begin the kinds of a context that an act has several of, or none."""
NO_ACT: Final = 0
"""Stands for the act in the row of what belongs to none."""

NAME: Final = 100
"""Characters of a tool's name and of a skill that a column keeps: a model may invent any name."""


@dataclass
class JoinTransaction:
    """What is done in one transaction, and what is to be written at its end."""

    now: datetime
    change: int
    """The number that experiences which it writes have as their last change."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Of the actions that it speaks of, by their ids."""
    begun: set[str] = field(default_factory=set)
    """Actions that nothing was said of before."""
    cases: dict[str, JoinCase] = field(default_factory=dict)
    """Those that it works on, by the action's id."""
    touched: dict[JoinCase, None] = field(default_factory=dict)
    """Those whose verdict may have changed."""
    placed: dict[JoinCase, None] = field(default_factory=dict)
    """Those whose act is new, or stands earlier than was known."""
    waiting: dict[JoinCase, None] = field(default_factory=dict)
    """Those that wait for another time than before."""
    first: set[JoinCase] = field(default_factory=set)
    """Those whose experience is recorded here for the first time."""
    puts: WriteBatch = field(default_factory=WriteBatch)

    # Each returns whether anything of the fact is new.

    def act(self, case: JoinCase, seq: int, act: ActionTaken) -> bool:
        """The act itself."""
        if case.act is not None and case.seq <= seq:
            return False
        if case.act is None:
            # A producer's clock that runs ahead must not make its acts wait for ever.
            case.started = min(stamp(act.time), stamp(self.now))
        case.act, case.seq = act, seq
        case.size += len(wire_form(act))
        self.placed[case] = self.touched[case] = None
        return True

    def scores(self, case: JoinCase, seq: int, scores: Iterable[Score]) -> bool:
        """Scores of it, of which it has one for each scorer, version and component."""
        new = [score for score in map(_kept, scores) if takes(case.scores, _key(score), seq, score)]
        for s in new:
            row = (case.number, s.scorer, s.version, s.component, seq, s.status, s.value, *s.range, s.explanation)
            self.puts.scores.append(row)
            case.size += len(s.explanation)
        if new:
            self.touched[case] = None
        return bool(new)

    def needs(self, case: JoinCase, seq: int, event: NeedsChanged) -> bool:
        """A change of needs that it made."""
        if not takes(case.needs, event.id, seq, event):
            return False
        self.puts.needs.append((case.number, event.id, seq, event.agent, body := wire_form(event)))
        case.size += len(body)
        return True

    def context(self, case: JoinCase, seq: int, event: Event) -> bool:
        """A thought, its claims, what the mind was given, a reflection."""
        kind, value, body = _context(event)
        if not takes(case.contexts, kind, seq, value):
            return False
        self.puts.contexts.append((case.number, kind, seq, body))
        case.size += len(body)
        return True

    def correction(self, case: JoinCase, seq: int, event: AnswerRated) -> bool:
        """An answer as a person corrected it; other ratings are not kept."""
        kind = f"{CORRECTION}{seq:019d}"
        if event.rating != "corrected" or not takes(case.contexts, kind, seq, event.text):
            return False
        self.puts.contexts.append((case.number, kind, seq, event.text))
        case.size += len(event.text)
        return True

    def outside(self, seq: int, event: Event) -> bool:
        """A fact that belongs to no action: a change of needs, the system prompt of a policy; no other one is kept.
        Known ones show when they are written."""
        if isinstance(event, PolicySet) and event.policy is not None:
            self.puts.contexts.append((NO_ACT, f"{POLICY}{event.policy}", seq, event.system_prompt))
            return True
        if not isinstance(event, NeedsChanged):
            return False
        self.puts.needs.append((NO_ACT, event.id, seq, event.agent, wire_form(event)))
        return True

    def mark(self, seq: int, event: MarkWitnessed) -> bool:
        """A mark. Known ones show when they are written."""
        mark = event.mark
        act = None if mark.action_id is None else self.numbers.get(mark.action_id)  # None too where the act was removed
        self.puts.marks.append((event.agent, mark.sequence, mark.id, mark.hash, seq, act, json_of(mark)))
        return True

    def review(self, seq: int, event: ReviewDecided) -> bool:
        """A person's decision on a row. Known ones show when they are written."""
        self.puts.reviews.append((event.id, seq, event.agent, event.row, event.action_id, wire_form(event)))
        return True

    def wait(self, case: JoinCase, due: float | None) -> None:
        """Let the case wait until then, seconds since the epoch; None: no more."""
        if due != case.due:
            case.due = due
            self.waiting[case] = None

    def record(self, case: JoinCase, act: ActionTaken, verdict: ExperienceVerdict, body: bytes) -> ExperienceRecorded:
        """The next revision of the experience, with the verdict, whose row is `body`."""
        if not case.revision:
            self.first.add(case)
        case.revision, case.verdict = case.revision + 1, body
        context = case.context()
        experience = fitting(assemble(act, case.seq, verdict, context, revision=case.revision, recorded=self.now))
        self._put_experience(case, act, context, verdict, self.now)
        self.puts.outbox.append((experience.id, encode(experience)))
        return experience

    def adopt(self, case: JoinCase, said: ExperienceRecorded) -> None:
        """Take a revision that stands on the stream as recorded, where it is later than what is known.

        A case without its act is left alone: no row can be made of it.
        """
        if case.act is None or said.revision <= case.revision or said.id != revision_id(case.act, said.revision):
            return
        verdict = ExperienceVerdict(
            scores=said.scores,
            total=said.total,
            breakdown=said.breakdown,
            coverage=said.coverage,
            complete=said.complete,
            weights=said.weights,
        )
        case.revision, case.verdict = said.revision, json_of(verdict)
        self._put_experience(case, case.act, case.context(), verdict, said.time)

    def _put_experience(
        self,
        case: JoinCase,
        act: ActionTaken,
        context: ExperienceContext,
        verdict: ExperienceVerdict,
        recorded: datetime,
    ) -> None:
        figures = (verdict.total, verdict.coverage, verdict.complete, self.change, case.verdict)
        known = (case.revision, recorded.isoformat(), least_satisfied(context.needs_before), *figures)
        self.puts.experiences.append((case.number, case.seq, act.agent, act.cycle, *_act_columns(act), *known))

    def place_acts(self) -> None:
        """The rows of the acts, as of the end: most have come and waited for nothing in between."""
        for case in self.placed:
            if (act := case.act) is not None:
                place = (case.number, case.action_id, case.seq, act.agent, act.cycle, case.started, case.due)
                self.puts.acts.append((*place, wire_form(act)))

    def moved(self) -> list[Row]:
        """The new places of acts whose experience may stand at the old one."""
        return [
            (case.seq, case.act.agent, case.act.cycle, *_act_columns(case.act), self.change, case.number)
            for case in self.placed
            if case.act is not None and case.revision and case not in self.first
        ]


def stamp(time: datetime) -> float:
    """Seconds since the epoch; a time without a zone is taken as UTC."""
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _key(score: Score) -> tuple[str, str, str]:
    return score.scorer, score.version, score.component


def _kept(score: Score) -> Score:
    """The score as its row will have it: SQLite keeps no sign of a zero."""
    if score.value == 0.0 and math.copysign(1.0, score.value) < 0.0:
        return evolve(score, value=0.0)
    return score


def _context(event: Event) -> tuple[str, Any, Any]:
    """(kind, what it says, the body of its row)."""
    match event:
        case ThoughtFormed():
            return "thought", event.thought.text, event.thought.text
        case ThoughtGrounded():
            return "claims", event.claims, json_of(event.claims)
        case ActionDecided():
            return "messages", event.messages, json_of(event.messages)
        case CycleReflected():
            return "reflection", (event.reflection, event.ms), json.dumps([event.reflection, event.ms])
    raise TypeError(f"{event.TYPE} is no context")


def _act_columns(act: ActionTaken) -> tuple[Any, ...]:
    return act_columns(act.action, act.outcome.status, act.time)


def act_columns(action: Action | ShownAction, status: str, time: datetime) -> tuple[Any, ...]:
    """What the row of an experience says of its act: outcome, kind, tool, skill, valid, acted."""
    tool = None if action.tool is None else action.tool[:NAME]
    return status, action.kind, tool, action.skill[:NAME], action.valid, stamp(time)


def least_satisfied(needs: Mapping[str, float] | None) -> str | None:
    """The most urgent of these needs; of equals the first by name."""
    return min(sorted(needs), key=needs.__getitem__) if needs else None
