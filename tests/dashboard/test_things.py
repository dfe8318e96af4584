"""What a name stands for: in a panel beside the page, and at an address of its own."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from conch_schemas import Goal, GoalSet
from conch_schemas.goal import FileCheck
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.test_bus import letter
from tests.dashboard.test_needs import of_goal


async def told(dashboard: Dashboard, kind: str, name: str) -> tuple[str, str]:
    """The thing as a piece of a page and as a page; both are there."""
    address = f"/things/{kind}/{name}"
    answers = [await dashboard.client.get(address, headers=headers) for headers in ({"HX-Request": "true"}, {})]
    assert [one.status_code for one in answers] == [200, 200]
    assert "<html" not in answers[0].text
    assert "<h1>" in answers[1].text
    return answers[0].text, answers[1].text


async def test_each_kind_of_thing_says_what_it_is(dashboard: Dashboard) -> None:
    """A component, a policy, a weight set, a mark, a goal, a dead letter, each with where it leads."""
    await dashboard.live([dashboard.life.policy()])
    goal = Goal(id="tidy-1", statement="Tidy <b>up</b>", check=FileCheck(path="done.txt"))
    await dashboard.live([of_goal(dashboard, GoalSet, goal=goal, by="user")], record=False)
    failed = await letter(dashboard, "it broke")
    newest = dashboard.seeded.recorded[-1]
    expected = {
        ("component", "execution"): ("weight", "/cycles?rule=execution", "/rewards/component/execution"),
        ("policy", str(newest.policy)): ("You act in a workspace.", f"{CYCLES} of the last {CYCLES}"),
        ("weights", newest.weights): ("In force from", "/rewards/component/execution"),
        ("mark", "3"): ("Hash", "/witness/3"),
        ("goal", "tidy-1"): ("Tidy &lt;b&gt;up&lt;/b&gt;", "active", "/cycles?goal=tidy-1"),
        ("letter", failed.id): ("it broke", "Tries"),
    }

    for (kind, name), words in expected.items():
        for text in await told(dashboard, kind, name):
            assert [word for word in words if word not in text] == [], (kind, text)


@pytest.mark.parametrize(
    "address", ["component/none", "mark/x", "mark/9999", "goal/a/b", "letter/x", "note/x", "whim/x"]
)
async def test_what_is_not_there_is_not_found(dashboard: Dashboard, address: str) -> None:
    """A name that stands for nothing, and a kind that there is not."""
    answer = await dashboard.client.get(f"/things/{address}")

    assert answer.status_code == 404


async def test_names_and_rows_open_panels_and_give_the_focus_back(tab: Page, dashboard: Dashboard) -> None:
    """On a cycle's page: its policy by a press, a part of its reward by a press on the row and on by the arrow keys, a
    mark of it by a space on the link; Escape leads back to where it began."""
    await dashboard.live([dashboard.life.policy()])
    title, peek = tab.locator("#peek-title"), tab.locator("#peek")
    await tab.goto(f"./cycles/{CYCLES}")
    policy = tab.locator(".facts a[data-peek]")

    await policy.click()
    await expect(title).to_have_text("Policy p1")
    await expect(peek).to_contain_text("You act in a workspace.")
    await tab.keyboard.press("Escape")
    await expect(policy).to_be_focused()
    rows = tab.locator("#fall tr[data-peek]")
    first, second = [await rows.nth(at).locator("a").inner_text() for at in (0, 1)]
    await rows.first.locator("td").last.click()
    await expect(title).to_have_text(f"Component {first}")
    await tab.keyboard.press("ArrowDown")
    await expect(title).to_have_text(f"Component {second}")
    await tab.keyboard.press("Escape")
    await tab.locator("[aria-labelledby=marks-title] tbody a").first.focus()
    await tab.keyboard.press("Space")

    await expect(title).to_contain_text("Mark")
    await tab.locator("#peek dd a").first.click()
    await expect(tab).to_have_url(re.compile(rf"/cycles/{CYCLES}$"))


async def test_a_panel_stays_while_the_page_goes_on(tab: Page, dashboard: Dashboard) -> None:
    """The table of rewards is drawn again under an open panel: the row stays marked, and takes the focus back."""
    await tab.goto("./rewards")
    row = tab.locator("tr[data-component=execution]")
    await row.locator("td").nth(1).click()
    await expect(tab.locator("#peek-title")).to_have_text("Component execution")

    await dashboard.live()
    await expect(tab.locator("#now .key").first).to_contain_text(f"last {CYCLES + 1} cycles")

    await expect(tab.locator("#peek")).to_be_visible()
    await tab.keyboard.press("Escape")
    await expect(row.locator("a").first).to_be_focused()
