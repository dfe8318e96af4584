"""A home in which nothing has happened yet: every page says so, and the first cycle fills it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from conch.home import Home
from conch_services.dashboard.page import MENU
from conch_services.dashboard.stream.hub import ALONE
from tests.dashboard.conftest import Dashboard, Seeded
from tests.dashboard.document import parsed
from tests.dashboard.life import Life
from tests.dashboard.test_access import axe, shut_out

__all__ = ["axe"]  # a fixture


@pytest.fixture
def seeded(tmp_path: Path) -> Seeded:
    """A home without a store."""
    home = Home(tmp_path / "home")
    home.make()
    return Seeded(home, Life())


async def test_the_first_cycle_fills_an_empty_overview(tab: Page, dashboard: Dashboard) -> None:
    """Nothing is known: each figure is a dash, each chart waits; then the first cycle is in all of them."""
    await tab.goto("./overview")
    await expect(tab.locator("#key-reward strong")).to_have_text("–")
    await expect(tab.locator("#no-cycles")).to_contain_text("No cycles yet")
    await expect(tab.locator("#reward .empty")).to_be_visible()

    await dashboard.live([dashboard.life.weights(), *dashboard.life.cycle()])

    await expect(tab.locator("#cycles tr td").last).to_have_text(re.compile(r"^[+−]\d\.\d{3}$"))
    await expect(tab.locator("#key-reward strong")).to_have_text(re.compile(r"^[+−]\d\.\d{3}$"))
    await expect(tab.locator("#reward .empty")).to_be_hidden()
    await expect(tab.locator("#needs .legend button")).to_have_count(4)
    await expect(tab.locator("#no-cycles")).to_be_hidden()


async def test_an_empty_overview_says_once_how_it_is_filled(dashboard: Dashboard) -> None:
    """At the list of cycles; the charts say that there are none."""
    main = parsed((await dashboard.client.get("/overview")).text).one("main")
    said = [one.text for one in main.all("p", class_="empty")]

    why = main.one("p", id="no-cycles").text.removeprefix("No cycles yet").strip()
    assert why
    assert main.text.count(why) == 1
    assert said.count("No cycles yet") == len(said) - 1 == 4


async def test_an_empty_list_says_how_it_is_filled(dashboard: Dashboard) -> None:
    """The list of cycles names the command that makes some."""
    answer = await dashboard.client.get("/cycles")

    assert answer.status_code == 200
    assert "conch run" in answer.text


async def test_no_cycle_of_an_empty_home_is_found(dashboard: Dashboard) -> None:
    """A cycle's page says that there is none, and why."""
    answer = await dashboard.client.get("/cycles/1")

    assert answer.status_code == 404
    assert "there are no experiences" in answer.text


@pytest.mark.parametrize("path", [entry.path for entry in MENU])
async def test_an_empty_home_keeps_nobody_out(tab: Page, axe: str, path: str) -> None:
    """Axe finds nothing serious on any page on which there is nothing yet, in both themes and at both sizes."""
    await tab.goto(f".{path}")

    assert await shut_out(tab, axe) == []


async def test_an_empty_story_tells_of_nothing_that_was(dashboard: Dashboard) -> None:
    """No end, no score that has not come and no link to a cycle, where nothing has happened."""
    dashboard.world.hub.say(ALONE)

    now = parsed((await dashboard.client.get("/")).text).one("section", id="now")

    assert "Right now" in now.text
    assert "scores" not in now.text
    assert now.all("a") == []
