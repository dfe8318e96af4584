"""The rules of `tools.policy`: which calls of tools are allowed, wait for a person's approval, or are denied."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from conch.config.model.section import SettingsSection

MOST_RULES = 100
"""Most rules of a policy: every call of a tool is compared with them in turn."""

Pattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.*?-]{1,100}$")]
PathPattern = Annotated[str, StringConstraints(min_length=1, max_length=500)]


class PolicyRule(SettingsSection):
    """A rule of `tools.policy`. It is about the calls that fit all of `tool`, `operation` and `path`."""

    tool: Pattern = "*"
    """Name of the tool; * and ? stand for other characters."""
    operation: Pattern | None = None
    """The call's argument `operation`, with * and ?; none: every call of the tool."""
    path: PathPattern | None = None
    """File or directory of the workspace with all below it, with * and ?; none: every call, also without a path."""
    do: Literal["allow", "ask", "deny"]
    """allow: the call runs; ask: it waits for a person's approval; deny: it is blocked."""
    because: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""
    """The reason, which the agent and the person are told."""

    @field_validator("path")
    @classmethod
    def _is_inside(cls, path: str | None) -> str | None:
        if path is not None and (path.startswith("/") or ".." in path.split("/")):
            raise ValueError("a path is relative to the workspace, without ..: notes/* or secrets")
        return path


ToolPolicyRules = Annotated[tuple[PolicyRule, ...], Field(max_length=MOST_RULES)]
