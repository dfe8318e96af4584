"""A turn of a conversation as events of the AG-UI protocol (docs.ag-ui.com), version 1.0. Pure.

The events are written by hand: the package `ag-ui-protocol` has types of Python alone, and tests hold these events
against it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

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
    ToolUsed,
)
from conch.text import safe_text
from conch.views import decision_word, waiting_act_shown
from conch_schemas import JsonObject

MOST_RESULT = 4000
"""Most characters of a tool's output in an event."""


class AgUiRun:
    """The events of one run: what was begun is ended, in the order that the protocol asks for."""

    def __init__(self, thread: str, run: str) -> None:
        self._ids = {"threadId": thread, "runId": run}
        self._run, self._messages, self._works = run, 0, ("", "")
        self._written: str | None = None
        """What of the open text message was sent; None: none is open."""

    def begin(self) -> JsonObject:
        """The first event."""
        return {"type": "RUN_STARTED"} | self._ids

    def take(self, step: ChatStep) -> Iterator[JsonObject]:
        """The events of a step."""
        match step:
            case MessageTaken():
                yield _custom("conch.message", {"id": step.id})
            case AgentWorks():
                if (works := (step.phase, step.state)) != self._works:
                    self._works = works
                    why = safe_text(step.why, one_line=True)
                    yield _custom("conch.works", {"phase": step.phase, "state": step.state, "why": why})
            case AnswerDraft():
                yield from self._grow(step.text)
            case ToolUsed():
                yield from self._ended()
                yield from self._tool(step)
            case ApprovalAsked():
                yield _custom("conch.approval", waiting_act_shown(step.asked).document())
            case ApprovalSettled(asked=asked, decision=decision):
                act = waiting_act_shown(asked)
                said = {"decision": decision_word(decision), "by": decision.by, "why": decision.why}
                yield _custom("conch.decided", {"id": act.id, "words": act.words} | said)
            case AnswerGiven():
                yield from self._grow(step.answer.text)
                yield _custom("conch.answer", {"id": step.answer.id, "message": self._id, "cycle": step.answer.cycle})
                yield from self._ended()
            case AnswerRewarded(experience=found):
                value = {"cycle": found.cycle, "total": found.total, "complete": found.complete}
                yield _custom("conch.reward", value)
            case AnswerMarked(mark=mark):
                yield _custom("conch.mark", {"id": mark.id, "sequence": mark.sequence, "hash": mark.hash})

    def end(self) -> Iterator[JsonObject]:
        """The last events of a turn that was answered."""
        yield from self._ended()
        yield {"type": "RUN_FINISHED"} | self._ids

    def fail(self, why: str) -> Iterator[JsonObject]:
        """The last events of a turn that was not answered."""
        yield from self._ended()
        yield {"type": "RUN_ERROR", "message": why}

    @property
    def _id(self) -> str:
        return f"{self._run}-{self._messages}"

    def _grow(self, text: str) -> Iterator[JsonObject]:
        """What is new of the answer; one that begins otherwise than what was sent is a message of its own."""
        if self._written is not None and not text.startswith(self._written):
            yield from self._ended()
        if self._written is None:
            self._messages, self._written = self._messages + 1, ""
            yield {"type": "TEXT_MESSAGE_START", "messageId": self._id, "role": "assistant"}
        if more := text[len(self._written) :]:
            self._written = text
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._id, "delta": more}

    def _ended(self) -> Iterator[JsonObject]:
        if self._written is not None:
            self._written = None
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._id}

    def _tool(self, used: ToolUsed) -> Iterator[JsonObject]:
        act = used.act
        call = {"toolCallId": str(act.action_id)}
        yield {"type": "TOOL_CALL_START", "toolCallName": act.action.tool, **call}
        yield {"type": "TOOL_CALL_ARGS", "delta": json.dumps(act.action.args, ensure_ascii=False), **call}
        yield {"type": "TOOL_CALL_END", **call}
        said = act.outcome.output.text or act.outcome.error or act.outcome.status
        yield {"type": "TOOL_CALL_RESULT", "messageId": act.id, "role": "tool", "content": said[:MOST_RESULT], **call}


def _custom(name: str, value: JsonObject) -> JsonObject:
    return {"type": "CUSTOM", "name": name, "value": value}
