"""The bus: one small Protocol, JetStream and memory behind it."""

from conch.bus.access import Access
from conch.bus.memory import MemoryBus, MemoryJournal
from conch.bus.protocol import Bus, Delivery, KeyValue, OutgoingMessage, Reader, ReaderState, Stored, StreamState
from conch.bus.subscription import ReceivedEvent, SharedSubscription, StreamSubscription, shared_subscription

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
    "StreamSubscription",
    "shared_subscription",
]
