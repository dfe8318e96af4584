"""Experiences: acts joined with everything that was said of them, kept as long as the disk holds."""

from conch.experience.past import Recorded, Said, Scorer, Since, Unscored
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
    "Recorded",
    "Said",
    "Scorer",
    "Since",
    "SqliteReader",
    "SqliteStore",
    "Unscored",
    "cycle_row",
    "store_path",
]
