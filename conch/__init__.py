"""Who acts: the cycle, minds, tools, bus, consumer runtime, experience store, configuration, commands."""

from conch.consumer import consumer, follow, rule

__all__ = ["consumer", "follow", "rule"]
