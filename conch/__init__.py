"""Who acts: the cycle, minds, tools, bus, consumer runtime, experience store, configuration, commands."""

import os
import sys

if sys.argv[:1] == ["-m"] and any(word.removeprefix("-m").startswith("conch.") for word in sys.orig_argv):
    # `python -m conch.cli.main` looks into the current directory first, where an agent may have left a json.py.
    sys.path[:] = sys.path if sys.flags.safe_path else sys.path[1:]

import pydantic

try:
    pydantic.create_model("First")
except Exception:  # pydantic looks for plug-ins of its own when it makes a model: no package's malformed ones stop us
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"

from conch.consumer.declare import consumer, service
from conch.consumer.follow import follow
from conch.rules import rule

__all__ = ["consumer", "follow", "rule", "service"]
