"""The page of the rewards: its figures are those of the command, and what it adds to them is right."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.async_api import Page, expect

from conch.bus.checkpoints import encode_state, state_key
from conch.experience import ExperiencePoint, ShownLine, ShownScore, SqliteReader
from conch.requests.human_score import said_score
from conch.rewards.watch import CONSUMER, MEANINGS, ActiveAlarm, WatchState
from conch_schemas import WeightsSet, consequence_id
from conch_services.dashboard.components import HEIGHT, WIDTH, ScorerValues, bites, disagreement, shares, strip
from conch_services.dashboard.drawings.numerals import signed
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import Element, parsed
from tests.dashboard.life import Life

VALUES = st.lists(st.floats(-1, 1), min_size=2, max_size=30)


async def page(dashboard: Dashboard, path: str = "/rewards") -> Element:
    """The page as it answers."""
    answer = await dashboard.client.get(path)
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def point(cycle: int, **parts: float) -> ExperiencePoint:
    """A cycle whose parts of equal weight were worth so much."""
    scores = tuple(ShownScore(name, value, 0.5, "scored", "s", "1") for name, value in parts.items())
    lines = tuple(ShownLine(f"part:{name}", 0.5 * value) for name, value in parts.items())
    total = sum(line.amount for line in lines)
    return ExperiencePoint(
        cycle, cycle, Life().begun, "none", "TOOL", None, "s", True, total, 1.0, True, 1, scores, lines, {}
    )


async def test_a_weight_that_is_another_in_tasks_is_told_with_both(dashboard: Dashboard) -> None:
    """A cycle of a task has the second one; a part that is paid in tasks alone says so."""
    rows = (await page(dashboard)).one("table", id="components").all("tr")[1:]

    told = {row["data-component"]: row.all("td")[2].text for row in rows}
    assert told["format"] == "0.300 0.270 in tasks"
    assert told["progress"] == "0.1 in tasks"


async def test_what_the_parts_pay_adds_up_to_the_mean_reward(dashboard: Dashboard) -> None:
    """In a sentence, with all that takes away; a row of a part that pays nothing has a dash."""
    shown = await page(dashboard)

    mean, *amounts = re.findall(r"[+-]\d\.\d{3}", shown.one("p", id="paid").text.replace("−", "-"))
    assert sum(map(float, amounts)) == pytest.approx(float(mean), abs=0.0006 * len(amounts))
    rows = {row["data-component"]: row.all("td")[3].text for row in shown.one("table", id="components").all("tr")[1:]}
    assert rows["format"].replace("−", "-") in amounts
    assert rows["alignment"] == "–"


async def test_a_scorer_that_does_not_count_pays_nothing(dashboard: Dashboard) -> None:
    """Of two that judge one component the pay stands in the row of the one in force."""
    act = await dashboard.world.read(lambda reader: reader.cycles.act("echo", 60))
    assert act is not None
    await dashboard.live([said_score(act, "execution", 0.5, "so", (-1.0, 1.0), 1)])

    rows = [
        row
        for row in (await page(dashboard)).one("table", id="components").all("tr")[1:]
        if row["data-component"] == "execution"
    ]

    assert {row["data-scorer"]: row.all("td")[3].text == "–" for row in rows} == {"reward": False, "human": True}


async def test_the_page_of_a_part_says_its_weight_in_tasks(dashboard: Dashboard) -> None:
    """Beside the one outside; and What if says of which acts its weights are."""
    told = (await page(dashboard, "/rewards/component/format")).one("dl").text

    assert "weight 0.300; 0.270 in acts of a task" in told
    assert "as in acts of a task" not in (await page(dashboard, "/whatif")).one("h2", id="weights-title").text


async def test_the_figures_are_those_of_the_command(dashboard: Dashboard) -> None:
    """Component, scorer, weight, mean, percentiles, coverage, errors, late: as `conch reward list --json` has them."""
    told = (await dashboard.client.get("/api/v1/rewards?limit=400")).json()["rewards"]

    rows = (await page(dashboard)).one("table", id="components").all("tr")[1:]

    assert [(row["data-component"], row["data-scorer"]) for row in rows] == [
        (one["component"], one["scorer"]) for one in told
    ]
    for row, one in zip(rows, told, strict=True):
        cells = [cell.text for cell in row.all("td")]
        assert cells[2].split(" ")[0] == (f"{one['weight']:.3f}" if one["weight"] else one["role"].split(" ")[0])
        assert cells[4:7] == ["–" if one[name] is None else signed(one[name]) for name in ("mean", "p50", "p95")]
        assert cells[9:12] == [
            "–" if one["coverage"] is None else f"{100 * one['coverage']:.0f}%",
            str(one["errors"]),
            str(one["timeouts"]),
        ]


async def test_a_mean_of_few_acts_says_of_how_many(dashboard: Dashboard) -> None:
    """*format* abstains of constrained replies: its figures are of the free ones, and the table says of how many."""
    told = (await dashboard.client.get("/api/v1/rewards?limit=400")).json()["rewards"]
    form = next(one for one in told if one["component"] == "format")
    assert 0 < form["scored"] < form["count"]

    said = (await page(dashboard)).one("p", id="few").text

    assert said.startswith("Figures that are not of all acts: ")
    assert f"format of {form['scored']} free replies" in said


async def test_the_number_of_cycles_is_chosen_by_the_range(dashboard: Dashboard) -> None:
    """By the one chooser that all pages have; without a choice it is the last 400."""
    usual, fifty = await page(dashboard, "/rewards"), await page(dashboard, "/rewards?range=last-50")

    assert f"of the last {CYCLES} cycles" in usual.one("div", class_="key").text
    assert "of cycles 11 to 60" in fifty.one("div", class_="key").text
    assert usual.one("nav", aria_label="Range of cycles").one("a", aria_current="true").text == "Last 400"
    assert len(usual.one("main").all("nav")) == 1


async def test_what_bore_on_the_total_is_counted(dashboard: Dashboard) -> None:
    """In how many cycles the ethical gate closed and repetition took something off, by the breakdowns' own lines."""
    steps = [{line.step for line in one.breakdown} for one in dashboard.seeded.recorded]

    shown = {
        row["data-component"]: row.all("td")[12].text
        for row in (await page(dashboard)).all("tr")[1:]
        if "data-component" in row.attributes
    }

    assert shown["repetition"] == str(sum("repetition" in one for one in steps))
    assert shown["ethical"] == str(sum("gate:ethical" in one for one in steps))
    assert shown["exploration"] == str(sum("cap:exploration" in one for one in steps))


async def test_a_second_voice_on_a_component_is_compared(dashboard: Dashboard) -> None:
    """Two versions of one component: acts that both scored, how far they are apart, their rank correlation."""
    with SqliteReader(dashboard.world.store.file) as reader:
        acts = [reader.cycles.act("echo", cycle) for cycle in range(1, 9)]
    for number, value in ((1, lambda n: n / 10), (2, lambda n: n / 10 + 0.25)):
        await dashboard.live(
            [said_score(act, "kind", value(n), "so", (-1.0, 1.0), number) for n, act in enumerate(acts) if act]
        )

    [row] = (await page(dashboard)).one("section", aria_labelledby="apart").one("table").cells()

    assert row == ["kind", "human 1human 2", "8", "0.250", "+1.00"]


async def test_weight_sets_are_listed_with_what_changed(dashboard: Dashboard) -> None:
    """The newest first, in force; a part that weighs otherwise than before says what it was."""
    first = dashboard.life.weights()
    parts = tuple(
        part.model_copy(update={"weight": {"format": 0.2, "goal": 0.25}.get(part.component, part.weight)})
        for part in first.parts
    )
    identity = consequence_id(first.id, "test", "2", WeightsSet)
    changed = {"id": identity, "version": "second", "parts": parts, "why": "goals matter more"}
    await dashboard.live([first.model_copy(update=changed)])

    newest, oldest = (await page(dashboard)).one("ol", class_="sets").all("li")

    assert "in force" in newest.text
    assert "goals matter more" in newest.text
    assert [chip["title"] for chip in newest.all("span", class_="changed")] == ["was 0.300", "was 0.150"]
    assert oldest.all("span", class_="warn") == []


async def test_an_alarm_says_what_it_means_and_what_to_do(dashboard: Dashboard) -> None:
    """Its plain name, its sentence, its figure with the bounds, and what is to be done. A warning is not red, an alarm
    that training must heed is."""
    active = ActiveAlarm("falling_entropy", None, 7, 0.298, 0.3, "diversity is low", ())
    serious = ActiveAlarm("held_out", "honesty", 9, 1.4, 1.0, "the total left it", ())
    state = encode_state(WatchState(active=(active, serious)), 1, "")
    await dashboard.bus.put(state_key(CONSUMER, "echo"), state, revision=0)

    warning, red = (await page(dashboard)).all("p", class_="banner")[-2:]

    assert warning.text.startswith("stuck in a habit diversity is low")
    assert "(0.298, alarm below 0.3; over again above 0.44; since cycle 7)" in warning.text
    assert warning.text.endswith(MEANINGS["falling_entropy"])
    assert ("bad" in warning["class"], "bad" in red["class"]) == (False, True)


async def test_without_the_bus_the_history_stands_and_alarms_are_not_known(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the store has is shown; that nobody can say of alarms is said."""
    monkeypatch.setattr(dashboard.world, "shared_events", None)

    shown = await page(dashboard)

    banners = [one.text for one in shown.all("p", class_="banner")]
    assert any(one.startswith("Whether an alarm is active is not known") for one in banners)
    assert len(shown.one("table", id="components").cells()) > 5


async def test_a_new_cycle_is_in_the_figures_by_itself(tab: Page, dashboard: Dashboard) -> None:
    """Nobody loads the page again."""
    await tab.goto("./rewards")
    await expect(tab.locator(".key small").first).to_have_text(f"of the last {CYCLES} cycles")

    await dashboard.live()

    await expect(tab.locator(".key small").first).to_have_text(f"of the last {CYCLES + 1} cycles")


async def test_a_lag_that_falls_is_seen_though_no_fact_says_so(
    tab: Page, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lags are asked for again by themselves, beside what facts draw again."""
    lag = {"reward": 7}

    async def lags(_world: object) -> dict[str, int]:
        return dict(lag)

    monkeypatch.setattr("conch_services.dashboard.pages.rewards._lags", lags)
    await tab.goto("./rewards")
    shown = tab.locator("#components tr[data-scorer=reward] td[data-lag]").first
    await expect(shown).to_have_text("7")

    lag["reward"] = 0

    await expect(shown).to_have_text("0")


async def test_times_are_written_alike_when_a_part_is_drawn_again(tab: Page, dashboard: Dashboard) -> None:
    """By the clock here, with seconds; without scripts with seconds as well."""
    session = await tab.context.new_cdp_session(tab)
    await session.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    await tab.goto("./rewards")
    time = tab.locator("ol.sets time").first
    await expect(time).to_have_text("2026-11-20 17:30:00")

    await dashboard.live()
    await expect(tab.locator(".key small").first).to_have_text(f"of the last {CYCLES + 1} cycles")

    await expect(time).to_have_text("2026-11-20 17:30:00")
    assert (await page(dashboard)).one("ol", class_="sets").all("time")[0].text == "2026-11-20 12:00:00"


@settings(deadline=None)
@given(VALUES.flatmap(lambda a: st.tuples(st.just(a), st.lists(st.floats(-1, 1), min_size=len(a), max_size=len(a)))))
def test_shares_add_up_to_one(series: tuple[list[float], list[float]]) -> None:
    """Whatever the parts have to do with each other; a total that never changes has no shares."""
    points = [point(n, a=a, b=b) for n, (a, b) in enumerate(zip(*series, strict=True))]
    totals = [round(one.total, 6) for one in points]

    found = shares(points)

    assert (max(totals) == min(totals)) == (not found)
    if max(totals) - min(totals) > 1e-3:
        assert sum(found.values()) == pytest.approx(1.0, abs=1e-2)


@settings(deadline=None)
@given(VALUES)
def test_a_strip_stays_in_its_drawing(values: list[float]) -> None:
    """Every bar within it, the fullest as high as it is."""
    drawn = strip(values, (-1.0, 1.0))

    assert all(x >= 0 and x + w <= WIDTH and y >= 0 and y + h <= HEIGHT + 0.01 for x, y, w, h in drawn.bars)
    assert max(h for *_, h in drawn.bars) == HEIGHT
    assert drawn.zero == WIDTH / 2


def test_lines_that_bit_are_counted_by_component() -> None:
    """A cap, a gate and a penalty each once a cycle under their component's name; paid parts are no bite."""
    lines = ("part:format", "cap:exploration", "gate:ethical", "repetition", "cap:cycle")
    bitten = point(1, format=1.0)._replace(breakdown=tuple(ShownLine(step, -0.1) for step in lines))

    assert bites([bitten, bitten, point(2, format=1.0)]) == {
        "exploration": 2, "ethical": 2, "repetition": 2, "cycle": 2,
    }  # fmt: skip


def test_two_who_share_no_act_do_not_disagree() -> None:
    """There is nothing to compare, and that is said."""
    voices: list[Any] = [ScorerValues("a", "1", {1: 0.5}, (0.0, 1.0)), ScorerValues("b", "1", {2: 0.5}, (0.0, 1.0))]

    found = disagreement("kind", *voices)

    assert (found.count, found.apart, found.correlation) == (0, None, None)
    assert found.why
