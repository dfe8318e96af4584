"""Compares several replies to one state in one question, which separates their scores better than single questions."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from typing import Final

from conch.errors import JudgeError
from conch.judge.answer import number_in, read_object, refuse_copy, unread
from conch.judge.fence import MOST_MESSAGES, fenced
from conch.judge.question import JudgeQuestion, asked
from conch.judge.score import JudgeConfig, answered
from conch.rules import Message

MOST_REPLIES: Final = 26
"""Most replies of one group; each has a letter."""
_FORM: Final = (
    '{"explanation": one or two sentences in your own words, "scores": [{"candidate": its letter, "score": a number '
    "from 0 (the rubric is not met at all) to 1 (it is met entirely)} for each candidate, once]}"
)
_WHAT: Final = (
    "First comes a state, its roles with `state/` before them, then {n} candidates, replies to it, each with its "
    "letter for a role. Score every candidate beside the others; their order means nothing."
)


async def score_group(
    state: Sequence[Message], replies: Sequence[str], config: JudgeConfig, *, seed: int = 0
) -> tuple[float, ...]:
    """A score in 0..1 for each of 2 to 26 replies to one state, in their order, from one question.

    The model sees them in an order drawn from `seed` and their own text, so that no place has an advantage; the same
    input gives the same question. Raises JudgeError unless there is exactly one score for each: 7 for 8 candidates, one
    twice, an unknown letter. Nothing is cached.
    """
    if not 2 <= len(replies) <= MOST_REPLIES:
        raise JudgeError(f"{len(replies)} replies cannot be compared: a group has 2 to {MOST_REPLIES}")
    order = shuffled(state, replies, seed)
    question = group_question(state, [replies[place] for place in order], config.rubric)
    judged = [message.content for message in state] + list(replies)
    scores = await answered(config, question, lambda answer: read_scores(answer, len(replies), judged))
    return tuple(score for _, score in sorted(zip(order, scores, strict=True)))


def shuffled(state: Sequence[Message], replies: Sequence[str], seed: int) -> list[int]:
    """The indices of the replies in the order in which the model sees them."""
    told = json.dumps([seed, [[message.role, message.content] for message in state], list(replies)])
    order = list(range(len(replies)))
    random.Random(hashlib.sha256(told.encode()).digest()).shuffle(order)  # noqa: S311 - the same for the same group
    return order


def group_question(state: Sequence[Message], replies: Sequence[str], rubric: str) -> JudgeQuestion:
    """The question how well each of these replies does, lettered in this order."""
    before = [Message(f"state/{one.role}", one.content) for one in state[-(MOST_MESSAGES - len(replies)) :]]
    shown = [Message(f"candidate {_letter(place)}", reply) for place, reply in enumerate(replies)]
    what = _WHAT.replace("{n}", str(len(replies)))
    return asked(rubric, fenced([*before, *shown]), what, _FORM, _schema(len(replies)))


def read_scores(answer: str, count: int, judged: Sequence[str]) -> list[float]:
    """The scores in an answer, by the letters A, B, …. Raises JudgeError, `passing`, with the reason."""
    found = read_object(answer, ("explanation", "scores"))
    rows, explanation = found["scores"], found["explanation"]
    if not isinstance(explanation, str) or not isinstance(rows, list):
        raise unread("it is no list of scores with an explanation", answer)
    refuse_copy(answer, explanation, judged)
    if len(rows) != count:
        raise unread(f"it has {len(rows)} scores for {count} candidates", answer)
    letters, scores = [_letter(at) for at in range(count)], dict[str, float]()
    for row in rows:
        if not isinstance(row, dict) or sorted(row) != ["candidate", "score"] or row["candidate"] not in letters:
            raise unread("it scores something else than a candidate", answer)
        if row["candidate"] in scores:
            raise unread(f"it scores candidate {row['candidate']} twice", answer)
        scores[row["candidate"]] = number_in(row["score"], f"score of {row['candidate']}")
    return [scores[letter] for letter in letters]


def _letter(place: int) -> str:
    return chr(ord("A") + place)


def _schema(count: int) -> Mapping[str, object]:
    row = {
        "type": "object",
        "properties": {
            "candidate": {"type": "string", "enum": [_letter(place) for place in range(count)]},
            "score": {"type": "number"},
        },
        "required": ["candidate", "score"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"explanation": {"type": "string"}, "scores": {"type": "array", "items": row}},
        "required": ["explanation", "scores"],
        "additionalProperties": False,
    }
