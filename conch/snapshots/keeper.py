"""Keeps the decisions of one agent with its workspace, within a number of cycles and of bytes."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from pathlib import Path
from typing import Final

from conch.config import NO_SECRETS, ForkSettings, Masker
from conch.log import get_logger
from conch.minds import Prompt
from conch.snapshots.decision import GoalThen, RecordedDecision
from conch.snapshots.shelf import SnapshotShelf, packed, unpacked
from conch.snapshots.tree import FoundEntry, KeptEntry, TooLargeError, decoded_tree, encoded, look, put

log = get_logger(__name__)

SHARE: Final = 0.25
"""Share of `forks.mib` that one workspace may have."""
SLACK: Final = 0.125
"""Share of `forks.keep` by which the kept cycles may be too many: what is too much is removed at once."""


class SnapshotKeeper:
    """Keeps a decision of each cycle, and the workspace as it is then. One for an agent; a call at a time.

    The workspace is looked at each time; only files that were changed are read, and contents that are there already are
    not kept twice. Before the first decision, what killed processes left is removed, their copies too. An error of the
    disk, or a text that cannot be written, is logged, once; that decision is not kept.
    """

    def __init__(self, folder: Path, workspace: Path, settings: ForkSettings, masker: Masker = NO_SECRETS) -> None:
        self._shelf, self._workspace, self._settings, self._masker = SnapshotShelf(folder), workspace, settings, masker
        self._found: dict[str, FoundEntry] = {}
        self._tree: dict[str, KeptEntry] = {}
        self._digest = ""
        self._cycles: dict[int, Path] | None = None
        self._bytes = 0
        self._failed = False

    async def keep(self, prompt: Prompt, goals: tuple[GoalThen, ...], message: tuple[str, str] | None) -> None:
        """Keep a decision with the workspace as it is now; returns when it is copied. Cancelled, it is finished all the
        same. A second one of a cycle replaces the first."""
        await asyncio.to_thread(self._keep, prompt, goals, message)

    def _keep(self, prompt: Prompt, goals: tuple[GoalThen, ...], message: tuple[str, str] | None) -> None:
        try:
            cycles = self._known()
            tree, why = self._workspace_now()
            made = RecordedDecision.of(prompt, goals, message).model_copy(update={"tree": tree, "why_not": why})
            text = self._masker.text(made.model_dump_json())
            number = prompt.situation.cycle
            file = self._shelf.records / f"{number:012}-{tree or 'none'}"
            self._write(file, packed(text.encode()))
            if (before := cycles.get(number)) is not None and before != file:
                before.unlink(missing_ok=True)
            cycles[number] = file
            self._bound(cycles)
        except (OSError, ValueError) as error:  # ValueError: a lone surrogate, which JSON cannot hold
            if not self._failed:
                log.warning("snapshot.not_kept", folder=str(self._shelf.folder), error=str(error))
            self._failed, self._cycles = True, None

    def _known(self) -> dict[int, Path]:
        """The kept decisions by cycle, oldest first; looked for once."""
        if self._cycles is None:
            for folder in (self._shelf.objects, self._shelf.trees, self._shelf.records):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                for left in folder.glob(".new-*"):
                    left.unlink(missing_ok=True)
            self._shelf.remove_left()
            self._cycles, self._bytes = self._shelf.cycles(), _bytes_in(self._shelf.folder)
            self._found, self._tree, self._digest = {}, {}, ""
        return self._cycles

    def _workspace_now(self) -> tuple[str, str]:
        """(digest of the workspace's tree, why it is not kept); one of them is empty."""
        try:
            found = look(self._workspace, int(SHARE * self._settings.mib * 2**20))
        except TooLargeError as error:
            return "", str(error)
        except OSError as error:
            return "", f"the workspace could not be read: {error.strerror}"
        if self._digest and found == self._found:
            return self._digest, ""
        tree: dict[str, KeptEntry] = {}
        for name, entry in found.items():
            kept = self._tree.get(name) if self._found.get(name) == entry else None
            if kept is None and (made := put(self._workspace, name, entry, self._shelf.objects)) is not None:
                kept, added = made
                self._bytes += added
            if kept is not None:
                tree[name] = kept
        data = encoded(tree)
        digest = hashlib.sha256(data).hexdigest()
        if not (self._shelf.trees / digest).exists():
            self._write(self._shelf.trees / digest, packed(data))
        self._found, self._tree, self._digest = found, tree, digest
        return digest, ""

    def _write(self, file: Path, data: bytes) -> None:
        fresh = file.with_name(f".new-{os.getpid()}-{os.urandom(6).hex()}")
        try:
            fresh.write_bytes(data)
            os.replace(fresh, file)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        self._bytes += len(data)

    def _bound(self, cycles: dict[int, Path]) -> None:
        """Remove the oldest decisions that are beyond what is kept, and what only they refer to. The newest one
        stays."""
        most, most_bytes = self._settings.keep, int(self._settings.mib * 2**20)
        if len(cycles) > most * (1 + SLACK):
            self._remove(cycles, len(cycles) - most)
        while self._bytes > most_bytes and len(cycles) > 1:
            self._remove(cycles, max(1, len(cycles) // 4))

    def _remove(self, cycles: dict[int, Path], number: int) -> None:
        for cycle in sorted(cycles)[:number]:
            cycles.pop(cycle).unlink(missing_ok=True)
        trees = {file.name.partition("-")[2] for file in cycles.values()}
        objects: set[str] = set()
        for file in list(self._shelf.trees.iterdir()):
            if file.name not in trees:
                file.unlink(missing_ok=True)
                continue
            with contextlib.suppress(ValueError):
                objects |= {entry.content for entry in decoded_tree(unpacked(file.read_bytes())).values()}
        for file in list(self._shelf.objects.glob("*/*")):
            if file.parent.name + file.name not in objects:
                file.unlink(missing_ok=True)
        self._bytes = _bytes_in(self._shelf.folder)
        if self._digest not in trees:
            self._found, self._tree, self._digest = {}, {}, ""


def _bytes_in(folder: Path) -> int:
    """Bytes of the files of contents, trees and decisions."""
    found = 0
    for place in ("objects", "trees", "cycles"):
        for parent, _, files in os.walk(folder / place):
            for name in files:
                with contextlib.suppress(OSError):
                    found += os.lstat(os.path.join(parent, name)).st_size
    return found
