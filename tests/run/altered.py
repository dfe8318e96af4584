"""A home with rows in every table of its store, sealed by a run's witness; and every alteration of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

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
    from tests.run.conftest import House

ANSWERS = "SELECT unpacked(body) FROM acts WHERE json_extract(unpacked(body), '$.data.message.id') IS NOT NULL"
DIGEST = hashlib.sha256(b"a digest").hexdigest()


def live_whole_life(house: House) -> None:
    """Have a run of 20 cycles and more that brings rows to every table, and let it end in order."""
    live = house.begin("--seed", "1", interval=0.2)
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
        named(AdapterShadowed, of_act, adapter=DIGEST, **done, **mind, ms=1.5, decoding=Decoding(engine="e", model="m")),
    ]  # fmt: skip


def _turned(weights: list[float]) -> list[float]:
    return weights[1:] + weights[:1]
