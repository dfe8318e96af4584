"""The screen of `conch watch`: draws the picture at most four times a second, and only what has changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Static

from conch.cli.watch import drawing
from conch.cli.watch.ending import end_with_terminal
from conch.cli.watch.keys import KeyBar
from conch.cli.watch.picture import FLEET_ROWS, AgentPicture, WatchPicture
from conch.cli.watch.source import PictureSource
from conch.cli.watch.story import CycleScreen, HelpScreen
from conch.config import Settings
from conch.home import Home
from conch.tasks import background

T = TypeVar("T")

DRAW_SECONDS = 0.25
"""Seconds between two drawings."""
WIDE, NARROW, SLIM = 100, 60, 44
"""Columns from which on the panels are side by side, and the table has all its columns; from which on components and
needs are side by side, with readable names; and from which on the table has more than the totals."""
PANELS = {"-wide": 16, "-narrow": 23, "-slim": 31, "-tiny": 31}
"""Least lines of a screen of each width that has panels: with fewer there is no room for the cycles beneath them."""
BELOW = 12
"""Lines from which on there is room for lag and alarms, and for the names of the columns."""
WHOLE_BELOW = 20
"""Lines from which on there is room for goals and failing rules, too."""
TABLE_ROWS = 100
"""Cycles in the table, the newest."""
FEW = 20
"""Rows that are taken out one by one; of more, all are drawn anew."""


async def show(home: Home, settings: Settings, names: Sequence[str]) -> None:
    """Run the screen until a key, a signal or the end of the terminal ends it; the terminal is restored if it is still
    there."""
    source = PictureSource(home, settings, WatchPicture(names))
    app = WatchApp(source)
    end_with_terminal(app.exit)
    async with background(source.follow(), name="conch.watch"):
        await app.run_async()


class _KeyedTable(DataTable[Text]):
    """A table with rows by key, of which only changed ones are updated."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "open")]

    def __init__(self, *, follows: bool, **parts: Any) -> None:
        """`follows`: a cursor on the last row goes on to the next that comes."""
        super().__init__(cursor_type="row", zebra_stripes=True, **parts)
        self._follows = follows
        self.drawn: dict[str, object] = {}
        """Row's key -> what it was drawn of."""

    def begin(self, columns: Sequence[str]) -> None:
        """Empty, with these columns."""
        self.clear(columns=True)
        self.drawn = {}
        for place, name in enumerate(columns):
            self.add_column(Text(name, justify="right" if name in ("cycle", "total", "ms") else "left"), key=str(place))

    def bring(self, rows: Mapping[str, T], cells: Callable[[T], list[Text]]) -> None:
        """Update the table to these rows, in this order; `cells` draws one. The cursor stays on its row, or on the
        last."""
        at_end = self._follows and self.cursor_row >= self.row_count - 1
        gone = [key for key in self.drawn if key not in rows]
        if len(gone) <= FEW:
            for key in gone:
                self.remove_row(key)
                del self.drawn[key]
        if list(rows)[: len(self.drawn)] != list(self.drawn):  # many went, or one came in between
            self.clear()
            self.drawn = {}
        for key, row in rows.items():
            if key not in self.drawn:
                self.add_row(*cells(row), key=key)
            elif self.drawn[key] != row:
                for place, cell in enumerate(cells(row)):
                    self.update_cell(key, str(place), cell, update_width=True)
            self.drawn[key] = row
        if at_end and self.row_count:
            self.move_cursor(row=self.row_count - 1)


class WatchApp(App[None]):
    """The terminal application of `conch watch`."""

    TITLE = "conch watch"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as the base class has it
        (0, "-tiny"),
        (SLIM, "-slim"),
        (NARROW, "-narrow"),
        (WIDE, "-wide"),
    ]
    CSS = """
    #head, #total { height: 1; background: $panel; }
    #panels { height: auto; layout: vertical; }
    #reward, #components, #needs { border: round $primary; padding: 0 1; height: 7; }
    #parts { height: 7; }
    #components, #needs { width: 1fr; }
    .-wide #panels { layout: horizontal; }
    .-wide #reward { width: 2fr; }
    .-wide #parts { width: 3fr; }
    .-slim #parts, .-tiny #parts { layout: vertical; height: 14; }
    .-slim #components, .-slim #needs, .-tiny #components, .-tiny #needs { width: 100%; }
    #fleet { height: auto; max-height: 10; border: round $secondary; }
    #cycles { height: 1fr; min-height: 3; scrollbar-size-horizontal: 0; }
    .-tiny #cycles { scrollbar-size-vertical: 0; }
    #below { height: auto; max-height: 6; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("p", "pause", "pause"),
        Binding("question_mark", "help", "help", key_display="?"),
    ]

    def __init__(self, source: PictureSource) -> None:
        super().__init__()
        self.source, self.picture = source, source.picture
        self.chosen = self.picture.names[0]
        self._drawn: tuple[int, str, int, int] | None = None
        self._remembered: set[str] = set()

    @property
    def life(self) -> AgentPicture:
        """The agent that is shown."""
        return self.picture.lives[self.chosen]

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield Static(id="head", markup=False)
        yield Static(id="total", markup=False)
        if len(self.picture.names) > 1:
            yield _KeyedTable(follows=False, id="fleet")
        with Vertical(id="panels"):
            yield _titled("reward", "reward")
            with Horizontal(id="parts"):
                yield _titled("components", "component: last, mean")
                yield _titled("needs", "needs")
        yield _KeyedTable(follows=True, id="cycles")
        yield Static(id="below", markup=False)
        yield KeyBar()

    def _arrange(self) -> None:
        """Show the panels that there is room for: the cycles and their total first."""
        width, height = self.size
        kind = next(name for least, name in reversed(self.HORIZONTAL_BREAKPOINTS) if width >= least)
        panels = height >= PANELS[kind]
        for name, there in (("panels", panels), ("fleet", panels), ("total", not panels), ("below", height >= BELOW)):
            for part in self.query(f"#{name}"):
                part.display = there
        table = self.query_one("#cycles", _KeyedTable)
        table.show_header, table.cell_padding = height >= BELOW, int(width >= SLIM)

    def on_mount(self) -> None:
        """Begin to draw."""
        for table in self.query("#fleet").results(_KeyedTable):
            table.begin(("agent", "state", "cycle", "last", "mean", ""))
        self.query_one("#cycles", _KeyedTable).focus()
        self._choose(self.chosen)
        self.set_interval(DRAW_SECONDS, self._draw)

    def on_resize(self) -> None:
        """Other columns fit."""
        self._drawn = None

    @work
    async def _remember(self, agent: str) -> None:
        await self.source.remember(agent)

    def _choose(self, agent: str) -> None:
        self.chosen = agent
        if agent not in self._remembered:
            self._remembered.add(agent)
            self._remember(agent)

    def _draw(self) -> None:
        """Draw what has changed since the last time, if anything has."""
        now = (self.picture.version, self.chosen, *self.size)
        if now == self._drawn or not self.is_running:
            return
        new_table = self._drawn is None or self._drawn[1:] != now[1:]
        self._drawn = now
        if new_table:
            self._arrange()
        life, picture = self.life, self.picture
        self._show("head", drawing.headline(picture, life, self.size.width))
        self._show("total", drawing.total(life, self.size.width))
        for name, draw in (("reward", drawing.reward), ("components", drawing.components), ("needs", drawing.needs)):
            room = self.query_one(f"#{name}").content_size.width
            self._show(name, draw(life, room))
        self._show("below", drawing.below(picture, life, self.size.width, whole=self.size.height >= WHOLE_BELOW))
        self._draw_cycles(life, anew=new_table)
        for table in self.query("#fleet").results(_KeyedTable):
            lives = list(picture.lives.values())[:FLEET_ROWS]
            table.bring({life.name: drawing.fleet_row(life) for life in lives}, drawing.fleet_cells)

    def _draw_cycles(self, life: AgentPicture, *, anew: bool) -> None:
        table, width = self.query_one("#cycles", _KeyedTable), self.size.width
        columns = (
            drawing.COLUMNS if width >= WIDE else drawing.FEWER_COLUMNS if width >= SLIM else drawing.FEWEST_COLUMNS
        )
        if anew:
            table.begin(columns)
        rows = list(life.rows.values())[-TABLE_ROWS:]
        table.bring({str(row.cycle): row for row in rows}, lambda row: drawing.cells(row, columns, width))

    def _show(self, name: str, text: Text) -> None:
        self.query_one(f"#{name}", Static).update(text)

    # -- keys --------------------------------------------------------------------------------------------------------

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter, or a click, on a row."""
        key = str(event.row_key.value)
        if event.data_table.id == "fleet":
            self._choose(key)
        else:
            self.push_screen(CycleScreen(self.source, self.chosen, int(key)))

    @work
    async def action_pause(self) -> None:
        """Pause the agent that is shown, or let it go on."""
        await self.source.pause(self.chosen)

    def action_help(self) -> None:
        """The keys."""
        self.push_screen(HelpScreen())

    async def action_quit(self) -> None:
        """End."""
        with contextlib.suppress(Exception):
            self.workers.cancel_all()
        self.exit()


def _titled(name: str, title: str) -> Static:
    made = Static(id=name, markup=False)
    made.border_title = title
    return made
