"""What re-scoring reads of a store: the acts as they were, and who has scored which of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from conch.experience.models import RecordedAct, RecordedScore, ScoredSince, ScorerVersion, UnscoredActs
from conch.experience.opened import OpenStore, stored_event
from conch.experience.queries.retention import removals
from conch_schemas import ActionTaken

# A `+` keeps the planner at the index of places: the pages are in their order.
_FROM: Final = """
    FROM acts a WHERE a.agent = :agent AND a.seq > :after AND a.seq <= :upto
    AND +a.cycle >= :cycle AND a.started >= :since """
_UNSCORED: Final = """
    NOT EXISTS (SELECT 1 FROM scores s WHERE s.act = a.act AND s.scorer = :scorer AND s.version = :version)"""
_ALL: Final = "FROM acts a WHERE a.agent = :agent AND a.seq > :after AND a.seq <= :upto "
_WANTED: Final = "+a.cycle >= :cycle AND a.started >= :since AND "
_COUNTED: Final = f"SELECT count(*), count(*) FILTER (WHERE {_UNSCORED}) {_FROM}"
_LAST: Final = "SELECT coalesce(max(seq), 0) FROM acts WHERE agent = ?"
_PAGES: Final = f"SELECT a.seq, 1, unpacked(a.body) {_FROM} AND {_UNSCORED} ORDER BY a.seq LIMIT :most"
_WHOLE_PAGES: Final = f"SELECT a.seq, {_WANTED}{_UNSCORED}, unpacked(a.body) {_ALL} ORDER BY a.seq LIMIT :most"
_VERSIONS: Final = """
    SELECT version FROM scores WHERE act = (SELECT act FROM actions WHERE action_id = ?)
    AND scorer = ? AND component = ?"""
_SCORERS: Final = """
    SELECT component, scorer, version, count(*), min(low), max(high) FROM scores
    GROUP BY component, scorer, version ORDER BY component, scorer, version"""
_REMOVED_SCORERS: Final = "SELECT component, scorer, version, count, low, high FROM removed_scores"
_SCORERS_OF: Final = """
    SELECT component, scorer, version, count(*), min(low), max(high) FROM acts a JOIN scores s ON s.act = a.act
    WHERE a.agent = ? AND a.cycle >= ? GROUP BY component, scorer, version ORDER BY component, scorer, version"""
_SAID: Final = """
    SELECT a.act, a.agent, a.cycle, s.version, s.status, s.value FROM acts a JOIN scores s
    ON s.act = a.act AND s.scorer = :scorer AND s.component = :component
    WHERE (CAST(:agent AS TEXT) IS NULL OR a.agent = :agent) AND a.cycle >= :cycle AND a.started >= :since
    AND (CAST(:version AS TEXT) IS NULL OR s.version = :version) ORDER BY a.agent, a.seq, s.seq"""
_STATUSES: Final = """
    SELECT s.version, s.status, count(DISTINCT a.act) FROM acts a JOIN scores s ON s.act = a.act AND s.scorer = ?
    WHERE a.agent = ? AND a.cycle >= ? AND a.started >= ? GROUP BY s.version, s.status"""
_WHY: Final = "SELECT explanation FROM scores WHERE act = ? AND scorer = ? AND version = ? AND component = ?"


class SqlBackfill:
    """The `BackfillReader` of a store over SQL."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file

    def unscored(self, agent: str, scorer: str | None, version: str | None, since: ScoredSince) -> UnscoredActs:
        with self._file.snapshot():
            upto = self._file.row(_LAST, agent)[0]
            named = _names(agent, scorer, version, since, upto)
            [(acts, missing)] = self._file.named(_COUNTED, named)
            gone = [
                one for one in removals(self._file, agent) if one.last_cycle >= since.cycle and one.acted >= since.stamp
            ]
        return UnscoredActs(agent, scorer, version, since, acts, missing, upto, sum(one.acts for one in gone))

    def past(self, what: UnscoredActs, most: int, *, whole: bool = False) -> Iterator[list[RecordedAct]]:
        named = _names(what.agent, what.scorer, what.version, what.since, what.upto)
        sql = _WHOLE_PAGES if whole else _PAGES
        while rows := self._file.named(sql, named | {"most": most}):
            with self._file.intact():
                page = [RecordedAct(stored_event(ActionTaken, body), bool(wanted)) for _, wanted, body in rows]
            yield page
            named["after"] = rows[-1][0]

    def versions(self, action_id: str, scorer: str, component: str) -> list[str]:
        return [row[0] for row in self._file.rows(_VERSIONS, action_id, scorer, component)]

    def scorers(self, agent: str | None = None, since: int = 0) -> list[ScorerVersion]:
        with self._file.snapshot():
            rows = self._file.rows(_SCORERS) if agent is None else self._file.rows(_SCORERS_OF, agent, since)
            if agent is None:
                rows += self._file.rows(_REMOVED_SCORERS)
            elif since <= 0:
                rows += self._file.rows(f"{_REMOVED_SCORERS} WHERE agent = ?", agent)
        found: dict[tuple[str, str, str], list[tuple[int, float, float]]] = {}
        for component, scorer, version, *counted in rows:
            found.setdefault((component, scorer, version), []).append(counted)
        return [
            ScorerVersion(
                *key, sum(n for n, _, _ in some), (min(low for _, low, _ in some), max(high for *_, high in some))
            )
            for key, some in sorted(found.items())
        ]

    def said(
        self, agent: str | None, component: str, scorer: str, version: str | None, since: ScoredSince
    ) -> list[RecordedScore]:
        named = {
            "agent": agent,
            "component": component,
            "scorer": scorer,
            "version": version,
            "cycle": since.cycle,
            "since": since.stamp,
        }
        return [RecordedScore(*row) for row in self._file.named(_SAID, named)]

    def statuses(self, agent: str, scorer: str, since: ScoredSince) -> Counter[tuple[str, str]]:
        rows = self._file.rows(_STATUSES, scorer, agent, since.cycle, since.stamp)
        return Counter({(version, status): acts for version, status, acts in rows})

    def explanation(self, said: RecordedScore, component: str, scorer: str) -> str:
        row = self._file.row(_WHY, said.act, scorer, said.version, component)
        return str(row[0]) if row else ""


def _names(agent: str, scorer: str | None, version: str | None, since: ScoredSince, upto: int) -> dict[str, object]:
    return {
        "agent": agent,
        "scorer": scorer,
        "version": version,
        "cycle": since.cycle,
        "since": since.stamp,
        "after": -1,
        "upto": upto,
    }
