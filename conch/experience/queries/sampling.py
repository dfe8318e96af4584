"""What sampling reads of a store: the columns that it draws by, and what changed in them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from conch.experience.models import SampleChanges, SampleRow
from conch.experience.opened import OpenStore
from conch.experience.queries.cycles import SqlCycles
from conch_schemas import ExperienceRecorded

_COLUMNS: Final = "SELECT act, seq, agent, cycle, outcome, tool, skill, need, total FROM experiences"
_NEWEST_OF_ONE: Final = f"{_COLUMNS} WHERE agent = ? ORDER BY seq DESC LIMIT ?"
_NEWEST_OF_ALL: Final = f"{_COLUMNS} ORDER BY seq DESC LIMIT ?"
# The index is named, as the planner prefers the order of another one to the few rows of this. SQLite enters it
# at the bound that is named first: at 0 it would read every row.
_SINCE: Final = f"{_COLUMNS} INDEXED BY experiences_by_change WHERE changed > ? AND changed > 0"
_REMOVED: Final = "SELECT agent, sum(acts), max(last_cycle) FROM removals GROUP BY agent"


class SqlSampling:
    """The `SampleReader` of a store over SQL."""

    def __init__(self, file: OpenStore, cycles: SqlCycles) -> None:
        self._file, self._cycles = file, cycles

    def changes(self) -> int:
        return self._file.changes()

    def newest(self, agent: str | None, size: int) -> SampleChanges:
        query = (_NEWEST_OF_ALL, size) if agent is None else (_NEWEST_OF_ONE, agent, size)
        with self._file.snapshot():
            found = self._found(*query)
        found.rows.reverse()
        return found

    def since(self, change: int) -> SampleChanges:
        with self._file.snapshot():
            is_counted = self._file.changes() > 0  # else the file is of an older schema, and has no such index
            found = self._found(_SINCE, change) if is_counted else self._found(f"{_COLUMNS} WHERE act < ?", 0)
        found.rows.sort(key=attrgetter("seq"))
        return found

    def experiences(self, acts: Sequence[int]) -> list[ExperienceRecorded | None]:
        with self._file.snapshot():
            return [self._cycles.by_number(act) for act in acts]

    def _found(self, sql: str, *values: object) -> SampleChanges:
        rows = [SampleRow._make(row) for row in self._file.rows(sql, *values)]
        removed = {agent: (acts, last) for agent, acts, last in self._file.rows(_REMOVED)}
        return SampleChanges(self._file.changes(), rows, removed)
