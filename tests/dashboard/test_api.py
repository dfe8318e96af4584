"""The API: what the commands print with --json, exports, and what people do."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import httpx2
import pytest

from conch.bus import MemoryBus
from conch.consumer.runtime.dead_letters import dead_letter, open_dead_letters, publish_dead_letter
from conch.consumer.runtime.loop import control_of
from conch.consumer.spec import ConsumerSpec
from conch.experience import SqliteReader, SqliteStore, packing
from conch.memory import MEMORY_FILE, LongTermMemory
from conch.views.agent.cycles import cycle_row, whole_row
from conch_schemas import (
    ActionTaken,
    GoalSet,
    MessageReceived,
    RewardAssigned,
    control_subject,
    decode,
    subject_filter,
)
from conch_services.dashboard.api.exports import cell
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.life import HOSTILE
from tests.memories import made


async def told(dashboard: Dashboard, path: str, status: int = 200, **query: Any) -> Any:
    """The document at this path of the API."""
    answer = await dashboard.client.get(f"/api/v1{path}", params=query or None)
    assert answer.status_code == status, answer.text
    return answer.json()


async def done(dashboard: Dashboard, path: str, body: Any = None, status: int = 200) -> Any:
    """What posting this to the API answers."""
    content = None if body is None else json.dumps(body)
    kind = {} if body is None else {"Content-Type": "application/json"}
    answer = await dashboard.client.post(f"/api/v1{path}", content=content, headers=kind)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_memories_are_listed_searched_and_refused_in_a_sentence(dashboard: Dashboard) -> None:
    """As the command does; a damaged file is the store's trouble, not the page's."""
    file = dashboard.seeded.home.agent_dir("echo") / MEMORY_FILE
    assert (await told(dashboard, "/memories"))["memories"] == []
    store = LongTermMemory(file)
    store.add([made("The tide is high", number=1), made("Kelp grows", "fact", 2)])
    store.close()

    assert [row["text"] for row in (await told(dashboard, "/memories", kind="fact"))["memories"]] == ["Kelp grows"]
    (found,) = (await told(dashboard, "/memories", text="high tides"))["memories"]
    assert (await told(dashboard, f"/memories/{found['id'][:12]}"))["memories"][0]["text"] == "The tide is high"
    assert "no such memory" in (await told(dashboard, "/memories/0000ffff", 404))["detail"]
    file.write_bytes(b"no database" * 1000)
    assert "cannot be used" in (await told(dashboard, "/memories", 503))["detail"]


@asynccontextmanager
async def answering(dashboard: Dashboard, reply: dict[str, Any]) -> AsyncIterator[list[tuple[str, Any]]]:
    """While an agent `echo` of a run answers so; what it is asked."""
    asked: list[tuple[str, Any]] = []

    async def respond(subject: str, data: bytes) -> bytes:
        asked.append((subject, json.loads(data)))
        return json.dumps(reply).encode()

    home = dashboard.seeded.home
    with home.owned():
        run = {"pid": os.getpid(), "agents": ["echo"], "metrics": "http://127.0.0.1:9/metrics"}
        home.run_file.write_text(json.dumps(run))
        async with dashboard.bus.serve(control_subject("echo", "*"), respond):
            yield asked


async def test_cycles_are_the_rows_of_the_command(dashboard: Dashboard) -> None:
    """In the same shape and order, whole ones too."""
    with SqliteReader(dashboard.world.store.file) as store:
        rows = [cycle_row(one).document() for one in store.cycles.last("echo", 7)]
        last = store.cycles.get("echo", CYCLES)
        assert last is not None
        whole = whole_row(last, store.chain.marks_of("echo", str(last.action_id))).document()

    listed = await told(dashboard, "/cycles", limit=7)
    shown = await told(dashboard, f"/cycles/{CYCLES}")

    assert listed == {"schema": "conch.v1.cycles", "cycles": rows}
    assert shown == {"schema": "conch.v1.cycle", "cycle": whole}


async def test_cycles_are_filtered_and_come_in_pages(dashboard: Dashboard) -> None:
    """A page ends where the next begins."""
    page = (await told(dashboard, "/cycles", kind="REFLECT", limit=2))["cycles"]
    older = (await told(dashboard, "/cycles", kind="REFLECT", limit=99, before=page[0]["cycle"]))["cycles"]
    every = (await told(dashboard, "/cycles", kind="REFLECT", limit=99))["cycles"]
    incomplete = (await told(dashboard, "/cycles", complete="false"))["cycles"]

    assert older + page == every
    assert {row["action"]["kind"] for row in every} == {"REFLECT"}
    assert [row["cycle"] for row in incomplete] == [20]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/cycles?limit=0", "limit"),
        ("/cycles?limit=1001", "limit"),
        ("/cycles?before=9223372036854775808", "before"),
        ("/cycles?least=nan", "least"),
        ("/cycles?outcome=well", "outcome"),
        ("/cycles?agnet=echo", "no parameter 'agnet'"),
        ("/cycles?limit=1&limit=2", "named 2 times"),
        ("/cycles?agent=%00", "agent"),
        ("/cycles/one", "cycle"),
    ],
)
async def test_what_cannot_be_asked_is_refused_in_a_sentence(dashboard: Dashboard, path: str, says: str) -> None:
    """As a problem that names the parameter; nothing is passed over or cut to fit."""
    answer = await dashboard.client.get(f"/api/v1{path}")

    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert says in answer.json()["detail"]


async def test_what_is_not_there_is_not_found(dashboard: Dashboard) -> None:
    """An agent, a cycle, a letter, an address."""
    for path in ("/cycles/4711", "/nothing"):
        assert (await told(dashboard, path, 404))["schema"] == "conch.v1.problem"
    assert "no agent nobody" in (await told(dashboard, "/cycles", 404, agent="nobody"))["detail"]
    for path in ("/agents/nobody/pause", "/dlq/none/retry", "/cycles/4711/approve"):
        assert (await done(dashboard, path, None, 404))["status"] == 404


async def test_nobody_gets_in_without_a_pass(dashboard: Dashboard) -> None:
    """To none of all operations, nor to the document; a page of somebody else's does nothing either."""
    described = await told(dashboard, "/openapi.json")
    async with httpx2.AsyncClient(base_url=dashboard.address) as stranger:
        for path, operations in {**described["paths"], "/openapi.json": {"get": {}}}.items():
            place = f"/api/v1{path}".replace("{agent}", "echo").replace("{cycle}", "1").replace("{letter}", "x")
            for method in operations:
                assert (await stranger.request(method, place)).status_code == 401, (method, place)
    crossed = await dashboard.client.post("/api/v1/agents/echo/pause", headers={"Sec-Fetch-Site": "cross-site"})

    assert described["openapi"].startswith("3.1")
    assert crossed.status_code == 403


async def test_needs_marks_and_rewards_are_those_of_the_store(dashboard: Dashboard) -> None:
    """The chain holds, and a mark that was changed is found."""
    needs = (await told(dashboard, "/needs"))["needs"]
    changes = (await told(dashboard, "/needs/history", limit=3))["changes"]
    marks = (await told(dashboard, "/marks", limit=5))["marks"]
    rewards = {row["component"]: row for row in (await told(dashboard, "/rewards"))["rewards"]}
    whole = await told(dashboard, "/marks/verify")
    with closing(sqlite3.connect(dashboard.world.store.file)) as db, db:
        packing.register(db)
        db.execute(
            "UPDATE marks SET body = replace(CAST(unpacked(body) AS TEXT), 'action', 'Action') WHERE sequence = 3"
        )
    broken = await told(dashboard, "/marks/verify")

    assert {row["need"]: row["satisfaction"] for row in needs}.items() >= changes[-1]["after"].items()
    assert [mark["sequence"] for mark in marks] == sorted(mark["sequence"] for mark in marks)
    assert rewards["format"]["count"] == CYCLES
    assert (whole["problems"], whole["acts"], whole["waiting"]) == ([], CYCLES, 0)
    assert whole["ok"]
    assert not broken["ok"]


async def test_an_agent_that_runs_is_asked(dashboard: Dashboard) -> None:
    """Each request goes to it as the commands send it."""
    async with answering(dashboard, {"ok": True, "id": "m1"}) as asked:
        paused = await done(dashboard, "/agents/echo/pause")
        resumed = await done(dashboard, "/agents/echo/resume")
        said = await done(dashboard, "/agents/echo/tell", {"text": "hello"})
        goal = await done(
            dashboard, "/agents/echo/goal", {"statement": "Be there", "check": {"kind": "file", "path": "a.txt"}}
        )
        metrics = await told(dashboard, "/metrics")

    assert [subject.rsplit(".", 1)[1] for subject, _ in asked] == ["pause", "resume", "say", "goal"]
    assert (paused["state"], resumed["state"]) == ("paused", "running")
    assert (said["id"], said["running"], asked[2][1]["text"]) == ("m1", True, "hello")
    assert asked[3][1]["add"]["check"]["path"] == "a.txt"
    assert goal["goal"] == asked[3][1]["add"]["id"]
    assert metrics["url"] == "http://127.0.0.1:9/metrics"


async def test_an_agents_no_is_said(dashboard: Dashboard) -> None:
    """As a conflict, in the agent's own words."""
    async with answering(dashboard, {"error": "50 goals are active already"}):
        refused = await done(dashboard, "/agents/echo/tell", {"text": "hello"}, 409)

    assert refused["detail"] == "50 goals are active already"


async def test_what_is_said_to_an_agent_that_does_not_run_waits_on_the_stream(dashboard: Dashboard) -> None:
    """A message and a goal; it cannot be paused."""
    said = await done(dashboard, "/agents/echo/tell", {"text": HOSTILE})
    check = {"kind": "command", "command": "true"}
    goal = await done(dashboard, "/agents/echo/goal", {"statement": "Be", "check": check, "hidden": True})
    goals = (await told(dashboard, "/goals"))["goals"]
    dropped = await done(dashboard, "/agents/echo/goal/drop", {"goal": goal["goal"]})
    again = await done(dashboard, "/agents/echo/goal/drop", {"goal": goal["goal"]}, 404)
    refused = await done(dashboard, "/agents/echo/pause", None, 409)

    facts = await published(dashboard.bus, MessageReceived, GoalSet)
    assert [fact.id for fact in facts if isinstance(fact, MessageReceived)] == [said["id"]]
    assert [fact.goal.id for fact in facts if isinstance(fact, GoalSet)] == [goal["goal"]]
    assert goal["goal"] in {one["id"] for one in goals}
    assert (said["running"], dropped["goal"], again["status"]) == (False, goal["goal"], 404)
    assert "does not run" in refused["detail"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/agents/echo/tell", {"text": "  "}),
        ("/agents/echo/tell", {"text": "\ud800"}),
        ("/agents/echo/tell", {}),
        ("/agents/echo/tell", {"text": "hello", "sender": "somebody else"}),
        ("/agents/echo/goal", {"statement": "x", "check": {"kind": "file", "path": "/etc/passwd"}}),
        ("/agents/echo/goal", {"statement": "x", "check": {"kind": "file", "path": "a/../../b"}}),
        ("/agents/echo/goal", {"statement": "x", "check": {"kind": "command", "command": ""}}),
        ("/agents/echo/goal", {"statement": "x"}),
        ("/cycles/1/reject", {"reason": " "}),
        ("/cycles/1/reject", {}),
    ],
)
async def test_what_cannot_be_done_is_refused(dashboard: Dashboard, path: str, body: Any) -> None:
    """With 422, and nothing comes onto the stream."""
    before = (await dashboard.bus.state()).last

    await done(dashboard, path, body, 422)

    assert (await dashboard.bus.state()).last == before


async def test_a_person_approves_and_thinks_better_of_it(dashboard: Dashboard) -> None:
    """The same click twice is one score, before and after it is joined; another opinion is the next one."""
    first = await done(dashboard, "/cycles/7/approve", {"reason": "well done"})
    second = await done(dashboard, "/cycles/7/approve", {"reason": "well done"})
    await joined(dashboard)
    third = await done(dashboard, "/cycles/7/approve", {"reason": "well done"})
    other = await done(dashboard, "/cycles/7/reject", {"reason": "it was not"})
    hasty = await done(dashboard, "/cycles/7/approve", {"reason": "it was"})
    await joined(dashboard)

    scores = [fact for fact in await published(dashboard.bus, RewardAssigned) if fact.scorer == "human"]
    [shown] = [one for one in (await told(dashboard, "/cycles/7"))["cycle"]["scores"] if one["component"] == "approval"]
    assert first == second
    assert third["id"] == first["id"]
    assert [one["score"]["version"] for one in (first, other, hasty)] == ["1", "2", "3"]
    assert [fact.id for fact in scores] == [first["id"], other["id"], hasty["id"]]
    assert (shown["value"], shown["explanation"], shown["scorer"]) == (1.0, "it was", "human")


async def test_a_dead_letter_is_retried_and_dropped(dashboard: Dashboard) -> None:
    """By the consumer that runs; one that fails again stays."""
    act = await anext(aiter(dashboard.bus.read([subject_filter(ActionTaken)])))
    spec = ConsumerSpec("rule-joy", "1", (ActionTaken,), lambda _: None)
    letter = dead_letter(spec, act, "it broke", 3)
    await publish_dead_letter(dashboard.bus, letter)
    replies = [b'{"error": "it broke again"}', b'{"ok": true}']

    async def respond(_subject: str, _data: bytes) -> bytes:
        return replies.pop(0)

    listed = (await told(dashboard, "/dlq"))["letters"]
    away = await done(dashboard, f"/dlq/{letter.id}/retry", None, 503)
    async with dashboard.bus.serve(control_of("rule-joy", "*"), respond):
        failed = await done(dashboard, f"/dlq/{letter.id}/retry", None, 409)
        still = [one.id async for one in open_dead_letters(dashboard.bus)]
        settled = await done(dashboard, f"/dlq/{letter.id}/retry")

    assert [(row["id"], row["seq"], row["tries"]) for row in listed] == [(letter.id, act.seq, 3)]
    assert "takes no retry" in away["detail"]
    assert "failed again: it broke again" in failed["detail"]
    assert still == [letter.id]
    assert settled["settled"] == "retried"
    assert (await done(dashboard, f"/dlq/{letter.id}/drop", None, 404))["status"] == 404


async def test_exports_hold_every_cycle(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, page after page, those that the filters let through; JSON Lines are the rows of /cycles."""
    monkeypatch.setattr("conch_services.dashboard.api.exports.PAGE", 7)

    table = (await dashboard.client.get("/api/v1/cycles.csv")).text
    lines = (await dashboard.client.get("/api/v1/cycles.jsonl", params={"kind": "REFLECT"})).text.splitlines()

    rows = list(csv.DictReader(io.StringIO(table)))
    assert [int(row["cycle"]) for row in rows] == list(range(CYCLES, 0, -1))
    assert (rows[-13]["output"], "\x1b" in table) == (cell(HOSTILE), False)
    listed = (await told(dashboard, "/cycles", kind="REFLECT", limit=99))["cycles"]
    assert [json.loads(line) for line in lines] == listed[::-1]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =1", "\r=1", "\n=1", "\tx", "\rx", *"＝＋－＠"]
)
def test_no_text_is_a_formula(text: str) -> None:
    """A spreadsheet shows it; a number stays one."""
    assert str(cell(text)).startswith("'")
    assert (cell(-0.5), cell("a=b")) == (-0.5, "a=b")


async def test_a_store_or_a_bus_that_is_away_is_said(dashboard: Dashboard) -> None:
    """As 503 with when to ask again; what the history alone knows is answered without a bus."""
    dashboard.world.shared_events, shared_events = None, dashboard.world.shared_events
    try:
        away = await dashboard.client.get("/api/v1/consumers")
        rewards = await told(dashboard, "/rewards")
        untold = await dashboard.client.post("/api/v1/agents/echo/tell", json={"text": "hello"})
    finally:
        dashboard.world.shared_events = shared_events
    with closing(sqlite3.connect(dashboard.world.store.file)) as db, db:
        db.execute("UPDATE acts SET body = 'nonsense' WHERE cycle = 5")
    damaged = await dashboard.client.get("/api/v1/cycles/5")

    assert {row["lag"] for row in rewards["rewards"]} == {None}
    for answer in (away, untold, damaged):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "is damaged" in damaged.json()["detail"]


async def test_settings_are_shown_without_their_secrets(dashboard: Dashboard) -> None:
    """Each with where it came from."""
    shown = await told(dashboard, "/settings")
    status = await told(dashboard, "/status")

    assert shown["origins"]["ui.port"] == "the start of the run"
    assert shown["origins"]["agent"] == "default"
    assert (status["running"], status["agent"]["agent"], status["last_cycle"]) == (False, "echo", CYCLES)


async def published(bus: MemoryBus, *kinds: Any) -> list[Any]:
    """Facts of these kinds, in order."""
    return [decode(one.data) async for one in bus.read([subject_filter(kind) for kind in kinds])]


async def joined(dashboard: Dashboard) -> None:
    """Put people's scores that stand on the stream into the store, as its consumer does."""
    facts = [(one.seq, decode(one.data)) async for one in dashboard.bus.read([subject_filter(RewardAssigned)])]
    with SqliteStore(dashboard.world.store.file) as store:
        store.apply(facts, upto=store.position(), now=dashboard.life.at(CYCLES, 60))
