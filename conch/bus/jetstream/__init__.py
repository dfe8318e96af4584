"""The bus on NATS JetStream, over a nats-py connection."""

from conch.bus.jetstream.bus import JetStreamBus

__all__ = ["JetStreamBus"]
