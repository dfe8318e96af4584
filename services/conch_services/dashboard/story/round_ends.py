"""What a person is told of a round of training that ended without an adapter that acts: why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from conch.rounds import STOPPED
from conch.training import TrainingRound
from conch.views import why_ended

_STAYS: Final = "What acted before goes on acting."
_REFUSALS: Final[Mapping[str, tuple[str, str, str]]] = {
    "gate": (
        "The gate",
        "see which condition failed",
        f"Look at the conditions with their figures. {_STAYS} The next round trains on more experiences, and "
        "conch train run begins one now.",
    ),
    "shadow": (
        "The shadow trial",
        "see what it would have done",
        f"Look at the figures of the trial, in which it answered and did not act. {_STAYS} conch train run begins the "
        "next round.",
    ),
    "canary": (
        "The canary",
        "see what its cycles earned",
        f"Look at the cycles that it acted in, beside the others. {_STAYS} conch train run begins the next round.",
    ),
    "file": (
        "The check of its files",
        "look at the file that is named",
        f"{_STAYS} The file is not used: conch train run trains a new adapter. Where a new one fails as well, check "
        "the disk and what else writes there.",
    ),
}
"""Where a round was refused -> (what refused it, what to do in a few words, the same in sentences)."""
_NOT_HELD: Final = (
    "bring the engine in order",
    f"The gate could not be held, so nothing is known of the adapter. {_STAYS} Mend what the reason names, the engine "
    "or a judge, then conch train run begins the next round.",
)
_NOT_SERVED: Final = (
    "bring the engine in order",
    f"{_STAYS} Mend what the reason names, for instance the model or the version of the engine; then conch train run "
    "begins the next round.",
)
_FAILURES: Final = (
    (
        ("disk of", "No space left"),
        "make room on the disk",
        "Free some space where the path points; then conch train run trains again.",
    ),
    (
        ("cannot be written", "Permission denied"),
        "let the trainer write there",
        "Mend the permissions of the path, or what stands in its way; then conch train run trains again.",
    ),
    (
        ("out of memory",),
        "free some memory",
        "Stop what else takes memory there, or set training.batch_size lower; then conch train run trains again.",
    ),
    (
        ("needs more than", "MiB"),
        "give it more memory",
        "Raise training.memory_mib, or set training.batch_size lower; then conch train run trains again.",
    ),
    (
        ("not installed",),
        "install what it needs",
        "Install the package that the reason names, where the trainer runs; then conch train run trains again.",
    ),
    (
        ("is no number",),
        "lower the learning rate",
        "The training went astray. Set training.learning_rate lower; then conch train run begins another round.",
    ),
)
"""Words of a reason, one of which is in it -> the same; the first that fits."""
_FAILURE: Final = ("mend what stopped it", "Look at the round and mend its cause; conch train run begins the next one.")


class RoundEnd(NamedTuple):
    """How a round ended, for a person."""

    is_refused: bool
    """Whether there was an adapter; else the training failed."""
    words: str
    """What ended it."""
    task: str
    """What to do, in a few words."""
    advice: str
    """The same in sentences."""


def round_end(one: TrainingRound) -> RoundEnd | None:
    """How a refused or failed round ended, and what to do about that end; None for any other, and for one that a person
    ended."""
    if one.phase == "failed" and (why := why_ended(one)) != STOPPED:
        task, advice = next((told for words, *told in _FAILURES if any(word in why for word in words)), _FAILURE)
        return RoundEnd(False, "Training failed", task, advice)
    if one.refused is None or one.phase != "refused" or one.refused.at not in _REFUSALS:
        return None
    by, task, advice = _REFUSALS[one.refused.at]
    if why_ended(one).casefold().startswith("the engine does not serve it"):
        task, advice = _NOT_SERVED
    elif one.refused.at == "gate" and (one.gated is None or one.gated.verdict != "refused"):
        task, advice = _NOT_HELD
    return RoundEnd(True, f"{by} refused the adapter", task, advice)
