"""The tools of a run's agents, for `conch doctor`, `conch tool list` and `conch tool test`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue

from conch.config import Settings, ToolSettings
from conch.errors import ClientEnvironmentError, ConchError
from conch.text import safe_text
from conch.tools import BUILT_IN, installed_tools, name_taken, opened_tools, unknown_tools
from conch.views.base import View
from conch.views.run.checks import DoctorFinding, environment_problem
from conch_schemas import Action, Effect, Outcome

if TYPE_CHECKING:
    from conch.tools import Toolbox, ToolPolicy


async def tool_findings(settings: Settings) -> list[DoctorFinding]:
    """Whether a run can use them: each file is imported and each server started, as a run does, and ended. No finding
    where the settings add no tool and no rule."""
    of = settings.tools
    if not (of.files or of.mcp or of.policy):
        return []
    told: list[str] = []
    registered = {tool.name: tool.origin for tool in installed_tools().tools}
    try:
        async with opened_tools(settings, told.append) as toolbox:
            for tool in toolbox:
                if tool.spec.name in registered:
                    raise name_taken(tool.spec.name, tool.origin, f"entry point {registered[tool.spec.name]}")
            own = sum(tool.origin != BUILT_IN for tool in toolbox)
    except ClientEnvironmentError as error:
        return [environment_problem(error)]
    except ConchError as error:
        return [DoctorFinding("tools", "problem", str(error), "a run is refused until that is mended")]
    told += unknown_tools(of.policy, [*toolbox.registry.names, *registered])
    if told:
        return [DoctorFinding("tools", "warning", why, "a run begins all the same: mend conch.yaml") for why in told]
    return [DoctorFinding("tools", "ok", f"{own} of your own, {len(of.policy)} rules of the policy")]


class ToolRow(View):
    """A tool that the agent has."""

    name: str
    source: str
    """`built in`, `file PATH`, `MCP server NAME` or `entry point conch.tools:NAME`."""
    effects: Effect | dict[str, Effect]
    """What a call may change; by operation where they differ. An operation that is not named is not declared."""
    policy: str
    """What `tools.policy` says of its calls, rule by rule."""
    timeout: float
    """Seconds that a call may take."""

    @property
    def effect_words(self) -> str:
        """The effects in a few words."""
        if isinstance(self.effects, str):
            return self.effects
        found: dict[str, list[str]] = {}
        for operation, effect in self.effects.items():
            found.setdefault(effect, []).append(operation)
        return "; ".join(f"{effect}: {' '.join(names)}" for effect, names in found.items()) or "not declared"


class Tools(View):
    """The tools, as `conch tool list --json` prints them."""

    schema_: Literal["conch.v1.tools"] = Field(default="conch.v1.tools", alias="schema")
    tools: tuple[ToolRow, ...]


class ToolCalled(View):
    """A call of a tool, as `conch tool test --json` prints it."""

    schema_: Literal["conch.v1.tool_called"] = Field(default="conch.v1.tool_called", alias="schema")
    tool: str
    args: dict[str, JsonValue]
    outcome: Literal["success", "error", "timeout", "blocked", "unknown", "none"]
    output: str
    """Cut as an event holds it."""
    error: str | None
    exit_code: int | None
    effect: Effect | None
    """What the call may change, as declared; None: nothing is declared."""
    ms: float


def tools_shown(toolbox: Toolbox, policy: ToolPolicy, settings: ToolSettings) -> Tools:
    """The document of these tools."""
    return Tools(
        tools=tuple(
            ToolRow(
                name=tool.spec.name,
                source=safe_text(tool.origin, one_line=True),
                effects=tool.spec.effects if isinstance(tool.spec.effects, str) else dict(tool.spec.effects),
                policy=policy.about(tool.spec.name),
                timeout=tool.timeout or settings.timeout,
            )
            for tool in toolbox
        )
    )


def tool_called(action: Action, outcome: Outcome, effect: Effect | None) -> ToolCalled:
    """The document of this call."""
    return ToolCalled(
        tool=action.tool or "",
        args=action.args,
        outcome=outcome.status,
        output=outcome.output.text,
        error=outcome.error,
        exit_code=outcome.exit_code,
        effect=effect,
        ms=round(outcome.ms, 3),
    )
