"""The set of available tools, and the execution of one call within its time limit."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Iterable, Iterator, Mapping

from pydantic import JsonValue

from conch.actions import Registry
from conch.config import Masker
from conch.errors import ConchError, ContractError
from conch.secrets import HIDDEN
from conch.text import cut, safe_text
from conch.tools.declare import BUILT_IN, Tool, ToolContext, ToolResult
from conch.tools.workspace import OutsideError
from conch_schemas import Action, Outcome

GRACE_SECONDS = 0.5
"""Seconds beyond a tool's time limit for it to end what it began."""

MAX_ERROR = 500
"""Most characters of a tool's error."""

MASKED = (
    f"the call holds {HIDDEN}, which stands in the place of a secret: nothing was changed, or it would be written over "
    "the secret; leave the line with the secret as it is, or let a program make a new one"
)
"""Why a call is refused that would write the mask of a secret."""


class Toolbox:
    """Tools by name. Raises ContractError where two have the same name."""

    def __init__(self, tools: Iterable[Tool], masker: Masker = Masker()) -> None:  # noqa: B008 - it does not change
        """`masker`: of what the tools tell, before it is cut."""
        self._masker = masker
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self._take(tool)
        self.registry = Registry(tool.spec for tool in self._tools.values())
        """Signatures of the tools for the parser, the prompt and the constraints."""

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def add(self, tool: Tool) -> None:
        """One tool more. Raises ContractError where there is one of its name, or its name or effects cannot be; call it
        before an agent is made with this toolbox."""
        registry = self.registry if tool.spec.name in self._tools else Registry((*self.registry, tool.spec))
        self._take(tool)
        self.registry = registry

    def _take(self, tool: Tool) -> None:
        if (there := self._tools.get(tool.spec.name)) is not None:
            raise name_taken(tool.spec.name, there.origin, tool.origin)
        self._tools[tool.spec.name] = tool

    async def run(self, action: Action, context: ToolContext) -> Outcome:
        """Execute `action`. Raises only if cancelled, which ends what was begun.

        Takes at most the tool's own time or `settings.timeout`, and GRACE_SECONDS. An action that is not a valid call
        has the outcome `none`.
        """
        began = time.perf_counter()
        result = await self._result(action, context)
        return Outcome(
            status="none" if result is None else result.status,
            output=cut(self._masker.text(result.output) if result else ""),
            error=self._error(result.error) if result and result.error else None,
            exit_code=result.exit_code if result else None,
            answered=result.answered if result else None,
            proposed=result.proposed if result else None,
            unavailable=result.unavailable if result else False,
            ms=(time.perf_counter() - began) * 1000,
        )

    def _error(self, error: str) -> str:
        return self._masker.text(safe_text(error, one_line=True))[:MAX_ERROR]

    async def _result(self, action: Action, context: ToolContext) -> ToolResult | None:
        if action.kind != "TOOL" or not action.valid or action.tool is None:
            return None
        if problem := self.registry.objection(action.tool, action.args):
            return ToolResult(status="error", error=problem)
        if holds_mask(action.args) and self._tools[action.tool].spec.effect(action.args) != "read":
            return ToolResult(status="blocked", error=MASKED)
        limit = self._tools[action.tool].timeout or context.settings.timeout
        try:
            async with asyncio.timeout(limit + GRACE_SECONDS) as scope:
                return await _call(self._tools[action.tool], action.args, context)
        except OutsideError as error:
            return ToolResult(status="blocked", error=str(error))
        except ConchError as error:
            return ToolResult(status="error", error=str(error))
        except (Exception, SystemExit) as error:
            if scope.expired():
                return ToolResult(status="timeout", error=f"{action.tool} took longer than {limit:g} seconds")
            return ToolResult(status="error", error=f"{action.tool} failed: {type(error).__name__}: {error}")


def holds_mask(value: JsonValue | Mapping[str, JsonValue]) -> bool:
    """Whether the mask of a secret stands in a value."""
    if isinstance(value, str):
        return HIDDEN in value
    if isinstance(value, Mapping):
        return any(HIDDEN in name or holds_mask(part) for name, part in value.items())
    return isinstance(value, list) and any(map(holds_mask, value))


def name_taken(name: str, one: str, other: str) -> ContractError:
    """The error of two tools of one name: where each comes from, and what to do about the one that is the user's."""
    sources = " and ".join(
        "one that comes with Conch" if each == BUILT_IN else f"one of the {each}" for each in (one, other)
    )
    theirs = one if other == BUILT_IN else other
    if theirs.startswith("MCP server "):
        of = theirs.removeprefix("MCP server ")
        mend = f"give the server another name, or leave the tool out of tools.mcp.{of}.tools"
    elif theirs.startswith("entry point "):
        mend = "uninstall the package that registers it"
    else:
        mend = "give the function another name"
    return ContractError(f"there are two tools {name}, {sources}: {mend}")


async def _call(tool: Tool, args: Mapping[str, JsonValue], context: ToolContext) -> ToolResult:
    given = (context,) if tool.wants_context else ()
    if inspect.iscoroutinefunction(tool.function):
        result = await tool.function(*given, **args)
    else:
        result = await asyncio.to_thread(tool.function, *given, **args)
    if isinstance(result, ToolResult):
        return result
    if isinstance(result, str):
        return ToolResult(result)
    return ToolResult(status="error", error=f"{tool.spec.name} returned {type(result).__name__}, not text")
