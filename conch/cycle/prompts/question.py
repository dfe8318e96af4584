"""The question at the end of a prompt, by what is open: a message, else the goal that matters most, else a need. Pure.

Texts of a person or of the agent are quoted in it, as everywhere in a prompt.
"""

from __future__ import annotations

from datetime import UTC, datetime

from conch.cycle.prompts.budget import neutral, quoted
from conch.cycle.prompts.history import SMALL_PROMPT
from conch.minds import Purpose, Situation
from conch.text import cut
from conch_schemas import Goal

NAMES = "Name files, tools and notes as they are."
ONE_ACTION = "Answer with one action in the grammar, nothing else."


def goals_by_weight(situation: Situation) -> tuple[Goal, ...]:
    """The open goals, the one that matters most first.

    Goals that people or the home set, or accepted, come before those that the agent set itself. Then the higher
    priority counts, then the earlier deadline (a goal without one comes last), then the higher measure: what is nearly
    done is finished first. Of equal goals the one that was set first comes first.
    """
    return tuple(sorted(situation.goals, key=lambda goal: _weight(goal, situation)))


def _weight(goal: Goal, situation: Situation) -> tuple[bool, float, float, float]:
    _, measure = situation.measures.get(goal.id, (0.0, 0.0))
    return goal.id in situation.proposed, -goal.priority, _deadline(goal), -measure


def _deadline(goal: Goal) -> float:
    """Seconds since the epoch; infinite without one. One without a time zone is in UTC."""
    if goal.deadline is None:
        return float("inf")
    return _in_utc(goal.deadline).timestamp()


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def question(purpose: Purpose, situation: Situation, budget: int) -> str:
    """The question. `budget`: tokens of the prompt; below SMALL_PROMPT no mind reads it, and a decision is asked for in
    a few words."""
    if purpose == "reflect":
        return (
            "Look back on the recent actions. In one to three sentences: what worked, what did not, what to do "
            "otherwise?"
        )
    if purpose == "decide" and budget < SMALL_PROMPT:
        return f"Decide. {ONE_ACTION}"
    if situation.message is not None:
        return _of_message(purpose)
    if situation.goals:
        return _of_goal(purpose, goals_by_weight(situation)[0], budget)
    return _of_need(purpose, situation)


def _of_message(purpose: Purpose) -> str:
    if purpose == "think":
        return (
            "A person waits for your answer. In one to three sentences: what do you do next to give it, and why? "
            f"{NAMES}"
        )
    return f"Decide what to do next for the person who waits for your answer. {ONE_ACTION}"


def _of_goal(purpose: Purpose, goal: Goal, budget: int) -> str:
    statement = cut(goal.statement, budget).text  # bytes: a quarter to a third of the prompt's tokens
    said = f"The goal that matters most now, in the words in which it was set:\n{quoted(neutral(statement))}\n"
    if purpose == "think":
        return f"{said}In one to three sentences: what is the next step towards it, and why? {NAMES}"
    return f"{said}Decide on the next step towards it. {ONE_ACTION}"


def _of_need(purpose: Purpose, situation: Situation) -> str:
    own = "a goal of your own (the tool goal)" if situation.may_propose else "a thing of your own choice"
    if purpose == "think":
        return (
            f"No message waits and no goal is open. Your most pressing need is {situation.need}. In one to three "
            f"sentences: what do you want to do next and why: what that need suggests, {own}, or rest? {NAMES}"
        )
    return (
        f"Decide. No message waits and no goal is open: where nothing is worth doing, DO_NOTHING is right. {ONE_ACTION}"
    )
