"""Renders a page: its template, with the menu and the bars that all pages have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from conch.rewards.watch import MEANINGS, alarm_name, bounds, severity
from conch.text import clipped, safe_text, without_escapes
from conch.views import action_words, needed, scored_of, scored_share, step_words, total_ms
from conch_services.dashboard.alarms.now import alarms_now
from conch_services.dashboard.asking import QueryResult, asked
from conch_services.dashboard.assets import HASHED
from conch_services.dashboard.drawings.numerals import fixed, signed
from conch_services.dashboard.ranges.wanted import PARAMETER, USUAL_LAST, WantedRange, wanted_range
from conch_services.dashboard.story.ending import run_end
from conch_services.dashboard.story.strip import adds, reward_strip
from conch_services.dashboard.story.terms import terms_of
from conch_services.dashboard.world import DashboardContext


@dataclass(frozen=True)
class MenuEntry:
    """A page in the menu."""

    path: str
    title: str
    about: str
    """The page's content in words, for the help."""


_CHARTS = "In a chart the arrow keys go from cycle to cycle, and Enter opens one."
MENU = (
    MenuEntry(
        "/",
        "Story",
        "Whether the agent gets better: its whole life in one sentence and one curve; what it does now, and what needs "
        f"you, of all agents. {_CHARTS}",
    ),
    MenuEntry(
        "/overview",
        "Overview",
        f"The figures of the last cycles as they come: rewards, needs, what was done, goals. {_CHARTS}",
    ),
    MenuEntry(
        "/film",
        "Film",
        "The life of the agent replayed from the log, up to a thousand times as fast: what it thought, did and earned, "
        "its needs and goals. Below, what share of its cycles each skill had, and what it earned.",
    ),
    MenuEntry(
        "/cycles",
        "Cycles",
        "Every cycle, the newest first: one thought, one act, and the reward it got. A cycle's own page tells it from "
        "the thought to the scores and the marks of the witness.",
    ),
    MenuEntry(
        "/chat",
        "Chat",
        "Conversations with the agent: each answer with its reward and its mark, and your word on it: right, wrong, or "
        "the answer that would have been right.",
    ),
    MenuEntry("/memory", "Memory", "What the agent remembers of its acts, its notes and your words, and from where."),
    MenuEntry("/rewards", "Rewards", f"What each part of the reward pays and how much it says. {_CHARTS}"),
    MenuEntry(
        "/whatif",
        "What if",
        f"Other weights on the recorded acts: what each would have earned; one press puts them in force. {_CHARTS}",
    ),
    MenuEntry("/needs", "Needs & drives", f"How satisfied each need is, what moved it, and the goals. {_CHARTS}"),
    MenuEntry("/training", "Training", f"The policies the agent has had, and how each fared. {_CHARTS}"),
    MenuEntry(
        "/data",
        "Data",
        "Snapshots of rows that trainers take: what the rows are like, what was left out and why, and the acts that "
        "each row comes from.",
    ),
    MenuEntry(
        "/review",
        "Review",
        "Cycles that stand out, one at a time: your word on each is a score of its own. In the tab Rows you decide "
        "which rows of data sets may be trained on.",
    ),
    MenuEntry(
        "/agents",
        "Agents",
        "Every agent of the home: its reward, what it does, its goals, alarms, cost and policy. Found by name, sorted.",
    ),
    MenuEntry(
        "/teams",
        "Teams",
        "Roles that work on one task: who talks to whom, the topology over time with its switches and rewards, tokens "
        "and reward by role, and the conversation.",
    ),
    MenuEntry(
        "/compare",
        "Compare",
        "Two to six periods, policies, generations, weight sets or agents side by side: curves, differences with their "
        "intervals, behaviours in the same states, and a blind vote.",
    ),
    MenuEntry(
        "/alarms",
        "Alarms",
        "Signs that a reward is gamed or teaches nothing, of all agents: what is on, its figure now, and what was. To "
        "acknowledge one says that you have seen it.",
    ),
    MenuEntry("/bus", "Bus", "The stream of facts, how far each consumer has read it, and what none could handle."),
    MenuEntry("/witness", "Witness", "The chain of marks, one for every act and score set; a change of any breaks it."),
    MenuEntry("/settings", "Settings", "Every setting in force, with where it comes from, and checks of this machine."),
)

MARK_WORDS = 160
"""Characters of a mark's statement in a list of marks."""
OFFERED = (WantedRange("life"), WantedRange("hour"), WantedRange("last", USUAL_LAST))
"""Ranges that each page offers."""

_PLACES = (PARAMETER, "agent", "trail", "skip", "upto", "since", "newest")
"""Parts of an address that name a range, or a place within what it shows: another range has other places."""

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    auto_reload=False,  # each page would ask for the time of each of its files
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals["static"] = HASHED
TEMPLATES.globals["scored_share"] = scored_share
TEMPLATES.policies["json.dumps_kwargs"] = {}  # names stay in their order: that of the weight set, say
TEMPLATES.filters |= {
    "safe_text": safe_text,
    "mark_words": lambda text: clipped(safe_text(without_escapes(text)), MARK_WORDS),
    "signed": signed,
    "fixed": fixed,
    "total_ms": total_ms,
    "action_words": action_words,
    "needed": lambda needs: needed(needs or {}),
    "scored_of": scored_of,
    "alarm_means": MEANINGS.__getitem__,
    "alarm_name": alarm_name,
    "alarm_severity": severity,
    "step_words": step_words,
    "reward_strip": lambda one: reward_strip(adds(one), one.total),
    "alarm_bounds": lambda one: bounds(one.alarm, one.value, one.threshold),
    "alarm_figure": lambda one: bounds(one.alarm, one.now, one.threshold),
}


def compile_templates() -> None:
    """Compile every template, so that the first request of a page does not wait for it: all take 0.3 s, once."""
    for name in TEMPLATES.list_templates():
        TEMPLATES.get_template(name)


async def page(request: Request, template: str, found: Mapping[str, object], status: int = 200) -> Response:
    """The page drawn from `template` with `found`, and with the agents there are, the chosen one, the menu, the bus.

    `?agent=` chooses; without it the one that the settings name, or the first. What a template does not find is an
    error, and every value is escaped; text of minds and tools goes through the filter `safe_text` besides.
    """
    return drawn(template, {**await surroundings(request), **found}, status)


def drawn(template: str, found: Mapping[str, object], status: int = 200) -> Response:
    """The page drawn from `template` with `found`, the `surroundings` among it."""
    return HTMLResponse(TEMPLATES.get_template(template).render(found), status)


async def surroundings(request: Request) -> dict[str, object]:
    """The variables that the templates of all pages use."""
    world: DashboardContext = request.app.state.world
    looked: QueryResult[tuple[str, ...]] = await asked(world.agents())
    agents = looked.found or (world.settings.agent,)
    agent = chosen(request, agents, world.settings.agent)
    alarms = (await alarms_now(request, agents)).found or ()
    fresh = [one for one in alarms if one.acknowledged is None]
    path = request.url.path
    several = {"agent": agent} if len(agents) > 1 else {}
    wanted, wrong = wanted_range(request.query_params)
    named = {PARAMETER: wanted.text} if wanted.text else {}
    others = {name: text for name, text in request.query_params.items() if name not in _PLACES and text} | several
    return {
        "menu": MENU,
        "path": path,
        "prefix": request.state.prefix,
        "about": next((one.about for one in MENU if path == one.path or path.startswith(f"{one.path}/")), ""),
        "version": version("conch-agent"),
        "agents": agents,
        "agent": agent,
        "of_agent": _query(several | named),
        "and_range": f"&{urlencode(named)}" if named else "",
        "wanted": wanted,
        "range_wrong": wrong,
        "ranges": [(one, _query(others | {PARAMETER: one.text})) for one in OFFERED],
        "of_others": _query(others | named),
        "others": others,
        "of_agent_alone": _query(several),
        "bus_state": world.hub.state,
        "run_end": await run_end(world, agent),
        "terms": terms_of(path),
        "alarm_count": len(fresh),
        "serious_alarms": sum(one.severity == "serious" for one in fresh),
        "guarded": not world.settings.ui.unsafe_allow_unauthenticated,
        "history_broken": looked.why if looked.broken else "",
    }


def _query(values: Mapping[str, str]) -> str:
    return f"?{urlencode(values)}" if values else ""


async def agents_of(world: DashboardContext) -> tuple[str, ...]:
    """Names of the agents that have acted; of a home without history, the one of the settings."""
    return (await asked(world.agents())).found or (world.settings.agent,)


async def agent_of(request: Request) -> str:
    """The agent that a request is about, by the history's agents."""
    world: DashboardContext = request.app.state.world
    return chosen(request, await agents_of(world), world.settings.agent)


def chosen(request: Request, agents: tuple[str, ...], usual: str) -> str:
    """The agent that a request is about."""
    named = request.query_params.get("agent")
    if named in agents:
        return named
    return usual if usual in agents else agents[0]
