"""Rows of answers that a person corrected: the right answer, and the pair of it with the agent's own. Pure."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from conch.actions import render
from conch.data.acts import Workshop, outside
from conch.data.row import Format, LeftOut, Lineage, Row, Tier, make_row
from conch.experience import Example
from conch_schemas import Action

_TEXT: Final = "text"
"""The argument of the tool `reply` that holds the answer."""


def corrected_row(format: Format, example: Example, answer: str, workshop: Workshop) -> Row | LeftOut:
    """The corrected answer as a reply to the act's prompt; for KTO a good one. It was not run: it has no reward."""
    reason = _refused(example, workshop)
    if reason is not None:
        return LeftOut(reason, (example.act.action_id,))
    columns: dict[str, JsonValue] = {
        "prompt": workshop.prompt(example),
        "completion": workshop.reply(_reply(example, answer)),
    }
    if format == "kto":
        columns["label"] = True
    return make_row(format, columns, **_lineage(example, workshop, None))


def corrected_pair(format: Format, example: Example, answer: str, workshop: Workshop) -> Row | LeftOut:
    """The corrected answer against the agent's own: the same prompt, tier A."""
    reason = _refused(example, workshop)
    if reason is not None:
        return LeftOut(reason, (example.act.action_id,))
    columns: dict[str, JsonValue] = {
        "prompt": workshop.prompt(example),
        "chosen": workshop.reply(_reply(example, answer)),
        "rejected": workshop.reply(example.act.data.raw),
    }
    return make_row(format, columns, **_lineage(example, workshop, "A"))


def _lineage(example: Example, workshop: Workshop, tier: Tier | None) -> Lineage:
    """That of the act; the corrected answer was not run, so it has neither reward nor outcome."""
    return {**workshop.lineage(example), "reward": None, "status": "", "origin": "corrected", "tier": tier}


def _refused(example: Example, workshop: Workshop) -> str | None:
    data = example.act.data
    if reason := outside(example, workshop.selection) or workshop.unasked(example):
        return reason
    if not data.action.valid or _TEXT not in data.action.args:
        return "correction of an act that is no reply"
    return None


def _reply(example: Example, answer: str) -> str:
    """The call of the tool with the corrected answer in the place of the agent's."""
    action = example.act.data.action
    return render(
        Action.model_validate(
            {"kind": "TOOL", "valid": True, "tool": action.tool, "args": {**action.args, _TEXT: answer}}
        )
    )
