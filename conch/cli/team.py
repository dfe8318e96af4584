"""`conch team run | role | list | show | switch | stop`: teams of roles that work on one task."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, open_bus, say, table
from conch.cli.options import COMMON
from conch.cli.people_facts import hand_over
from conch.cycle.team.context import team_of
from conch.cycle.team.minds import own_mind
from conch.cycle.team.workers import RoleWorker
from conch.errors import BusUnreachableError, ConchError, UsageError
from conch.requests import team_state
from conch.text import safe_text
from conch_schemas import role_subject

if TYPE_CHECKING:
    from conch.config import MindSettings, Settings
    from conch.home import Home
    from conch.views import TeamView

app = App(name="team", help="Teams: several roles on one task, each with the turn for a step.")

RoleArgument = Annotated[str, Parameter(help="The role, by its name in the configuration.")]
TeamNameArgument = Annotated[str, Parameter(help="The team's name in the configuration.")]
SHOWN_MESSAGES = 20
"""Messages that `show` prints."""


@app.command
def run(
    name: TeamNameArgument,
    /,
    *,
    steps: Annotated[int | None, Parameter(help="End after so many more steps, not when the task is done.")] = None,
    common: CommonOptions = COMMON,
) -> None:
    """Run one team until its task is done: the same as conch run --team NAME."""
    from conch.cli.run.command import launch

    settings = common.settings()
    known_team(settings, name)
    launch(common, settings, [name], processes=1, cycles=steps, rules=())


@app.command
def role(name: TeamNameArgument, role: RoleArgument, /, *, common: CommonOptions = COMMON) -> None:
    """Answer a team's questions to one role with the role's mind until Ctrl-C: in a process of its own, on any machine
    that reaches the bus. The role has worker: true in the configuration."""
    from conch.config import Masker
    from conch.processes import run_loop
    from conch.telemetry import configure

    home, settings = common.where(), common.settings()
    mind = _worker_mind(settings, name, role)
    if home.running() is None and settings.bus.url is None:
        raise BusUnreachableError(f"no run is in progress in {home.path}: start the team, or set bus.url")
    configure(settings.log, None, process=f"{name}-{role}", mask=Masker.of(settings).text)
    run_loop(_work(home, settings, name, role, mind))


def _worker_mind(settings: Settings, name: str, role: str) -> MindSettings:
    """The settings of the mind that a worker of this role has. Raises UsageError."""
    from conch.config import SERVED

    known_team(settings, name)
    team = team_of(settings, name)
    assert team is not None
    if role not in team.roles:
        raise UsageError(f"the team {name} has no role {role[:60]!r}: its roles are {', '.join(team.roles)}")
    if not team.roles[role].worker:
        raise UsageError(f"the role {role} has no worker: set worker: true below team.NAME.roles.{role} in conch.yaml")
    mind = own_mind(team.roles[role], settings.mind)
    if mind.kind in SERVED or mind.kind == "reflex":
        raise UsageError(
            f"a worker has no mind of the kind {mind.kind}: set team.NAME.roles.{role}.mind to openai, scripted, or a "
            "package's"
        )
    return mind


async def _work(home: Home, settings: Settings, name: str, role: str, mind: MindSettings) -> None:
    """Answer until SIGINT or SIGTERM. Raises BusError where the bus cannot be reached at first."""
    from conch.minds import Mind, MindFactory

    stop = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    async with open_bus(home, settings) as bus, MindFactory(mind) as factory:

        def make(turns: int) -> Mind:
            return factory.make(seed=settings.seed, memory=home.agent_dir(name) / role, decided=turns)

        worker = RoleWorker(make, say)
        async with bus.serve(role_subject(name, role), worker.answer):
            say(f"{role} of the team {name} answers; Ctrl-C ends it")
            await stop.wait()
            await worker.close()


@app.command(name="list")
async def list_(*, common: CommonOptions = COMMON) -> None:
    """The teams of the configuration, and how far each is."""
    from conch.views import teams_shown

    home, settings = common.existing(), common.settings()
    async with open_bus(home, settings) as bus:
        states = {name: await team_state(bus, home, name) for name in settings.team}
    found = teams_shown(settings, states)
    if common.json:
        emit(found)
        return
    rows = [
        (one.team, ", ".join(one.roles), one.topology, one.controller, one.steps, one.epoch, one.tokens)
        for one in found.teams
    ]
    table(("team", "roles", "topology", "controller", "steps", "epoch", "tokens"), rows, wraps=["roles"])


@app.command
async def show(name: TeamNameArgument, /, *, common: CommonOptions = COMMON) -> None:
    """One team: roles with their turns, messages and tokens, the switches, and the last messages."""
    from conch.views import team_shown

    home, settings = common.existing(), common.settings()
    known_team(settings, name)
    async with open_bus(home, settings) as bus:
        found = await team_shown(bus, settings, name, await team_state(bus, home, name))
    if common.json:
        emit(found)
    else:
        say("\n".join(_lines(found)))


@app.command
async def switch(
    name: TeamNameArgument, topology: Literal["star", "chain", "flat"], /, *, common: CommonOptions = COMMON
) -> None:
    """Ask a running team for another topology; it is committed at the end of the step."""
    from conch.views import SWITCH_REFUSALS, TeamSwitchAnswer

    reply = await _asked(common, name, "switch", {"topology": topology})
    answer = TeamSwitchAnswer.model_validate({key: reply[key] for key in TeamSwitchAnswer.model_fields})
    if common.json:
        emit(answer)
    elif answer.accepted:
        words = "is so already" if answer.reason == "same" else "is prepared; it is committed at the end of the step"
        say(f"{topology} {words} (epoch {answer.epoch})")
    if not answer.accepted:
        raise ConchError(f"the team {name} does not switch to {topology} now: {SWITCH_REFUSALS[answer.reason]}")


@app.command
async def stop(name: TeamNameArgument, /, *, common: CommonOptions = COMMON) -> None:
    """Let a running team end after its step."""
    from conch.views import TeamStopping

    await _asked(common, name, "stop", {})
    if common.json:
        emit(TeamStopping(team=name, stopping=True))
    else:
        say(f"the team {name} ends after its step")


async def _asked(common: CommonOptions, name: str, verb: str, body: dict[str, object]) -> dict[str, object]:
    """The reply of a running team. Raises UsageError where there is no such team, BusUnreachableError where it does not
    run, ConchError for a refusal."""
    known_team(common.settings(), name)
    return await hand_over(common, name, verb, body)


def known_team(settings: Settings, name: str) -> None:
    """Raises UsageError where the configuration has no team of this name, or of this name without its number."""
    if team_of(settings, name) is None:
        names = ", ".join(sorted(settings.team))
        known = f"the teams are {names}" if names else "there is none: add one below team: in conch.yaml"
        raise UsageError(f"there is no team {name[:60]!r} in the configuration: {known}")


def _lines(found: TeamView) -> list[str]:
    lines = [
        f"team         {found.team}: {found.topology}, epoch {found.epoch}, {found.steps} steps, {found.tokens} tokens",
        f"controller   {found.controller}: {found.decisions} decisions, {found.rewards} rewards learnt",
        f"next turn    {found.turn}",
    ]
    for role in found.by_role:
        mean = "" if role.mean_reward is None else f", mean total {role.mean_reward:+.3f}"
        lines.append(
            f"role         {role.role}: {role.turns} turns, {role.messages} messages, {role.tokens} tokens{mean}"
        )
    lines += [f"switch       step {one.step}: epoch {one.epoch}, {one.topology}" for one in found.switches]
    for message in found.messages[-SHOWN_MESSAGES:]:
        text = safe_text(message.text, one_line=True)[:160]
        lines.append(f"step {message.step:<8} {message.sender} to {', '.join(message.to)}: {text}")
    return lines
