"""Progress bars on stderr with rate and remaining time, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

Told = Callable[[str, int, int], None]
"""(what is done, how much of it is done, how much there is)."""


@contextmanager
def counting() -> Iterator[Progress]:
    """Bars of things that are counted."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining
    from rich.text import Text

    class Rate(ProgressColumn):
        """The column that shows the rate, in units per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f}/s")

    named = TextColumn("{task.description}", markup=False)
    console = Console(file=sys.stderr)
    shown = sys.stderr.isatty()
    with Progress(
        named, BarColumn(), MofNCompleteColumn(), Rate(), Remaining(), console=console, disable=not shown
    ) as bar:
        yield bar


@contextmanager
def moving() -> Iterator[Told]:
    """Gives `told("packing CONCH", done, whole)`, in bytes, which draws a bar for each text that it is given."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
    from rich.progress import TimeRemainingColumn as Remaining

    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), Remaining())
    bars: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(file=sys.stderr), disable=not sys.stderr.isatty()) as progress:

        def told(what: str, done: int, whole: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=whole)
            progress.update(bars[what], completed=min(done, whole) if whole else done, total=whole or None)

        yield told
