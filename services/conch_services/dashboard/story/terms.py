"""The terms of the field, each in one line, by the page that uses them."""

from __future__ import annotations

from typing import Final

_COVERAGE = ("Coverage", "The share of the weight whose rule gave a score, of the acts that the rule applies to.")
_VARIANCE = (
    "Share of variance",
    "How much of the ups and downs of the total come from this part; one far above 80 % decides nearly alone.",
)

TERMS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "/": (
        ("Total", "The reward of an act: all parts added up, between −1 and 1."),
        ("95 %: from … to", "The interval that the true difference lies in, 19 times out of 20."),
        ("Dashed line", "The mean of the first 100 cycles: what the agent earned before it had learnt much."),
        ("Skill", "A tool with its operation, such as filesystem.read."),
    ),
    "/rewards": (
        _COVERAGE,
        _VARIANCE,
        ("Median, 95th percentile", "Half of the scores, and 95 of 100, are not above it."),
        ("Cap", "The most that a part may add; what is above is taken off."),
        ("Gate", "A rule that holds the total to 0 while it fails."),
        ("Held out", "A score that pays nothing and trains nothing: it shows whether the paid ones can be trusted."),
        ("Rank correlation", "1: two scorers order the acts alike; 0: their orders have nothing in common."),
    ),
    "/needs": (
        ("Satisfaction", "How full a need is, 0 to 1; it falls with time, and acts move it."),
        ("Pressing", "Priority times (0.5 + urgency): the need with the most leads the next thought."),
        ("Drive", "What curiosity and fatigue of the agent are at, from how new its acts have been."),
        ("Starved", "A need so empty that the reward is cut until it is fed."),
    ),
    "/training": (
        ("Policy", "What acts: the mind, its model, its adapter and its prompt together."),
        ("Adapter", "A small set of weights that is trained and laid over a model that stays as it is."),
        ("Loss", "What training makes smaller: how far the model is from the wanted answers."),
        ("Gate", "The comparison that a candidate must pass before it may act."),
        ("Held-out states", "Recorded situations that no training has seen."),
        ("Generation", "The count of adapters that have been promoted, one after another."),
    ),
    "/data": (
        ("Snapshot", "A data set as it was exported; its digest changes with every letter of its rows."),
        ("Margin", "How much more the chosen of two replies earned; of a KTO row: more than the mean of its state."),
        ("Tier", "Kind of a pair: A the same prompt, B a fork, C a repaired reply, D the same state."),
        ("Train, eval", "What is trained on, and what is held out: no state stands in both."),
    ),
    "/teams": (
        (
            "Topology",
            "Who may send to whom: star, all through the planner; chain, one after the other; flat, any to any.",
        ),
        ("Epoch", "The time under one topology; a switch begins the next one once every message is delivered."),
        ("What a step earned", "Progress of the task in that step, less its tokens: from this the controller learns."),
    ),
    "/bus": (
        ("Stream", "The log of all facts; every process reads it at its own pace."),
        ("Lag", "Facts that a consumer has still to read."),
        ("Latency", "The time from a fact to the one that follows from it."),
        ("Redelivered", "Facts that were handed over again, since the first try was not confirmed."),
        ("Dead letter", "A fact that a consumer could not handle after several tries; it waits for you."),
    ),
    "/witness": (
        ("Mark", "A sealed note of one act or score set."),
        (
            "Hash",
            "A digest that changes with every letter; each mark holds the one before, so that none can be changed.",
        ),
        ("Verified", "The chain was walked from its first mark, and every digest fits."),
    ),
    "/memory": (("Fit", "How well a memory answers the words searched for: by words, sense, age and importance."),),
    "/chat": (
        ("Reward", "What the act of an answer earned; ratings change it, and the next acts learn from it."),
        ("Mark", "A sealed note of the answer: it shows that neither words nor score were changed since."),
        (
            "Right, Wrong, Correct",
            "Your word on an answer, a score of its own; a correction says what would have been right.",
        ),
        ("Session", "One conversation; its turns are given to the mind with each new message."),
    ),
    "/review": (
        ("Disagreement", "Scorers that judge the same act far apart: your word decides."),
        ("Chosen, rejected", "Two answers to one prompt; training learns to prefer the first."),
    ),
}
"""Path of a page -> (term, its line)."""


def terms_of(path: str) -> tuple[tuple[str, str], ...]:
    """The terms of the page at this path, and of those below it."""
    found = TERMS.get(path)
    if found is not None:
        return found
    return next((some for page, some in TERMS.items() if page != "/" and path.startswith(f"{page}/")), ())
