"""What a living workspace is brought: pieces of material, each with a goal, and how they are laid out and put away."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from conch.tools import MissingError, Workspace
from conch_schemas import FileCheck, Goal

KEPT: Final = 28
"""Pieces whose files stay in the workspace: four months of the notebook. Before a piece is laid out, the files of the
piece KEPT numbers earlier are put away, so a living workspace holds at most KEPT pieces."""
MOST_FILES: Final = 3
"""Most files of a piece, the one that its goal asks for included."""
MOST_BYTES: Final = 2048
"""Most bytes of the files that a piece brings, as UTF-8: KEPT pieces take 56 KiB at most."""


class AddedLine(NamedTuple):
    """A line at the end of a file that is there already."""

    path: str
    line: str


@dataclass(frozen=True)
class MaterialPiece:
    """New material for a workspace, and the goal that comes with it.

    Its paths depend on its number alone, so that another seed puts the same files away.
    """

    goal: Goal
    files: tuple[tuple[str, str], ...]
    """Path and text of each new file."""
    line: AddedLine | None = None
    """A line that is added to one of the notebook's files."""

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

    Raises ToolError where a file cannot be written; what was written stays, and another call adds the rest.
    """
    for path, text in piece.files:
        if workspace.stat(path) is None:
            workspace.write(path, text)
    if piece.line is not None:
        path, line = piece.line
        lines = _lines(workspace, path)
        if line not in lines:
            workspace.write(path, "\n".join([*lines, line, ""]))


def put_away(workspace: Workspace, piece: MaterialPiece) -> None:
    """Delete the piece's files, the one that its goal asked for too, and take out its line. A second call changes
    nothing. Raises ToolError where a file cannot be deleted."""
    for path in piece.paths:
        with contextlib.suppress(MissingError):
            workspace.delete(path)
    if piece.line is not None and piece.line.line in (lines := _lines(workspace, piece.line.path)):
        lines.remove(piece.line.line)
        workspace.write(piece.line.path, "\n".join([*lines, ""]))


def _lines(workspace: Workspace, path: str) -> list[str]:
    try:
        return workspace.read(path).removesuffix("\n").split("\n")
    except MissingError:
        return []
