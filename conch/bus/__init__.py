"""The bus: one small Protocol, JetStream and memory behind it."""

from conch.bus.access import Access
from conch.bus.memory import MemoryBus, MemoryJournal
from conch.bus.protocol import Bus, Delivery, Entry, Message, Reader, ReaderState, Stored, StreamState
from conch.bus.subscription import Arrived, Feed, Tap, feeding

__all__ = [
    "Access",
    "Arrived",
    "Bus",
    "Delivery",
    "Entry",
    "Feed",
    "MemoryBus",
    "MemoryJournal",
    "Message",
    "Reader",
    "ReaderState",
    "Stored",
    "StreamState",
    "Tap",
    "feeding",
]
