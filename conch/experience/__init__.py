"""Experiences: acts joined with everything that was said of them, kept as long as the disk holds."""

from conch.experience.location import store_path
from conch.experience.prune import Pruned, Retention
from conch.experience.queries.backfill import Recorded, Said, Scorer, Since, Unscored
from conch.experience.queries.bodies import ShownCheck, ShownLine, ShownScore
from conch.experience.queries.charts import Filters, Point, Tally
from conch.experience.queries.removed import Removal, removal_of, removed_words
from conch.experience.queries.rows import cycle_row
from conch.experience.reader import SqliteReader
from conch.experience.sqlite import MemoryStore, SqliteStore
from conch.experience.store import FACTS, ComponentStats, ExperienceReader, ExperienceStore, Figures, Loss

__all__ = [
    "FACTS",
    "ComponentStats",
    "ExperienceReader",
    "ExperienceStore",
    "Figures",
    "Filters",
    "Loss",
    "MemoryStore",
    "Point",
    "Pruned",
    "Recorded",
    "Removal",
    "Retention",
    "Said",
    "Scorer",
    "ShownCheck",
    "ShownLine",
    "ShownScore",
    "Since",
    "SqliteReader",
    "SqliteStore",
    "Tally",
    "Unscored",
    "cycle_row",
    "removal_of",
    "removed_words",
    "store_path",
]
