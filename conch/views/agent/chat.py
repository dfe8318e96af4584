"""A conversation as lines: what `conch chat --json` prints of each step."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from conch.requests import (
    AgentWorks,
    AnswerDraft,
    AnswerGiven,
    AnswerMarked,
    AnswerRewarded,
    ApprovalAsked,
    ApprovalSettled,
    ChatStep,
    MessageTaken,
)
from conch.views.agent.approvals import waiting_act_shown
from conch.views.base import View
from conch_schemas import ActApproved, ActDenied, AnswerRated


class ChatLine(View):
    """One step of a conversation, a line of `conch chat --json`. What a step does not have is null."""

    schema_: Literal["conch.v1.chat"] = Field(default="conch.v1.chat", alias="schema")
    step: Literal[
        "message", "works", "draft", "tool", "approval", "decided", "answer", "reward", "mark", "rated", "refused"
    ]
    """`message`: the agent has it. `works`: what the agent does. `draft`: the answer as far as it has come. `tool`: an
    act before the answer. `approval`: an act waits for a person's approval. `decided`: it was approved or denied.
    `refused`: a line of the person that could not be done, with the reason in `text`."""
    session: str
    id: str | None = None
    """Of the message, the answer, the act, the mark, or the rating; an act that waits has that of `conch approve`."""
    cycle: int | None = None
    text: str | None = None
    """The answer or its draft; the name of the tool; the call that waits; the reason of a decision or a rating, or the
    corrected answer."""
    phase: str | None = None
    """think, decide, act or reflect."""
    seconds: float | None = None
    """For how long the mind has been asked."""
    state: str | None = None
    """The agent's: `running`, `paused` and so on."""
    total: float | None = None
    """The reward of the answer."""
    complete: bool | None = None
    """Whether every part has scored the answer."""
    sequence: int | None = None
    """Of the mark in the agent's chain."""
    rating: Literal["satisfied", "unsatisfied", "corrected", "stop"] | None = None
    why: str | None = None
    """The rule that asks for an approval, or why the agent is in its state, in a sentence."""
    until: datetime | None = None
    """When the act that waits is denied if no decision has come, UTC."""
    decision: Literal["approved", "denied"] | None = None
    by: Literal["user", "timeout"] | None = None
    """Whose decision it is; `timeout`: none came in time."""


def chat_line(session: str, step: ChatStep | AnswerRated) -> ChatLine:
    """The line of a step, or of a person's rating."""
    match step:
        case MessageTaken():
            return ChatLine(step="message", session=session, id=step.id)
        case AgentWorks():
            return ChatLine(
                step="works", session=session, phase=step.phase, seconds=round(step.seconds, 3), state=step.state,
                why=step.why or None,
            )  # fmt: skip
        case AnswerDraft():
            return ChatLine(step="draft", session=session, text=step.text)
        case ApprovalAsked(asked=asked):
            act = waiting_act_shown(asked)
            return ChatLine(
                step="approval", session=session, id=act.id, cycle=act.cycle, text=act.words, why=act.why,
                until=act.until,
            )  # fmt: skip
        case ApprovalSettled(asked=asked, decision=decision):
            act = waiting_act_shown(asked)
            return ChatLine(
                step="decided", session=session, id=act.id, cycle=act.cycle, text=decision.why or None,
                decision=decision_word(decision), by=decision.by,
            )  # fmt: skip
        case AnswerGiven(answer=answer):
            return ChatLine(step="answer", session=session, id=answer.id, cycle=answer.cycle, text=answer.text)
        case AnswerRewarded(experience=found):
            return ChatLine(
                step="reward", session=session, id=found.id, cycle=found.cycle, total=found.total,
                complete=found.complete,
            )  # fmt: skip
        case AnswerMarked(mark=mark):
            return ChatLine(step="mark", session=session, id=mark.id, sequence=mark.sequence)
        case AnswerRated():
            return ChatLine(
                step="rated", session=session, id=step.id, cycle=step.cycle, text=step.text or None, rating=step.rating
            )
    return ChatLine(
        step="tool", session=session, id=step.act.action_id, cycle=step.act.cycle, text=step.act.action.tool
    )


def decision_word(decision: ActApproved | ActDenied) -> Literal["approved", "denied"]:
    """The decision in a word."""
    return "approved" if isinstance(decision, ActApproved) else "denied"


class RatingShown(View):
    """A person's rating of an answer, as it was published."""

    schema_: Literal["conch.v1.rated"] = Field(default="conch.v1.rated", alias="schema")
    id: str
    """The id of the event."""
    agent: str
    cycle: int
    rating: Literal["satisfied", "unsatisfied", "corrected", "stop"]
    text: str


def rating_shown(fact: AnswerRated) -> RatingShown:
    """A rating of the answer that a cycle gave."""
    assert fact.cycle is not None  # it is of an act
    return RatingShown(id=fact.id, agent=fact.agent, cycle=fact.cycle, rating=fact.rating, text=fact.text)
