"""`conch walk start | list | show | pause | resume | close`: runs of an agent's marks with a goal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, open_store, say, table
from conch.cli.options import COMMON, AgentName
from conch.cli.people_facts import agent_named
from conch.experience import store_location
from conch.requests import Walks
from conch.text import safe_text
from conch.views import WalkChanged, WalkList, walk_shown

if TYPE_CHECKING:
    from conch.experience import ChainReader
    from conch.witness import Walk, WalkCall

app = App(name="walk", help="Walks: runs of an agent's marks with a goal, and what they earned.")


@app.command
def start(goal: str, /, *, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Start a walk: it takes the agent's marks from now on.

    Parameters
    ----------
    goal
        What the walk is for, in a sentence.
    """
    name = agent_named(common.existing(), common.settings(), agent)
    with _chain(common) as chain:
        _done(common, Walks(common.existing()).start(name, goal, _end(chain, name)))


@app.command(name="list")
def list_(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """The walks, oldest first: of all agents, or of the one that is named."""
    walks = Walks(common.existing()).all(agent)
    if common.json:
        emit(WalkList(walks=tuple(walks)))
        return
    rows = [(one.id, one.agent, one.status, f"{one.started:%Y-%m-%d %H:%M}", one.goal) for one in walks]
    table(("walk", "agent", "status", "started", "goal"), rows, wraps=["goal"])


@app.command
def show(walk: str, /, *, common: CommonOptions = COMMON) -> None:
    """One walk: its marks by phase, and its acts with what each earned.

    Parameters
    ----------
    walk
        Its id, as `conch walk list` shows it.
    """
    found = Walks(common.existing()).get(walk)
    with _chain(common) as chain:
        shown = walk_shown(chain, found)
    if common.json:
        emit(shown)
        return
    phases = [one.phase for one in shown.marks]
    counts = ", ".join(f"{phases.count(phase)} {phase}" for phase in ("sense", "act", "reflect"))
    say(f"walk {found.id} of {found.agent} is {found.status}: {safe_text(found.goal, one_line=True)}")
    say(
        f"{len(shown.marks)} marks ({counts}), next {shown.next}; "
        f"{shown.total:+.3f} over {len(shown.steps)} acts, discount {shown.gamma:g}"
    )
    if found.why:
        say(f"closed: {safe_text(found.why, one_line=True)}")
    rows = [(one.sequence, "-" if one.reward is None else f"{one.reward:+.3f}", one.action) for one in shown.steps]
    table(("mark", "reward", "act"), rows, wraps=["act"])


@app.command
def pause(walk: str, /, *, common: CommonOptions = COMMON) -> None:
    """Let an active walk take no marks until it is resumed.

    Parameters
    ----------
    walk
        Its id, as `conch walk list` shows it.
    """
    _call(common, walk, "pause")


@app.command
def resume(walk: str, /, *, common: CommonOptions = COMMON) -> None:
    """Let a paused walk take marks again.

    Parameters
    ----------
    walk
        Its id, as `conch walk list` shows it.
    """
    _call(common, walk, "resume")


@app.command
def close(
    walk: str,
    /,
    *,
    abandon: Annotated[bool, Parameter(negative="", help="It is given up, not complete.")] = False,
    why: Annotated[str, Parameter(help="Why, for people.")] = "",
    common: CommonOptions = COMMON,
) -> None:
    """Close a walk: it takes no marks any more, and cannot be opened again.

    Parameters
    ----------
    walk
        Its id, as `conch walk list` shows it.
    """
    _call(common, walk, "abandon" if abandon else "complete", why)


def _call(common: CommonOptions, number: str, call: WalkCall, why: str = "") -> None:
    walks = Walks(common.existing())
    with _chain(common) as chain:
        _done(common, walks.call(number, call, _end(chain, walks.get(number).agent), why))


def _done(common: CommonOptions, walk: Walk) -> None:
    if common.json:
        emit(WalkChanged(walk=walk))
    else:
        say(f"{walk.id} is {walk.status}")


@contextmanager
def _chain(common: CommonOptions) -> Iterator[ChainReader | None]:
    """The stored chain; None where there are no experiences yet."""
    home, settings = common.existing(), common.settings()
    if not store_location(settings.store.url, home.path).exists():
        yield None
        return
    store = open_store(home, settings)
    try:
        yield store.chain
    finally:
        store.close()


def _end(chain: ChainReader | None, agent: str) -> int:
    """The sequence of the agent's next mark."""
    last = chain.last_mark(agent) if chain is not None else None
    return 0 if last is None else last + 1
