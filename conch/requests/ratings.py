"""A person's rating of an answer: a fact of its own, and for praise and blame the score `approval` of the act too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from conch.consumer import follow
from conch.errors import UsageError
from conch.requests.human_score import APPROVAL, LONGEST, is_said, next_number, publish_score, said_score
from conch.text import cut, well_formed
from conch_schemas import HUMAN_SCORER, ActionTaken, AnswerRated, ExperienceRecorded, RewardAssigned, encode, subject_of
from conch_schemas.message import Rating

if TYPE_CHECKING:
    from conch.bus import Bus

CORRECTION_BYTES = 32 * 1024
"""Most bytes of a corrected answer, encoded; of a longer one head and tail are kept."""
VALUES: dict[Rating, float] = {"satisfied": 1.0, "unsatisfied": -1.0}
"""The ratings that are a score of the act too, with its value."""


def rated(act: ActionTaken, rating: Rating, text: str) -> AnswerRated:
    """The rating of an act's answer as a fact. The same rating with the same text has the same id.

    Raises UsageError for an act that answered no message, a correction without a text, and a reason that is too long.
    """
    if act.outcome.answered is None:
        raise UsageError(f"cycle {act.cycle} answered no message: only an answer is rated")
    text = well_formed(text).strip()
    if rating == "corrected" and not text:
        raise UsageError("a correction needs the answer that would have been right")
    if rating != "corrected" and len(text) > LONGEST:
        raise UsageError(f"the reason has {len(text):,} characters, at most {LONGEST:,} are kept: say it shorter")
    said = cut(text, CORRECTION_BYTES)
    return follow(
        act,
        AnswerRated,
        consumer=HUMAN_SCORER,
        version=f"{rating}/{said.sha256}",
        message=act.outcome.answered,
        rating=rating,
        text=said.text,
        session=None if act.message is None else act.message.session,
    )


async def publish_rating(
    bus: Bus,
    act: ActionTaken,
    rating: Rating,
    text: str,
    limits: tuple[float, float],
    versions: Iterable[str] = (),
    whole: ExperienceRecorded | None = None,
) -> tuple[AnswerRated, RewardAssigned | None]:
    """Publish a rating, and the score that it is, if it is one. Twice is once.

    `limits`: the range of the score; `versions`: those of the act's earlier scores by people; `whole`: the act's
    experience, where it is known. Raises UsageError as `rated` does, and where the range leaves out the score;
    BusError.
    """
    fact = rated(act, rating, text)
    value = VALUES.get(rating)
    if value is not None and not limits[0] <= value <= limits[1]:
        raise UsageError(f"rewards.parts.{APPROVAL}.range leaves out {value:g}: nothing was rated")
    await bus.publish(subject_of(fact), encode(fact), id=fact.id)
    if value is None:
        return fact, None
    why, number = fact.text or rating, next_number(versions)
    if is_said(whole, APPROVAL, value, why):
        return fact, said_score(act, APPROVAL, value, why, limits, number - 1)
    return fact, await publish_score(bus, act, APPROVAL, value, why, limits, number)
