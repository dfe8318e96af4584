"""Conch as a library: declare rules and consumers, run them or a whole agent, subscribe to events, read experiences.

`conch.__all__` is the public API, with `conch.testing`, `conch.rewards.compose`, `conch.trl`, `conch.verifiers` and the
events in `conch_schemas`. What a plug-in needs is there at once; every other name is imported when it is first used.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":  # before any import that Windows lacks
    _PROGRAM = os.path.splitext(os.path.basename((sys.argv or [""])[0]))[0].removesuffix("-script")
    raise (SystemExit if _PROGRAM in ("conch", "conch-agent", "-m") else ImportError)(
        "conch: Windows is not supported: install Conch in WSL, the Windows Subsystem for Linux"
    )

if sys.argv[:1] == ["-m"] and any(
    word.removeprefix("-m") == "conch" or word.removeprefix("-m").startswith("conch.") for word in sys.orig_argv
):
    # `python -m conch` searches the current directory first, where an agent may have placed a json.py.
    sys.path[:] = sys.path if sys.flags.safe_path else sys.path[1:]

import pydantic

try:
    pydantic.create_model("First")
except Exception:  # pydantic loads plug-ins of its own when it makes a model: no package's malformed ones stop us
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"

# At once, not when first used: `conch.consumer` is a package as well, and the later import of the two would win.
from conch.consumer import consumer, follow, service
from conch.errors import ConchError
from conch.rules import rule

if TYPE_CHECKING:
    from conch.bus import MemoryBus
    from conch.config import Settings
    from conch.library import (
        AgentRun,
        BlockingAgent,
        BlockingCycle,
        HomeReader,
        ProgramAgent,
        ProgramCycle,
        Run,
        Subscription,
        agent,
        connect,
        consuming,
        local_bus,
        open,
        publish,
        running,
        subscribe,
    )
    from conch.minds import Completion, Mind, Prompt
    from conch.tools import tool

__all__ = [
    "AgentRun",
    "BlockingAgent",
    "BlockingCycle",
    "Completion",
    "ConchError",
    "HomeReader",
    "MemoryBus",
    "Mind",
    "ProgramAgent",
    "ProgramCycle",
    "Prompt",
    "Run",
    "Settings",
    "Subscription",
    "agent",
    "connect",
    "consumer",
    "consuming",
    "follow",
    "local_bus",
    "open",
    "publish",
    "rule",
    "running",
    "service",
    "subscribe",
    "tool",
]

_WHERE = {
    "AgentRun": "conch.library",
    "BlockingAgent": "conch.library",
    "BlockingCycle": "conch.library",
    "Completion": "conch.minds",
    "HomeReader": "conch.library",
    "MemoryBus": "conch.bus",
    "Mind": "conch.minds",
    "ProgramAgent": "conch.library",
    "ProgramCycle": "conch.library",
    "Prompt": "conch.minds",
    "Run": "conch.library",
    "Settings": "conch.config",
    "Subscription": "conch.library",
    "agent": "conch.library",
    "connect": "conch.library",
    "consuming": "conch.library",
    "local_bus": "conch.library",
    "open": "conch.library",
    "publish": "conch.library",
    "running": "conch.library",
    "subscribe": "conch.library",
    "tool": "conch.tools",
}
"""The module of each name that is imported when it is first used."""

if not TYPE_CHECKING:  # a type checker would take any name for there

    def __getattr__(name: str) -> object:
        if (module := _WHERE.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(module), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
