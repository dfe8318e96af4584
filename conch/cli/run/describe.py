"""What a run reports about itself: to the person, to its children, and to other commands (`run.json`)."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conch.bus import LISTENER, Access, MqttListener
from conch.cli.run.output import RunOutput
from conch.config import BusSettings, Settings, masked
from conch.consumer import set_aside_weights
from conch.consumer.plugins import Discovery
from conch.cycle.prompts.budget import UNREAD_KINDS
from conch.cycle.team.context import team_of
from conch.cycle.team.minds import own_mind
from conch.home import Home
from conch.run_info import BusLocation, SetAsidePlugin
from conch.text import safe_text
from conch.tools import InstalledTools
from conch.views import UNSEEN, signed

if TYPE_CHECKING:
    from conch.workspace import WorkspaceSample

SHOWN = 5
"""Goals that the start of a run names."""
DEMONSTRATION = (
    "this mind is a demonstration without a model: it learns from its rewards which calls reach goals, and understands "
    "nothing (conch run --help: --mind)"
)
"""Said of the embedded mind."""
UNLIMITED = "no limit of tokens: the model is asked as often as there is work; budget.tokens_per_day sets one"
"""What the start of a run says where a model is asked, and its tokens are not limited."""
STATEMENT = 72
"""Characters of a goal's statement there."""


def introduce(
    run_output: RunOutput,
    settings: Settings,
    home: Home,
    agents: Sequence[str],
    workspace: Path,
    listener: MqttListener | None,
    *,
    processes: int,
    embedded: bool,
    has_agent: bool,
) -> None:
    """Print agents, home, and the addresses that the run serves. `embedded`: whether the bus is the run's own;
    `has_agent`: whether agents act in it."""
    spread = f" in {processes} processes" if processes > 1 else ""
    who = f"agent {agents[0]}" if len(agents) == 1 else f"{len(agents)} agents{spread}, {agents[0]} to {agents[-1]}"
    if has_agent:
        run_output.tell(f"{who} · {_minds(settings, agents[0])} · home {home.path} · workspace {workspace}")
        if settings.mind.deciding.kind == "reflex":
            run_output.tell(DEMONSTRATION)
        if uses_without_limit(settings):
            run_output.warn(UNLIMITED)
    else:
        run_output.tell(f"no agent: programs act here, conch.agent(NAME, home={str(home.path)!r}) · home {home.path}")
    if not embedded and settings.bus.durability == "strict":
        run_output.warn(UNSEEN)
    if listener is not None:
        who = f"as {LISTENER}" if listener.password is not None else "from this machine"
        run_output.tell(f"{listener.address} · MQTT clients hear conch/v1/… there, {who}")
    for name, part in settings.rewards.parts.items():
        weighs = _weighs(settings, name, part.weight)
        run_output.tell(f"part {name} ({weighs}) from outside, scored by {part.scorer or name}")


def uses_without_limit(settings: Settings) -> bool:
    """Whether a model is asked, and neither its tokens nor their price are limited."""
    is_asked = any(mind.kind not in UNREAD_KINDS for mind in settings.mind.blocks().values())
    return is_asked and not settings.budget.limits_questions and settings.mind.max_tokens_per_hour is None


def _minds(settings: Settings, agent: str) -> str:
    """The mind of the agent in words; of a team whose roles have minds of their own, each with its roles."""
    team = team_of(settings, agent)
    roles = defaultdict[str, list[str]](list)
    for name, role in team.roles.items() if team is not None else ():
        roles[own_mind(role, settings.mind).words].append(name)
    if len(roles) < 2:
        return f"mind {next(iter(roles), settings.mind.words)}"
    return "minds " + ", ".join(f"{words} ({' '.join(some)})" for words, some in roles.items())


def explain(
    run_output: RunOutput, home: Home, agents: Sequence[str], workspaces: Sequence[Path], goals: Sequence[str]
) -> None:
    """Tell a person what the agents work on: their workspaces, and the open goals of the first.

    `workspaces`: one of each agent. Of several agents, one that is not there or empty is filled with a sample before
    its agent's first cycle.
    """
    if not run_output.explains:
        return
    several = len(agents) > 1
    samples = {_sample_in(home, agent, place, several=several) for agent, place in zip(agents, workspaces, strict=True)}
    sample = next(iter(samples)) if len(samples) == 1 else None
    if sample is not None:
        named = f"the sample project, {sample.about}"
        what = f"its own copy of {named}" if several else named
    else:
        what = "the files in its own workspace" if several else _what_is_in(workspaces[0])
    count = "1 goal" if len(goals) == 1 else f"{len(goals)} goals" if goals else "no goal (conch goal add)"
    works = f"each works on {what}; {agents[0]} has {count}" if several else f"it works on {what}, with {count}"
    run_output.tell(f"{works}{':' if goals else ''}")
    for statement in goals[:SHOWN]:
        run_output.tell(f"  - {cut_words(statement)}")
    if len(goals) > SHOWN:
        run_output.tell(f"  and {len(goals) - SHOWN} more (conch goal list)")


def summarize(run_output: RunOutput, home: Home, goals: int, *, has_page: bool) -> None:
    """Tell a person what the run came to, and where to look.

    `goals`: how many were open at its start; those that were set since count too.
    """
    totals = run_output.totals
    if not run_output.explains or not totals:
        return
    cycles = "1 cycle" if len(totals) == 1 else f"{len(totals)} cycles"
    known = goals + len(run_output.new_goals)
    of = f" of {known}" if known else ""
    mean = signed(math.fsum(totals) / len(totals))
    run_output.tell(f"{cycles} · mean total {mean} · goals reached {len(run_output.reached)}{of}")
    named = "" if home.path == Home.at(None).path else f" --home {shlex.quote(str(home.path))}"
    page = f" · conch ui{named} (the page)" if has_page else ""
    run_output.tell(f"look at it: conch status{named}{page}")
    run_output.tell(f"home {home.path}")


def _sample_in(home: Home, agent: str, workspace: Path, *, several: bool) -> WorkspaceSample | None:
    """The sample in an agent's workspace, or that it will be filled with. Raises HomeError."""
    from conch.workspace import sample_for_agents, sample_of

    if several and not (workspace.exists() and any(workspace.iterdir())):
        return sample_for_agents(home, workspace.parent)
    return sample_of(home.path, home.agent_dir(agent) if several else home.path, workspace)


def _what_is_in(workspace: Path) -> str:
    if workspace.exists() and any(workspace.iterdir()):
        return "the files in the workspace"
    return "an empty workspace (conch init --sample NAME fills one with a project)"


def cut_words(statement: str) -> str:
    """The statement in one line of at most STATEMENT characters."""
    line = safe_text(statement, one_line=True)
    return line if len(line) <= STATEMENT else f"{line[: STATEMENT - 1]}…"


def _weighs(settings: Settings, name: str, asked: float) -> str:
    """A table of weights decides for all."""
    table = settings.rewards.weights
    return f"asks for weight {asked:g}" if table is None else f"weight {table.get(name, 0.0):g}"


def report_judges(run_output: RunOutput, settings: Settings, skipped: Container[str]) -> None:
    """Report the judges of this run, each with its weight, model and endpoint."""
    for name, judge in settings.rewards.judges.items():
        if f"judge-{name}" not in skipped:
            url, model = judge.asks(settings.mind)
            run_output.tell(f"judge {name} ({_weighs(settings, name, judge.weight)}) by {model} at {masked(url)}")


def report_plugins(run_output: RunOutput, settings: Settings, found: Discovery) -> None:
    """The rules with what they weigh, and what was set aside."""
    for rule in found.rules:
        run_output.tell(f"rule {rule.name} ({_weighs(settings, rule.name, rule.weight)}) from {rule.origin}")
    for one in set_aside(settings, found):
        run_output.warn(f"set aside: {one.origin}: {one.why}")


def report_tools(run_output: RunOutput, tools: InstalledTools) -> None:
    """The tools of installed packages, and what was set aside."""
    for tool in tools.tools:
        run_output.tell(f"tool {tool.name} from {tool.origin}")
    for origin, why in tools.set_aside:
        run_output.warn(f"set aside: {origin}: {why}")


def set_aside(settings: Settings, found: Discovery) -> tuple[SetAsidePlugin, ...]:
    """The plug-ins that could not be used, and the weights of `rewards.weights` whose rules are not there."""
    weights = set_aside_weights(settings, found)
    return (
        *(SetAsidePlugin(origin=broken.origin, why=broken.why) for broken in found.broken),
        *(
            SetAsidePlugin(
                origin=f"rewards.weights.{name}",
                why=f"nothing scores {name}; the other weights share its {weight:g} until its rule is there (--rules)",
            )
            for name, weight in weights.items()
        ),
    )


def address(access: Access, *, embedded: bool) -> BusLocation:
    """The address of the bus, with the embedded server's token, which was made for this run; never another server's
    secret."""
    if not embedded:
        return BusLocation(url=access.address)
    return BusLocation(url=access.address, embedded=True, user=access.user, token=access.token or access.password)


def for_plugins(settings: Settings) -> Settings:
    """Those of them that a plug-in consumer is given: no secret is in them, and no address that may hold one."""
    return Settings(
        agent=settings.agent,
        bus=BusSettings(durability=settings.bus.durability),
        rewards=settings.rewards.model_copy(update={"judges": {}}),
        constitution=settings.constitution,
        consumers=settings.consumers,
        watch=settings.watch,
        needs=settings.needs,
        log=settings.log,
        seed=settings.seed,
    )
