"""The results of a person's requests, for `conch tell | pause | goal add | reward score --json` and the API."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import RewardAssigned, Score


class State(View):
    """The agent's state after `conch pause --json`, `conch resume --json` or `conch stop --json`."""

    schema_: Literal["conch.v1.state"] = Field(default="conch.v1.state", alias="schema")
    state: Literal["paused", "running", "stopping", "stopped"]


class MessageTold(View):
    """The result of `conch tell --json`."""

    schema_: Literal["conch.v1.told"] = Field(default="conch.v1.told", alias="schema")
    id: str
    """The message's id."""
    running: bool
    """Whether the agent reads it at once; else when it runs."""
    answer: str | None
    """The agent's answer within the time of --wait; None: none."""
    state: str | None = None
    """The agent's state where it did not answer in that time, or waits at a limit of its budget; else None."""
    why: str | None = None
    """Why it is in that state, with its end as far as that is known; None like `state`."""


class GoalDone(View):
    """The result of `conch goal add --json` or `conch goal drop --json`."""

    schema_: Literal["conch.v1.goal"] = Field(default="conch.v1.goal", alias="schema")
    goal: str
    """The goal's id."""


class GoalDecided(View):
    """The result of `conch goal accept --json` or `conch goal veto --json`."""

    schema_: Literal["conch.v1.goal_decided"] = Field(default="conch.v1.goal_decided", alias="schema")
    goal: str
    """The goal's id."""
    agent: str
    decision: Literal["accepted", "vetoed"]
    again: bool
    """Whether the decision was taken before: then nothing changed."""
    running: bool
    """Whether the agent knows of it at once; else when it runs."""


class TrainerAsked(View):
    """The trainer's answer to a person's request."""

    schema_: Literal["conch.v1.trainer_asked"] = Field(default="conch.v1.trainer_asked", alias="schema")
    agent: str
    request: Literal["run", "stop", "promote", "rollback"]
    said: str
    """What it does now, in a sentence; may be empty."""


class Scored(View):
    """The result of `conch reward score --json`."""

    schema_: Literal["conch.v1.scored"] = Field(default="conch.v1.scored", alias="schema")
    id: str
    """The id of the event that holds the score."""
    agent: str
    cycle: int
    score: Score
    total: float | None
    """The cycle's total, once the score is joined; None: it is not yet."""
    total_before: float | None
    revision: int | None
    """The experience's revision, once the score is joined."""


def scored_shown(
    event: RewardAssigned, before: float | None, total: float | None = None, revision: int | None = None
) -> Scored:
    """A person's score as it was published; `before`: the cycle's total without it."""
    assert event.cycle is not None  # it is of an act
    return Scored(
        id=event.id,
        agent=event.agent,
        cycle=event.cycle,
        score=event.scores[0],
        total=total,
        total_before=before,
        revision=revision,
    )
