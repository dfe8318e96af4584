"""What all charts have alike: the act under the cursor, one colour for a name, one scale for all waterfalls."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from conch_services.dashboard.drawings.waterfall import HIGH, LOW, WIDTH, waterfall
from tests.dashboard.conftest import Dashboard, Seeded


async def test_under_the_cursor_stand_cycle_time_act_and_values(tab: Page, dashboard: Dashboard) -> None:
    """On a chart of any page; of charts whose cursors go together, where the mouse is alone; no line that is hidden."""
    await tab.goto("./needs")
    hidden = tab.locator("#needs .legend button").first
    name = (await hidden.inner_text()).split()[0]
    await hidden.click()
    box = await tab.locator("#needs .u-over").bounding_box()
    assert box is not None
    tip = tab.locator("#needs .tip")

    await tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)

    await expect(tip.locator("b")).to_have_text(re.compile(r"^cycle \d+ · .*\d\d:\d\d:\d\d · [+−]0\.\d{3}$"))
    told = await tip.locator("span").all_inner_texts()
    number = re.findall(r"\d+", await tip.locator("b").inner_text())[0]
    one = next(one for one in dashboard.seeded.recorded if str(one.cycle) == number)
    assert one.needs_after is not None
    level, need = next((level, need) for need, level in one.needs_after.items() if need != name)
    assert any(text == f"{need} {level:.3f}" for text in told)
    assert not any(text.startswith(name) for text in told)
    await expect(tab.locator("#drives .tip")).to_be_hidden()
    await tab.mouse.move(0, 0)
    await expect(tip).to_be_hidden()


async def test_a_name_has_one_colour_on_every_page(tab: Page) -> None:
    """A need's line on the overview and on its own page, wherever it stands among the others."""
    named = "[one.innerText.split(/\\s/)[0], one.firstElementChild.style.cssText]"
    looked = f"all => Object.fromEntries(all.map(one => {named}))"
    seen = []
    for path in ("./overview", "./needs"):
        await tab.goto(path)
        await expect(tab.locator("#needs .legend button")).to_have_count(4)
        await expect(tab.locator("#needs .legend b").first).not_to_be_empty()
        seen.append(await tab.locator("#needs .legend button").evaluate_all(looked))

    assert seen[0] == seen[1]
    assert len(set(seen[0].values())) == 4


async def test_an_amount_is_as_long_in_every_waterfall(lived: Seeded) -> None:
    """While the sums stay within the axis, whatever the cycle."""
    for one in lived.recorded:
        amounts = [line.amount for line in one.breakdown]
        sums = [sum(amounts[:at]) for at in range(len(amounts) + 1)]
        found = waterfall(one)
        if min(sums) < LOW or max(sums) > HIGH:
            continue
        assert found.zero == pytest.approx(-LOW * WIDTH / (HIGH - LOW))
        ends = [bar.end for bar in found.bars]
        assert ends[-1] - found.zero == pytest.approx(one.total * WIDTH / (HIGH - LOW))
