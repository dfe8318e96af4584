"""Experiences: acts joined with everything that was said of them, kept as long as the disk holds."""

from conch.experience.place import store_path
from conch.experience.reader import SqliteReader
from conch.experience.rows import cycle_row
from conch.experience.sqlite import MemoryStore, SqliteStore
from conch.experience.store import FACTS, ComponentStats, ExperienceReader, ExperienceStore, Figures

__all__ = [
    "FACTS",
    "ComponentStats",
    "ExperienceReader",
    "ExperienceStore",
    "Figures",
    "MemoryStore",
    "SqliteReader",
    "SqliteStore",
    "cycle_row",
    "store_path",
]
