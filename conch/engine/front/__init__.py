"""The front of an engine: an OpenAI-compatible endpoint of a base and its adapters, each under a name of its own."""
