"""What an operation of a tool may change, as its tool declares it."""

from __future__ import annotations

from typing import Any

import pytest

from conch.actions import BUILTIN_EFFECTS, Argument, Registry, ToolSpec, effect_of, parse
from conch.errors import ContractError
from conch_schemas import Action

STORE = Argument("operation", choices=("get", "put", "send"))
REGISTRY = Registry(
    [
        ToolSpec("clock", "", effects="read"),
        ToolSpec("box", "", (STORE,), effects={"get": "read", "put": "workspace"}),
        ToolSpec("horn", ""),
        ToolSpec("filesystem", "", (Argument("operation", choices=("write",)),), effects={"write": "world"}),
    ]
)


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("TOOL: clock()", "read"),
        ('TOOL: box(operation="get")', "read"),
        ('TOOL: box(operation="put")', "workspace"),
        ('TOOL: box(operation="send")', None),
        ("TOOL: horn()", None),
        ('TOOL: box(operation="burn")', None),
        ("TOOL: rocket()", None),
        ("DO_NOTHING: rest", None),
    ],
)
def test_a_valid_call_carries_the_effect_that_its_tool_declares(text: str, effect: str | None) -> None:
    """One effect for a tool, or one for each operation; what is not declared, or no valid call, has none."""
    action = parse(text, REGISTRY)

    assert action.declared_effect == effect_of(action) == effect


@pytest.mark.parametrize(
    ("tool", "args", "effect"),
    [
        ("filesystem", {"operation": "write", "path": "a"}, "workspace"),
        ("filesystem", {"operation": "grep", "path": "a"}, "read"),
        ("git", {"operation": "commit"}, "workspace"),
        ("git", {"operation": "log"}, "read"),
        ("shell", {"command": "ls"}, "workspace"),
        ("notes", {"operation": "remember"}, "read"),
        ("device", {"name": "lamp"}, "world"),
        ("filesystem", {"operation": ["write"]}, None),
        ("rocket", {}, None),
    ],
)
def test_an_act_that_does_not_say_its_effect_has_the_built_in_tools(
    tool: str, args: dict[str, Any], effect: str | None
) -> None:
    """Acts recorded by earlier versions are judged as they were then; other tools declare nothing."""
    action = Action(kind="TOOL", valid=True, tool=tool, args=args)

    assert effect_of(action) == effect
    assert effect_of(action.model_copy(update={"valid": False})) is None


def test_what_a_tool_declares_itself_comes_first() -> None:
    """A tool that bears a built-in one's name is taken at its own word."""
    assert BUILTIN_EFFECTS["filesystem"] != {"write": "world"}

    assert effect_of(parse('TOOL: filesystem(operation="write")', REGISTRY)) == "world"


@pytest.mark.parametrize(
    ("effects", "match"),
    [
        ("everything", "declares the effect 'everything': read, workspace, world"),
        ({"get": "nothing"}, "declares the effect 'nothing'"),
        ({"gte": "read"}, "declares an effect of 'gte', which is no operation of it"),
    ],
)
def test_an_effect_that_cannot_be_is_refused(effects: Any, match: str) -> None:
    """A misspelled effect or operation would silently declare nothing."""
    with pytest.raises(ContractError, match=match):
        Registry([ToolSpec("box", "", (STORE,), effects=effects)])


def test_the_mind_is_told_nothing_of_effects() -> None:
    """The prompt lists the same with and without declared effects."""
    assert REGISTRY["clock"].describe() == ToolSpec("clock", "").describe()
