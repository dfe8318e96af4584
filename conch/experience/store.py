"""What an experience store promises, whatever keeps the rows: narrow protocols, one for each kind of use.

A back end implements `ExperienceWriter`, and a reader with the parts `CycleReader`, `ChartReader`, `ChainReader`,
`RetentionReader`, `BackfillReader`, `SampleReader`, `ExampleReader`, `ForkReader`, `ReviewReader` and `TrainingReader`.
A caller names the narrowest protocol that it needs. The contract suite (tests/store/contract) runs against
each back end.

What holds of every method:

- It raises StoreError where the store cannot be read or written, or a row is not what was written.
- An answer is of one moment, also while a writer runs. An iterator reads in pages, each of one moment, and blocks no
  writer between them.
- An agent or an action that the store does not know has no rows: the answer is empty, 0 or None, never an error.
- A cycle is a number from 0 on. A bound beyond 64 bits counts as the largest number.
- A `seq` is a place over all streams: the stream's sequence, raised by `set_epoch` so that it goes on rising.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from conch.experience.models import (
    AdapterAct,
    ComponentStats,
    CostSummary,
    CycleCounts,
    CycleFilter,
    CycleOrder,
    DecidedAct,
    ExperiencePoint,
    ExperienceSummary,
    GoalMove,
    LifeBlock,
    PendingActs,
    PruneResult,
    RecordedAct,
    RecordedScore,
    Removal,
    RetentionLimits,
    SampleChanges,
    ScoredSince,
    ScorerVersion,
    SkillBucket,
    SkillTotal,
    StreamLoss,
    Transition,
    UnscoredActs,
)
from conch.experience.queries.bodies import ShownCheck
from conch.experience.queries.examples import Example, ExampleMark
from conch_schemas import (
    OF_TRAINING,
    ActionDecided,
    ActionTaken,
    AnswerRated,
    CycleReflected,
    Event,
    ExperienceRecorded,
    ForkScored,
    Mark,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    PersonForgotten,
    PolicySet,
    PromptMessage,
    ReviewDecided,
    RewardAssigned,
    ThoughtFormed,
    ThoughtGrounded,
    WeightsSet,
)

if TYPE_CHECKING:
    from conch.witness import EventRow, StoredAct

FACTS: tuple[type[Event], ...] = (
    ThoughtFormed,
    ThoughtGrounded,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    RewardAssigned,
    NeedsChanged,
    NoveltyMeasured,
    WeightsSet,
    MarkWitnessed,
    PolicySet,
    AnswerRated,
    ForkScored,
    ReviewDecided,
    PersonForgotten,
    *OF_TRAINING,
)
"""The events that the store keeps; `apply` passes over any other."""


class CycleReader(Protocol):
    """Whole experiences, acts, and what they wait for.

    An experience is given as of its latest revision, with thought, claims, prompt, needs and reflection as far as
    these are known now. Where a cycle has several acts (steps), the cycle's act is the one of the highest `seq`.
    """

    def last(self, agent: str | None, limit: int, before: int | None = None) -> list[ExperienceRecorded]:
        """The last `limit` experiences, oldest first.

        Of one agent in the order of cycles, `before` a cycle's number (that one left out); of all agents (None) in the
        order of `seq`, `before` a `seq`.
        """
        ...

    def walk(self, agent: str | None, since: ScoredSince, last: int | None = None) -> Iterator[ExperienceRecorded]:
        """Every experience from `since` on, oldest first, read in pages: memory is bounded and the writer not blocked.

        Of one agent in the order of cycles; of all agents (None) in the order of `seq`. `last`: only those of the last
        `last` experiences, counted when the walk begins. Each page is of one moment.
        """
        ...

    def find(self, agent: str, filters: CycleFilter, limit: int, before: int | None = None) -> list[ExperienceRecorded]:
        """The last `limit` experiences that the filters let through, the newest first: a page of a list.

        The next page is the one `before` the last cycle of this one. Every filter has an index, but `text`, `rule` and,
        among the acts that moved any goal, `goal`.
        """
        ...

    def ranked(
        self, agent: str, filters: CycleFilter, order: CycleOrder, limit: int, skip: int = 0
    ) -> list[ExperienceRecorded]:
        """Of the experiences that the filters let through, in this order, the `limit` behind the first `skip`.

        By `ms`, or with the filters `text` or `goal`: of the newest MOST_RANKED that they let through alone; else
        of all, which takes 15 ms of processor time for 30,000.
        """
        ...

    def get(self, agent: str, number: int) -> ExperienceRecorded | None:
        """The experience of a cycle (of its last step); None while it is not recorded."""
        ...

    def act(self, agent: str, cycle: int) -> ActionTaken | None:
        """The act of a cycle (of its last step), recorded as an experience or not; None while it is not stored."""
        ...

    def transitions(self, agent: str | None, since: ScoredSince, last: int | None = None) -> Iterator[Transition]:
        """The experiences of `walk`, each with the state that it led to: that of the agent's next act, by cycle and
        place, recorded as an experience or not. The last experience has none until the next act is stored."""
        ...

    def prompt(self, action_id: str) -> tuple[PromptMessage, ...]:
        """The messages that the model was given for an action; empty where they are not known."""
        ...

    def cycle_of(self, action_id: str) -> int | None:
        """The cycle of an action; None while its act is not stored."""
        ...

    def last_cycle(self, agent: str) -> int | None:
        """The highest cycle whose act is stored, recorded or not; None where the agent has not acted."""
        ...

    def neighbours(self, agent: str, cycle: int) -> tuple[int | None, int | None]:
        """The recorded cycles before and behind this number, which need not be recorded itself; None: there is none."""
        ...

    def pending(self, agent: str | None = None) -> int:
        """How many acts of an agent (None: of all) wait for their scores: stored, not yet recorded as experiences."""
        ...

    def awaited(self, until: datetime) -> PendingActs:
        """How many acts up to that time wait for scores, and for which components, of the 100 that are due first."""
        ...


class ChartReader(Protocol):
    """Figures and columns of many cycles, without decoding whole facts: for charts, counts and tables.

    The last experiences of an agent are those of its highest cycles, then of the highest `seq`.
    """

    def points(self, agent: str, limit: int, before: int | None = None) -> list[ExperiencePoint]:
        """The last `limit` experiences of an agent as `CycleReader.last` has them, oldest first, without their words.

        `before`: a cycle's number, that one left out.
        """
        ...

    def totals(self, agent: str, since: int, before: int | None = None) -> Iterator[Sequence[tuple[int, float]]]:
        """(cycle, total) of every experience of an agent from cycle `since` on, oldest first, in pages of at most
        50,000 cycles: a million in about a second, each page of one moment. `before`: a cycle's number, up to which it
        goes, that one left out."""
        ...

    def totals_within(self, agent: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, float]]:
        """(cycle, total) of every experience of an agent within these spans, all of one moment. A span is its first
        cycle and the one behind its last; they are in the order of cycles, as the answer is, and none overlaps."""
        ...

    def skills(self, agent: str, limit: int, before: int | None = None) -> list[SkillTotal]:
        """The last `limit` experiences as `points` has them, oldest first, with skill and total alone; 1 µs each."""
        ...

    def is_changed(self, agent: str, before: int, since: int) -> bool:
        """Whether an experience of a cycle below `before` was recorded or revised after the change `since`, a number
        of `SampleReader.changes`."""
        ...

    def removed_totals(self, agent: str) -> list[LifeBlock]:
        """Sums over the removed experiences of an agent, by blocks of 100 cycles, oldest first."""
        ...

    def acted_at(self, agent: str, cycles: Sequence[int]) -> list[datetime | None]:
        """For each of these cycles when the first recorded act from that cycle on was done, UTC; None: none was."""
        ...

    def goal_moves(self, agent: str, limit: int) -> tuple[int, list[GoalMove]]:
        """(how many recorded acts moved a goal, the last `limit` of them, oldest first)."""
        ...

    def goal_checks(
        self, agent: str, limit: int, before: int | None = None
    ) -> list[tuple[int, tuple[ShownCheck, ...]]]:
        """(cycle, what each active goal's check said after it) of the last `limit` acts, oldest first.

        `before`: a cycle's number, that one left out; so in the two below.
        """
        ...

    def policies(self, agent: str, limit: int, before: int | None = None) -> list[tuple[int, str | None, float]]:
        """(cycle, digest of the policy that acted, total) of the last `limit` experiences, oldest first."""
        ...

    def adapters(self, agent: str, limit: int) -> list[AdapterAct]:
        """The last `limit` experiences with the adapter that decided, oldest first."""
        ...

    def decided(self, agent: str, limit: int, before: int | None = None) -> list[DecidedAct]:
        """The last `limit` experiences with policy, adapter and state, oldest first; 10 µs each. `before`: as in
        `points`."""
        ...

    def tallies(self, agent: str, last: int) -> list[CycleCounts]:
        """The last experiences, counted by outcome, kind, tool, skill and need together, the most frequent first."""
        ...

    def behaviours(self, agent: str, width: int) -> list[SkillBucket]:
        """What each skill earned in each bucket of `width` neighbouring cycles over the whole life, oldest first.

        Reads the index of every kept cycle: a million in about a second. Removed cycles have no skill any more.
        """
        ...

    def needs_history(self, agent: str, limit: int, before: int | None = None) -> list[NeedsChanged]:
        """The last `limit` changes of needs, oldest first; with `before` those of acts alone."""
        ...

    def weight_sets(self, agent: str) -> list[WeightsSet]:
        """Every weight set of an agent, in the order of the stream: the last one is in force."""
        ...

    def component_stats(self, agent: str | None = None, last: int = 1000) -> list[ComponentStats]:
        """Each component of each scorer over the last experiences, the heaviest first, then by name.

        Like `figures`: where fewer than `last` experiences are kept, sums over removed ones are added, newest blocks
        of 100 cycles first, as many as fit into `last`.
        """
        ...

    def figures(self, agent: str | None = None, last: int = 100) -> ExperienceSummary:
        """The last experiences of an agent, or of all agents (None), in a few numbers."""
        ...

    def costs(self, agent: str | None = None, last: int = 100) -> CostSummary:
        """What the last cycles of an agent, or of all agents (None), cost; of removed ones that is not known."""
        ...


class ChainReader(Protocol):
    """The chain of marks of an agent, and the acts and scores that it has to cover."""

    def acts(self, agent: str) -> Iterator[tuple[str, int]]:
        """(action id, cycle) of every act stored, by cycle, then by action id."""
        ...

    def score_sets(self, agent: str) -> list[tuple[str, str]]:
        """Each (action id, scorer) once of which a score is stored, by cycle, then by scorer."""
        ...

    def marks(self, agent: str, start: int = 0) -> Iterator[Mark]:
        """Every mark from sequence `start`, by its sequence, then in the order of the stream.

        A second, different mark that claims a taken sequence or a taken id is kept and comes too: it is for the
        verifier to see. Raises CheckError at a row that is no mark.
        """
        ...

    def marks_of(self, agent: str, action_id: str) -> list[Mark]:
        """The marks of one action and of its scores, by sequence. Looks through the agent's whole chain."""
        ...

    def last_mark(self, agent: str) -> int | None:
        """The highest sequence of a mark stored; None where the agent has none."""
        ...

    def revisions(self, agent: str) -> Iterator[tuple[str, int]]:
        """(action id, last revision) of every experience, by cycle."""
        ...

    def unrecorded(self, agent: str) -> set[str]:
        """Actions without an experience: they wait for scores."""
        ...

    def unpublished(self, agent: str) -> set[tuple[str, int]]:
        """(action id, revision) of the experiences that wait for their publication."""
        ...

    def unfounded(self, actions: Sequence[str]) -> set[str]:
        """Those of the actions whose stored total, with all that adds up to it, is not what their stored scores come to
        by the stored weight set that governs them; read at one moment."""
        ...

    def beside(self, agent: str) -> Iterator[EventRow]:
        """The agent's stored events that belong to no act, or stand beside one: weight sets, changes of needs that no
        act made, reviews, candidates of forks, events of training."""
        ...

    def prompts(self) -> dict[str, tuple[str, int]]:
        """The system prompts of all agents' policies, with their places, by the policy's digest."""
        ...

    def policy_marks_of_others(self, agent: str) -> Iterator[Mark]:
        """The marks of other agents' policies, in no order."""
        ...

    def strays(self) -> list[tuple[str, int]]:
        """(what it is, number of its act) of the rows, of all agents, whose act is not stored or not named by its
        number."""
        ...

    def unfit_sums(self, agent: str) -> list[str]:
        """In what the sums over removed cycles do not fit the record of the removals, the rows that are stored or each
        other; read at one moment."""
        ...

    def unfit_outbox(self, agent: str) -> list[str]:
        """Which events that wait for their publication are none that the store recorded, and in what; read at one
        moment. What cannot be read is of every agent."""
        ...

    def mark_places(self, agent: str) -> dict[int, int]:
        """Sequence -> place of the agent's marks."""
        ...

    def last_place(self, agent: str) -> int:
        """The highest place of the agent's acts and marks; 0: it has none."""
        ...

    def ends(self) -> list[int]:
        """The place at which each stream that was replaced ended, oldest first."""
        ...

    def base(self) -> int:
        """What is added to a sequence of the present stream to make a place; above 0 once the stream was replaced."""
        ...

    def reach(self) -> int:
        """The highest place that the store says it has read, also before its position was set back."""
        ...

    def stored(self, actions: Iterable[str]) -> dict[str, StoredAct]:
        """What there is of these actions, as of one moment; an action without any row is left out."""
        ...

    def removed_among(self, agent: str, actions: set[str]) -> set[str]:
        """Those of these actions that retention removed: ids of removed cycles. Takes some µs for each such cycle."""
        ...

    def forgotten(self, agent: str) -> list[PersonForgotten]:
        """The records of what was removed of the agent at a person's request."""
        ...

    def losses(self, agent: str) -> list[StreamLoss]:
        """What the agent had on each stream that was replaced by another, the oldest stream first; streams on which it
        had neither acted nor marks are left out."""
        ...


class RetentionReader(Protocol):
    """What retention removed from the store, and how large the store is."""

    def removals(self, agent: str) -> list[Removal]:
        """Which cycles and marks of an agent retention has removed, oldest first: a row for each day and reason."""
        ...

    def came_late(self) -> int:
        """How many facts came for acts that had been removed. They change nothing."""
        ...

    def bytes_used(self) -> int:
        """Bytes of the store that hold something; its file may be larger, what is free in it is used again."""
        ...


class BackfillReader(Protocol):
    """What scoring the past anew needs: which acts a scorer has not scored, and what scorers have scored."""

    def unscored(self, agent: str, scorer: str | None, version: str | None, since: ScoredSince) -> UnscoredActs:
        """The acts that this scorer has not scored in this version, as of now; a status counts as a score.

        A scorer None has scored nothing: all acts are meant.
        """
        ...

    def past(self, what: UnscoredActs, most: int, *, whole: bool = False) -> Iterator[list[RecordedAct]]:
        """Those acts in the order of the stream, in pages of at most `most`, as of when each is read: what was
        scored since is left out.

        `whole`: all of the agent's acts from its first one, those that are meant among them: for a rule that goes by
        what came before.
        """
        ...

    def versions(self, action_id: str, scorer: str, component: str) -> list[str]:
        """The versions in which a scorer has scored a component of an action, in no order."""
        ...

    def scorers(self, agent: str | None = None, since: int = 0) -> list[ScorerVersion]:
        """Every scorer's versions and components with the number of scores, by component, scorer and version.

        Of all agents where None is named, else of the acts of one agent from the cycle `since` on. Scores of removed
        acts count too, unless `since` is above 0. Reads every score that it counts.
        """
        ...

    def said(
        self, agent: str | None, component: str, scorer: str, version: str | None, since: ScoredSince
    ) -> list[RecordedScore]:
        """The scores of a component by a scorer: by agent, then by the place of the act, then by that of the score.

        Of all agents where `agent` is None, in all versions where `version` is None.
        """
        ...

    def statuses(self, agent: str, scorer: str, since: ScoredSince) -> Counter[tuple[str, str]]:
        """(version, status) -> number of acts of which the scorer has scored a component with this status."""
        ...

    def explanation(self, said: RecordedScore, component: str, scorer: str) -> str:
        """The explanation that came with a score of `said`; empty where it had none."""
        ...


class SampleReader(Protocol):
    """What sampling needs: the columns that it draws by, what changed in them, and the experiences that were drawn.

    Each transaction that records, revises, moves or removes experiences has a number, which rises: the store's changes.
    """

    def changes(self) -> int:
        """The number of the last change; 0 before the first. Costs some µs: it is asked before each draw."""
        ...

    def newest(self, agent: str | None, size: int) -> SampleChanges:
        """The last `size` experiences by `seq`, of one agent or of all (None)."""
        ...

    def since(self, change: int) -> SampleChanges:
        """The experiences, of all agents, that were recorded, revised or moved after that change and are still
        there."""
        ...

    def experiences(self, acts: Sequence[int]) -> list[ExperienceRecorded | None]:
        """The experiences of these acts, by their numbers, in the order asked; None for one that was removed."""
        ...


class ExampleReader(Protocol):
    """Experiences of all agents as training reads them, in the order of `seq`."""

    def walk(self, *, prompts: bool = True, after: int = 0, upto: int | None = None) -> Iterator[Example]:
        """Every experience of a `seq` above `after`, up to `upto` (None: to the last), read in pages: memory is bounded
        and the writer not blocked. Without `prompts` their messages are empty, which takes half of the time."""
        ...

    def pages(self, *, after: int = 0, upto: int | None = None) -> Iterator[list[Example]]:
        """What `walk` gives without prompts, a page at a time."""
        ...

    def halves(self) -> tuple[int, int, int]:
        """(how many experiences there are, the `seq` of the last one of the first half, that of the last of all)."""
        ...

    def marks(self) -> Iterator[ExampleMark]:
        """Every experience without its words, in some 10 µs each; read in pages."""
        ...

    def numbered(self, numbers: Sequence[int]) -> list[Example]:
        """The experiences of these acts, in this order; one that is not stored is left out."""
        ...

    def systems(self) -> dict[str, str]:
        """Digest of each policy that was set -> its system prompt."""
        ...

    def corrections(self) -> dict[str, str]:
        """Action id of each answer that people corrected -> the last corrected answer."""
        ...


class ForkReader(Protocol):
    """Candidates of forks, whole. They are in no total and no figure; retention removes them with their cycle."""

    def of_cycle(self, agent: str, cycle: int) -> list[ForkScored]:
        """The candidates of a cycle's forks, in the order of the stream."""
        ...

    def walk(self, agent: str | None = None) -> Iterator[ForkScored]:
        """Every candidate of an agent, or of all agents (None), in the order of the stream, read in pages."""
        ...

    def newest_first(self) -> Iterator[ForkScored]:
        """Every candidate of all agents, the newest of the stream first, read in pages."""
        ...


class TrainingReader(Protocol):
    """Events of training (`conch_schemas.OF_TRAINING`), in the order of the stream. Retention leaves them."""

    def walk(self, agent: str | None = None, *, progress: bool = True) -> Iterator[Event]:
        """Every event of an agent's adapters, or of all agents' (None), read in pages. Without `progress` those that
        say how far a round has come are left out: they are most of them."""
        ...

    def of_round(self, round: str) -> list[Event]:
        """Every event of a round."""
        ...


class ReviewReader(Protocol):
    """Persons' decisions on rows of training data, in the order of the stream. Retention leaves them."""

    def walk(self) -> Iterator[ReviewDecided]:
        """Every decision of every reviewer, read in pages."""
        ...

    def of_row(self, row: str) -> list[ReviewDecided]:
        """Every decision on the row of this hash."""
        ...


class ExperienceReader(Protocol):
    """A store opened for reading, in parts that share one connection.

    Any process may hold one while a writer runs, and when none does. Any thread may use it, one at a time.
    """

    @property
    def cycles(self) -> CycleReader:
        """Whole experiences and acts."""
        ...

    @property
    def charts(self) -> ChartReader:
        """Figures and columns of many cycles."""
        ...

    @property
    def chain(self) -> ChainReader:
        """Marks, and what they have to cover."""
        ...

    @property
    def retention(self) -> RetentionReader:
        """What was removed, and the size."""
        ...

    @property
    def backfill(self) -> BackfillReader:
        """Acts to score, and scores by scorer."""
        ...

    @property
    def sampling(self) -> SampleReader:
        """Columns to draw samples by."""
        ...

    @property
    def examples(self) -> ExampleReader:
        """Experiences as training reads them."""
        ...

    @property
    def forks(self) -> ForkReader:
        """Candidates of forks."""
        ...

    @property
    def training(self) -> TrainingReader:
        """Events of training."""
        ...

    @property
    def reviews(self) -> ReviewReader:
        """Persons' decisions on rows."""
        ...

    def position(self) -> int:
        """The last stream sequence applied; 0 before the first."""
        ...

    def epoch(self) -> str | None:
        """Which stream the position belongs to; None before the first was named."""
        ...

    def agents(self) -> tuple[str, ...]:
        """Names of the agents that have acted, sorted."""
        ...

    def close(self) -> None:
        """Let go of the store. Twice is once."""
        ...


class ExperienceWriter(Protocol):
    """The writing half. One writer of a store, or several that share its agents (`own`); one thread at a time, any
    thread.

    Every write is one transaction: on an error nothing of it is there and the store can be used on.
    """

    duplicates: int
    """Facts applied since the store was opened that were there already. They change nothing."""

    def position(self) -> int:
        """The last stream sequence applied; 0 before the first."""
        ...

    def epoch(self) -> str | None:
        """Which stream the position belongs to; None before the first was named."""
        ...

    def own(self, partitions: Collection[int]) -> frozenset[int]:
        """Own those of these partitions of the agents (0 to 15) that no other writer owns, and let go of all others;
        returns those that are owned now. Before the first call a writer that shares a store owns none.

        A partition is owned as long as the writer's session at the database lives: one that has lost it can write
        nothing. A writer that has the store alone owns all partitions, whatever it is given.
        """
        ...

    def is_free(self, partitions: Collection[int]) -> bool:
        """Whether no other writer owns one of these partitions, or some of them; False where none is named."""
        ...

    def has(self, agent: str) -> bool:
        """Whether the agent's partition is owned: only the facts of such agents may be applied."""
        ...

    def lacks(self, agent: str, seq: int) -> bool:
        """Whether an event of the agent at this stream sequence is to be applied: the agent's partition is owned, and
        was applied up to before that sequence when it was taken."""
        ...

    def applied(self) -> int:
        """The stream sequence up to which all owned partitions are applied; `position` is that of all partitions. Where
        none is owned that of the partition that is the furthest."""
        ...

    def set_position(self, seq: int) -> None:
        """Read the stream again from after `seq`: what was applied before is harmless to apply again."""
        ...

    def set_epoch(self, epoch: str) -> None:
        """Say which stream is read. Another one than before starts at position 0, its facts after all there are.

        Sequence numbers start again with a new stream; `seq` of an experience goes on rising.
        """
        ...

    def apply(
        self, events: Sequence[tuple[int, Event]], *, upto: int, now: datetime, published: Sequence[str] = ()
    ) -> tuple[ExperienceRecorded, ...]:
        """Store the facts (stream sequence, event) and the position `upto`, on disk before it returns.

        Returns the experiences that these facts complete or revise, by `seq`; also those that waited beyond their
        deadline by the clock of the stream (the latest of these events' times, at most `now`), so that catching up does
        not record as late what stands a little further down the stream. `now` is their time. Each waits in the outbox;
        those named by `published` leave it, as by `mark_published`.

        Facts may come in any order and any number of times. Of two facts with one key the one that stands first in the
        stream holds. An action's weight set is the last one before the act in the stream. An experience is recorded
        when every part has come, or the longest deadline of what is missing has passed; its revision rises exactly when
        a verdict (scores, total, coverage, completeness) changes. It is complete once every part has come, late or not.

        Facts of an act that was removed change nothing and are counted (`RetentionReader.came_late`). What a
        `person.forgotten` names is removed, and its record kept (`ChainReader.forgotten`).

        Raises ContractError, with the offending `seq`, for a fact that cannot be placed (no action id, no cycle, a
        number beyond 64 bits, an act from far beyond its agent's last one): nothing of the batch is stored then.
        """
        ...

    def catch_up(self, events: Sequence[tuple[int, Event]], *, upto: int, now: datetime) -> None:
        """Like `apply`, for the part of the stream that was there before the store: nothing is recorded yet.

        The `ExperienceRecorded` among the events are taken as recorded, so that no id is given to a second content.
        Once that part is read to its end, `expire` closes what has nothing to wait for, and records what differs.
        """
        ...

    def expire(self, now: datetime) -> tuple[ExperienceRecorded, ...]:
        """Record the acts whose deadline passed, incomplete, what is missing as timeout: at most 500 at a time.

        For when the stream is read to its end. Call again while `next_deadline` is past.
        """
        ...

    def prune(self, keep: RetentionLimits, now: datetime) -> PruneResult:
        """Remove some of the oldest cycles that are beyond `keep`, in one transaction of some 20 ms; call again until
        nothing was removed.

        Sums over them stay. Never removed are the newest 100 cycles of each agent, acts that wait for scores, and what
        an agent did after them. Marks are removed as far as they verify, with the hash that the next one follows.
        """
        ...

    def next_deadline(self) -> datetime | None:
        """When `expire` has something to do; None while no act of an owned agent waits."""
        ...

    def waiting(self) -> int:
        """How many acts of owned agents wait for their scores."""
        ...

    def unpublished(self) -> tuple[ExperienceRecorded, ...]:
        """What was recorded and not yet marked as published, in the order of recording, at most 500 at a time."""
        ...

    def mark_published(self, ids: Sequence[str]) -> None:
        """These events (ids of `experience.recorded`) are on the stream. Unknown ids change nothing."""
        ...

    def close(self) -> None:
        """Let go of the store. Twice is once."""
        ...


class ExperienceStore(ExperienceReader, ExperienceWriter, Protocol):
    """A store opened by its writer, which reads too what it has written."""
