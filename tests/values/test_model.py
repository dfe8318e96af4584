"""Guardrails: which decisions go against them. Pure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from conch.values import BUILTIN, Guardrail, Values, read_values
from conch_schemas import Action


def use(tool: str, **arguments: Any) -> Action:
    """A decision to use a tool."""
    return Action(kind="TOOL", valid=True, tool=tool, args=arguments)


def rail(*skills: str, says: tuple[str, ...] = ()) -> Guardrail:
    """A guardrail."""
    return Guardrail(name="one", why="It is not done.", skills=skills, says=says)


@pytest.mark.parametrize(
    ("skills", "action", "blocked"),
    [
        (("shell",), use("shell", command="ls"), True),
        (("shell",), use("search", query="shell"), False),
        (("filesystem",), use("filesystem", operation="write"), True),
        (("filesystem.write",), use("filesystem", operation="write"), True),
        (("filesystem.write",), use("filesystem", operation="WRITE"), True),
        (("filesystem.write",), use("filesystem", operation="edit"), True),
        (("filesystem.edit",), use("filesystem", operation="write"), False),
        (("filesystem.write",), use("filesystem", operation="read"), False),
        (("filesystem.*",), use("filesystem", operation="read"), True),
        (("device_?", "reply"), use("device_1"), True),
        (("*",), use("anything"), True),
    ],
)
def test_a_guardrail_is_of_tools_and_operations(skills: tuple[str, ...], action: Action, blocked: bool) -> None:
    """By name or pattern, whatever the case; a tool alone means all that it does."""
    assert rail(*skills).blocks(action) is blocked


@pytest.mark.parametrize(
    ("said", "blocked"),
    [
        ("git push --force origin", True),
        ("GIT   PUSH\n--FORCE", True),
        ("git push", False),
        ({"deep": [1, {"inside": "x push --force"}]}, True),
        ({"push --force": 1}, True),
        (["push", "--force"], False),
    ],
)
def test_it_looks_for_its_words_in_every_argument(said: Any, blocked: bool) -> None:
    """Whatever their case and blanks, however deep; not across two texts."""
    assert rail("shell", says=("push --force",)).blocks(use("shell", first="", command=said)) is blocked


@given(st.text(max_size=200), st.sampled_from([" ", "\t", "\n  "]), st.text(max_size=200))
def test_no_text_around_hides_the_words(before: str, blank: str, after: str) -> None:
    """Case and blanks neither."""
    command = f"{before} RM{blank}-rf{blank}/ {after}"
    assert Values(guardrails=(rail("shell", says=("rm -rf /",)),)).guard(use("shell", command=command)) is not None


def test_only_what_would_be_done_is_blocked() -> None:
    """A topic, a reason and an invalid reply do nothing, whatever they say."""
    values = Values(guardrails=(rail("*"),))

    assert values.guard(Action(kind="REFLECT", valid=True, text="shell")) is None
    assert values.guard(Action(kind="TOOL", valid=False, tool="shell", reason="no such tool")) is None
    assert values.guard(use("shell")) == "the guardrail one forbids it: It is not done."


def test_two_guardrails_of_one_name_are_refused() -> None:
    """What blocked an act is to be found by its name."""
    with pytest.raises(ValidationError, match="there are two guardrails one"):
        Values(guardrails=(rail("shell"), rail("reply")))


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (use("shell", command="git push --force"), "history-stays"),
        (use("shell", command="rm -rf ~/notes"), "nothing-wiped"),
        (use("reply", text="-----BEGIN OPENSSH PRIVATE KEY-----"), "no-keys-told"),
        (use("shell", command="git commit -am 'a note'"), None),
        (use("shell", command="rm -rf build"), None),
        (use("reply", text="The private key is safe."), None),
    ],
)
def test_the_values_that_come_along_block_what_they_say(action: Action, name: str | None) -> None:
    """And four values are told."""
    values = read_values(BUILTIN)
    assert list(values.values) == ["benevolence", "honesty", "humility", "growth for service"]
    why = values.guard(action)
    assert why is None if name is None else why is not None and f"the guardrail {name} forbids it" in why
