"""Conch's core: the agent's cycle, minds, tools, bus, consumer runtime, experience store, configuration, CLI."""

import os
import sys

if sys.platform == "win32":  # before any import that Windows lacks
    _PROGRAM = os.path.splitext(os.path.basename((sys.argv or [""])[0]))[0].removesuffix("-script")
    raise (SystemExit if _PROGRAM in ("conch", "conch-agent", "-m") else ImportError)(
        "conch: Windows is not supported: install Conch in WSL, the Windows Subsystem for Linux"
    )

if sys.argv[:1] == ["-m"] and any(word.removeprefix("-m").startswith("conch.") for word in sys.orig_argv):
    # `python -m conch.cli.main` searches the current directory first, where an agent may have placed a json.py.
    sys.path[:] = sys.path if sys.flags.safe_path else sys.path[1:]

import pydantic

try:
    pydantic.create_model("First")
except Exception:  # pydantic loads plug-ins of its own when it makes a model: no package's malformed ones stop us
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"

from conch.consumer.declare import consumer, rule
from conch.consumer.follow import follow

__all__ = ["consumer", "follow", "rule"]
