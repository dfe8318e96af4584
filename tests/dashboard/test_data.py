"""The page of data sets: what a snapshot's rows are like, what was left out, and the acts that each row comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from conch.data import LeftOut, Row, Selection, make_row, write_snapshot
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import parsed
from tests.dashboard.life import HOSTILE


def rows(dashboard: Dashboard, count: int = 30) -> Iterator[Row | LeftOut]:
    """Rows of the first acts of the life, the last of them hostile; and two acts that were left out."""
    for number, one in enumerate(dashboard.seeded.recorded[:count]):
        reply = HOSTILE if number == count - 1 else f"reply {number}"
        columns = {"prompt": [said("user", "?")], "completion": [said("assistant", reply)]}
        yield make_row(
            "sft",
            columns,
            agent="echo",
            action_ids=(one.action_id,),
            state_key=str(number),
            prompt_hash="",
            reward=one.total,
            skill=one.action.skill,
            status=one.outcome.status,
            split="eval" if number % 5 == 0 else "train",
        )
    yield LeftOut("blocked")
    yield LeftOut("too long")


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def made(dashboard: Dashboard, name: str, *, jsonl: bool = True, at: int = 2**31) -> Path:
    """A snapshot in the home, made at this time."""
    place, _ = write_snapshot(
        rows(dashboard), dashboard.world.home.path / "data", "sft", Selection(), name=name, jsonl=jsonl
    )
    os.utime(place / "manifest.json", (at, at))
    return place


async def test_a_snapshot_says_what_its_rows_are_like(dashboard: Dashboard) -> None:
    """The newest where none is named: rows by tool, outcome, reward and length; what was left out, by its reason."""
    made(dashboard, "old")
    made(dashboard, "new", at=2**32)
    page = parsed((await dashboard.client.get("/data")).text)
    other = parsed((await dashboard.client.get("/data?set=old")).text)

    assert [row[0] for row in page.one("section", aria_labelledby="sets-title").one("table").cells()] == ["new", "old"]
    assert page.one("h2", id="verdict").text.startswith("30 rows of sft")
    assert "2 of 32 acts and pairs were left out" in page.text
    left = page.one("section", aria_labelledby="left-title").text
    assert ("blocked" in left, "too long" in left) == (True, True)
    titles = {one.text.split()[0] for one in page.all("h2")}
    assert {"Tool", "Outcome", "Reward", "Length"} <= titles
    assert [row["id"] for row in other.all("tr", aria_current="true")] == ["set-2"]


@pytest.mark.parametrize("jsonl", [True, False], ids=["json lines", "parquet"])
async def test_every_row_stands_on_one_page_with_its_act(dashboard: Dashboard, jsonl: bool) -> None:
    """A page goes on where the one before it ended, and each row leads to the cycle of its act."""
    made(dashboard, "one", jsonl=jsonl)
    whole = (await dashboard.client.get("/data?set=one")).text
    first = parsed(whole).one("section", aria_labelledby="rows-title")
    link = first.one("a", class_="button")["href"].removeprefix(dashboard.prefix)
    following = (await dashboard.client.get(link)).text
    rest = parsed(following).one("section", aria_labelledby="rows-title")
    anew = parsed(following).one("div", id="sets-now")["hx-get"].removeprefix(dashboard.prefix)
    again = parsed((await dashboard.client.get(anew)).text)
    assert again.one("section", aria_labelledby="rows-title").text == rest.text
    assert "FileDigest" not in whole

    acts = [row[-1] for part in (first, rest) for row in part.one("table").cells()]
    assert sorted(map(int, acts)) == list(range(1, 31))
    assert ("Rows behind" in first.text, "Rows behind" in rest.text) == (True, False)
    assert "1 to 25 of 30" in first.text
    assert "26 to 30 of 30" in rest.text


async def test_a_row_opens_its_panel_and_leads_to_its_act(tab: Page, dashboard: Dashboard) -> None:
    """By a press on the row; hostile text is text. Its cycle opens in the panel, too."""
    made(dashboard, "one")
    await tab.goto("./data?set=one&skip=25")
    row = tab.locator("tbody tr[data-peek*='things/row']").first
    cycle = (await row.locator("td").last.inner_text()).strip()
    await row.locator("td").nth(1).click()
    await expect(tab.locator("#peeked")).to_contain_text(f"cycle {cycle}")
    await expect(tab.locator("#peeked")).to_contain_text("completion: ")
    await expect(tab.locator("#peeked script")).to_have_count(0)
    await tab.keyboard.press("Escape")
    await row.locator("td").last.locator("a").click()

    await expect(tab.locator("#peek-title")).to_have_text(f"Cycle {cycle}")


async def test_a_home_without_data_sets_has_the_command_that_makes_one(tab: Page, dashboard: Dashboard) -> None:
    """One press copies it; a snapshot that is made then appears by itself."""
    await tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await tab.goto("./data")
    await tab.get_by_role("button", name="Copy").click()
    await expect(tab.locator("#said")).to_have_text("The command is copied.")
    command = await tab.evaluate("navigator.clipboard.readText()")

    assert command == f"conch data export --format sft --home {dashboard.world.home.path}"
    made(dashboard, "first")
    await expect(tab.locator("#verdict")).to_contain_text("30 rows of sft")


async def test_what_cannot_be_read_is_a_sentence(dashboard: Dashboard) -> None:
    """A name that no snapshot has, an edited manifest, a missing file, a row that no snapshot has."""
    place = made(dashboard, "one")
    unknown = await dashboard.client.get("/data?set=two")
    next(iter(place.glob("*.jsonl"))).unlink()
    missing = await dashboard.client.get("/data?set=one")
    manifest = place / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows_in":30', b'"rows_in":31'))
    edited = await dashboard.client.get("/data")
    row = await dashboard.client.get(f"/things/row/{'0' * 64}")

    assert "There is no snapshot “two”" in unknown.text
    assert "cannot be read" in missing.text or "is missing" in missing.text
    assert "edited: its manifest does not have its digest" in edited.text
    assert row.status_code in (404, 503)
    assert CYCLES > 30
