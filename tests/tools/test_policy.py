"""`tools.policy`: which calls are allowed, asked for, or denied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from conch.config import PolicyRule, ToolSettings
from conch.tools import ToolPolicy, unknown_tools
from conch_schemas import Action


def call(tool: str, **args: Any) -> Action:
    return Action(kind="TOOL", valid=True, tool=tool, args=args)


def ruled(workspace: Path, action: Action, *rules: dict[str, Any]) -> str:
    """What these rules do with the call."""
    return ToolPolicy([PolicyRule.model_validate(one) for one in rules], workspace).ruling(action).do


def test_without_a_rule_every_call_is_allowed(tmp_path: Path) -> None:
    """As it was before there was a policy; what calls no tool is no matter of it."""
    deny = {"do": "deny"}

    assert ToolPolicy(ToolSettings().policy, tmp_path).ruling(call("shell", command="rm -rf .")).do == "allow"
    assert ruled(tmp_path, Action(kind="DO_NOTHING", valid=True, text=""), deny) == "allow"
    assert ruled(tmp_path, Action(kind="TOOL", valid=False, tool="shell", reason="no"), deny) == "allow"
    assert ruled(tmp_path, call("shell", command="ls"), deny) == "deny"


def test_the_first_rule_that_fits_decides(tmp_path: Path) -> None:
    """By tool and operation, in the order of the settings; the sentence names the rule and its reason."""
    rules = [
        {"tool": "filesystem", "operation": "read", "do": "allow"},
        {"tool": "file*", "operation": "d?lete", "do": "deny", "because": "Nothing is deleted."},
        {"tool": "filesystem", "do": "ask"},
    ]
    policy = ToolPolicy([PolicyRule.model_validate(one) for one in rules], tmp_path)
    said = [policy.ruling(call("filesystem", operation=name, path="a")) for name in ("read", "delete", "write")]

    assert [one.do for one in said] == ["allow", "deny", "ask"]
    assert said[1].why == "tools.policy (rule 2) denies filesystem.delete: Nothing is deleted."
    assert said[2].why == "tools.policy (rule 3) asks for an approval of filesystem.write"
    assert policy.ruling(call("git", operation="log")).do == "allow"


@pytest.mark.parametrize(("do", "said"), [("deny", "deny"), ("ask", "ask"), ("allow", "deny")])
def test_a_rule_about_writes_is_about_edits_too(tmp_path: Path, do: str, said: str) -> None:
    """Where it denies them or asks, as it may be older than the operation edit; an allowance is for writes alone. A
    rule about edits before it decides."""
    edit = call("filesystem", operation="edit", path="a", old="x", new="y")
    rules = [{"tool": "filesystem", "operation": "write", "do": do}, {"tool": "filesystem", "do": "deny"}]
    own = {"tool": "filesystem", "operation": "edit", "do": "allow"}

    assert ruled(tmp_path, edit, *rules) == said
    assert ruled(tmp_path, edit, own, *rules) == "allow"
    assert ruled(tmp_path, call("filesystem", operation="read", path="a"), rules[0]) == "allow"


@pytest.mark.parametrize("operation", ["write", "edit"])
def test_a_rule_with_a_path_is_about_edits_of_it(tmp_path: Path, operation: str) -> None:
    """An edit touches the path that it names, as a write does."""
    rule = {"tool": "filesystem", "path": "secrets", "do": "deny"}

    assert ruled(tmp_path, call("filesystem", operation=operation, path="secrets/key"), rule) == "deny"
    assert ruled(tmp_path, call("filesystem", operation=operation, path="."), rule) == "allow"


@pytest.mark.parametrize(
    "path",
    [
        "secrets", "secrets/key", "./secrets/key", "a/../secrets/key", "secrets//deep/../key", "link/key", "both",
        "{workspace}/secrets/key",
    ],
)  # fmt: skip
def test_no_spelling_and_no_link_leads_around_a_path(tmp_path: Path, path: str) -> None:
    """The path itself, all below it, and what a link leads to."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "link").symlink_to("secrets")
    (tmp_path / "both").symlink_to("secrets/key")
    named = path.format(workspace=tmp_path)

    for do in ("deny", "ask"):
        rule = {"tool": "filesystem", "path": "secrets", "do": do}
        assert ruled(tmp_path, call("filesystem", operation="read", path=named), rule) == do
    assert ruled(tmp_path, call("filesystem", operation="read", path="other"), rule) == "allow"


def test_a_link_does_not_bring_a_path_under_an_allowed_one(tmp_path: Path) -> None:
    """To be allowed by a path, what is written and what it leads to must both be there; so must every path."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "out").symlink_to("../secrets")
    rules = [{"path": "notes", "do": "allow"}, {"do": "deny"}]

    assert ruled(tmp_path, call("filesystem", operation="read", path="notes/a"), *rules) == "allow"
    assert ruled(tmp_path, call("filesystem", operation="read", path="notes/out/key"), *rules) == "deny"
    assert ruled(tmp_path, call("files_move", source="notes/a", destination="b"), *rules) == "deny"
    assert ruled(tmp_path, call("files_read", paths=["notes/a", "notes/b"]), *rules) == "allow"
    assert ruled(tmp_path, call("shell", command="cat notes/a"), *rules) == "deny"


@pytest.mark.parametrize("pattern", ["secrets", "secrets/*.key", "*.key"])
def test_a_search_of_a_directory_above_reaches_the_path(tmp_path: Path, pattern: str) -> None:
    """grep of the whole workspace reads the secrets too; listing the workspace, or reading a file beside, does not."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "a.txt").write_text("a")
    rule = {"tool": "filesystem", "path": pattern, "do": "deny"}

    assert ruled(tmp_path, call("filesystem", operation="grep", path=".", pattern="x"), rule) == "deny"
    assert ruled(tmp_path, call("filesystem", operation="list", path="."), rule) == "allow"
    assert ruled(tmp_path, call("filesystem", operation="grep", path="a.txt", pattern="x"), rule) == "allow"
    assert ruled(tmp_path, call("filesystem", operation="read", path="secrets/b.key"), rule) == "deny"


@given(st.text(max_size=300))
def test_any_path_has_a_ruling(path: str) -> None:
    """Also one that no system takes: a NUL, a name without end."""
    assert ruled(Path("/nowhere"), call("filesystem", operation="read", path=path), {"path": "*", "do": "deny"}) in (
        "deny", "allow",
    )  # fmt: skip


@pytest.mark.parametrize(
    "rule",
    [
        {"do": "perhaps"},
        {"tool": "shell"},
        {"path": "/etc", "do": "deny"},
        {"path": "a/../b", "do": "ask"},
        {"tol": "x"},
    ],
)
def test_a_rule_that_is_none_is_refused(rule: dict[str, Any]) -> None:
    """A word that decides nothing, none, a path outside the workspace, a key that there is not."""
    with pytest.raises(ValidationError):
        ToolSettings.model_validate({"policy": [rule]})


def test_a_rule_about_a_tool_that_is_not_there_is_told() -> None:
    """It decides on nothing, so a misspelt `deny` would let each call pass; Conch's own tools count as there."""
    rules = [
        PolicyRule(tool=name, do="deny")
        for name in ("shel", "Shell", "files_*", "http", "device", "my-files_read", "*")
    ]

    assert unknown_tools(rules, ["files_read"]) == [
        "tools.policy (rule 1) fits no tool: there is no shel; the nearest name is shell",
        "tools.policy (rule 6) fits no tool: there is no my-files_read; the nearest name is files_read",
    ]
