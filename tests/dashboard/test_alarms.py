"""The alarms of all agents: what is on with its figure now, what was, and that a person has seen it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from conch.bus.checkpoints import encode_state, state_key
from conch.config import Settings
from conch.errors import HomeError
from conch.home import Home
from conch.requests import AlarmKey, acknowledge, acknowledged, key_of
from conch.rewards.watch import CONSUMER, ActiveAlarm, WatchState, fold
from conch.views import alarm_rows
from conch_schemas import AlarmRaised, consequence_id
from tests.dashboard.conftest import Dashboard
from tests.dashboard.document import parsed

HABIT = ActiveAlarm("falling_entropy", None, 7, 0.2, 0.3, "diversity is low", ())
GAMED = ActiveAlarm("held_out", "tasteful", 9, 1.4, 1.0, "the total left the held-out tasteful", ())
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


async def on_now(dashboard: Dashboard, *active: ActiveAlarm) -> None:
    """These alarms are on, as the watchers' state has them."""
    state = WatchState(active=active)
    await dashboard.bus.put(state_key(CONSUMER, "echo"), encode_state(state, 1, ""), revision=0)


async def test_alarms_are_told_with_what_matters_first(dashboard: Dashboard) -> None:
    """The serious one before the warning, each with its severity; the frame of every page counts both."""
    await on_now(dashboard, HABIT, GAMED)

    page = parsed((await dashboard.client.get("/alarms")).text)
    frame = parsed((await dashboard.client.get("/cycles")).text)

    rows = [row.text for row in page.one("div", id="alarms-now").all("tr") if "Acknowledge" in row.text]
    assert [("serious" in row, "paid more, not better" in row) for row in rows] == [(True, True), (False, False)]
    assert "stuck in a habit" in rows[1]
    assert "2 not acknowledged" in page.one("h2", id="on-title").text
    assert "Alarms 2 not acknowledged" in frame.one("nav").text


async def test_a_press_acknowledges_an_alarm_for_good(dashboard: Dashboard, tab: Page) -> None:
    """It stays on, asks for no one any more on any page or in the menu, and a file of the home remembers it."""
    await on_now(dashboard, HABIT)
    await tab.goto("./alarms")
    await expect(tab.locator("#alarm-count")).to_contain_text("1")
    await tab.get_by_role("button", name="Acknowledge").click()

    await expect(tab.locator("#alarm-count")).to_be_empty()

    await expect(tab.locator("#on-title")).to_contain_text("0 not acknowledged")
    await expect(tab.locator("#alarms-now")).to_contain_text("stuck in a habit")
    story = (await dashboard.client.get("/story/needs-you")).text
    assert "diversity is low" not in story
    assert key_of("echo", HABIT) in acknowledged(Home(dashboard.seeded.home.path))


async def test_the_history_follows_an_alarm_from_its_beginning_to_its_end(dashboard: Dashboard) -> None:
    """Each with its cycle, the newest first; of an end how many cycles the alarm was on for."""
    act = dashboard.seeded.recorded[-1]
    for active, cycle in ((True, 7), (False, 31)):
        raised = AlarmRaised(
            id=consequence_id(act.id, "watch", "1", AlarmRaised, int(active)),
            source=act.source, agent="echo", cycle=cycle, alarm="falling_entropy", active=active, begun=7,
            value=0.2, threshold=0.3, window=50, what="diversity",
        )  # fmt: skip
        await dashboard.live([raised], record=False)

    text = parsed((await dashboard.client.get("/alarms")).text).one("div", id="alarms-now").text

    assert text.index("over") < text.index("began")
    assert "after 24" in text


async def test_an_alarm_that_is_not_on_cannot_be_acknowledged(dashboard: Dashboard) -> None:
    """Refused with a sentence; nothing is written."""
    answer = await dashboard.client.post("/api/v1/agents/echo/alarms/acknowledge", json={"alarm": "collapse"})

    assert answer.status_code == 409
    assert "The alarm collapse of echo is not on" in answer.text
    assert acknowledged(dashboard.seeded.home) == {}


def test_an_acknowledgement_is_of_one_alarm_and_kept_once(tmp_path: Path) -> None:
    """The second call keeps the first time; the same alarm that begins again is another one."""
    home = Home(tmp_path)
    key = AlarmKey("echo", "collapse", None, 7)
    acknowledge(home, key, NOW)
    again = acknowledge(home, key, datetime(2027, 1, 1, tzinfo=UTC))

    assert again == NOW
    assert acknowledged(home) == {key: NOW}
    assert key._replace(since=8) not in acknowledged(home)


def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    """It is not taken for an empty one, which would lose what it held."""
    home = Home(tmp_path)
    home.acknowledged_file.write_text('[["echo"')

    with pytest.raises(HomeError, match=r"acknowledged\.json cannot be read .*: remove it"):
        acknowledge(home, AlarmKey("echo", "collapse", None, 7), NOW)


async def test_an_alarm_has_its_figure_of_now(dashboard: Dashboard) -> None:
    """Not only the one that it began with: of the newest acts that the watchers know; none where these are too few."""
    settings, state = Settings(), WatchState()
    for experience in dashboard.seeded.recorded:
        state, _ = fold(state, experience, settings.watch, settings.rewards.diversity)
    state = state.model_copy(update={"active": (HABIT,)})

    [row] = alarm_rows({"echo": state}, settings, {})
    [early] = alarm_rows({"echo": WatchState(active=(HABIT,))}, settings, {})

    assert row.now is not None
    assert row.now != row.value == 0.2
    assert early.now is None
