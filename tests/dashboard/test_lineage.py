"""The Training page of an agent whose adapters are trained: its lineage, live, and what a person asks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Page, expect

from conch.data import LeftOut, Selection, write_snapshot
from conch.requests import trainer_subject
from conch.training import AdapterShelf, ProbeLine
from conch_schemas import PromptMessage, TrainingStarted
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.story.needs_you import NeedsYou, waiting
from tests.dashboard.conftest import CYCLES, Complaints, Dashboard
from tests.dashboard.document import Element, parsed
from tests.dashboard.life import DECODING, HOSTILE
from tests.dashboard.test_access import axe, shut_out
from tests.training.lives import STEPS, LineageLife, digest_of

__all__ = ["axe"]  # a fixture


def lineage(dashboard: Dashboard) -> LineageLife:
    """The lineage of the dashboard's agent, which begins after its last cycle; an event each quarter of a second."""
    return LineageLife(begun=dashboard.life.at(CYCLES, 1.0), step=0.25)


async def lived(dashboard: Dashboard, *, running: bool = False) -> None:
    """A whole lineage, and after it ten cycles under the first adapter."""
    await dashboard.live(lineage(dashboard).whole(running=running))
    under = DECODING.model_copy(update={"adapter": digest_of("adapter 1")})
    for _ in range(10):
        await dashboard.live(dashboard.life.cycle(decoding=under))


async def page(dashboard: Dashboard, query: str = "") -> Element:
    """The page as it answers."""
    answer = await dashboard.client.get(f"/training{query}")
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def table(shown: Element, title: str) -> list[list[str]]:
    """The rows of the table below this title."""
    return shown.one("section", aria_labelledby=title).one("table").cells()


def answering(dashboard: Dashboard, verb: Any, said: list[Any], reply: dict[str, object]) -> Any:
    """A trainer that notes what it is asked and answers so, as a context."""

    async def respond(_: str, data: bytes) -> bytes:
        said.append((verb, json.loads(data)))
        return json.dumps(reply).encode()

    return dashboard.bus.serve(trainer_subject(verb), respond)


async def test_rounds_are_told_with_how_each_ended(dashboard: Dashboard) -> None:
    """The newest first; the one that trains with its step and the time that is left."""
    await lived(dashboard, running=True)

    shown = await page(dashboard)
    rows = table(shown, "rounds-title")

    assert [row[0] for row in rows] == [
        f"{n} for generation {g}" for n, g in ((6, 2), (5, 2), (4, 2), (3, 2), (2, 2), (1, 1))
    ]
    assert rows[0][1] == f"training step {STEPS // 2} of {STEPS}, 3 min left"
    assert [row[1] for row in rows[1:]] == ["refused", "rolled back", "failed", "refused", "active"]
    assert rows[1][6] == "canary: worse"
    assert "memory limit" in rows[3][7]
    assert "generation 1" in shown.one("div", class_="keys").text


async def test_the_gate_of_a_round_is_a_table_of_its_conditions(dashboard: Dashboard) -> None:
    """With both figures, the limit, whether it holds and why; what cannot be said is no refusal."""
    await lived(dashboard)

    rows = table(await page(dashboard, f"?round={digest_of('round 2')}"), "round-title")

    assert rows[0] == ["difference", "0.231", "0.228", "0.020", "no", rows[0][5]]
    assert "must be above 0.020" in rows[0][5]
    assert [row[4] for row in rows] == ["no", "yes", "yes", "not known"]


async def test_a_trial_is_told_with_its_interval(dashboard: Dashboard) -> None:
    """Shadow and canary apart."""
    await lived(dashboard)

    told = (await page(dashboard, f"?round={digest_of('round 1')}")).one("section", aria_labelledby="round-title").text

    assert "Shadow since cycle 10 equivalent +0.010 a cycle, −0.030 to +0.050" in told
    assert "Canary since cycle 10 better +0.210 a cycle, +0.080 to +0.340" in told


async def test_each_generation_is_told_with_what_its_acts_earned(dashboard: Dashboard) -> None:
    """The means are of the acts that each adapter decided, by the store."""
    await lived(dashboard)
    own = [one.total for one in dashboard.seeded.recorded[-10:]]

    rows = {row[1]: row for row in table(await page(dashboard), "generations-title")}

    first = rows[digest_of("adapter 1")[:12]]
    assert first[0] == "1"
    assert first[2:4] == ["acts", "10"]
    assert first[4].startswith(signed(sum(own) / 10))
    assert first[5] == f"{CYCLES + 1} to {CYCLES + 10}"
    assert rows[digest_of("adapter 4")[:12]][2:4] == ["rolled back", "0"]


async def test_moves_are_marked_on_the_learning_curve(dashboard: Dashboard) -> None:
    """At the first cycle after each; the list below has the same ones with their reasons."""
    await lived(dashboard)

    shown = await page(dashboard)
    data = json.loads(shown.one("script", id="data").text)

    assert [(mark["label"], mark["good"]) for mark in data["marks"]] == [
        ("promoted to 1", True),
        ("promoted to 2", True),
        ("rolled back to 1", False),
    ]
    assert all(CYCLES < mark["x"] <= CYCLES + 10 for mark in data["marks"])
    assert f"1 · {digest_of('adapter 1')[:12]}" in data["lines"]["totals"]
    assert len(shown.one("section", aria_labelledby="moves-title").all("li")) == 3


async def test_replies_before_and_after_stand_side_by_side(dashboard: Dashboard) -> None:
    """On the same prompts, as the adapter's record has them; hostile text is text."""
    await lived(dashboard)
    shelf = AdapterShelf(dashboard.world.home.adapters)
    (shelf.folder / digest_of("adapter 1")).mkdir(parents=True)
    line = ProbeLine(messages=(PromptMessage(role="user", content="What now?"),), base=HOSTILE, adapter="TOOL: run {}")
    shelf.record_probe(digest_of("adapter 1"), "local", [line])

    there = await page(dashboard, f"?round={digest_of('round 1')}")
    told = there.one("section", aria_labelledby="replies-title")

    assert told.one("summary").text == "What now?"
    assert [one.text for one in told.all("pre")][1] == "TOOL: run {}"
    assert "<script>alert(1)</script>" in told.all("pre")[0].text
    assert "replies-title" not in (await dashboard.client.get("/training")).text


async def test_decisions_of_the_gate_stand_with_what_each_side_earned(dashboard: Dashboard) -> None:
    """Those that gained most first; a reply without its other side and a line that was cut are left out."""
    await lived(dashboard)
    folder = dashboard.world.home.path / "training" / digest_of("round 1")[:16]
    folder.mkdir(parents=True)
    lines = [
        {
            "arm": arm,
            "cycle": cycle,
            "state": f"s{cycle}",
            "seed": 1,
            "raw": f"{arm} {cycle}",
            "total": total,
            "more": 1,
        }
        for cycle, totals in ((3, (0.5, 0.1)), (4, (0.0, 0.75)))
        for arm, total in zip(("incumbent", "candidate"), totals, strict=True)
    ]
    alone = lines[0] | {"cycle": 9, "state": "s9"}
    (folder / "gate.jsonl").write_text("\n".join(map(json.dumps, [*lines, alone])) + '\n{"arm": "cand')

    told = (await page(dashboard, f"?round={digest_of('round 1')}")).one("section", aria_labelledby="decisions-title")

    assert [one.text for one in told.all("summary")] == [
        "Cycle 4: +0.000 → +0.750 candidate 4",
        "Cycle 3: +0.500 → +0.100 candidate 3",
    ]
    assert [one.text for one in told.all("pre")] == ["incumbent 4", "candidate 4", "incumbent 3", "candidate 3"]


async def test_the_data_behind_a_round_is_named(dashboard: Dashboard) -> None:
    """Its snapshot, rows and method, what was left out, and the way to the rows that people review."""
    place, manifest = write_snapshot([LeftOut("blocked")], dashboard.world.home.path / "data", "kto", Selection())
    life = lineage(dashboard)
    events = [
        one.model_copy(update={"snapshot": manifest.digest}) if isinstance(one, TrainingStarted) else one
        for one in life.whole()
    ]
    await dashboard.live(events)

    told = (await page(dashboard)).one("section", aria_labelledby="behind-title")

    assert manifest.digest[:12] in told.text
    assert f"data/{place.name}" in told.text
    assert "1 blocked" in told.text
    assert "KTO on smollm2-135m-instruct" in told.text
    assert told.one("a")["href"].endswith("/review/rows?format=kto")


async def test_the_api_has_the_same_lineage(dashboard: Dashboard) -> None:
    """The newest round whole, or the one that is named; of an unknown one 404."""
    await lived(dashboard)

    newest = (await dashboard.client.get("/api/v1/lineage")).json()
    named = (await dashboard.client.get(f"/api/v1/lineage?round={digest_of('round 1')}")).json()
    unknown = await dashboard.client.get(f"/api/v1/lineage?round={'0' * 64}")

    assert (newest["phase"], newest["generation"], newest["refusals"]) == ("refused", 1, 1)
    assert newest["round"]["summary"]["number"] == 5
    assert len(named["round"]["curve"]) == STEPS
    assert unknown.status_code == 404


async def test_without_a_trainer_nothing_is_begun_and_that_is_said(dashboard: Dashboard) -> None:
    """With what starts one."""
    answer = await dashboard.client.post("/api/v1/agents/echo/training/run")

    assert answer.status_code == 409
    assert "conch consume trainer" in answer.text


async def test_a_foreign_page_can_ask_for_nothing(dashboard: Dashboard) -> None:
    """Neither by another origin nor without a session."""
    foreign = {"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    refused = await dashboard.client.post("/api/v1/agents/echo/training/rollback", headers=foreign)

    assert refused.status_code == 403


async def test_a_round_is_drawn_live(dashboard: Dashboard, tab: Page) -> None:
    """Steps, curves and the gate appear as they come, without a reload; the focus stays where it was."""
    await tab.goto("./training")
    await expect(tab.locator("#round-charts")).to_be_hidden()
    await tab.get_by_role("button", name="Train now…").focus()
    life = lineage(dashboard)
    await dashboard.live(life.training(1, 1, 7, "sft"))

    await expect(tab.locator("#rounds-title + div")).to_contain_text(f"step 7 of {STEPS}")
    await expect(tab.locator("#losses .legend")).to_contain_text("held-out loss")
    await dashboard.live([*life.trained(1, 1, "sft"), life.gated(1, None, "passed")])

    await expect(tab.locator("section[aria-labelledby=round-title]")).to_contain_text("100 pairs")
    await expect(tab.locator("#losses .legend b").first).to_have_text("0.400")
    await expect(tab.get_by_role("button", name="Train now…")).to_be_focused()


@pytest.mark.parametrize(
    ("button", "verb", "body"),
    [
        ("Train now", "run", {"agent": "echo"}),
        ("Stop", "stop", {"agent": "echo"}),
        ("Promote", "promote", {"agent": "echo", "adapter": digest_of("adapter 4")}),
        ("Roll back", "rollback", {"agent": "echo"}),
    ],
)
async def test_a_press_asks_the_trainer_once_it_is_confirmed(
    dashboard: Dashboard, tab: Page, button: str, verb: str, body: dict[str, str]
) -> None:
    """Cancelled, nothing is asked; confirmed, the trainer's words stand there."""
    await lived(dashboard, running=True)
    said: list[Any] = []
    async with answering(dashboard, verb, said, {"ok": True, "said": "It is done."}):
        await tab.goto("./training")
        await tab.get_by_role("button", name=f"{button}…").click()
        await tab.get_by_role("button", name="Cancel").click()
        await tab.get_by_role("button", name=f"{button}…").click()
        await tab.locator("#deed-box button.main").click()
        await expect(tab.locator("#said")).to_have_text("It is done.")

    assert said == [(verb, body)]


async def test_a_refusal_of_the_trainer_stands_in_the_dialog(
    dashboard: Dashboard, tab: Page, complaints: Complaints
) -> None:
    """It stays open; what the trainer says is text."""
    complaints.pardon()
    await lived(dashboard)
    async with answering(dashboard, "run", [], {"error": "there are 12 rows <b>of 50</b>"}):
        await tab.goto("./training")
        await tab.get_by_role("button", name="Train now…").click()
        await tab.locator("#deed-box button.main").click()
        await expect(tab.locator("#deed-box .wrong")).to_contain_text("there are 12 rows <b>of 50</b>")


async def test_a_lineage_keeps_nobody_out(dashboard: Dashboard, tab: Page, axe: str) -> None:
    """Axe finds nothing serious in both themes; on a narrow screen nothing goes beyond the side."""
    await lived(dashboard, running=True)
    await tab.goto(f"./training?round={digest_of('round 1')}")

    assert await shut_out(tab, axe) == []


async def test_a_refused_adapter_needs_a_person_until_the_next_round(dashboard: Dashboard) -> None:
    """With why, what to do, and the way to the round; a round that failed does, too."""

    async def told() -> list[NeedsYou]:
        found = await waiting(dashboard.world)
        return [one for one in found.found if one.kind in ("gate", "training")]

    life = lineage(dashboard)
    await dashboard.live(life.refused(2))
    (gate,) = await told()
    await dashboard.live(life.failed(3))
    (failed,) = await told()
    await dashboard.live(life.refused(5, at="person"))
    by_hand = await told()
    await dashboard.live(life.training(6, 2, 1))

    assert by_hand == []  # whoever refused it knows
    assert gate.words.startswith("The gate refused the adapter of round 1: the lower bound of the difference")
    assert (gate.task, gate.path) == ("see which condition failed", "/training#round-title")
    assert (failed.kind, failed.words[:26]) == ("training", "Training failed of round 2")
    assert await told() == []
