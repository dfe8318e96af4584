"""The sentence at the head of a page: what a person should know of what stands below, made from its data. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from conch.data import Manifest
from conch.views import LineageShown, Memories
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.learning import PolicyReward
from conch_services.dashboard.reviewing import ReviewCandidate
from conch_services.dashboard.stream.sessions import SessionTurn

FEWEST: Final = 20
"""Cycles of each of two policies that are compared: fewer are chance."""


class PageVerdict(NamedTuple):
    """What a page says first."""

    headline: str
    """One sentence."""
    details: str
    """Its figures, in sentences; may be empty."""


def talk_verdict(agent: str, sessions: Mapping[str, Sequence[SessionTurn]], totals: Sequence[float]) -> PageVerdict:
    """Of conversations: answers, and what people said of them; `totals`: the rewards of the last answers."""
    turns = [turn for some in sessions.values() for turn in some]
    if not turns:
        return PageVerdict(
            f"Nobody has spoken with {agent} yet.",
            "Each answer is an act of its own, with a reward and a mark; your word on it is a score, too.",
        )
    answered = [turn for turn in turns if turn.answer is not None]
    waits = len(turns) - len(answered)
    rated = Counter(turn.ratings[-1][0] for turn in answered if turn.ratings)
    words = {"satisfied": "right", "unsatisfied": "wrong", "corrected": "corrected", "stop": "to be stopped"}
    said = ", ".join(f"{rated[kind]} {word}" for kind, word in words.items() if rated[kind])
    details = [f"You rated {rated.total()}: {said}." if said else "You have rated none."]
    if totals:
        details.append(f"Mean reward of the last {_of(len(totals), 'answer')}: {signed(fmean(totals), 2)}.")
    if waits:
        details.append(f"{_of(waits, 'message')} without an answer yet.")
    return PageVerdict(f"{_of(len(answered), 'answer')} in {_of(len(sessions), 'conversation')}.", " ".join(details))


def memory_verdict(found: Memories, text: str) -> PageVerdict:
    """Of memories: how many there are; of those listed the kinds, and what contradicts another."""
    shown = found.memories
    kinds = Counter(one.kind for one in shown)
    against = sum(bool(one.contradicted_by) for one in shown)
    listed = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in kinds.most_common())
    details = [f"{'Of the best fits' if text else 'Of the last ones'}: {listed}."] if listed else []
    if against:
        details.append(
            f"{_of(against, 'memory', 'memories')} contradicted by another one: both stay, the prompt says so."
        )
    return PageVerdict(f"{found.agent} has {_of(found.total, 'memory', 'memories')}.", " ".join(details))


def review_verdict(queue: Sequence[ReviewCandidate], cycles: int) -> PageVerdict:
    """Of cycles that wait for a person's judgement among so many."""
    if not queue:
        return PageVerdict(
            "Nothing waits for your judgement.",
            f"No cycle of these {cycles:,} stands out that you have not judged."
            if cycles
            else "No cycle is recorded yet.",
        )
    verb = "stands" if len(queue) == 1 else "stand"
    return PageVerdict(
        f"{_of(len(queue), 'cycle')} of {cycles:,} {verb} out, not judged by anybody yet.",
        "The weightiest first: an alarm that began, scorers that disagree, an extreme total, a missing score.",
    )


def rows_verdict(left: int, format: str, reviewer: str) -> PageVerdict:
    """Of rows of training data that wait for this reviewer."""
    if not left:
        return PageVerdict(f"No row of {format} waits for {reviewer}.", "Rows come with the acts that fit the format.")
    verb = "waits" if left == 1 else "wait"
    return PageVerdict(
        f"{_of(left, 'row')} of {format} {verb} for {reviewer}.",
        "What you reject is not trained on; the riskiest, the most disputed and the rarest come first.",
    )


def data_verdict(about: Manifest) -> PageVerdict:
    """Of a snapshot: its rows, and the reason that left out the most."""
    if not about.rows_in:
        return PageVerdict("This snapshot has no row.", about.why_empty)
    skills = len(about.figures.by_skill)
    details = [f"{about.splits.get('train', 0):,} to train on, {about.splits.get('eval', 0):,} held out."]
    if about.left_out:
        reason, count = max(about.left_out.items(), key=lambda one: (one[1], one[0]))
        gone = about.rows_seen - about.rows_in
        details.append(
            f"{gone:,} of {about.rows_seen:,} acts and pairs were left out, {count:,} of them for: {reason}."
        )
    of = f" of {_of(skills, 'operation')} of tools" if skills else ""
    return PageVerdict(f"{_of(about.rows_in, 'row')} of {about.format}{of}.", " ".join(details))


def learning_verdict(earned: Sequence[PolicyReward], acted: int, lineage: LineageShown | None) -> PageVerdict:
    """Of learning: what the policy that acts earned beside the one before it in the last `acted` cycles."""
    if not earned:
        return PageVerdict("No cycle is recorded yet.", "")
    details = []
    if lineage is not None:
        refused = sum(one.phase == "refused" for one in lineage.rounds)
        details.append(f"{_of(len(lineage.rounds), 'round')} of training, {refused} refused by the gate.")
    if len(earned) == 1:
        details.append("Where two have acted, this page compares them.")
        return PageVerdict(f"One policy has acted in the last {_of(acted, 'cycle')}.", " ".join(details))
    now, before = earned[0], earned[1]
    details.insert(
        0, f"{signed(now.mean)} in {_of(now.cycles, 'cycle')} after {signed(before.mean)} in {before.cycles:,}."
    )
    if min(now.cycles, before.cycles) < FEWEST:
        return PageVerdict(
            f"The policy that acts now is too young to compare: it takes {FEWEST} cycles.", " ".join(details)
        )
    if f"{abs(now.mean - before.mean):.3f}" == "0.000":
        return PageVerdict("The policy that acts now earns as much as the one before it.", " ".join(details))
    apart = abs(now.mean - before.mean)
    word = "more" if now.mean > before.mean else "less"
    return PageVerdict(f"The policy that acts now earns {apart:.3f} {word} than the one before it.", " ".join(details))


def _of(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"
