"""The message bus: the protocol `Bus` and its two implementations, NATS JetStream and in memory."""

from conch.bus.access import Access
from conch.bus.memory import MemoryBus, MemoryJournal
from conch.bus.protocol import Bus, Delivery, KeyValue, OutgoingMessage, Reader, ReaderState, Stored, StreamState
from conch.bus.subscription import ReceivedEvent, SharedSubscription, Subscription, shared_subscription

__all__ = [
    "Access",
    "Bus",
    "Delivery",
    "KeyValue",
    "MemoryBus",
    "MemoryJournal",
    "OutgoingMessage",
    "Reader",
    "ReaderState",
    "ReceivedEvent",
    "SharedSubscription",
    "Stored",
    "StreamState",
    "Subscription",
    "shared_subscription",
]
