"""`tools.policy`: whether a call of a tool is allowed, waits for a person's approval, or is denied."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from conch.actions import BUILTIN_EFFECTS, forbidden_as
from conch.config import PolicyRule
from conch.text import instead, safe_text
from conch_schemas import Action

PATH_ARGUMENTS = frozenset({"path", "paths", "file", "files", "filename", "source", "destination", "directory", "dir"})
"""Names of arguments that hold a path; so does an argument whose name ends in `_path` or `_paths`."""
ONE_PATH = frozenset(
    f"filesystem.{name}" for name in ("read", "write", "edit", "list", "exists", "info", "delete", "mkdir")
)
"""Calls that touch the path that they name and nothing below it. Any other call may touch all of a directory."""
HTTP = "http"
"""The tool that Conch has where `tools.http` names a host: a rule about it may stand before that."""
SHOWN_PATH = 200
"""Characters of a path in a sentence."""


@dataclass(frozen=True)
class Ruling:
    """What the policy says of a call."""

    do: Literal["allow", "ask", "deny"]
    why: str = ""
    """The rule in a sentence; empty for a call that is allowed."""


ALLOWED = Ruling("allow")
"""The ruling on a call that no rule is about."""


class ToolPolicy:
    """The rules of a policy, in their order: the first that fits a call decides on it; where none fits, it is allowed.

    A rule with `path` fits by the paths in the call's arguments, as they are written and as they resolve in the
    workspace. For `allow` all must fit. For `ask` and `deny` one is enough, and a search of a directory that holds the
    rule's path fits as well. A call whose paths are not arguments, such as a shell command, fits no rule with `path`.
    """

    def __init__(self, rules: Sequence[PolicyRule], workspace: Path) -> None:
        self._rules, self._workspace = tuple(rules), workspace

    def ruling(self, action: Action) -> Ruling:
        """What the first rule that fits says of this decision. Never raises; reads links of the workspace where a rule
        has a path."""
        if action.kind != "TOOL" or not action.valid or action.tool is None:
            return ALLOWED
        for number, rule in enumerate(self._rules, 1):
            if self._fits(rule, action):
                return ALLOWED if rule.do == "allow" else Ruling(rule.do, _sentence(rule, number, action))
        return ALLOWED

    def about(self, tool: str) -> str:
        """What the rules say of the calls of a tool, in their order, up to the first that decides on all the rest:
        `deny in secrets, ask push, allow`."""
        told = []
        for rule in self._rules:
            if not _names(rule, tool):
                continue
            of = f" {rule.operation}" if rule.operation not in (None, "*") else ""
            told.append(f"{rule.do}{of}" + (f" in {rule.path}" if rule.path is not None else ""))
            if told[-1] == rule.do:
                return ", ".join(told)
        return ", ".join([*told, "allow"])

    def _fits(self, rule: PolicyRule, action: Action) -> bool:
        if not _names(rule, action.tool or ""):
            return False
        if rule.operation is not None and not _fits_operation(rule, rule.operation.lower(), action):
            return False
        return rule.path is None or self._fits_path(rule, rule.path, action)

    def _fits_path(self, rule: PolicyRule, pattern: str, action: Action) -> bool:
        forms = [form for path in paths_of(action.args) for form in self._forms(path)]
        if rule.do == "allow":
            return bool(forms) and all(_below(form, pattern) for form in forms)
        searches = action.skill not in ONE_PATH
        return any(_below(form, pattern) or (searches and self._may_hold(form, pattern)) for form in forms)

    def _may_hold(self, path: str, pattern: str) -> bool:
        """Whether a directory of this path may have something in it that the pattern names."""
        fixed = list(takewhile(lambda part: not set("*?[") & set(part), _parts(pattern)))
        same = all(one == other for one, other in zip(_parts(path), fixed, strict=False))
        return same and not os.path.isfile(os.path.join(self._workspace, path))

    def _forms(self, path: str) -> Iterator[str]:
        """The path relative to the workspace, as it is written and with its links resolved."""
        root = os.path.realpath(self._workspace)
        try:
            yield _relative(os.path.normpath(os.path.join(root, path)), root)
            yield _relative(os.path.realpath(os.path.join(root, path)), root)
        except (OSError, ValueError):  # a NUL, or a name that is too long: no tool can open it
            yield posixpath.normpath(path)


def unknown_tools(rules: Sequence[PolicyRule], names: Iterable[str]) -> list[str]:
    """A sentence about each rule that fits no tool: none of `names`, and none that Conch has."""
    known = {*BUILTIN_EFFECTS, HTTP, *names}
    return [
        f"tools.policy (rule {number}) fits no tool: there is no {rule.tool}; {instead(rule.tool, known)}"
        for number, rule in enumerate(rules, 1)
        if not any(_names(rule, name) for name in known)
    ]


def _fits_operation(rule: PolicyRule, wanted: str, action: Action) -> bool:
    """Whether the rule is about the call's operation. What asks for or denies writes is about edits too: a home may be
    older than those."""
    operation = action.args.get("operation")
    if not isinstance(operation, str):
        return False
    older = forbidden_as(action.skill)[1:] if rule.do != "allow" else ()
    return any(fnmatchcase(name, wanted) for name in (operation.lower(), *(one.partition(".")[2] for one in older)))


def _names(rule: PolicyRule, tool: str) -> bool:
    return fnmatchcase(tool, rule.tool.lower())


def paths_of(args: Mapping[str, JsonValue]) -> Iterator[str]:
    """The paths among a call's arguments."""
    for name, value in args.items():
        if name.lower() in PATH_ARGUMENTS or name.lower().endswith(("_path", "_paths")):
            yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))


def _relative(path: str, root: str) -> str:
    return os.path.relpath(path, root)


def _parts(path: str) -> list[str]:
    return [part for part in posixpath.normpath(path).split("/") if part != "."]


def _below(path: str, pattern: str) -> bool:
    """Whether the pattern names the path, or a directory above it."""
    whole = posixpath.normpath(pattern)
    return whole == "." or fnmatchcase(path, whole) or fnmatchcase(path, f"{whole}/*")


def _sentence(rule: PolicyRule, number: int, action: Action) -> str:
    paths = ", ".join(paths_of(action.args)) if rule.path is not None else ""
    of = f" of {safe_text(paths, one_line=True)[:SHOWN_PATH]}" if paths else ""
    does = "asks for an approval of" if rule.do == "ask" else "denies"
    because = f": {rule.because}" if rule.because else ""
    return f"tools.policy (rule {number}) {does} {action.skill}{of}{because}"
