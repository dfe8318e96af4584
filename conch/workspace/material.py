"""What a living workspace is brought: pieces of material, each with a goal, and how they are laid out and put away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from conch.errors import ToolError
from conch.log import get_logger
from conch.tools import MissingError, Workspace
from conch_schemas import FileCheck, Goal

KEPT: Final = 42
"""Pieces whose files stay in the workspace: six months of the notebook. Before a piece is laid out, the files of the
piece KEPT numbers earlier are put away, so a living workspace holds at most KEPT pieces. An edited file stays."""
MOST_FILES: Final = 3
"""Most files of a piece, the one that its goal asks for included."""
MOST_BYTES: Final = 2048
"""Most bytes of the files that a piece brings, as UTF-8: KEPT pieces take 84 KiB at most."""


log = get_logger(__name__)


class AddedLine(NamedTuple):
    """A line at the end of a file that is there already."""

    path: str
    line: str


@dataclass(frozen=True)
class MaterialPiece:
    """New material for a workspace, and the goal that comes with it.

    Its paths depend on its number alone, so that another seed puts the same files away.
    """

    kind: str
    """What is asked for; of each kind at most one goal is open at a time."""
    goal: Goal
    files: tuple[tuple[str, str], ...]
    """Path and text of each new file."""
    line: AddedLine | None = None
    """A line that is added to one of the notebook's files."""
    corrected: tuple[tuple[str, str], ...] = ()
    """Path and text of each of the files as its goal asks for it, where it asks for a correction of one."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that belong to the piece: those that it brings, and the one that its goal asks for."""
        wanted = (self.goal.check.path,) if isinstance(self.goal.check, FileCheck) else ()
        return (*(path for path, _ in self.files), *wanted)


class MaterialScript(Protocol):
    """An endless supply of pieces for one kind of workspace."""

    mark: tuple[str, str]
    """A file of the workspace and the first line of it, by which the workspace is recognised."""

    def piece(self, seed: int, number: int) -> MaterialPiece:
        """The piece of this number, 0 and up: a pure function of both."""
        ...


def lay_out(workspace: Workspace, piece: MaterialPiece) -> None:
    """Write the piece's files and its line. What is there already stays as it is, so a second call changes nothing.

    Raises ToolError where a file cannot be written; what was written stays, and another call adds the rest. A line that
    cannot be added is left out and logged.
    """
    for path, text in piece.files:
        if workspace.stat(path) is None:
            workspace.write(path, text)
    if piece.line is not None:
        with _logged("material.line_left_out", piece.line.path):
            _add(workspace, piece.line)


def put_away(workspace: Workspace, piece: MaterialPiece) -> None:
    """Delete the piece's files that are as the piece brought them or as its goal asked for, and the file that its goal
    asked for, and take out its line. A second call changes nothing.

    A file of another content stays: it is a person's, or the agent's own. What cannot be deleted is logged and stays.
    """
    known: dict[str, set[bytes]] = {}
    for path, text in (*piece.files, *piece.corrected):
        known.setdefault(path, set()).add(text.encode())
    for path in piece.paths:
        with _logged("material.not_put_away", path), contextlib.suppress(MissingError):
            if path not in known or workspace.read_bytes(path) in known[path]:
                workspace.delete(path)
    if piece.line is not None:
        with _logged("material.not_put_away", piece.line.path):
            _take_out(workspace, piece.line)


@contextlib.contextmanager
def _logged(event: str, path: str) -> Iterator[None]:
    try:
        yield
    except ToolError as error:
        log.warning(event, path=path, why=str(error))


def _add(workspace: Workspace, added: AddedLine) -> None:
    there, line = _bytes(workspace, added.path), added.line.encode()
    if line not in there.split(b"\n"):
        ended = there if there.endswith(b"\n") or not there else there + b"\n"
        workspace.write(added.path, ended + line + b"\n")


def _take_out(workspace: Workspace, added: AddedLine) -> None:
    lines, line = _bytes(workspace, added.path).split(b"\n"), added.line.encode()
    if line in lines:
        lines.remove(line)
        workspace.write(added.path, b"\n".join(lines))


def _bytes(workspace: Workspace, path: str) -> bytes:
    try:
        return workspace.read_bytes(path)
    except MissingError:
        return b""
