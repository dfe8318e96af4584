"""The bus over NATS JetStream, on an ordinary nats-py connection."""

from conch.bus.jetstream.bus import JetStreamBus

__all__ = ["JetStreamBus"]
