"""Screens on top of `conch watch`: a cycle in full, and the help on keys."""

from __future__ import annotations

import asyncio
import contextlib
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from conch.cli.common import wrapped
from conch.cli.cycle import story
from conch.cli.watch.drawing import headline
from conch.cli.watch.keys import KeyBar
from conch.cli.watch.source import PictureSource
from conch.errors import ConchError
from conch.text import safe_text

MOST_CHARACTERS = 2000
"""Longest line of the story; a longer one is cut, with where to find it whole."""
AGAIN_SECONDS = 1.0
"""Seconds between two checks whether a cycle has a later revision."""
STATE_SECONDS = 0.25
"""Seconds between two drawings of the agent's state above a cycle."""

HELP = """\
enter      the cycle under the cursor, whole; of several agents: the one to be shown
j  k       in a cycle: the next one, the one before
esc  q     back; q on the first screen: the end
p          pause the agent that is shown, or let it go on
tab        from one table to the other
?          this

chart      the mean of the last 20 cycles; the figures beside it are its greatest and least
rules      those that failed on acts shown here, and why
total      … while the act is being scored; `n of m scored` while some are missing
mean       of the last 20 cycles
lag        events that a consumer has still to read"""


class CycleScreen(Screen[None]):
    """A screen with the agent's state, one cycle from thought to reward, and keys to its neighbours.

    The app's key `p` goes on here: the first line shows what comes of it.
    """

    CSS = """
    CycleScreen #state { height: auto; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "back", key_display="esc"),
        Binding("j", "go(1)", "next"),
        Binding("k", "go(-1)", "before"),
        Binding("question_mark", "app.help", "help", key_display="?"),
    ]

    def __init__(self, source: PictureSource, agent: str, cycle: int) -> None:
        super().__init__()
        self._source, self._agent, self.cycle = source, agent, cycle
        self._told: list[str] = []
        self._state_of: int | None = None
        """Version of the picture that the state was drawn of."""
        self._moved = asyncio.Event()

    def compose(self) -> ComposeResult:
        """The state, the text, and the keys."""
        yield Static(id="state", markup=False)
        with VerticalScroll():
            yield Static(id="story", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Read the cycle, at intervals: a late score changes it."""
        self.query_one(VerticalScroll).focus()
        self._read()
        self.set_interval(STATE_SECONDS, self._show_state)

    def on_resize(self) -> None:
        """Its lines are cut anew."""
        self._show(self._told)
        self._state_of = None

    def _show_state(self) -> None:
        """Draw the agent's state and the result of the last key, where they may have changed."""
        picture = self._source.picture
        if self._state_of != picture.version:
            self._state_of = picture.version
            text = headline(picture, picture.lives[self._agent], self.size.width)
            if picture.said:
                text.append(f"\n {picture.said}", "yellow")
            self.query_one("#state", Static).update(text)

    @work
    async def _read(self) -> None:
        while True:
            self._moved.clear()
            lines = await told(self._source, self._agent, self.cycle)
            if lines != self._told:
                self._told = lines
                self._show(lines)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_SECONDS):
                    await self._moved.wait()

    def _show(self, lines: list[str]) -> None:
        width = max(20, self.size.width - 4)
        text = "\n".join(part for line in lines for part in wrapped(line, width))
        self.query_one("#story", Static).update(Text(text))

    def action_go(self, step: int) -> None:
        """Show the neighbouring cycle, where there is one."""
        rows = self._source.picture.lives[self._agent].rows
        if (there := self.cycle + step) >= 0 and there <= max(rows, default=self.cycle):
            self.cycle = there
            self.query_one(VerticalScroll).scroll_home(animate=False)
            self._moved.set()


async def told(source: PictureSource, agent: str, cycle: int) -> list[str]:
    """The story of a cycle, line by line; safe."""
    try:
        found = await source.cycle(agent, cycle)
    except ConchError as error:
        return [safe_text(f"cycle {cycle} of {agent} cannot be read: {error}", one_line=True)]
    if found is None:
        row = source.picture.lives[agent].rows.get(cycle)
        waits = row is not None and row.total is None
        why = "is being scored: its story comes with its total" if waits else "is not recorded here"
        return [f"cycle {cycle} of {agent} {why}"]
    lines = (line for part in story(*found) for line in safe_text(part).split("\n"))
    return [line if len(line) <= MOST_CHARACTERS else _cut(line, agent, cycle) for line in lines]


def _cut(line: str, agent: str, cycle: int) -> str:
    left = len(line) - MOST_CHARACTERS
    return f"{line[:MOST_CHARACTERS]}… {left} more characters: conch cycle show {cycle} --agent {agent} --json"


class HelpScreen(ModalScreen[None]):
    """A screen that explains the keys; any key closes it."""

    CSS = """
    HelpScreen { align: center middle; }
    #help { width: auto; max-width: 100%; height: auto; border: round $primary; padding: 1 2; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "app.pop_screen", "back", priority=True)
    ]

    def compose(self) -> ComposeResult:
        """The keys."""
        yield Static(Text(HELP), id="help")
