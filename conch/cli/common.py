"""What all commands share: common options, output as text or JSON, connections to bus and store."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from conch.cli.streams import takes_unicode
from conch.config import Settings
from conch.errors import HomeBusyError, HomeError, NoStoreError, UsageError
from conch.home import Home
from conch.text import safe_text

if TYPE_CHECKING:
    from structlog.typing import EventDict

    from conch.bus import Access, Bus, EmbeddedServer
    from conch.experience import ExperienceReader
    from conch.views import View

COLUMN_GAP = 2
"""Blanks between two columns."""
MIN_WIDTH = 8
"""A column of a table is cut to no less."""
QUOTED = "  | "
"""Begins each line of a text of minds and tools, so that none can pass for one of ours."""
BUSY_SECONDS = 10.0
"""Longest wait for a home that another command owns: most commands are done in less."""
BUSY_POLL_SECONDS = 0.05
STREAM_HEADROOM = 4
"""The embedded stream may take this many times what is kept of read events; full, publishers wait."""


@Parameter(name="*")
@dataclass(frozen=True)
class CommonOptions:
    """The options of every command on a home."""

    home: Annotated[Path | None, Parameter(help="Home directory (CONCH_HOME; default ~/.local/share/conch).")] = None
    config: Annotated[Path | None, Parameter(help="Configuration file; default conch.yaml in the home.")] = None
    json: Annotated[bool, Parameter(negative="", help="One JSON document, JSON Lines for streams; nothing else.")] = (
        False
    )

    def where(self) -> Home:
        """The home directory."""
        return Home.at(self.home)

    def settings(self, overrides: Mapping[str, object] | None = None) -> Settings:
        """File < environment < command line. Raises ConfigError."""
        from conch.config import load

        return load(self.config, self.where(), overrides or {})

    def existing(self) -> Home:
        """The home directory, which must be there. Raises UsageError, and HomeError when a newer version made it."""
        home = self.where()
        if not (home.path / "format").exists():
            raise UsageError(
                f"there is no home at {home.path}: conch init or conch run makes one, --home names another"
            )
        home.refuse_newer()
        return home


@contextmanager
def owned_soon(home: Home) -> Iterator[None]:
    """Own the home while entered. One that another command owns, or a run that ends, is waited for.

    Raises HomeBusyError where a run in progress owns it, or another process for more than BUSY_SECONDS; HomeError.
    """
    until = time.monotonic() + BUSY_SECONDS
    with ExitStack() as owned:
        while not _owned_now(home, owned, until):
            time.sleep(BUSY_POLL_SECONDS)
        yield


@asynccontextmanager
async def owned_in_turn(home: Home) -> AsyncIterator[None]:
    """`owned_soon` for a command that runs in an event loop."""
    until = time.monotonic() + BUSY_SECONDS
    with ExitStack() as owned:
        while True:
            if _owned_now(home, owned, until):
                break
            await asyncio.sleep(BUSY_POLL_SECONDS)
        yield


def _owned_now(home: Home, owned: ExitStack, until: float) -> bool:
    """Whether the home could be entered; False: its owner is to be waited for."""
    try:
        owned.enter_context(home.owned())
        return True
    except HomeBusyError:
        if home.running() is not None or time.monotonic() > until:
            raise
        return False


@asynccontextmanager
async def open_bus(home: Home, settings: Settings) -> AsyncIterator[Bus]:
    """The bus of this home: of the run in progress, of bus.url, else the embedded server, started for the time of the
    block.

    A home that another command owns, or a run that begins, is waited for. Raises BusUnreachableError, and HomeBusyError
    when a process that is no run owns it for more than BUSY_SECONDS.
    """
    from conch.bus import access_to
    from conch.bus.jetstream import JetStreamBus

    strict = settings.bus.durability == "strict"
    async with reach(home, settings) as access:
        room = stream_bytes(settings) if access_to(home, settings) is None else -1
        async with JetStreamBus(access, name="conch-cli", max_bytes=room, strict=strict) as bus:
            yield bus


@asynccontextmanager
async def reach(home: Home, settings: Settings) -> AsyncIterator[Access]:
    """The address and credentials of the bus of this home, see `open_bus`; the bus is available inside the block."""
    from conch.bus import access_to
    from conch.processes import served

    quiet()
    until = asyncio.get_running_loop().time() + BUSY_SECONDS
    with ExitStack() as owned:
        while (access := access_to(home, settings)) is None:
            try:
                owned.enter_context(home.owned())
                break
            except HomeBusyError:
                if asyncio.get_running_loop().time() > until:
                    raise
            except HomeError as error:
                raise HomeError(f"the stream is read through a server that writes in the home, but {error}") from error
            await asyncio.sleep(BUSY_POLL_SECONDS)
        if access is not None:
            yield access
            return
        server = embedded_server(home, settings)
        async with served(server, warn):
            yield server.access


def quiet(*, least: str = "error") -> None:
    """Log lines to stderr, of this level (info or error) and above, for a command that has no log of its own; else as
    they were set."""
    import structlog

    def loud_only(_: Any, method: str, event: EventDict) -> EventDict:
        if method in ("error", "critical", "exception") or (least == "info" and method != "debug"):
            return event
        raise structlog.DropEvent

    if not structlog.is_configured():
        structlog.configure(
            processors=[loud_only, *structlog.get_config()["processors"]],
            logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        )


def embedded_server(home: Home, settings: Settings, *, listens: bool = False) -> EmbeddedServer:
    """The embedded server of this home, with a fresh token; not started. `listens`: for MQTT clients, if it is to."""
    from conch.bus import EmbeddedServer, MqttListener

    return EmbeddedServer(
        home.bus,
        token=secrets.token_urlsafe(24),
        strict=settings.bus.durability == "strict",
        max_bytes=stream_bytes(settings),
        listener=MqttListener.of(settings.edge) if listens else None,
        named=settings.bus.server,
    )


def stream_bytes(settings: Settings) -> int:
    """Most bytes that the stream may take."""
    return int(settings.bus.keep.gib * STREAM_HEADROOM * 2**30)


def open_store(home: Home, settings: Settings) -> ExperienceReader:
    """The home's experience store, for reading. Raises NoStoreError when there is none, StoreError."""
    from conch.experience import store_location

    store = store_location(settings.store.url, home.path)
    try:
        return store.reader()
    except NoStoreError:
        raise NoStoreError(f"there are no experiences at {store} yet: conch run makes some") from None


def emit(view: View) -> None:
    """One JSON document, or one line of a stream, on stdout."""
    write_json(view.document())


def write_json(document: Any) -> None:
    """Plain JSON values on stdout, in one line: for what is described elsewhere, such as a JSON Schema. Where stdout's
    encoding does not have every character, those beyond ASCII are escaped."""
    sys.stdout.write(json.dumps(document, ensure_ascii=not takes_unicode(), default=str) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """A line for a person, on stdout; hostile text in it is made safe."""
    sys.stdout.write(safe_text(text) + "\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    """Print lines for a person on stdout, made safe as `say` does; a terminal gets them `wrapped` at its width."""
    if sys.stdout.isatty():
        from rich.console import Console

        width = Console(file=sys.stdout).width
        text = "\n".join(part for line in safe_text(text).split("\n") for part in wrapped(line, width))
    say(text)


def wrapped(line: str, width: int) -> list[str]:
    """`line` in lines of at most `width` cells, cut between words where possible; a short one is left as it is.

    Continuation lines are indented to the line's text: behind its last gap of two blanks, if that is in the left two
    thirds; or behind `  | `, which they begin with too. A line without such a gap is continued two blanks further in.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    line = line.expandtabs()
    if cell_len(line) <= width:
        return [line]
    gap = line.rfind(" " * COLUMN_GAP, 0, width * 2 // 3)
    head = line[: gap + COLUMN_GAP] if gap >= 0 else ""
    hang = " " * (cell_len(head) if head.strip() else len(head) + COLUMN_GAP)
    if line.startswith(QUOTED):
        head = hang = QUOTED
    parts = Text(line[len(head) :]).wrap(Console(), max(1, width - len(hang)), overflow="fold")
    return [f"{hang if number else head}{part.plain}".rstrip() for number, part in enumerate(parts)]


def warn(text: str) -> None:
    """A line for a person, on stderr."""
    sys.stderr.write(safe_text(text) + "\n")
    sys.stderr.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, wraps: Collection[str] = ()) -> None:
    """A table for a person on stdout; cells are one line each and no markup in them is interpreted.

    On a terminal the widest columns are made narrower until it fits, and what is too long in them is cut, or in
    the columns that `wraps` names goes on below; in a pipe nothing is.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[Text(safe_text(str(cell), one_line=True)) for cell in row] for row in (columns, *rows)]
    widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    console = Console(file=sys.stdout, highlight=False)
    room = console.width if sys.stdout.isatty() else sum(widths) + COLUMN_GAP * len(widths)
    drawn = Table(box=None, pad_edge=False, padding=(0, COLUMN_GAP, 0, 0), header_style="bold")
    for column, width in zip(columns, fitted(widths, room - COLUMN_GAP * len(widths)), strict=True):
        drawn.add_column(
            column, width=width, overflow="fold" if column in wraps else "ellipsis", no_wrap=column not in wraps
        )
    for row in cells[1:]:
        drawn.add_row(*row)
    console.width = room
    with console.capture() as drawing:
        console.print(drawn)
    sys.stdout.write("".join(line.rstrip() + "\n" for line in drawing.get().splitlines()))


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """`widths` with the widest made narrower, one by one, until they sum to `room` or none is wider than MIN_WIDTH."""
    fit = list(widths)
    while sum(fit) > room and (widest := max(fit, default=0)) > MIN_WIDTH:
        fit[fit.index(widest)] -= 1
    return fit
