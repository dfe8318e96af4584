"""The tool `goal`: the agent proposes a goal with a check that a program decides."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import JsonValue, ValidationError

from conch.actions import BUILTIN_EFFECTS
from conch.errors import ToolError
from conch.text import well_formed
from conch.tools.checks import run_check
from conch.tools.declare import ToolContext, ToolResult, tool
from conch.tools.proposals.refusal import objection_to, path_outside
from conch.tools.workspace import OutsideError
from conch_schemas import Action, Check, CommandCheck, FileCheck, Goal, TestsCheck

GOAL_TOOL = "goal"
"""The tool's name."""
LONGEST_HOURS = 24.0 * 366
"""Most hours until a deadline: a year."""
MOST_TEXTS = 20
"""Most texts that a proposed check looks for, as many as the HTTP API takes of a person."""


@tool(effects=BUILTIN_EFFECTS[GOAL_TOOL])
async def goal(
    context: ToolContext,
    operation: Literal["command", "file", "tests"],
    statement: str,
    command: str | None = None,
    path: str | None = None,
    contains: list[JsonValue] | None = None,
    equals: str | None = None,
    hours: float | None = None,
    priority: float | None = None,
    parent: str | None = None,
) -> ToolResult:
    """Sets a goal of your own; it pays once a person has accepted it.

    operation: what decides it: a command's success, a file's content, or tests that pass; it must not hold yet
    statement: what is to be achieved
    command: for command and tests, e.g. python3 -m unittest
    path: for file: relative to the workspace
    contains: for file: texts that it must hold
    equals: for file: its whole content
    hours: until it is dropped
    priority: 0 to 1
    parent: the id of the goal that it is a part of
    """
    given: dict[str, JsonValue] = {
        "operation": operation,
        "statement": statement,
        "command": command,
        "path": path,
        "contains": contains,
        "equals": equals,
        "hours": hours,
        "priority": priority,
        "parent": parent,
    }
    proposed = goal_of_call(given, datetime.now(UTC))
    if (outside := path_outside(proposed.check)) is not None:
        raise OutsideError(f"{outside!r} is refused: a check names paths inside the workspace")
    if (why := objection_to(proposed.check) or context.goal_objection(proposed)) is not None:
        raise ToolError(f"the goal is refused: {why}")
    found = await run_check(proposed.check, context.workspace, context.sandbox, context.settings.timeout)
    if found.error is not None:
        raise ToolError(f"the goal is refused: its check cannot be run: {found.error}")
    if found.achieved:
        raise ToolError(f"the goal is refused: its check holds already: {found.detail}")
    return ToolResult(f"the goal {proposed.id} is set; its check says: {found.detail}", proposed=proposed.id)


def goal_of_call(args: Mapping[str, JsonValue], now: datetime) -> Goal:
    """The goal that a call of the tool with these arguments at this time proposes; `hours` count from `now`.

    The same statement and check have the same id. Raises ToolError for a call that describes no goal.
    """
    statement, check = well_formed(str(args.get("statement", ""))).strip(), _check(args)
    described = json.dumps([statement, check.model_dump(mode="json")], sort_keys=True)
    plain = unicodedata.normalize("NFKD", statement).encode("ascii", "ignore").decode().lower()
    words = [word[:16] for word in re.findall(r"[a-z0-9]+", plain)[:4]]
    proposal = {
        "id": "-".join([*words, hashlib.sha256(described.encode()).hexdigest()[:8]]),
        "statement": statement,
        "check": check,
        "priority": 0.5 if args.get("priority") is None else args["priority"],
        "deadline": _deadline(args.get("hours"), now),
        "parent": args.get("parent") or None,
    }
    try:
        return Goal.model_validate(proposal)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ToolError(f"{first['loc'][0]}: {first['msg']}") from None


def implied_act(action: Action) -> Action | None:
    """The act that a proposal amounts to, as its check is run time and again: a command of the shell, or a read of the
    file. What forbids that act forbids the proposal. None for any other act."""
    if action.tool != GOAL_TOOL or not action.valid or action.kind != "TOOL":
        return None
    path, command = action.args.get("path"), action.args.get("command")
    if action.args.get("operation") == "file":
        args: dict[str, JsonValue] = {"operation": "read", "path": path or ""}
        return Action(kind="TOOL", valid=True, tool="filesystem", args=args, declared_effect="read")
    return Action(kind="TOOL", valid=True, tool="shell", args={"command": command or ""}, declared_effect="workspace")


def _deadline(hours: JsonValue, now: datetime) -> datetime | None:
    if hours is None:
        return None
    if not isinstance(hours, int | float) or not 0 < hours <= LONGEST_HOURS:
        raise ToolError(f"hours must be above 0, and at most {LONGEST_HOURS:g}")
    return now + timedelta(hours=hours)


def _check(args: Mapping[str, JsonValue]) -> Check:
    kind = args.get("operation")
    if kind == "file":
        return _file_check(args)
    for name in ("path", "contains", "equals"):
        if args.get(name) is not None:
            raise ToolError(f"{name} goes with the operation file")
    command = args.get("command")
    if not isinstance(command, str):
        raise ToolError(f"the operation {kind} needs command")
    return TestsCheck(command=command) if kind == "tests" else CommandCheck(command=command)


def _file_check(args: Mapping[str, JsonValue]) -> FileCheck:
    path, texts, equals = args.get("path"), args.get("contains") or [], args.get("equals")
    if args.get("command") is not None:
        raise ToolError("command goes with the operations command and tests")
    if not isinstance(path, str):
        raise ToolError("the operation file needs path")
    if not isinstance(texts, list) or len(texts) > MOST_TEXTS or not all(isinstance(text, str) for text in texts):
        raise ToolError(f"contains must be a list of at most {MOST_TEXTS} texts")
    whole = well_formed(equals) if isinstance(equals, str) else None
    return FileCheck(path=path, contains=tuple(well_formed(str(text)) for text in texts), equals=whole)
