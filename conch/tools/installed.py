"""Tools that installed packages register: entry points of the group `conch.tools`, each a tool or a module of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from types import ModuleType

from conch.actions import BUILTIN_EFFECTS, Registry
from conch.installed import TrialError, answer_of_trial, entry_points_of, error_words, tried
from conch.log import get_logger
from conch.python_child import python_command
from conch.tools.declare import Tool

log = get_logger(__name__)

TOOL_GROUP = "conch.tools"
"""Entry points by which installed packages register tools."""
TRIALS = 4
"""Packages that are tried side by side: one that hangs delays no other."""


@dataclass(frozen=True)
class InstalledTool:
    """A registered tool that can be used."""

    name: str
    point: str
    """The name of its entry point."""
    described: str
    """Its line of the prompt: signature and description."""

    @property
    def origin(self) -> str:
        """`conch.tools:NAME`."""
        return f"{TOOL_GROUP}:{self.point}"


@dataclass(frozen=True)
class InstalledTools:
    """The registered tools, and what is set aside."""

    tools: tuple[InstalledTool, ...] = ()
    set_aside: tuple[tuple[str, str], ...] = ()
    """(Origin, why) of each entry point or package whose tools cannot be used."""

    @property
    def points(self) -> tuple[str, ...]:
        """The entry points whose tools can be used."""
        return tuple(dict.fromkeys(tool.point for tool in self.tools))


def installed_tools() -> InstalledTools:
    """All registered tools, each package tried in a process of its own. An entry point is set aside as a whole where it
    cannot be imported, registers no tool, or one whose name is taken."""
    points, broken = entry_points_of([TOOL_GROUP])
    with ThreadPoolExecutor(TRIALS) as trials:
        looked = list(trials.map(_tried, points))
    found: dict[str, InstalledTool] = {}
    set_aside = [(one.origin, one.why) for one in broken]
    for point, (tools, why) in zip(points, looked, strict=True):
        taken = sorted({tool.name for tool in tools} & {*BUILTIN_EFFECTS, *found})
        twice = sum(point.name == other.name for other in points) > 1
        if twice:
            why = "two installed packages register it: uninstall one"
        elif taken:
            why = f"the name {taken[0]!r} is taken by {_owner(taken[0], found)}: give the tool another name"
        if why:
            set_aside.append((f"{TOOL_GROUP}:{point.name}", why))
        else:
            found |= {tool.name: tool for tool in tools}
    return InstalledTools(tuple(found.values()), tuple(dict.fromkeys(set_aside)))


def load_tools(points: Sequence[str]) -> tuple[Tool, ...]:
    """The tools of these entry points, imported into this process. What cannot be imported any more is logged and left
    out."""
    found: list[Tool] = []
    for point in (one for one in _points() if one.name in points):
        try:
            found += [replace(tool, origin=f"entry point {TOOL_GROUP}:{point.name}") for tool in _tools_of(point)]
        except Exception as error:
            log.warning("tool.set_aside", origin=f"{TOOL_GROUP}:{point.name}", why=error_words(error, None))
    return tuple(found)


def _owner(name: str, found: dict[str, InstalledTool]) -> str:
    return found[name].origin if name in found else "a tool of Conch"


def _points() -> Iterable[EntryPoint]:
    return entry_points_of([TOOL_GROUP])[0]


def _tried(point: EntryPoint) -> tuple[tuple[InstalledTool, ...], str]:
    """(its tools, why there are none)."""

    def read(output: bytes) -> tuple[tuple[InstalledTool, ...], str]:
        answer = json.loads(output)
        return tuple(InstalledTool(name, point.name, said) for name, said in answer["tools"]), str(answer["why"])

    try:
        return tried(python_command("conch.tools.installed", point.name, point.value), read)
    except TrialError as error:
        return (), str(error)


def _tools_of(point: EntryPoint) -> tuple[Tool, ...]:
    """Raises TypeError for what registers no tool, ContractError for a tool that a reply cannot call, and what the
    import raises."""
    thing: object = point.load()
    values = vars(thing).values() if isinstance(thing, ModuleType) else [thing]
    tools = tuple({id(value): value for value in values if isinstance(value, Tool)}.values())
    if not tools:
        raise TypeError(f"{point.value} is no tool: decorate a function with conch.tools.tool")
    Registry(tool.spec for tool in tools)
    return tools


def _main() -> None:
    """`python -m conch.tools.installed NAME VALUE`: one JSON object on stdout."""
    from conch.tools.installed import _tools_of as tools_of  # not `__main__`'s: the package meets the one module

    def answer() -> str:
        try:
            tools = tools_of(EntryPoint(sys.argv[1], sys.argv[2], TOOL_GROUP))
        except BaseException as error:
            return json.dumps({"tools": [], "why": error_words(error, None)})
        return json.dumps({"tools": [(tool.spec.name, tool.spec.describe()) for tool in tools], "why": ""})

    answer_of_trial(answer)


if __name__ == "__main__":
    _main()
