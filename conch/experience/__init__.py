"""Experiences: acts joined with everything that was said of them, kept as long as the disk holds."""

from conch.experience.location import store_path
from conch.experience.prune import PruneResult, RetentionLimits
from conch.experience.queries.backfill import RecordedAct, RecordedScore, ScoredSince, ScorerVersion, UnscoredActs
from conch.experience.queries.bodies import ShownCheck, ShownLine, ShownScore
from conch.experience.queries.charts import CycleCounts, CycleFilter, ExperiencePoint
from conch.experience.queries.removed import Removal, removal_of, removed_words
from conch.experience.reader import SqliteReader
from conch.experience.sqlite import MemoryStore, SqliteStore
from conch.experience.store import (
    FACTS,
    ComponentStats,
    ExperienceReader,
    ExperienceStore,
    ExperienceSummary,
    StreamLoss,
)

__all__ = [
    "FACTS",
    "ComponentStats",
    "CycleCounts",
    "CycleFilter",
    "ExperiencePoint",
    "ExperienceReader",
    "ExperienceStore",
    "ExperienceSummary",
    "MemoryStore",
    "PruneResult",
    "RecordedAct",
    "RecordedScore",
    "Removal",
    "RetentionLimits",
    "ScoredSince",
    "ScorerVersion",
    "ShownCheck",
    "ShownLine",
    "ShownScore",
    "SqliteReader",
    "SqliteStore",
    "StreamLoss",
    "UnscoredActs",
    "removal_of",
    "removed_words",
    "store_path",
]
