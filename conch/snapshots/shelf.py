"""The kept decisions and workspaces of one agent, in files of its home."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import zstandard
from pydantic import ValidationError

from conch.errors import ToolError
from conch.snapshots.decision import RecordedDecision
from conch.snapshots.tree import KeptEntry, decoded_tree, object_file, restore

SNAPSHOTS: Final = "snapshots"
"""The directory, in an agent's own one."""
COPY: Final = "copy-"
"""Begins the names of copies; the id of the process that made it follows."""
MOST_FILE_BYTES: Final = 2**20
"""Largest file whose lines are compared."""


class SnapshotShelf:
    """Reads what a `SnapshotKeeper` keeps, in any process, also while the agent runs.

    Below its folder: `objects`, contents of files by their SHA-256; `trees`, workspaces by theirs; `cycles`, a decision
    of each cycle. A record is written after its tree, a tree after its objects, and each under its name in one step: a
    kill leaves no record of a workspace that is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def objects(self) -> Path:
        """Contents of files, by the first two digits of their digest, then the others."""
        return self.folder / "objects"

    @property
    def trees(self) -> Path:
        """Trees of workspaces, by their digest."""
        return self.folder / "trees"

    @property
    def records(self) -> Path:
        """Decisions, by cycle."""
        return self.folder / "cycles"

    def cycles(self) -> dict[int, Path]:
        """The files of the kept decisions by cycle, oldest first."""
        with contextlib.suppress(OSError):
            named = ((file.name.partition("-")[0], file) for file in self.records.iterdir())
            return dict(sorted((int(cycle), file) for cycle, file in named if cycle.isdigit()))
        return {}

    def held(self, holds: Callable[[bytes], bool]) -> int:
        """How many of the kept contents, trees and decisions hold what is sought. Raises OSError."""
        return sum(1 for file in self.folder.rglob("*") if file.is_file() and _is_held(file, holds))

    def clear(self) -> None:
        """Remove all that is kept. Not beside the agent that keeps it. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.folder)

    def find(self, cycle: int) -> RecordedDecision | None:
        """The decision of a cycle; None where it is not kept. Raises ToolError where it cannot be read."""
        file = self.cycles().get(cycle)
        if file is None:
            return None
        try:
            return RecordedDecision.model_validate_json(unpacked(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, ValidationError) as error:
            raise ToolError(f"what is kept of cycle {cycle} cannot be read ({file}): {type(error).__name__}") from None

    @contextmanager
    def copy(self, tree: str) -> Iterator[Path]:
        """A copy of the workspace, in a directory of its own, which is removed at the end.

        Copies of processes that have died are removed too. Raises ToolError where the workspace is not kept or damaged,
        or there is no room for it.
        """
        self.remove_left()
        place = self.folder / f"{COPY}{os.getpid()}-{os.urandom(6).hex()}"
        try:
            try:
                (place / "workspace").mkdir(mode=0o700, parents=True)
                restore(self.tree(tree), self.objects, place / "workspace")
            except OSError as error:
                raise ToolError(f"the workspace cannot be copied to {place}: {error.strerror}") from None
            yield place / "workspace"
        finally:
            _remove(place)

    def remove_left(self) -> None:
        """Remove copies of processes that have died."""
        with contextlib.suppress(OSError):
            for place in self.folder.glob(f"{COPY}*"):
                pid = place.name.split("-")[1]
                if not pid.isdigit() or not psutil.pid_exists(int(pid)):
                    _remove(place)

    def content(self, digest: str) -> bytes | None:
        """The content of a file of at most MOST_FILE_BYTES; None: it is larger, or not kept any more."""
        with contextlib.suppress(OSError):
            file = object_file(self.objects, digest)
            if file.stat().st_size <= MOST_FILE_BYTES:
                return file.read_bytes()
        return None

    def tree(self, digest: str) -> dict[str, KeptEntry]:
        """The entries of a kept workspace by path. Raises ToolError where it is not kept, or damaged."""
        try:
            data = unpacked((self.trees / digest).read_bytes())
            if hashlib.sha256(data).hexdigest() != digest:
                raise ToolError(f"the kept workspace {digest[:12]} is damaged: its digest is another one")
            return decoded_tree(data)
        except FileNotFoundError:
            raise ToolError(f"the workspace {digest[:12]} is no longer kept (forks.keep, forks.mib)") from None
        except ValueError:
            raise ToolError(f"the kept workspace {digest[:12]} is damaged") from None


def packed(data: bytes) -> bytes:
    """The data, compressed."""
    return zstandard.ZstdCompressor(level=1).compress(data)


def unpacked(data: bytes) -> bytes:
    """What was compressed. Raises ValueError for any other data."""
    try:
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


def _remove(place: Path) -> None:
    """Remove a copy, with directories that a program closed to its owner."""

    def opened(_function: object, path: str, _error: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

    shutil.rmtree(place, onerror=opened)
    shutil.rmtree(place, ignore_errors=True)


def _is_held(file: Path, holds: Callable[[bytes], bool]) -> bool:
    try:
        data = file.read_bytes()
        return holds(data) or holds(unpacked(data))
    except (FileNotFoundError, ValueError):  # removed meanwhile, or a content, which is not compressed
        return False
