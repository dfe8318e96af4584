"""Other weights on recorded acts: totals made anew are the recorded ones, and one press puts the weights in force."""

from __future__ import annotations

import math
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.async_api import Page, expect

from conch.config import Settings
from conch.experience import ExperienceReader
from conch.rewards import weight_set
from conch.views import weigher
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.story.strip import adds
from conch_services.dashboard.whatif.page import given_weights
from conch_services.dashboard.whatif.recomputed import payable, shares, weighed
from tests.dashboard.conftest import CYCLES, Complaints, Dashboard
from tests.scored import point

PARTS = weight_set((), Settings().rewards, Settings().constitution)
VALUES = st.dictionaries(
    st.sampled_from([one.component for one in PARTS]),
    st.one_of(st.none(), st.floats(-1, 1).map(lambda one: round(one, 3))),
    min_size=1,
)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_the_amounts_of_any_scores_add_up_and_the_total_is_made_anew(values: dict[str, float | None]) -> None:
    """Whatever the rules say: boosts, penalties, gates and caps are amounts, too, and scores alone give the total."""
    values.pop("progress", None)
    parts = tuple(one for one in PARTS if one.task_weight is None)
    act = point(parts, values)

    assert abs(sum(adds(act).values()) - act.total) < 1e-5
    assert math.isclose(weigher(PARTS)(act), act.total, abs_tol=1e-12)


@given(st.dictionaries(st.sampled_from(payable(PARTS)), st.floats(0, 1), min_size=1))
def test_any_weights_are_scaled_to_shares(weights: dict[str, float]) -> None:
    """They sum to 1, and no part that bears on the total without a weight gets one."""
    table = shares(weights)

    assert not table or math.isclose(math.fsum(table.values()), 1.0)
    roles = {one.component: one.role for one in weighed(PARTS, table) if one.weight}
    assert set(roles.values()) <= {"paid"}


async def test_every_recorded_total_is_made_anew(dashboard: Dashboard) -> None:
    """From the scores that the store has, under the weight set in force."""

    def look(reader: ExperienceReader) -> list[tuple[float, float]]:
        weigh = weigher(reader.charts.weight_sets("echo")[-1].parts)
        return [(one.total, weigh(one)) for one in reader.charts.points("echo", 1000)]

    found = await dashboard.world.read(look)

    assert len(found) == CYCLES
    assert all(math.isclose(*both, abs_tol=1e-9) for both in found)


def test_a_weight_that_cannot_be_is_said() -> None:
    """A word, one above 1, one below 0, no number at all: each in a sentence, the others count."""
    found, wrong = given_weights({"w.goal": "0.5", "w.format": "much", "w.needs": "2", "w.x": "nan", "agent": "echo"})

    assert found == {"goal": 0.5}
    assert [one.split(" cannot")[0] for one in wrong] == [
        "The weight of format",
        "The weight of needs",
        "The weight of x",
    ]


async def test_weights_are_tried_at_once_and_put_in_force(
    tab: Page, dashboard: Dashboard, complaints: Complaints
) -> None:
    """A slider changes the mean and the curve; the press sends the table, and a refusal is a sentence."""
    await tab.goto("./rewards")
    await tab.locator("a", has_text="What if").click()
    mean = tab.locator("#whatif-mean")
    now = sum(one.total for one in dashboard.seeded.recorded) / CYCLES
    await expect(mean).to_have_text(f"{signed(now)} → {signed(now)}")

    for weight in await tab.locator("label.weight").all():
        shown = (await weight.locator("output").inner_text(), await weight.locator("small").inner_text())
        assert shown[1] == f"now {shown[0]}"
    await expect(tab.locator("#apply")).to_be_disabled()
    first, tried = tab.locator("#whatif-chart .legend b").first, tab.locator("#whatif-chart .legend b").last
    await expect(tried).to_have_text("")  # the last mean of a curve is not its result
    await tab.locator("#whatif-chart .plot").press("End")
    in_force = await first.inner_text()
    await expect(tried).to_have_text(in_force)

    await tab.locator("input[name='w.goal']").fill("1")
    await expect(mean).not_to_have_text(f"{signed(now)} → {signed(now)}")
    await tab.locator("#whatif-chart .plot").press("End")
    await expect(tried).not_to_have_text(in_force)

    await expect(tab.locator("input[name='w.goal'] + output")).to_have_text("1.000")
    await expect(tab).to_have_url(re.compile(r"w\.goal=1"))
    complaints.pardon()
    await tab.locator("#apply").click()
    await expect(tab.locator("#whatif-now .wrong")).to_have_text(
        "No run is in progress, whose rules would count: conch run begins one."
    )
    await tab.locator("#as-now").click()
    await expect(mean).to_have_text(f"{signed(now)} → {signed(now)}")
    await expect(tab.locator("#apply")).to_be_disabled()
