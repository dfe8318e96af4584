"""The sentence at the head of a page: what a person should know of what stands below, made from its data. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from conch.views import Memories, Slope, signed
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
    """Of conversations: answers, those that wait, what people said of them; `totals`: the rewards of the last answers."""
    turns = [turn for some in sessions.values() for turn in some]
    if not turns:
        return PageVerdict(
            f"Nobody has spoken with {agent} yet.",
            "Each answer is an act of its own: it gets a reward and a mark, and what you say of it trains the next ones.",
        )
    answered = [turn for turn in turns if turn.answer is not None]
    waits = len(turns) - len(answered)
    rated = Counter(turn.ratings[-1][0] for turn in answered if turn.ratings)
    words = {"satisfied": "right", "unsatisfied": "wrong", "corrected": "corrected", "stop": "to be stopped"}
    said = ", ".join(f"{rated[kind]} {word}" for kind, word in words.items() if rated[kind])
    details = [f"You rated {rated.total()}: {said}." if said else "You have rated none: Right and Wrong train it."]
    if totals:
        details.append(f"Mean reward of the last {_of(len(totals), 'answer')}: {signed(fmean(totals), 2)}.")
    if waits:
        details.append(f"{_of(waits, 'message')} without an answer yet.")
    return PageVerdict(
        f"{_of(len(answered), 'answer')} in {_of(len(sessions), 'conversation')}.".capitalize(), " ".join(details)
    )


def memory_verdict(found: Memories, text: str) -> PageVerdict:
    """Of memories: how many there are; of those listed the kinds, and what contradicts another."""
    shown = found.memories
    kinds = Counter(one.kind for one in shown)
    against = sum(bool(one.contradicted_by) for one in shown)
    listed = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in kinds.most_common())
    details = [f"{'Of the best fits' if text else 'Of the last ones'}: {listed}."] if listed else []
    if against:
        details.append(f"{_of(against, 'memory', 'memories')} contradicted by another one: both stay, the prompt says so.")
    return PageVerdict(f"{found.agent} has {_of(found.total, 'memory', 'memories')}.", " ".join(details))


def review_verdict(queue: Sequence[ReviewCandidate], cycles: int) -> PageVerdict:
    """Of cycles that wait for a person's judgement among so many."""
    if not queue:
        return PageVerdict(
            "Nothing waits for your judgement.",
            f"No cycle of these {cycles:,} stands out that you have not judged." if cycles else "No cycle is recorded yet.",
        )
    verb = "stands" if len(queue) == 1 else "stand"
    return PageVerdict(
        f"{_of(len(queue), 'cycle')} of {cycles:,} {verb} out, and nobody has judged {'it' if len(queue) == 1 else 'them'}.",
        "An approval or rejection is a score of its own, and training learns from it first.",
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


def learning_verdict(earned: Sequence[PolicyReward], rising: Slope | None, acted: int) -> PageVerdict:
    """Of learning: whether the reward rises over the last `acted` cycles, and what the last two policies earned."""
    if rising is None:
        return PageVerdict("Too early to say whether it learns.", f"{acted} of 20 cycles are recorded.")
    span = f"{signed(rising.value)} in 100 cycles, 95 %: {signed(rising.low)} to {signed(rising.high)}"
    if rising.low > 0:
        headline = f"It earns more: reward rises over the last {acted:,} cycles."
    elif rising.high < 0:
        headline = f"It earns less: reward falls over the last {acted:,} cycles."
    else:
        headline = f"Reward neither rises nor falls for sure over the last {acted:,} cycles."
    details = [f"{span}."]
    if len(earned) > 1 and min(earned[0].cycles, earned[1].cycles) >= FEWEST:
        now, before = earned[0], earned[1]
        details.append(
            f"The policy that acts now earns {signed(now.mean, 2)} ({now.cycles:,} cycles), the one before it "
            f"{signed(before.mean, 2)} ({before.cycles:,})."
        )
    return PageVerdict(headline, " ".join(details))


def _of(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"
