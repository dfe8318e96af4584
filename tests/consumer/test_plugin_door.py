"""A plug-in's consumers and services have what the built-in ones have: each parameter, used by a file of plug-ins."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Access, Bus, shared_subscription
from conch.cli.run.describe import for_plugins
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.consumer.group.membership import joined
from conch.consumer.host import host
from conch.consumer.plugins.builtin import builtin_plugins, reserved
from conch.consumer.plugins.discover import Plugin, discover, load_one
from conch.consumer.process import plugin
from conch.processes.messages import ChildStart, ConsumerDown, ConsumerNote, ConsumerReport
from conch.retry import Backoff
from conch_schemas import ActionTaken, AlarmRaised, CycleReflected

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.consumer.conftest import Facts, Publish


hosting_module = importlib.import_module("conch.consumer.host")  # its package offers a function of this name


Act = Callable[..., ActionTaken]
GUIDES = Path(__file__).parents[2] / "docs" / "pages" / "guides"
SETTINGS = Settings.model_validate({"rewards": {"deadline": 12.0, "parts": {"thumbs": {}, "stars": {"weight": 0.1}}}})
HEAD = """
import asyncio
from pydantic import BaseModel
from conch import consumer, follow, service
from conch.bus import SharedSubscription
from conch.config import Settings
from conch.consumer import ConsumerCounts, ServiceContext
from conch.processes.messages import ConsumerNote
from conch_schemas import ActionTaken, AlarmRaised, CycleReflected

def said(cause, name, text):
    return follow(cause, CycleReflected, consumer=name, version="1", reflection=text, sleep=0.0, ms=0.0)
"""
SIDE_BY_SIDE = (
    HEAD
    + """
class Own:
    def __init__(self, context):
        self.report, self.deadline, self.both = context.report, context.settings.rewards.deadline, asyncio.Barrier(2)
        self.report(ConsumerNote(consumer="pairs", note=f"opened behind {context.begin}"))

async def closed(own):
    own.report(ConsumerNote(consumer="pairs", note="closed"))

@consumer(ActionTaken, version=lambda own: f"d{own.deadline:g}", at_once=lambda own: 2, begin="weights", linger=0.001,
          emits=[CycleReflected], setup=Own, close=closed)
async def pairs(action, own):
    await own.both.wait()
    return said(action, "pairs", f"{action.cycle} of a pair")
"""
)
FOLD = (
    HEAD
    + """
class Sum(BaseModel):
    total: float

@consumer(ActionTaken, state=Sum, initial=lambda start: Sum(total=start), emits=[CycleReflected],
          setup=lambda context: context.settings.rewards.deadline)
def sums(state, action, start):
    state = Sum(total=state.total + action.cycle)
    return state, said(action, "sums", f"{state.total:g} from {start:g}")
"""
)
BATCH = (
    HEAD
    + """
@consumer(ActionTaken, batch=3, linger=0.001, setup=lambda context: context.settings.agent)
def together(actions, agent):
    return [said(action, "together", f"one of {len(actions)} for {agent}") for action in actions]
"""
)
INSTANCES = (
    HEAD
    + """
@consumer(ActionTaken, name="of", instances="rewards.parts", enabled_by="rewards.parts", emits=[CycleReflected],
          setup=lambda context: context.instance)
def one_for_each(action, instance):
    return said(action, f"of-{instance}", instance)

@consumer(ActionTaken, enabled_by="edge.bridge")
def bridged(action): ...
"""
)
SERVICE = (
    HEAD
    + """
@service(name="clock", emits=[AlarmRaised], serves=["conch.ctl._clock.time"], keeps_position=False)
class Clock:
    handled, busy = None, False
    name = "clock"

    def __init__(self, context: ServiceContext) -> None:
        self.tally, self._report = ConsumerCounts(), context.report

    async def run(self, shared: SharedSubscription, stop: asyncio.Event) -> None:
        async with shared.bus.serve("conch.ctl._clock.time", self._answer), asyncio.TaskGroup() as group:
            ticking = group.create_task(self._tick())
            await stop.wait()
            ticking.cancel()

    async def _answer(self, subject, data):
        return b"noon"

    async def _tick(self):
        for number in (1, 2, 3):
            self._report(ConsumerNote(consumer="clock", note=f"tick {number}"))
            await asyncio.sleep(0)
"""
)


@dataclass
class Hosted:
    """What runs, and what it tells the run."""

    reports: list[ConsumerReport] = field(default_factory=list)

    def report(self, report: ConsumerReport) -> None:
        self.reports.append(report)

    @property
    def notes(self) -> list[str]:
        return [report.note for report in self.reports if isinstance(report, ConsumerNote)]


@pytest.fixture
def plugins(tmp_path: Path) -> Callable[..., tuple[Plugin, ...]]:
    """The plug-ins that these settings enable in a file of this text."""

    def found(text: str, settings: Settings = SETTINGS) -> tuple[Plugin, ...]:
        file = tmp_path / "plugins.py"
        file.write_text(text)
        there = discover([str(file)], reserved(settings), settings)
        assert there.broken == ()
        return there.plugins

    return found


@asynccontextmanager
async def hosting(bus: Bus, home: Path, plugins: Sequence[Plugin], begin: int = 0) -> AsyncIterator[Hosted]:
    """They run, as in their processes of `conch run`; leaving stops them in order."""
    hosted, stop = Hosted(), asyncio.Event()
    context = ServiceContext(SETTINGS, home, hosted.report)
    async with (
        shared_subscription(bus) as shared_events,
        joined(bus, [one.name for one in plugins]) as members,
        AsyncExitStack() as stack,
    ):
        running = [plugin(one, context, members, stack, begin=begin) for one in plugins]
        async with asyncio.TaskGroup() as group:
            group.create_task(host(shared_events, running, stop, hosted.report))
            yield hosted
            stop.set()


async def reflections(bus: Bus, facts: Callable[..., Any]) -> list[str]:
    """What the consumers published, in stream order."""
    return [event.reflection for event in await facts(bus, CycleReflected)]


async def test_a_plug_in_asks_side_by_side_with_what_it_opened(
    bus: Bus,
    tmp_path: Path,
    act: Act,
    publish: Publish,
    facts: Facts,
    until: Until,
    plugins: Callable[..., tuple[Plugin, ...]],
) -> None:
    """`setup` is called with the settings before the first event, `at_once` events wait for each other, what was before
    the weights is passed over, and `close` is called at the end."""
    before = await publish(bus, act(0))

    async with hosting(bus, tmp_path, plugins(SIDE_BY_SIDE), begin=before) as hosted:
        await publish(bus, act(1))
        await publish(bus, act(2))
        await until(lambda: _count(bus, facts, 2))

    assert sorted(await reflections(bus, facts)) == ["1 of a pair", "2 of a pair"]
    assert hosted.notes == [f"opened behind {before}", "closed"]
    declared: Any = load_one(str(tmp_path / "plugins.py"), "pairs")
    assert declared.bind(ServiceContext(SETTINGS, tmp_path)).version == "d12"


async def _count(bus: Bus, facts: Any, number: int) -> bool:
    return len(await facts(bus, CycleReflected)) >= number


async def test_a_fold_of_a_plug_in_begins_with_a_state_of_the_settings(
    bus: Bus,
    tmp_path: Path,
    act: Act,
    publish: Publish,
    facts: Facts,
    until: Until,
    plugins: Callable[..., tuple[Plugin, ...]],
) -> None:
    """And goes on with the state that it left, when it is started again."""
    for cycle in (1, 2):
        await publish(bus, act(cycle))
        async with hosting(bus, tmp_path, plugins(FOLD)):
            await until(lambda count=cycle: _count(bus, facts, count))

    assert await reflections(bus, facts) == ["13 from 12", "15 from 12"]


async def test_a_plug_in_takes_a_batch_with_what_setup_returned(
    bus: Bus,
    tmp_path: Path,
    act: Act,
    publish: Publish,
    facts: Facts,
    until: Until,
    plugins: Callable[..., tuple[Plugin, ...]],
) -> None:
    """The value comes behind the list."""
    for cycle in range(3):
        await publish(bus, act(cycle))

    async with hosting(bus, tmp_path, plugins(BATCH)):
        await until(lambda: _count(bus, facts, 3))

    assert await reflections(bus, facts) == ["one of 3 for echo"] * 3


async def test_a_plug_in_runs_once_for_each_instance(
    bus: Bus,
    tmp_path: Path,
    act: Act,
    publish: Publish,
    facts: Facts,
    until: Until,
    plugins: Callable[..., tuple[Plugin, ...]],
) -> None:
    """Of those that the settings name, under a name and with a position of its own; and where they name what it is
    enabled by."""
    found = plugins(INSTANCES)
    assert [one.name for one in found] == ["of-thumbs", "of-stars"]
    assert plugins(INSTANCES, Settings()) == ()

    async with hosting(bus, tmp_path, found):
        await publish(bus, act(0))
        await until(lambda: _count(bus, facts, 2))

    assert sorted(await reflections(bus, facts)) == ["stars", "thumbs"]
    assert {"position/of-thumbs", "position/of-stars"} <= set(await bus.keys())


async def test_a_service_of_a_plug_in_schedules_its_own_work_and_answers(
    bus: Bus, tmp_path: Path, until: Until, plugins: Callable[..., tuple[Plugin, ...]]
) -> None:
    """It is told apart from a consumer that is shared, and says what it publishes and answers."""
    [clock] = plugins(SERVICE)
    assert (clock.is_service, clock.keeps_position) == (True, False)
    assert (clock.emits, clock.serves) == ([AlarmRaised.TYPE], ["conch.ctl._clock.time"])

    async def answers() -> bool:
        return len(hosted.notes) == 3 and await bus.request("conch.ctl._clock.time", b"", timeout=5) == b"noon"

    async with hosting(bus, tmp_path, [clock]) as hosted:
        await until(answers)

    assert hosted.notes == ["tick 1", "tick 2", "tick 3"]


@pytest.mark.parametrize(
    ("raises", "why"),
    [
        ("conch.errors.ConfigError('bells need a bridge')", "bells need a bridge"),
        ("KeyError('bell')", "it broke 5 times in a minute, last of KeyError: 'bell'"),
    ],
)
async def test_a_setup_that_fails_leaves_the_consumer_down_with_the_reason(
    bus: Bus,
    tmp_path: Path,
    plugins: Callable[..., tuple[Plugin, ...]],
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    raises: str,
    why: str,
) -> None:
    """At once where the settings are wrong, else after it was tried again; the others of the process run on."""
    monkeypatch.setattr(hosting_module, "CONSUMER", Backoff((0.0,)))
    text = f"{HEAD}import conch.errors\ndef made(context):\n    raise {raises}\n"
    text += "@consumer(ActionTaken, setup=made)\ndef bells(action, own): ...\n"

    async def is_down() -> bool:
        return any(isinstance(report, ConsumerDown) for report in hosted.reports)

    async with hosting(bus, tmp_path, plugins(text)) as hosted:
        await until(is_down)

    assert hosted.reports[-1] == ConsumerDown(consumer="bells", why=why)


def _line(settings: Settings) -> str:
    """What a child of a run is told with these settings."""
    return ChildStart(settings=settings, home=Path("/"), access=Access("nats://there")).encode().decode()


def test_the_settings_of_a_plug_in_hold_no_secret_and_no_address() -> None:
    """What it is given is what the rest of the run has, less all that opens or leads to something."""
    settings = Settings.model_validate(
        {
            "bus": {"url": "nats://me:hush@elsewhere:4222"},
            "mind": {"kind": "openai", "base_url": "http://elsewhere/v1", "api_key": "hush"},
            "edge": {"bridge": "mqtt://elsewhere", "user": "me", "password": "hush"},
            "otel": {"endpoint": "http://elsewhere", "headers": {"key": "hush"}},
            "rewards": {
                "deadline": 12.0,
                "judges": {"wit": {"rubric": "x", "base_url": "http://elsewhere", "api_key": "hush"}},
            },
            "seed": 7,
        }
    )

    given = for_plugins(settings)

    assert (given.rewards.deadline, given.seed, given.rewards.judges) == (12.0, 7, {})
    told = _line(given)
    assert "hush" in _line(settings)
    assert "hush" not in told
    assert "elsewhere" not in told


def test_the_guide_shows_plug_ins_that_are_found(tmp_path: Path) -> None:
    """Each of its blocks is a file of plug-ins as it stands."""
    blocks = re.findall(r"^```python\n(.*?)^```", (GUIDES / "consumers.md").read_text(), re.DOTALL | re.MULTILINE)
    files = [tmp_path / f"block_{number}.py" for number in range(len(blocks))]
    for file, text in zip(files, blocks, strict=True):
        file.write_text(text)

    found = discover([str(file) for file in files], reserved(SETTINGS), SETTINGS)

    assert found.broken == ()
    assert [(one.name, one.is_service) for one in found.plugins] == [
        ("joy", False),
        ("mood", False),
        ("bell", True),
        ("measured", False),
    ]


def test_built_in_consumers_are_declared_with_the_same_decorators() -> None:
    """Each is described as a plug-in is, of what its declaration says; a judge for each that the settings name."""
    settings = Settings.model_validate({"rewards": {"judges": {"wit": {"rubric": "wit.txt"}}}})
    known = builtin_plugins(settings)

    assert {name for name, one in known.items() if one.is_service} == {
        "store",
        "metrics",
        "dashboard",
        "otel",
        "mqtt",
        "devices",
        "forks",
        "trainer",
    }
    assert {name for name, one in known.items() if not one.is_service} == {
        "alerts",
        "reward",
        "needs",
        "curiosity",
        "progress",
        "watch",
        "witness",
        "judge-wit",
    }
    assert {name for name, one in known.items() if not one.is_service and not one.emits} == {"alerts"}
    assert known["judge-wit"].declared == "judge"
    assert known["reward"].origin == "conch.builtin:reward"
