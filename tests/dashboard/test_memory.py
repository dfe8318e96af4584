"""The memories on the dashboard: listed, searched, shown with where they come from, forgotten."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from conch.memory import MEMORY_FILE, LongTermMemory
from conch.tools import Notes
from tests.dashboard.conftest import Dashboard
from tests.dashboard.document import parsed
from tests.dashboard.life import HOSTILE
from tests.memories import made


def remember(dashboard: Dashboard) -> dict[str, str]:
    """The agent remembers five things, two of which contradict each other; the ids by the texts."""
    texts = {
        "The tide at noon is 3 metres high": "note",
        "The tide at noon is 4 metres high": "note",
        "Kelp grows on rock": "fact",
        HOSTILE: "message",
        "Read the list before the file": "lesson",
    }
    store = LongTermMemory(dashboard.seeded.home.agent_dir("echo") / MEMORY_FILE)
    store.add(made(text, kind, number) for number, (text, kind) in enumerate(texts.items(), 1))
    store.consolidate()
    found = {one.text: one.id for one in store.newest(10)}
    store.close()
    return found


async def test_the_page_lists_and_searches_memories(dashboard: Dashboard) -> None:
    """The newest first; by kind; by words the best first. Hostile text is text, and an empty memory says so."""
    empty = (await dashboard.client.get("/memory")).text
    remember(dashboard)
    listed = parsed((await dashboard.client.get("/memory")).text).one("tbody").text
    facts = parsed((await dashboard.client.get("/memory?kind=fact")).text).one("tbody").text
    found = parsed((await dashboard.client.get("/memory?text=high+tides")).text).one("tbody").text
    nothing = (await dashboard.client.get("/memory?text=submarine")).text

    assert "No memory yet" in empty
    assert listed.index("Read the list") < listed.index("Kelp") < listed.index("4 metres") < listed.index("3 metres")
    assert "<script>alert(1)</script>" in listed
    assert listed.count("contradicted") == 2
    assert ("Kelp" in facts, "tide" in facts) == (True, False)
    assert ("metres" in found, "Kelp" in found) == (True, False)
    assert "Nothing fits" in nothing


async def test_memories_are_paged(dashboard: Dashboard) -> None:
    """Twenty at a time, of a kind too; every one is on one page."""
    store = LongTermMemory(dashboard.seeded.home.agent_dir("echo") / MEMORY_FILE)
    store.add(made(f"Note {number:02} on kelp", "note", number) for number in range(1, 46))
    store.close()
    found: list[str] = []
    address = "/memory?kind=note"
    while address:
        page = parsed((await dashboard.client.get(address)).text)
        found += re.findall(r"Note (\d\d)", page.one("tbody").text)
        older = [one["href"] for one in page.one("main").all("a") if one.text == "Older"]
        address = older[0].removeprefix(dashboard.prefix) if older else ""

    assert found == [f"{number:02}" for number in range(45, 0, -1)]


async def test_memories_of_a_range_have_an_act_in_it(tab: Page, dashboard: Dashboard) -> None:
    """Listed and searched; the whole life has all of them. A search stays in the range."""
    remember(dashboard)
    listed = parsed((await dashboard.client.get("/memory?range=2-3")).text)
    life = parsed((await dashboard.client.get("/memory?range=life")).text).one("tbody").text
    last = (await dashboard.client.get("/memory?range=last-5")).text
    found = parsed((await dashboard.client.get("/memory?range=2-3&text=high+tides")).text).one("tbody").text

    rows = listed.one("tbody").text
    assert ("4 metres" in rows, "Kelp" in rows, "3 metres" in rows, "Read the list" in rows) == (
        True,
        True,
        False,
        False,
    )
    assert "with an act in cycles 2 to 3" in listed.text
    assert ("3 metres" in life, "Read the list" in life) == (True, True)
    assert "No memory has an act in this range" in last
    assert ("4 metres" in found, "3 metres" in found) == (True, False)
    await tab.goto("./memory?range=2-3")
    await tab.locator("[name=text]").fill("kelp")
    await tab.get_by_role("button", name="Search").click()
    await expect(tab).to_have_url(re.compile("range=2-3"))
    await expect(tab.locator("tbody tr")).to_have_count(1)
    await tab.get_by_role("link", name="Whole life").click()
    await expect(tab).to_have_url(re.compile("text=kelp&range=life"))


async def test_a_memory_leads_to_its_cycle_and_to_what_contradicts_it(dashboard: Dashboard) -> None:
    """Another id is not found; a damaged file is said to be one."""
    ids = remember(dashboard)
    page = parsed((await dashboard.client.get(f"/memory/{ids['The tide at noon is 3 metres high']}")).text)
    missing = await dashboard.client.get("/memory/0000ffff")
    (dashboard.seeded.home.agent_dir("echo") / MEMORY_FILE).write_bytes(b"no database" * 1000)
    broken = await dashboard.client.get("/memory")

    links = {link.attributes["href"].rpartition(dashboard.prefix)[2] for link in page.all("a")}
    assert "/cycles/1" in links
    assert f"/memory/{ids['The tide at noon is 4 metres high']}" in links
    assert (missing.status_code, "no such memory" in missing.text) == (404, True)
    assert "cannot be used" in broken.text


async def test_a_memory_is_forgotten_once_that_is_confirmed(dashboard: Dashboard, tab: Page) -> None:
    """Cancelled, it stays; confirmed, it is gone with the note of the same text, and the page is the list again."""
    id = remember(dashboard)["Kelp grows on rock"]
    notes = Notes(dashboard.seeded.home.agent_dir("echo") / "notes.db")
    notes.remember("Kelp grows on rock")
    await tab.goto(f"./memory/{id}")
    await tab.get_by_role("button", name="Forget…").click()
    await tab.get_by_role("button", name="Cancel").click()
    await tab.get_by_role("button", name="Forget…").click()
    await expect(tab.locator("#forget-box")).to_contain_text("deleted for good")
    await tab.locator("#forget-box").get_by_role("button", name="Forget", exact=True).click()

    await expect(tab.locator("tbody tr")).to_have_count(4)
    assert (await dashboard.client.get(f"/memory/{id}")).status_code == 404
    assert (await dashboard.client.delete(f"/api/v1/memories/{id}")).status_code == 404
    assert notes.recall("kelp") == ()
    notes.close()


async def test_a_memory_opens_its_panel(dashboard: Dashboard, tab: Page) -> None:
    """A press on its row shows where it comes from; a note is found by how its text begins, too, as cycles know it."""
    remember(dashboard)
    await tab.goto("./memory")
    await tab.locator("tbody tr").filter(has_text="Kelp grows").locator("td").last.click()
    await expect(tab.locator("#peek")).to_contain_text("Importance")
    await expect(tab.locator("#peek")).to_contain_text("Kelp grows on rock")

    known = await dashboard.client.get("/things/note/Kelp grows on")
    unknown = await dashboard.client.get("/things/note/Kelp grows under")

    assert known.status_code == 200
    assert "/cycles/3" in known.text
    assert unknown.status_code == 404
