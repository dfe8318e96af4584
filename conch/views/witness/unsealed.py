"""What a store has and no mark of the chain seals: it waits for its mark, or the stream has to prove it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from conch.experience import ExperienceReader
from conch.witness import (
    EventRow,
    StoredAct,
    Verification,
    is_from_before_facts,
    repeats_verdict,
    sealed_facts,
    unsealed_scores,
    values_hash,
)

PAGE: Final = 500
"""Acts whose totals are judged again in one transaction: a longer one holds back the checkpoints of a run."""


@dataclass
class UnsealedAct:
    """An act of which something is sealed by no mark."""

    action: str
    place: int
    act: bytes | None = None
    """The wire form of the act, where it is the act itself."""
    is_older: bool = False
    """Whether a version recorded it that sealed less."""
    scores: dict[str, str] = field(default_factory=dict)
    """Score id -> hash of the row."""
    needs: dict[str, bytes] = field(default_factory=dict)
    """Id -> wire form."""
    sealed_revision: int = 0
    """The last revision of its experience that a mark seals."""
    revision: int = 0
    """The stored revision; 0: there is no experience."""
    repeats: bool = False
    """Whether the stored total is the one that a mark seals as an earlier revision: a store records no total twice."""
    follows: bool = True
    """Whether the total follows from the stored scores by the stored weight set."""
    waits: bool = False
    """Whether its row says that it waits for scores."""
    is_early: bool = False
    """Whether its marks are from before scores and totals were sealed one by one: the sealed events on the stream have
    its scores, and its total follows from them."""
    is_unpublished: bool = False
    """Whether the stored revision still waits for its publication."""

    @property
    def is_total(self) -> bool:
        """Whether the total is what no mark seals."""
        return self.revision > self.sealed_revision


@dataclass
class UnsealedRows:
    """What of an agent's rows no mark seals."""

    actions: set[str] = field(default_factory=set)
    """Acts that may have scores without a seal."""
    acts: dict[str, UnsealedAct] = field(default_factory=dict)
    """By action id."""
    contexts: dict[tuple[str, str], str] = field(default_factory=dict)
    """(action id, kind) -> digest of the row."""
    new_acts: set[str] = field(default_factory=set)
    """Actions with a row of `contexts` whose act a version recorded that seals all of them."""
    events: dict[str, EventRow] = field(default_factory=dict)
    """By id: rows that belong to no act, or stand beside it."""
    contradicted: set[str] = field(default_factory=set)
    """Ids of those of `events` that a mark seals with another content: said anew after the stream was lost, or
    altered."""
    prompts: dict[str, tuple[str, int]] = field(default_factory=dict)
    """System prompts with their places, by their policy."""
    since: float = math.inf
    """Place of the first act of a version that seals such rows; all rows behind it must be sealed."""
    is_older: bool = False
    """Whether an earlier version recorded some of the acts."""
    unfounded: set[str] = field(default_factory=set)
    """Actions whose sealed total does not follow from their scores: a run published a forged total, and its witness
    sealed it."""

    def find(self, reader: ExperienceReader, agent: str, chain: Verification) -> None:
        """Find the acts, scores and totals of the agent that no mark of the chain seals. Raises StoreError."""
        bare = {action for action, _ in reader.chain.acts(agent) if not chain.has_act(action)}
        bare |= {
            action for action, revision in reader.chain.revisions(agent) if chain.sealed_revision(action) != revision
        }
        bare |= reader.chain.unrecorded(agent)
        unpublished = reader.chain.unpublished(agent)
        sealed = [action for action, _ in reader.chain.revisions(agent) if chain.has_sealed_place(action)]
        for start in range(0, len(sealed), PAGE):
            self.unfounded |= reader.chain.unfounded(sealed[start : start + PAGE])
        for action in sorted(bare | self.actions | self.unfounded):
            stored = reader.chain.stored([action]).get(action)
            if stored is None or stored.act is None:
                continue
            row = self._row(reader, agent, action, stored, chain)
            row.is_unpublished = (action, stored.revision) in unpublished
            is_bare = row.act is not None or row.scores or row.needs or row.is_total or not (row.revision or row.waits)
            if is_bare or not row.follows:
                self.acts[action] = row

    def _row(
        self, reader: ExperienceReader, agent: str, action: str, stored: StoredAct, chain: Verification
    ) -> UnsealedAct:
        marks = reader.chain.marks_of(agent, action)
        sealed = {mark.event for mark in marks} | {fact.id for mark in marks for fact in sealed_facts(mark)}
        revision = chain.sealed_revision(action)
        is_early = not revision and is_from_before_facts(marks)
        names = stored.scores if is_early else unsealed_scores(marks, stored)
        unfounded = self.unfounded if stored.revision <= revision else reader.chain.unfounded([action])
        return UnsealedAct(
            action,
            stored.seq,
            act=None if chain.has_act(action) else stored.act,
            is_older=not stored.context_digests(),
            scores={name: values_hash(stored.scores[name]) for name in names},
            needs={name: body for name, (_, body) in stored.needs.items() if name not in sealed},
            sealed_revision=revision,
            revision=stored.revision,
            repeats=stored.revision > revision and repeats_verdict(marks, stored),
            follows=action not in unfounded,
            waits=stored.waits,
            is_early=is_early,
        )

    @property
    def place(self) -> int | None:
        """The first place of an act of which something is unsealed; None: there is none."""
        return min((act.place for act in self.acts.values()), default=None)

    def must_be_sealed(self, place: int) -> bool:
        """Whether a row of an event at this place was recorded by a version that seals such rows."""
        return not self.is_older or place > self.since
