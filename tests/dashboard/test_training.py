"""The page of the training: what each policy earned, what the reflex mind has learnt, and what is not there."""

from __future__ import annotations

import os
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.data import LeftOut, Selection, write_snapshot
from conch.experience import AdapterAct, ExperiencePoint
from conch.minds.embedded.memory import BanditMemory, save
from conch.views import FEWEST_SMOOTHED, learning_progress
from conch.views.life.key_figures import FEWEST
from conch.views.training.learning_curve import learning_curve
from conch_schemas import PolicySet, cycle_event_id, source_of
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.figures import moving_mean
from conch_services.dashboard.learning import by_policy, curves
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import Element, parsed


async def page(dashboard: Dashboard) -> Element:
    """The page as it answers."""
    answer = await dashboard.client.get("/training")
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


async def test_a_policy_stands_there_with_what_it_earned(dashboard: Dashboard) -> None:
    """Its cycles and mean are the store's, its mind and model the stream's."""
    policy = PolicySet(
        id=cycle_event_id(dashboard.life.uid, PolicySet),
        source=source_of("echo", dashboard.life.uid),
        agent="echo",
        policy="p1",
        mind="openai",
        model="qwen2.5-coder:7b",
        system_prompt="You are <i>echo</i>.",
    )
    await dashboard.live([policy], record=False)
    mean = fmean(one.total for one in dashboard.seeded.recorded)

    [row] = (await page(dashboard)).one("section", aria_labelledby="policies-title").one("table").cells()

    assert row[0].startswith("p1")
    assert "You are <i>echo</i>." in row[0]
    assert row[1:3] == ["openai", "qwen2.5-coder:7b"]
    assert row[5].startswith(f"{CYCLES}")
    assert row[6] == signed(mean)


async def test_what_is_not_there_is_said(dashboard: Dashboard) -> None:
    """That training is off and what turns it on; that no data set was made, and that this agent has no reflex
    memory."""
    shown = await page(dashboard)

    assert "Training of adapters is off" in shown.one("section", aria_labelledby="lineage-title").text
    assert "training: {enabled: true} in conch.yaml" in shown.text
    assert "No data set was made yet" in shown.one("section", aria_labelledby="sets-title").text
    assert "echo has no reflex memory" in shown.one("section", aria_labelledby="reflex-title").text


async def test_data_sets_are_listed_with_what_they_left_out(dashboard: Dashboard) -> None:
    """The newest first; one whose manifest was edited says so."""
    folder = dashboard.world.home.path / "data"
    write_snapshot([LeftOut("blocked")], folder, "sft", Selection(), name="good")
    place, _ = write_snapshot([], folder, "kto", Selection(), name="bad")
    manifest = place / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"rows_in":0', b'"rows_in":1'))
    os.utime(manifest, (2**33, 2**33))

    rows = (await page(dashboard)).one("section", aria_labelledby="sets-title").one("table").cells()

    assert [row[0] for row in rows] == ["bad", "good"]
    assert "edited" in rows[0][1]
    assert rows[1][1:4] == ["sft", "0", "0"]
    assert "blocked" in rows[1][4]


async def test_what_the_reflex_mind_learnt_is_read_from_its_file(dashboard: Dashboard) -> None:
    """Templates with how often they were tried and what they brought; a broken file is a sentence and stays."""
    file = dashboard.world.home.agent_dir("echo") / "reflex.npz"
    memory = BanditMemory()
    memory.tries[0] = (4, 2.0)
    save(memory, file)
    rows = (await page(dashboard)).one("section", aria_labelledby="reflex-title").one("table").cells()
    assert ["list everything", "4", "", "+0.500"] in rows


@settings(deadline=None)
@given(st.floats(-2, 2), st.floats(-1, 1), st.integers(FEWEST, 300))
def test_the_slope_of_a_line_is_its_own(rise: float, begin: float, count: int) -> None:
    """In 100 cycles, with nothing to either side; too few cycles have none."""
    blank = ExperiencePoint(**dict.fromkeys(ExperiencePoint._fields))
    acted = [blank._replace(cycle=number, total=begin + rise * number / 100) for number in range(count)]

    found = learning_progress(acted, ())

    assert found is not None
    assert found.value == pytest.approx(rise, abs=1e-6)
    assert found.low == pytest.approx(found.high, abs=1e-4)
    assert (found.first, found.last) == (max(0, count - 200), count - 1)
    assert learning_progress(acted[: FEWEST - 1], ()) is None


def test_each_policy_has_a_line_where_it_acted() -> None:
    """And none where another one did; the one that acted last comes first."""
    acted = [(1, "a", 0.0), (2, "b", 1.0), (3, "a", 1.0), (4, None, 0.5)]

    assert [(one.policy, one.cycles, one.mean) for one in by_policy(acted)] == [
        (None, 1, 0.5),
        ("a", 2, 0.5),
        ("b", 1, 1.0),
    ]
    assert curves(acted, ["a", "b"]) == {"a": [0.0, None, 0.5, None], "b": [None, 1.0, None, None]}


def test_a_moving_mean_invents_no_rise_at_its_beginning() -> None:
    """The mean of one or two acts is no point of a curve once there are more; of a life that just began it is."""
    totals = [1.0, *[0.0] * 9]
    acted = [(cycle, "a", total) for cycle, total in enumerate(totals)]

    for line in (moving_mean(totals), curves(acted, ["a"])["a"]):
        assert line[: FEWEST_SMOOTHED - 1] == [None] * (FEWEST_SMOOTHED - 1)
        assert line[FEWEST_SMOOTHED - 1 :] == pytest.approx([1 / 8, 1 / 9, 1 / 10], abs=1e-4)
    assert moving_mean(totals[:2]) == [1.0, 0.5]
    assert moving_mean([None] * 20 + totals)[:28] == [*[None] * 27, 0.125]
    of_base = learning_curve([AdapterAct(cycle, 0.0, None, total) for cycle, _, total in acted], {None: "base"})
    assert of_base.curves["base"][:8] == (*[None] * 7, pytest.approx(1 / 8))
