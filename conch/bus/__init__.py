"""The bus: one small Protocol, JetStream and memory behind it."""

from conch.bus.memory import MemoryBus, MemoryJournal
from conch.bus.protocol import Bus, Delivery, Entry, Reader, ReaderState, Stored, StreamState

__all__ = [
    "Bus",
    "Delivery",
    "Entry",
    "MemoryBus",
    "MemoryJournal",
    "Reader",
    "ReaderState",
    "Stored",
    "StreamState",
]
