"""A home with rows in every table of its store, sealed by a run's witness; and every alteration of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID, uuid5

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.experience import packing
from conch.rewards import weights_version
from conch_schemas import (
    Action,
    ActionTaken,
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterShadowed,
    AdapterTried,
    AnswerRated,
    Cut,
    Decoding,
    Event,
    ForkScored,
    MessageReceived,
    NeedsChanged,
    Outcome,
    ReviewDecided,
    RewardAssigned,
    Score,
    TrainingFailed,
    TrainingFinished,
    TrainingProgressed,
    TrainingStarted,
    WeightsSet,
    consequence_id,
    decode,
    encode,
    subject_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.run.conftest import House

ANSWERS = "SELECT unpacked(body) FROM acts WHERE json_extract(unpacked(body), '$.data.message.id') IS NOT NULL"
unpacked = packing.new_unpacked()
DIGEST = hashlib.sha256(b"a digest").hexdigest()


def live_whole_life(house: House) -> None:
    """Have a run of 20 cycles and more that brings rows to every table, and let it end in order."""
    live = house.begin("--seed", "1", interval=0.5)
    live.recorded(8)
    asyncio.run(_publish(house, lambda _: [_message(house)]))
    live.until(lambda: rows_of(house, ANSWERS), "the act that answers")
    live.until(lambda: rows_of(house, "SELECT 1 FROM experiences WHERE cycle = 5"), "the total of an earlier act")
    asyncio.run(_publish(house, _beside))
    live.until(lambda: not _lacking(house), "rows in every table")
    live.recorded(4)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0, live.told()


def _lacking(house: House) -> list[str]:
    with closing(sqlite3.connect(house.home / "store.db")) as db:
        wanted = {
            "reviews": "SELECT 1 FROM reviews",
            "forks": "SELECT 1 FROM forks",
            "training": "SELECT 1 FROM training WHERE 11 = (SELECT count(*) FROM training)",
            "needs": "SELECT 1 FROM needs WHERE act = 0",
            "weights": "SELECT 1 FROM weights WHERE 2 = (SELECT count(*) FROM weights)",
            "corrections": "SELECT 1 FROM contexts WHERE kind LIKE 'correction:%'",
            "revisions": "SELECT 1 FROM experiences WHERE revision > 1",
            "reflections": "SELECT 1 FROM contexts WHERE kind = 'reflection'",
        }
        return [name for name, sql in wanted.items() if not db.execute(f"{sql} LIMIT 1").fetchone()]


def rows_of(house: House, sql: str) -> list[Any]:
    """The rows of a statement on the house's store."""
    with closing(sqlite3.connect(house.home / "store.db")) as db:
        packing.register(db)
        return db.execute(sql).fetchall()


async def _publish(house: House, make: Callable[[House], list[Event]]) -> None:
    """Publish what no command makes cheaply."""
    said = house.status()["bus"]
    async with JetStreamBus(Access(said["url"], token=said["token"])) as bus:
        for event in make(house):
            await bus.publish(subject_of(event), encode(event), id=event.id)


def _message(house: House) -> Event:
    """What a person says."""
    act = _first_act(house, "SELECT unpacked(body) FROM acts ORDER BY cycle")
    identity = consequence_id(act.id, "test", "1", MessageReceived)
    return MessageReceived(id=identity, source=act.source, agent=act.agent, text="What did you find?")


def _first_act(house: House, sql: str) -> ActionTaken:
    (body,), *_ = rows_of(house, sql)
    act = decode(body)
    assert isinstance(act, ActionTaken)
    return act


def _of(act: ActionTaken) -> dict[str, Any]:
    """The envelope of an event about an act."""
    return {
        "source": act.source, "agent": act.agent, "cycle": act.cycle, "action_id": act.action_id,
        "causation_id": act.id, "policy": act.policy,
    }  # fmt: skip


def _beside(house: House) -> list[Event]:
    """Events of each kind that a store keeps and a short run does not bring."""
    act, earlier = _first_act(house, ANSWERS), _first_act(house, "SELECT unpacked(body) FROM acts WHERE cycle = 5")
    (body,), *_ = rows_of(house, "SELECT body FROM weights")
    weights = decode(body)
    assert isinstance(weights, WeightsSet)
    of_act = _of(act)
    taste = Score(
        component="taste", value=0.8, range=(-1, 1), status="scored", explanation="well done", scorer="human",
        version="1",
    )  # fmt: skip
    assert act.message is not None
    lineage = {"source": act.source, "agent": act.agent}

    def named(kind: type[Event], envelope: dict[str, Any], **fields: Any) -> Event:
        return kind(**{"id": consequence_id(act.id, "test", "1", kind)} | envelope | fields)

    parts = tuple(
        part.model_copy(update={"weight": weight})
        for part, weight in zip(weights.parts, _turned([part.weight for part in weights.parts]), strict=True)
    )
    needs = dict.fromkeys(act.needs or {"curiosity": 0.5}, 0.5)
    done = {"action": Action(kind="DO_NOTHING", valid=True), "raw": "r", "raw_length": 1, "raw_sha256": DIGEST}
    mind = {"model": "m", "finish_reason": "stop"}
    round_ = {"round": DIGEST}
    tried = round_ | {"adapter": DIGEST, "incumbent": None}
    return [
        named(RewardAssigned, _of(earlier), scorer="human", version="1", scores=(taste,)),
        named(AnswerRated, of_act, message=act.message.id, rating="corrected", text="I found a readme."),
        named(ReviewDecided, of_act, row=DIGEST, format="sft", reviewer="ada", number=1, decision="approved",
              reason="clear"),
        named(ForkScored, of_act, **done, **mind, fork="f", seed=1, mind="reflex", workspace=DIGEST, executed=True,
              outcome=Outcome(status="success", output=Cut(text="", length=0, sha256=DIGEST)), scores=(),
              weights=weights.version, total=0.5, coverage=0.5, ms={}),
        named(NeedsChanged, lineage, before=needs, after=needs | {"curiosity": 0.25}, most_pressing="curiosity",
              changes=({"need": "curiosity", "delta": -0.25, "why": "a resource is low"},)),
        named(WeightsSet, lineage, version=weights_version(parts), parts=parts, why="a trial"),
        named(TrainingStarted, lineage, **round_, attempt=1, method="sft", generation=1, base="b", snapshot=DIGEST,
              rows=3, why="person"),
        named(TrainingProgressed, lineage, **round_, attempt=1, step=1, steps=2, epoch=0.5, loss=1.5),
        named(TrainingFinished, lineage, **round_, attempt=1, adapter=DIGEST, bytes=9, seconds=1.5),
        named(TrainingFailed, lineage, **round_, attempt=1, why="the disk is full"),
        named(AdapterGated, lineage, **tried, verdict="passed", conditions=(), number=1, alpha=0.05, pairs=3,
              difference=0.25, evidence=DIGEST),
        named(AdapterTried, lineage, **tried, stage="canary", verdict="better", cycle_from=3, pairs=2),
        named(AdapterRefused, lineage, **round_, adapter=DIGEST, at="person", why="no"),
        named(AdapterPromoted, lineage, adapter=DIGEST, previous=None, generation=1, move=1, by="person", why="yes"),
        named(AdapterRolledBack, lineage, adapter=DIGEST, to=None, generation=0, move=2, trigger="person", why="no"),
        named(AdapterProbed, lineage, adapter=DIGEST, engine="e", served_as="s", proven=False, why="it is the base's"),
        named(AdapterShadowed, of_act, adapter=DIGEST, **done, **mind, ms=1.5,
              decoding=Decoding(engine="e", model="m")),
    ]  # fmt: skip


def _turned(weights: list[float]) -> list[float]:
    return weights[1:] + weights[:1]


class Alteration(NamedTuple):
    """One change of a store's rows."""

    name: str
    """`<table>.<column> <type of row>`, and what is done."""
    table: str
    column: str
    """Empty for a whole row."""
    statements: Sequence[tuple[str, Sequence[object]]]
    act: int | None = None
    """Number of the act that the row is of; None: of none."""


TYPES: Final = {
    "acts": "json_extract(unpacked(body), '$.data.action.kind')",
    "contexts": "substr(kind, 1, instr(kind || ':', ':') - 1)",
    "experiences": "min(revision, 2)",
    "marks": "json_extract(unpacked(body), '$.domain')",
    "meta": "name",
    "needs": "(act = 0) || ' ' || (json_extract(unpacked(body), '$.data.score') IS NULL)",
    "scores": "scorer || ' ' || status",
    "training": "json_extract(unpacked(body), '$.type')",
    "weights": "row_number() OVER (ORDER BY seq)",
}
"""By table: SQL of what tells its types of rows from each other; of a table that is not named all are of one."""


def tables_of(db: sqlite3.Connection) -> dict[str, list[tuple[str, str, bool, int]]]:
    """By table: (column, declared type, whether it may be NULL, place in the primary key from 1, or 0)."""
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return {
        name: [
            (column, declared, not is_required and not key, key)
            for _, column, declared, is_required, _, key in db.execute(f"PRAGMA table_info({name})")
        ]
        for name in names
    }


def alterations_of(db: sqlite3.Connection) -> Iterator[Alteration]:
    """One changed value of each column, one deletion and one forged copy for each type of row of each table."""
    for table, columns in tables_of(db).items():
        keys = [column for column, _, _, key in columns if key]
        where = " AND ".join(f"{key} IS ?" for key in keys)
        for kind, row in _row_types(db, table, [column for column, *_ in columns], keys):
            at, act = tuple(row[key] for key in keys), row.get("act") or None
            for column, declared, may_be_null, _ in columns:
                for value, is_packed in _other_values(declared, row[column], may_be_null=may_be_null):
                    what = "NULL" if value is None else "changed"
                    sql = f"UPDATE {table} SET {column} = {'packed(?)' if is_packed else '?'} WHERE {where}"
                    yield Alteration(f"{table}.{column} {kind} {what}", table, column, [(sql, (value, *at))], act)
            delete = (f"DELETE FROM {table} WHERE {where}", at)
            yield Alteration(f"{table} {kind} deleted", table, "", [delete], act)
            yield _forged(table, kind, columns, row)


def leaves_of(db: sqlite3.Connection) -> Iterator[Alteration]:
    """One changed leaf after the other of one packed body of each type of row."""
    for table, columns in tables_of(db).items():
        keys = [column for column, _, _, key in columns if key]
        where = " AND ".join(f"{key} IS ?" for key in keys)
        for column, declared, *_ in columns:
            for kind, row in _row_types(db, table, [column for column, *_ in columns], keys):
                body = unpacked(row[column])
                if declared != "BLOB" or (document := _document(body)) is None:
                    continue
                for path, value in _changed_leaves(document):
                    sql = f"UPDATE {table} SET {column} = packed(?) WHERE {where}"
                    at = tuple(row[key] for key in keys)
                    yield Alteration(f"{table}.{column} {kind} {path}", table, column, [(sql, (value, *at))])


def _row_types(
    db: sqlite3.Connection, table: str, columns: Sequence[str], keys: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(type, its last row)."""
    last = ", ".join(f"{key} DESC" for key in keys)
    found: dict[str, dict[str, Any]] = {}
    for kind, *values in db.execute(f"SELECT {TYPES.get(table, chr(39) * 2)}, * FROM {table} ORDER BY {last}"):
        found.setdefault(str(kind), dict(zip(columns, values, strict=True)))
    yield from sorted(found.items())


def _other_values(declared: str, value: Any, *, may_be_null: bool) -> Iterator[tuple[Any, bool]]:
    """(another value, whether it is to be packed) than the one that stands there."""
    if value is None:
        yield (1.5 if declared == "REAL" else 1 if declared == "INTEGER" else "x"), False
        return
    if may_be_null:
        yield None, False
    if declared == "BLOB":
        body = unpacked(value)
        document = _document(body)
        if document is None:
            yield (body + "x" if isinstance(body, str) else body + b"x"), True
        else:
            *_, (_, changed) = _changed_leaves(document)
            yield changed, True
    elif isinstance(value, str):
        yield f"{value}x", False
    else:
        yield value + (0.25 if declared == "REAL" else 1000), False


def _document(body: Any) -> Any:
    """The JSON document of a body; None for a plain text."""
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict | list) else None


def _changed_leaves(document: Any) -> Iterator[tuple[str, bytes]]:
    """(path, JSON of the document with the leaf at this path changed)."""

    def walk(part: Any, path: str) -> Iterator[str]:
        if isinstance(part, dict | list) and part:
            for key, value in part.items() if isinstance(part, dict) else enumerate(part):
                before = part[key]
                if isinstance(value, dict | list) and value:
                    yield from walk(value, f"{path}/{key}")
                    continue
                part[key] = _other_leaf(value)
                yield f"{path}/{key}"
                part[key] = before

    for path in walk(document, ""):
        yield path, _json(document)


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _other_leaf(value: Any) -> Any:
    match value:
        case None:
            return "x"
        case bool():
            return not value
        case str():
            return value + "x"
        case dict():
            return {"x": 1}
        case list():
            return ["x"]
    return value + 0.25 if isinstance(value, float) else value + 1


def _forged(table: str, kind: str, columns: Sequence[tuple[str, str, bool, int]], row: dict[str, Any]) -> Alteration:
    """A copy of the row under another key, its body with an id of its own."""
    new = dict(row)
    key = max(columns, key=itemgetter(3))[0]
    new[key] = row[key] + 1000 if isinstance(row[key], int) else f"{row[key]}x"
    if "id" in row:
        new["id"] = str(uuid5(UUID(row["id"]), "forged"))
    marks = []
    for column, declared, *_ in columns:
        body = unpacked(row[column]) if declared == "BLOB" else None
        if isinstance(document := _document(body) if body is not None else None, dict):
            if "id" in document:
                document["id"] = new.get("id") or str(uuid5(UUID(document["id"]), "forged"))
            new[column] = _json(document)
        marks.append("packed(?)" if body is not None and isinstance(new[column], bytes) else "?")
    sql = f"INSERT INTO {table} VALUES ({', '.join(marks)})"
    return Alteration(
        f"{table} {kind} forged", table, "", [(sql, [new[column] for column, *_ in columns])], row.get("act")
    )


MOVES: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    "revision": ("UPDATE experiences SET revision = revision + 1 WHERE act = :act",),
    "due": ("UPDATE acts SET due = 4102444800.0 WHERE act = :act",),
    "outbox": (
        """INSERT INTO outbox (id, body) SELECT 'forged', json_object('id', 'forged', 'agent', e.agent, 'actionid',
        a.action_id, 'data', json_object('revision', e.revision)) FROM experiences e JOIN acts a USING (act)
        WHERE act = :act""",
    ),
    "position": ("UPDATE meta SET value = 0 WHERE name = 'position'",),
}
"""What an alteration may be excused by: what a store says of work that it has not done yet."""
ALL_MOVES: Final = tuple(statement for name, move in MOVES.items() if name != "outbox" for statement in move)
"""All of them together, but for the outbox row: that one is found by itself."""


def apply(store: Path, alteration: Alteration, moves: Sequence[str] = ()) -> None:
    """Alter the rows, then make these moves for their act, or for the last one."""
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        packing.register(db)
        db.execute("BEGIN")
        for sql, values in alteration.statements:
            db.execute(sql, values)
        act = alteration.act or db.execute("SELECT max(act) FROM experiences").fetchone()[0]
        for move in moves:
            db.execute(move, {"act": act})
        db.execute("COMMIT")
