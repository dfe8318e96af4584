"""Who acts: the cycle, minds, tools, bus, consumer runtime, experience store, configuration, commands."""
