"""The page of the settings: what is in force and where it came from, no secret, and checks only when asked for."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect
from pydantic import SecretStr

from conch.config import MindSettings, Settings, UiSettings
from conch_services.dashboard.pages.settings import CHECK_SECONDS
from tests.dashboard.conftest import Dashboard, Seeded
from tests.dashboard.document import Element, parsed

KEY = "sk-this-is-secret"
GOAL = {"id": "tidy", "statement": "Tidy up", "check": {"kind": "file", "path": "done.txt"}}


@pytest.fixture
def settings(seeded: Seeded) -> Settings:
    """Read from a file of the home, but for the port, which the command line named."""
    seeded.home.config_file.write_text(f"cycle:\n  interval: 7.5\nmind:\n  api_key: {KEY}\n")
    mind = MindSettings(api_key=SecretStr(KEY))
    return Settings.model_validate(
        {"cycle": {"interval": 7.5}, "mind": mind, "ui": UiSettings(port=0), "goals": [GOAL]}
    )


async def page(dashboard: Dashboard) -> Element:
    """The page as it answers."""
    answer = await dashboard.client.get("/settings")
    assert answer.status_code == 200, answer.text
    assert KEY not in answer.text
    return parsed(answer.text)


async def test_every_setting_says_where_it_came_from(dashboard: Dashboard) -> None:
    """A line of the file, the start of the run, or default; secrets are masked."""
    rows = {row[0].split()[0]: row[1:] for row in (await page(dashboard)).one("table", id="config").cells()}

    assert rows["cycle.interval"] == ["7.5", f"{dashboard.world.home.config_file} line 2"]
    assert rows["ui.port"] == ["0", "the start of the run"]
    assert rows["cycle.reflect_every"] == ["10", "default"]
    assert rows["mind.api_key"][0] == "**********"


async def test_every_setting_is_explained(dashboard: Dashboard) -> None:
    """With its sentence, below its section's; what is not set is none, a goal its statement and check, the changed
    come first."""
    table = (await page(dashboard)).one("table", id="config")
    of = {body["data-group"]: body for body in table.all("tbody")}
    told = {row[0].split()[0]: row for row in table.cells()}

    assert "The cycle: its timing, and the processes that run it." in of["cycle"].one("th").text
    assert of["cycle"].cells()[0][0].startswith("cycle.interval Seconds")
    assert told["workspace"][0].endswith("none: workspace/ in the home directory.")
    assert told["workspace"][1] == "none"
    assert told["goals"][1].startswith("Tidy up done.txt exists; priority 0.5")


async def test_versions_and_the_lack_of_a_run_are_said(dashboard: Dashboard) -> None:
    """Of conch, python, the server, what lies beside the pages."""
    shown = await page(dashboard)

    names = [one.text for one in shown.one("section", aria_labelledby="versions-title").all("dt")]
    assert {"conch", "Python", "nats-server", "htmx", "uPlot"} <= set(names)
    assert "No run is in progress" in shown.one("section", aria_labelledby="run-title").text


async def test_a_file_that_is_wrong_now_is_a_sentence(dashboard: Dashboard) -> None:
    """The page stands, and says what is wrong where."""
    dashboard.world.home.config_file.write_text("cycle:\n  intervall: 3\n")

    assert "line 2: cycle.intervall is no setting" in (await page(dashboard)).one("p", class_="bad").text


async def test_checks_are_made_when_the_button_is_pressed(tab: Page) -> None:
    """Not before; each finding with what to do."""
    await tab.goto("./settings")
    await expect(tab.locator("#findings li")).to_have_count(0)

    await tab.click("#check")

    names = tab.locator("#findings li strong")
    await expect(names.get_by_text("python", exact=True)).to_be_visible(timeout=(CHECK_SECONDS + 10) * 1000)
    await expect(names.get_by_text("bus", exact=True)).to_be_visible()


async def test_a_setting_is_found_by_typing(tab: Page) -> None:
    """The key / leads there; what does not match is hidden; so is every default where that is asked for."""
    await tab.goto("./settings")
    await tab.keyboard.press("/")
    await tab.keyboard.type("reflect_every")
    await expect(tab.locator("#config tr[data-origin]:not([hidden])")).to_have_count(1)
    await expect(tab.locator("#config tbody:not([hidden])")).to_have_count(1)

    await tab.check("#changed")
    await expect(tab.locator("#none")).to_be_visible()

    await tab.keyboard.press("/")
    await expect(tab.locator("#sought")).to_be_focused()
    await tab.keyboard.type("/")
    await expect(tab.locator("#sought")).to_have_value("reflect_every/")


async def test_groups_of_settings_are_folded(tab: Page) -> None:
    """The page is two screens long; a press unfolds a group, and what is sought unfolds those that have it."""
    await tab.goto("./settings")
    rows = tab.locator("#config tr[data-origin]:visible")
    await expect(tab.locator("#config tbody").first).to_be_visible()
    await expect(rows).to_have_count(0)
    assert await tab.evaluate("document.documentElement.scrollHeight") < 2000

    cycle = tab.locator("#config tbody[data-group=cycle]")
    await cycle.get_by_role("button").click()
    await expect(cycle.get_by_role("button")).to_have_attribute("aria-expanded", "true")
    await expect(cycle.locator("tr[data-origin]").first).to_be_visible()
    await expect(cycle.get_by_role("button")).to_contain_text("1 set")

    await tab.locator("#sought").fill("mind.api_key")
    await expect(rows).to_have_count(1)
    await tab.locator("#sought").fill("")
    await expect(rows).to_have_count(await cycle.locator("tr[data-origin]").count())
