"""`conch need list | history`: the needs of an agent and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from conch.cli.common import CommonOptions, emit, table
from conch.cli.options import COMMON, AgentName, Limit, reading
from conch_schemas import NeedsChanged

if TYPE_CHECKING:
    from conch.views import NeedRow

app = App(name="need", help="What the agent needs, and how satisfied it is.")


@app.command(name="list")
def list_(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Every need with its satisfaction (0 starved, 1 satisfied), the most pressing marked."""
    from conch.experience import store_location
    from conch.views import needs_shown

    settings, last = common.settings(), None
    if store_location(settings.store.url, common.existing().path).exists():
        with reading(common, agent) as (store, name):
            last = next(iter(store.charts.needs_history(name, 1)), None)
    found = needs_shown(settings.needs, last)
    if common.json:
        emit(found)
        return
    cells = [
        (row.need, f"{row.satisfaction:.3f}", f"{row.priority:.2f}", f"{row.pressing:.3f}", _note(row))
        for row in found.needs
    ]
    table(("need", "satisfaction", "priority", "pressing", ""), cells)


def _note(row: NeedRow) -> str:
    return "most pressing" if row.most else ""


@app.command
def history(*, limit: Limit = 20, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """How the needs changed, and with what."""
    with reading(common, agent) as (store, name):
        changes = store.charts.needs_history(name, limit)
    if common.json:
        from conch.views import changes_shown

        emit(changes_shown(changes))
        return
    needs = list(dict.fromkeys(need for change in changes for need in change.after))
    table(("cycle", *needs, "why"), [_cells(change, needs) for change in changes])


def _cells(change: NeedsChanged, needs: list[str]) -> tuple[object, ...]:
    levels = (f"{change.after[need]:.3f}" if need in change.after else "" for need in needs)
    why = ", ".join(dict.fromkeys(cause.why for cause in change.changes))
    return ("" if change.cycle is None else change.cycle, *levels, why)
