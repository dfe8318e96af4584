"""`conch approve list | ID`: acts that wait for a person's approval."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, open_bus, say, table
from conch.cli.options import COMMON, AgentName
from conch.cli.people_facts import agent_named, names_in
from conch.config import Settings
from conch.errors import UsageError
from conch.home import Home
from conch.requests import decide_act, waiting_acts
from conch.views import Decided, WaitingAct, approvals_shown

app = App(name="approve", help="Acts that wait for your approval, by tools.policy: list, approve, deny.")


@app.command(name="list")
async def list_(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """The acts that wait, of all agents or of one."""
    home, settings = common.existing(), common.settings()
    async with open_bus(home, settings) as bus:
        shown = approvals_shown(await waiting_acts(bus, home, _meant(home, settings, agent)))
    if common.json:
        emit(shown)
    elif not shown.acts:
        say("no act waits for an approval")
    else:
        table(("id", "agent", "until", "act", "why"), [_cells(one) for one in shown.acts], wraps=["act", "why"])


@app.default
async def approve(
    act: Annotated[str | None, Parameter(help="Its id, as conch approve list shows it.")] = None,
    /,
    *,
    deny: Annotated[bool, Parameter(negative="", help="Deny it: the act is blocked.")] = False,
    because: Annotated[str, Parameter(help="The reason, which the agent is told of a denial.")] = "",
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """Approve an act that waits, or deny it with --deny. Of several decisions the first counts."""
    if act is None:
        raise UsageError("name the act: conch approve list shows the acts that wait, with their ids")
    home, settings = common.existing(), common.settings()
    names = _meant(home, settings, agent)
    async with open_bus(home, settings) as bus:
        if len(names) > 1:
            acts = await waiting_acts(bus, home, names)
            names = [one.agent for one in acts if str(one.action_id).startswith(act)]
        if len(names) != 1:
            raise UsageError(f"no act {act[:60]!r} waits for an approval: conch approve list shows those that do")
        reachable = home.running() is not None or settings.bus.url is not None
        goes_on = await decide_act(
            bus, home, names[0], act, "deny" if deny else "approve", because, reachable=reachable
        )
    if common.json:
        emit(Decided(id=act, agent=names[0], decision="denied" if deny else "approved", running=goes_on))
    else:
        say(f"{act} {'denied' if deny else 'approved'}{'' if goes_on else ': the agent reads it when it runs'}")


def _meant(home: Home, settings: Settings, agent: str | None) -> list[str]:
    return names_in(home, settings) if agent is None else [agent_named(home, settings, agent)]


def _cells(one: WaitingAct) -> tuple[object, ...]:
    return one.id, one.agent, one.until.strftime("%F %H:%M:%S UTC"), one.words, one.why
