"""Draws parts of the picture as `Text` of a given width, so that no text of a mind or a tool is read as markup."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from conch.cli.watch.picture import SMOOTH, AgentPicture, CycleRowModel, WatchPicture, means
from conch.views import signed

_STEPS = "▁▂▃▄▅▆▇█"
LOW, FAIR = 0.3, 0.6
"""Satisfaction below which a need is starved, and below which it is short."""
NAME = 14
"""Cells of a component's or a need's name."""
COLUMNS = ("cycle", "need", "action", "outcome", "total", "ms", "")
FEWER_COLUMNS = ("cycle", "action", "outcome", "total", "")
FEWEST_COLUMNS = ("cycle", "total", " action")
"""Columns of the table of cycles; a note has no heading. The smallest table has no space between them."""
_OTHERS = {COLUMNS: 70, FEWER_COLUMNS: 50, FEWEST_COLUMNS: 15}
"""Cells that the other columns take, beside the action."""


def sparkline(values: Sequence[float], width: int, low: float, high: float) -> str:
    """The newest `width` of them from `low` to `high`, one character each."""
    span = (high - low) or 1.0
    steps = (min(len(_STEPS) - 1, max(0, int((value - low) / span * len(_STEPS)))) for value in values[-width:])
    return "".join(_STEPS[step] for step in steps) if width > 0 else ""


def bar(share: float, width: int) -> str:
    """A bar for this share, 0..1, `width` cells wide."""
    full = round(min(1.0, max(0.0, share)) * width)
    return "█" * full + "░" * (width - full)


def colour(value: float | None) -> str:
    """The colour of a reward: gained, lost, or neither."""
    return "" if not value else "green" if value > 0 else "red"


PANEL_LINES = 5
"""Lines of a panel of the screen."""
AT_EASE = ("running", "asleep")
"""States of an agent in which nothing is wrong."""
ENDS = 20
"""Cycles at each end of those shown whose means the trend compares."""
CHART_ROWS = 3
AXIS = 7
"""Cells of the figures beside the chart."""
FULL = 1.0
"""Measure of a goal that is reached."""


def chart(values: Sequence[float], width: int, rows: int = CHART_ROWS) -> list[str]:
    """The values as columns over `rows` lines, with the greatest and the least of the axis beside them.

    Of more values than columns, neighbours are one column: their mean.
    """
    room = max(1, width - AXIS)
    share = max(1, -(-len(values) // room))
    columns = [sum(part) / len(part) for at in range(0, len(values), share) if (part := values[at : at + share])]
    low, high = min(columns), max(columns)
    steps = len(_STEPS) * rows
    span = (high - low) or 1.0
    heights = [1 + min(steps - 1, int((value - low) / span * steps)) for value in columns]
    lines = []
    for row in reversed(range(rows)):
        cells = (min(len(_STEPS), max(0, height - row * len(_STEPS))) for height in heights)
        drawn = "".join(_STEPS[cell - 1] if cell else " " for cell in cells)
        beside = signed(high, 2) if row == rows - 1 else signed(low, 2) if row == 0 else ""
        lines.append(f"{beside:>{AXIS - 1}} {drawn}")
    return lines


def trend(totals: Sequence[float]) -> str:
    """The means of both ends of these totals, in words; of fewer than two ends what is lacking."""
    if len(totals) < 2 * ENDS:
        return f"no trend before {2 * ENDS} cycles"
    first, last = (sum(part) / ENDS for part in (totals[:ENDS], totals[-ENDS:]))
    return f"first {ENDS} {signed(first, 2)} → last {ENDS} {signed(last, 2)} ({signed(last - first, 2)})"


def headline(picture: WatchPicture, life: AgentPicture, width: int) -> Text:
    """The agent's name and state, and what is wrong with the bus."""
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f" {life.name} ", "bold")
    state = life.state or "not heard of yet"
    text.append(state, "green" if state in AT_EASE else "yellow")
    text.append(f": {life.why}" if life.why else "")
    if (last := life.last) is not None:
        text.append(f"  cycle {max(last.cycle, life.at[0])}")
        if life.phase and state == "running":
            text.append(f" {life.phase}", "cyan")
    if len(picture.names) > 1:
        told = ", ".join(f"{count} {state}" for state, count in picture.states.items())
        text.append(f"  of {len(picture.names)} agents" + (f" ({told})" if told else ""))
    if picture.trouble:
        text = Text(f" {picture.trouble} ", "bold white on red", no_wrap=True, overflow="ellipsis")
    text.truncate(width, overflow="ellipsis", pad=True)
    return text


def reward(life: AgentPicture, width: int) -> Text:
    """The last total, the mean, the mean as it moved, and the verdict on the life; without it, how the two ends of what
    is shown compare."""
    totals = life.totals
    text = Text(no_wrap=True, overflow="ellipsis")
    if not totals:
        return text.append("no cycle has been scored yet", "dim")
    smooth = means(totals)
    text.append("last ").append(signed(totals[-1]), colour(totals[-1]) + " bold")
    text.append("   mean ").append(signed(smooth[-1]), colour(smooth[-1]) + " bold")
    text.append(f"   {len(totals)} cycles", "dim")
    for line in chart(smooth, width):
        text.append("\n" + line[:AXIS], "dim").append(line[AXIS:], "cyan")
    return text.append(f"\n{life.verdict or trend(totals)}", "dim")


def total(life: AgentPicture, width: int) -> Text:
    """The last total and the mean in one line, and the totals in what is left of it."""
    totals = life.totals
    if not totals:
        return Text(" no cycle scored yet", "dim")
    mean = means(totals[-SMOOTH:])[-1]
    text = Text(no_wrap=True).append(" last ").append(signed(totals[-1]), colour(totals[-1]) + " bold")
    text.append(" mean ").append(signed(mean), colour(mean) + " bold").append(" ")
    room = width - text.cell_len - 1
    return text.append(sparkline(totals, room, min(totals), max(totals)), "cyan")


def components(life: AgentPicture, width: int) -> Text:
    """A line for each that is paid: its last value and its mean; of more than PANEL_LINES the last line counts the
    rest."""
    text = Text(no_wrap=True, overflow="ellipsis")
    found = life.components()
    if not found:
        return text.append("none is known yet", "dim")
    shown = len(found) if len(found) <= PANEL_LINES else PANEL_LINES - 1
    for place, (name, last, mean, share) in enumerate(found[:shown]):
        text.append("\n" if place else "").append(f"{_named(name, width)} ")
        for value in (last, mean):
            text.append(f"{'-' if value is None else signed(value, 2):>6} ", colour(value))
        text.append(share.removesuffix(" acts").lstrip(), "dim")
    if shown < len(found):
        text.append(f"\nand {len(found) - shown} more", "dim")
    return text


def needs(life: AgentPicture, width: int) -> Text:
    """A bar for each."""
    text = Text(no_wrap=True, overflow="ellipsis")
    if not life.needs:
        return text.append("none is known yet", "dim")
    room = max(3, width - _name_width(width) - 6)
    for place, (name, level) in enumerate(life.needs.items()):
        style = "red" if level < LOW else "yellow" if level < FAIR else "green"
        text.append("\n" if place else "").append(f"{_named(name, width)} ")
        text.append(bar(level, room), style).append(f" {level:.2f}")
    return text


def _name_width(width: int) -> int:
    return max(4, min(NAME, width - 16))


def _named(name: str, width: int) -> str:
    room = _name_width(width)
    return f"{name:<{room}}" if len(name) <= room else name[: room - 1] + "…"


def below(picture: WatchPicture, life: AgentPicture, width: int, *, whole: bool = True) -> Text:
    """The consumers' lags and the watchers' alarms; the rules that fail, the goals, the agent's lineage, the result
    of the last key. Not `whole`: without goals and failing rules."""
    text = Text(no_wrap=True, overflow="ellipsis")
    behind = [(name, lag) for name, lag in picture.lags if lag]
    text.append(" lag    ", "bold")
    if behind:
        text.append("  ".join(f"{name} {lag}" for name, lag in sorted(behind, key=lambda one: -one[1])), "yellow")
    else:
        text.append(f"none of {len(picture.lags)} consumers is behind" if picture.lags else "-", "dim")
    text.append("\n alarms ", "bold")
    more = f" (and {len(picture.alarms) - 1} more: conch status)" if len(picture.alarms) > 1 else ""
    text.append(picture.alarms[0] + more if picture.alarms else "none", "red" if picture.alarms else "dim")
    failing = life.failing() if whole else []
    if failing:
        name, count, why = failing[0]
        others = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        text.append("\n rules  ", "bold")
        text.append(f"{name} failed on {count} of {len(life.totals)} acts{others}: {why}", "red")
    if whole and life.goals:
        text.append("\n goals  ", "bold")
        shown = (f"{'⚑ ' if best >= FULL else ''}{best:.2f} {statement}" for statement, best in life.goals)
        text.append("  ".join(shown))
    if life.trained:
        text.append("\n trained ", "bold").append(life.trained)
    skipped = f"{picture.skipped:,} events came too fast to be shown" if picture.skipped else ""
    if said := " · ".join(filter(None, (picture.said, skipped))):
        text.append("\n " + said, "yellow")
    lines = text.split("\n")
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines)


def cells(row: CycleRowModel, columns: Sequence[str], width: int) -> list[Text]:
    """A cycle as a row of the table of these columns, on a screen of this width."""
    action = Text(row.action)
    action.truncate(max(9 if columns == FEWEST_COLUMNS else 12, width - _OTHERS[tuple(columns)]), overflow="ellipsis")
    found = {
        "cycle": Text(f"{row.cycle:>6}"),
        "need": Text(row.need),
        "action": action,
        " action": Text(" ") + action,
        "outcome": Text(row.outcome, "red" if row.outcome in ("error", "timeout", "blocked", "unknown") else ""),
        "total": Text(f"{'…' if row.total is None else signed(row.total):>8}", colour(row.total)),
        "ms": Text(f"{row.ms:>7.0f}"),
        "": Text(row.note, "dim"),
    }
    return [found[column] for column in columns]


def fleet_row(life: AgentPicture) -> tuple[str, str, str, int | None, float | None, float | None]:
    """(agent, state, why, its newest cycle, the last total, their mean)."""
    totals, last = life.totals, life.last
    mean = means(totals[-SMOOTH:])[-1] if totals else None
    return (
        life.name,
        life.state,
        life.why,
        last.cycle if last is not None else None,
        totals[-1] if totals else None,
        mean,
    )


def fleet_cells(row: tuple[str, str, str, int | None, float | None, float | None]) -> list[Text]:
    """An agent as a row of the fleet's table."""
    name, state, why, cycle, total, mean = row
    found = [Text(name), Text(state or "-", "" if state in AT_EASE else "yellow")]
    found.append(Text("-" if cycle is None else str(cycle)))
    found += [Text("-" if value is None else signed(value), colour(value)) for value in (total, mean)]
    return [*found, Text(why, "dim")]
