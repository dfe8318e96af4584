"""The screen of `conch watch`, driven by Textual's pilot over a run in progress."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import Static

from conch.bus import Bus, OutgoingMessage
from conch.cli.watch import screen, source, story
from conch.cli.watch.picture import WatchPicture
from conch.cli.watch.screen import WatchApp, _KeyedTable
from conch.cli.watch.source import PictureSource
from conch.config import Settings
from conch.consumer.group.lag import report_position
from conch.experience import SqliteReader, SqliteStore
from conch.home import Home
from conch_schemas import ActionTaken, ExperienceRecorded, encode, subject_of

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life, Publish


WIDE, NARROW = (120, 30), (60, 24)
FLOOD = 3000
EVERYTHING = (
    *("echo running", "last +0.275", "mean +0.275", "3 cycles", "format", "curiosity", "0.65"),
    *("lag    joy 3", "alarms none", "q quit", "p pause"),
)
Screen = tuple[WatchApp, Pilot[None]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and drawings follow one another at once."""
    monkeypatch.delenv("COLUMNS")
    for module, name in ((screen, "DRAW_SECONDS"), (source, "LOOK_SECONDS"), (source, "ASK_SECONDS")):
        monkeypatch.setattr(module, name, 0.02)
    monkeypatch.setattr(story, "AGAIN_SECONDS", 0.3)
    monkeypatch.setattr(story, "STATE_SECONDS", 0.02)


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """`await until(condition)`: returns when it holds. To look at a whole screen takes long: seldom."""

    async def wait(condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.05)

    return wait


@asynccontextmanager
async def watching(home: Home, *names: str, size: tuple[int, int] = WIDE) -> AsyncIterator[Screen]:
    """The screen of these agents, as it is drawn."""
    filling = PictureSource(home, Settings(), WatchPicture(names or ("echo",)))
    app = WatchApp(filling)
    following = asyncio.create_task(filling.follow())
    try:
        async with app.run_test(size=size) as pilot:
            yield app, pilot
    finally:
        following.cancel()
        await asyncio.wait([following])


def shown(app: WatchApp) -> str:
    """Everything that stands on the screen now."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip)[:width] for strip in lines[:height])


def rows(app: WatchApp, name: str = "cycles") -> list[list[str]]:
    """A table's rows, as words."""
    table = app.screen.query_one(f"#{name}", _KeyedTable)
    return [[str(cell).strip() for cell in table.get_row_at(place)] for place in range(table.row_count)]


class Agent:
    """Answers for the agent of a run in progress, as it would."""

    def __init__(self, *names: str) -> None:
        self.names, self.state, self.asked = names or ("echo",), "running", list[str]()

    async def answer(self, subject: str, _: bytes) -> bytes:
        verb = subject.rsplit(".", 1)[-1]
        self.asked.append(subject)
        if verb in ("pause", "resume"):
            self.state = "paused" if verb == "pause" else "running"
            return b'{"ok": true}'
        told = [{"agent": name, "state": self.state, "why": ""} for name in self.names]
        several = {"agents": told, "states": {self.state: len(told)}}
        return json.dumps({"ok": True} | (several if len(told) > 1 else told[0])).encode()


def stored(life: Any, cycle: int) -> ExperienceRecorded:
    with SqliteReader(life.home.path / "store.db") as store:
        found = store.cycles.get("echo", cycle)
    assert found is not None
    return found


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_everything_is_on_one_screen(
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    size: tuple[int, int],
    publish: Publish,
) -> None:
    """Reward, components, needs, the last cycles, lag, alarms and keys, on a wide screen as on a narrow one."""
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", Agent().answer):
        await publish(bus, *(filled.act(cycle) for cycle in range(10, 14)))
        await report_position(bus, "joy", [ActionTaken], 1)
        async with watching(filled.home, size=size) as (app, _):
            await until(lambda: all(words in shown(app) for words in EVERYTHING))
            text = shown(app)

    lines = text.splitlines()
    assert len(lines) == size[1]
    assert {len(line) for line in lines} == {size[0]}


@pytest.mark.parametrize(
    ("size", "cycles", "keys", "story_keys"),
    [
        ((50, 12), 6, "⏎ open q quit p pause ? help", "esc back j next k before ? help p pause"),
        ((24, 6), 3, "⏎ open q quit ? help", "esc back j next ? help"),
    ],
)
async def test_a_small_screen_shows_the_last_cycles_and_the_total(
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    publish: Publish,
    size: tuple[int, int],
    cycles: int,
    keys: str,
    story_keys: str,
) -> None:
    """And all keys that fit, whole; the panels, with names that could not be read, are left out. A story's too."""
    old = stored(filled, 1)
    ids = [(cycle, f"one-{cycle}") for cycle in range(3, 13)]
    async with in_progress() as bus, watching(filled.home, size=size) as (app, pilot):
        await publish(bus, *(old.model_copy(update={"cycle": cycle, "id": name}) for cycle, name in ids))
        await until(lambda: f"{12:>6}" in shown(app))
        lines = shown(app).splitlines()
        await pilot.press("enter")
        await until(lambda: shown(app).splitlines()[-1].split() == story_keys.split())

    drawn = [line for line in lines if any(f"{cycle:>6} " in line and "+0.275" in line for cycle in range(13))]
    assert [int(line.split()[0]) for line in drawn] == list(range(13 - cycles, 13))
    assert lines[1].startswith(" last +0.275 mean +0.275")
    assert lines[-1].rstrip() == keys
    assert not any("…" in line and "+0.275" not in line for line in lines[2:])


async def test_names_can_be_read_on_a_slim_screen(
    filled: Life, in_progress: InProgress, until: Callable[..., Awaitable[None]]
) -> None:
    """Components and needs stand one beneath the other where both beside each other would be cut."""
    async with in_progress(), watching(filled.home, size=(50, 32)) as (app, _):
        await until(lambda: all(name in shown(app) for name in ("exploration", "execution", "excellence", "curiosity")))


async def test_a_screen_that_begins_later_shows_the_same(
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    publish: Publish,
) -> None:
    """What was recorded between the store's last transaction and its own beginning comes from the stream, an act that
    waits for its scores too: no cycle is missing, and the means are those of a screen that has been there all along."""
    old = stored(filled, 1)

    def recorded(cycle: int) -> ExperienceRecorded:
        return old.model_copy(update={"cycle": cycle, "id": f"one-{cycle}", "total": cycle / 100})

    async with in_progress() as bus:
        with SqliteStore(filled.home.path / "store.db") as store:
            store.set_epoch((await bus.state()).epoch)
        await publish(bus, *(recorded(cycle) for cycle in range(3, 30)), filled.act(30))
        reached = (await bus.state()).last
        with SqliteStore(filled.home.path / "store.db") as store:
            store.apply([], upto=reached - 8, now=datetime(2026, 11, 21, tzinfo=UTC))
        async with watching(filled.home) as (later, _):
            await until(lambda: len(later.life.rows) == 31)
            await publish(bus, recorded(30), recorded(31))
            await until(lambda: len(later.life.totals) == 32)

            assert list(later.life.rows) == list(range(32))
            assert later.life.totals[3:] == [cycle / 100 for cycle in range(3, 32)]


async def test_a_row_appears_at_the_act_and_gets_its_total(
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    publish: Publish,
) -> None:
    """As being scored, then with its total; a late score is revised in place."""
    recorded = stored(filled, 1).model_copy(update={"cycle": 7, "id": "seven"})
    partly = recorded.model_copy(update={"complete": False, "coverage": 0.5, "total": 0.125})
    late = recorded.model_copy(update={"revision": partly.revision + 1, "id": "seven-again", "total": 0.625})
    async with in_progress() as bus, watching(filled.home) as (app, _):
        await until(lambda: not app.picture.trouble and len(rows(app)) == 3)
        act = filled.act(7)
        await publish(bus, act)
        await until(lambda: rows(app)[-1][0] == "7")
        at_first = rows(app)[-1]
        await publish(bus, partly)
        await until(lambda: rows(app)[-1][4] == "+0.125")
        then = rows(app)[-1]
        await publish(bus, late)
        await until(lambda: rows(app)[-1][4] == "+0.625")

        assert len(rows(app)) == 4
        assert (at_first[4], at_first[6]) == ("…", "scoring")
        assert then[6] == "4 of 4 scored"
        assert rows(app)[-1][6] == ""


@pytest.mark.parametrize("of_cycle", [False, True], ids=["list", "cycle"])
async def test_p_pauses_and_lets_go_on(
    filled: Life, in_progress: InProgress, until: Callable[..., Awaitable[None]], of_cycle: bool
) -> None:
    """By the agent's own request, and where nobody answers that is said: above the list, and above a cycle."""
    agent = Agent()
    async with in_progress() as bus, watching(filled.home) as (app, pilot):
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            await until(lambda: "echo running" in shown(app))
            if of_cycle:
                await pilot.press("enter")
                await until(lambda: "cycle 2 of echo" in shown(app) and "echo running" in shown(app))
            await pilot.press("p")
            await until(lambda: "echo paused" in shown(app))
            await pilot.press("p")
            await until(lambda: "echo running" in shown(app))
            assert ("cycle 2 of echo" in shown(app)) == of_cycle
        await until(lambda: "echo not answering" in shown(app))
        await pilot.press("p")
        await until(lambda: "echo cannot be asked" in shown(app))

    assert [one for one in agent.asked if "status" not in one] == ["conch.ctl.echo.pause", "conch.ctl.echo.resume"]


async def test_enter_opens_a_cycle_and_its_neighbours(
    filled: Life, in_progress: InProgress, until: Callable[..., Awaitable[None]]
) -> None:
    """The whole story of it; k and j lead to those beside it, escape back."""
    async with in_progress(), watching(filled.home) as (app, pilot):
        await until(lambda: len(rows(app)) == 3)
        await pilot.press("enter")
        await until(lambda: "cycle 2 of echo" in shown(app))
        await pilot.press("j")
        await pilot.press("k")
        await until(lambda: "cycle 1 of echo" in shown(app))
        assert "thought" in shown(app)
        await pilot.press("k")
        await until(lambda: "cycle 0 of echo" in shown(app))
        await pilot.press("j", "j")
        await until(lambda: "cycle 2 of echo" in shown(app))
        await pilot.press("escape")
        await until(lambda: len(app.screen_stack) == 1 and len(rows(app)) == 3)


async def test_a_cycle_that_only_the_bus_has_is_told_too(
    home: Home,
    life: Life,
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    publish: Publish,
) -> None:
    """Where the store is on another machine; one that is still being scored says so."""
    recorded = stored(filled, 1).model_copy(update={"cycle": 7, "id": "seven", "thought": "far away"})
    async with in_progress() as bus, watching(home) as (app, pilot):
        await until(lambda: not app.picture.trouble and len(rows(app)) == 3)
        await publish(bus, filled.act(7))
        await until(lambda: rows(app)[-1][0] == "7")
        await pilot.press("enter")
        await until(lambda: "cycle 7 of echo is being scored" in shown(app))
        await publish(bus, recorded)
        await until(lambda: "far away" in shown(app))


async def test_hostile_words_do_nothing(
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    publish: Publish,
) -> None:
    """Markup is shown as it is, escapes and marks that turn the direction are not sent, a line of 60,000 letters is
    cut; in the table as in the story."""
    bad = "[/nope] [bold red]hi[/] \x1b[2J\u202eevil\u2066 " + "x" * 60_000
    recorded = stored(filled, 1)
    act = filled.act(8, bad)
    hostile = recorded.model_copy(
        update={"cycle": 8, "id": "eight", "thought": bad, "action": act.action, "raw": bad, "outcome": act.outcome}
    )
    async with in_progress() as bus, watching(filled.home) as (app, pilot):
        await until(lambda: not app.picture.trouble and len(rows(app)) == 3)
        await publish(bus, hostile)
        await until(lambda: rows(app)[-1][0] == "8")
        table = shown(app)
        await pilot.press("enter")
        await until(lambda: "more characters: conch cycle show 8" in str(_story(app)))
        text = shown(app)

    for drawn in (table, text):
        assert "[/nope] [bold red]hi[/]" in drawn
        assert not set(drawn) & set("\x1b\u202e\u2066")


def _story(app: WatchApp) -> Text:
    content = app.screen.query_one("#story", Static).content
    assert isinstance(content, Text)
    return content


async def test_the_end_of_a_run_is_said_and_the_next_one_followed(
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    publish: Publish,
) -> None:
    """The bus is gone, and nothing else: what was shown stays, and the next run's cycles come."""
    async with watching(filled.home) as (app, _):
        async with in_progress():
            await until(lambda: not app.picture.trouble and len(rows(app)) == 3)
        await until(lambda: "the run has ended" in shown(app))
        assert len(rows(app)) == 3
        async with in_progress() as bus:
            await until(lambda: not app.picture.trouble)
            await publish(bus, filled.act(9))
            await until(lambda: rows(app)[-1][0] == "9")
            assert "the run has ended" not in shown(app)


async def test_a_fleet_has_a_table_and_one_is_chosen(
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    publish: Publish,
) -> None:
    """Each agent with its state and its last total; enter shows that one's cycles, p pauses it alone."""
    agent = Agent("echo", "nova")
    act = filled.act(3)
    other = act.model_copy(update={"agent": "nova", "source": act.source.replace("/echo/", "/nova/"), "cycle": 3})
    async with (
        in_progress() as bus,
        bus.serve("conch.ctl.*.*", agent.answer),
        watching(filled.home, "echo", "nova") as (app, pilot),
    ):
        await until(lambda: not app.picture.trouble and len(rows(app)) == 3)
        await publish(bus, other)
        await until(lambda: rows(app, "fleet")[1][:3] == ["nova", "running", "3"])
        await pilot.press("shift+tab", "down", "enter")
        await until(lambda: app.chosen == "nova" and [row[0] for row in rows(app)] == ["3"])
        await pilot.press("p")
        await until(lambda: "conch.ctl.nova.pause" in agent.asked)

    assert "conch.ctl.echo.pause" not in agent.asked


async def test_a_flood_leaves_the_screen_alive(
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands of events at once: it is drawn a few times, not thousands of times, keys are heard meanwhile, and the
    newest is there in the end."""
    monkeypatch.setattr(screen, "DRAW_SECONDS", 0.25)
    drawn: list[int] = []
    draw = WatchApp._draw_cycles
    monkeypatch.setattr(
        WatchApp, "_draw_cycles", lambda app, life, anew: (drawn.append(1), draw(app, life, anew=anew))[1]
    )
    async with in_progress() as bus, watching(filled.home) as (app, pilot):
        await until(lambda: not app.picture.trouble)
        flood = asyncio.create_task(_flood(bus, filled, FLOOD))
        await until(lambda: app.life.last is not None and app.life.last.cycle > 100)
        await pilot.press("question_mark")
        await until(lambda: "this" in shown(app) and len(app.screen_stack) == 2)
        await pilot.press("escape")
        await flood
        await until(lambda: app.life.last is not None and app.life.last.cycle == FLOOD - 1)
        await until(lambda: rows(app)[-1][0] == str(FLOOD - 1))

    assert len(drawn) < 200
    assert app.picture.skipped == 0


async def _flood(bus: Bus, life: Any, count: int) -> None:
    for start in range(0, count, 500):
        facts = [life.act(cycle) for cycle in range(start, min(count, start + 500))]
        await bus.publish_many([OutgoingMessage(subject_of(fact), encode(fact), fact.id) for fact in facts])


async def test_what_is_far_behind_is_passed_over(
    filled: Life,
    in_progress: InProgress,
    until: Callable[..., Awaitable[None]],
    publish: Publish,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where more waits than can be read the newest is shown, with how much was left out."""
    monkeypatch.setattr(source, "BEHIND", 50)
    monkeypatch.setattr(source, "NEWEST", 10)
    monkeypatch.setattr(source, "BATCH", 1)
    async with in_progress() as bus, watching(filled.home) as (app, _):
        await until(lambda: not app.picture.trouble)
        await _flood(bus, filled, 1000)
        await until(lambda: app.picture.skipped > 0)
        await publish(bus, filled.act(5000))
        await until(lambda: rows(app)[-1][0] == "5000")
        await until(lambda: "events came too fast to be shown" in shown(app))


async def test_q_ends_it(filled: Life, in_progress: InProgress, until: Callable[..., Awaitable[None]]) -> None:
    """From the first screen; from a story it leads back first."""
    async with in_progress(), watching(filled.home) as (app, pilot):
        await until(lambda: len(rows(app)) == 3)
        await pilot.press("enter", "q")
        assert len(app.screen_stack) == 1
        await pilot.press("q")
        await until(lambda: not app.is_running)

    assert app.return_code == 0
