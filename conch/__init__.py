"""Who acts: the cycle, minds, tools, bus, consumer runtime, experience store, configuration, commands."""

import os

import pydantic

try:
    pydantic.create_model("First")
except Exception:  # pydantic looks for plug-ins of its own when it makes a model: no package's malformed ones stop us
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "1"

from conch.consumer.declare import consumer, rule
from conch.consumer.follow import follow

__all__ = ["consumer", "follow", "rule"]
