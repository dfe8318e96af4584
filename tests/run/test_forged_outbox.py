"""A total that was forged in a stopped home, with the event that a later run publishes and its witness seals."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from conch.experience import SqliteReader, packing
from conch.experience.assemble import revision_id
from conch_schemas import encode

if TYPE_CHECKING:
    from tests.run.conftest import House


def forge_total_with_event(house: House) -> str:
    """Give the first act a next revision with the total 0.99, and put its event into the outbox; the action's id."""
    file = house.home / "store.db"
    with SqliteReader(file) as store:
        agent = store.agents()[0]
        experience, act = store.cycles.get(agent, 0), store.cycles.act(agent, 0)
    assert experience is not None
    assert act is not None
    revision = experience.revision + 1
    forged = experience.model_copy(
        update={"total": 0.99, "revision": revision, "id": revision_id(act, revision)},
    )
    with closing(sqlite3.connect(file)) as db, db:
        packing.register(db)
        of_act = "act = (SELECT act FROM actions WHERE action_id = ?)"
        [(verdict,)] = db.execute(f"SELECT unpacked(verdict) FROM experiences WHERE {of_act}", (act.action_id,))
        body = json.dumps(json.loads(verdict) | {"total": 0.99}, ensure_ascii=False, separators=(",", ":"))
        db.execute(
            f"UPDATE experiences SET revision = ?, total = 0.99, verdict = packed(?) WHERE {of_act}",
            (revision, body, act.action_id),
        )
        db.execute("INSERT INTO outbox (id, body) VALUES (?, ?)", (forged.id, encode(forged)))
    return str(act.action_id)


def test_a_forged_total_is_found_after_a_run_has_published_and_sealed_it(house: House) -> None:
    """A total has to follow from its sealed scores, whoever published it: its own mark proves nothing."""
    house.live_through(4)
    action = forge_total_with_event(house)
    house.run("--cycles", "6")

    report = json.loads(house.conch("mark", "verify", "--json", status=4))

    assert [problem["kind"] for problem in report["problems"]] == ["altered"]
    assert f"of action {action} does not follow from its scores" in report["problems"][0]["what"]
