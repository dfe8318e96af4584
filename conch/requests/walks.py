"""Walks that people start and close: one file each in the home, written whole and synced to disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from conch.errors import HomeError, UsageError
from conch.files import read_plain
from conch.home import Home, write_whole
from conch.text import well_formed
from conch.witness import Walk, WalkCall, new_walk

LONGEST_GOAL: Final = 2000
"""Most characters of a walk's goal."""
_MOST_BYTES: Final = 2**20
"""Most bytes of a walk's file: some 10,000 pauses."""
_ID: Final = re.compile(r"[0-9a-f]{8}")


class Walks:
    """The walks of a home. Every method raises HomeError where a file cannot be read or written."""

    def __init__(self, home: Home) -> None:
        self._directory = home.path / "walks"

    def all(self, agent: str | None = None) -> list[Walk]:
        """The walks of an agent, or of all agents (None), oldest first."""
        with self._told():
            try:
                names = os.listdir(self._directory)
            except FileNotFoundError:
                return []
            numbers = [name.removesuffix(".json") for name in names if name.endswith(".json")]
            walks = [self._read(number) for number in numbers if _ID.fullmatch(number)]
        return sorted((one for one in walks if agent in (None, one.agent)), key=lambda one: (one.started, one.id))

    def get(self, number: str) -> Walk:
        """The walk of this id. Raises UsageError for an unknown one."""
        with self._told():
            try:
                if not _ID.fullmatch(number):
                    raise FileNotFoundError
                return self._read(number)
            except FileNotFoundError:
                raise UsageError(f"there is no walk {number[:60]!r}: conch walk list shows them") from None

    def start(self, agent: str, goal: str, end: int) -> Walk:
        """A new walk with this goal, from the mark of the sequence `end` on. Raises UsageError for an unusable goal."""
        text = well_formed(goal).strip()
        if not text:
            raise UsageError("a walk needs a goal: say in a sentence what it is for")
        if len(text) > LONGEST_GOAL:
            raise UsageError(
                f"the goal has {len(text):,} characters, at most {LONGEST_GOAL:,} are kept: say it shorter"
            )
        walk = new_walk(uuid.uuid4().hex[:8], agent, text, end, datetime.now(UTC))
        with self._changing():
            self._write(walk)
        return walk

    def call(self, number: str, call: WalkCall, end: int, why: str = "") -> Walk:
        """The walk after a call, made when the chain's next mark has the sequence `end`.

        Raises UsageError for an unknown walk, and for a call that its status refuses.
        """
        with self._changing():
            walk = self.get(number)
            after = walk.called(call, end, datetime.now(UTC), well_formed(why).strip()[:LONGEST_GOAL])
            if after is None:
                raise UsageError(f"walk {number} is {walk.status}: it cannot {call}")
            self._write(after)
        return after

    def _read(self, number: str) -> Walk:
        file = self._directory / f"{number}.json"
        try:
            return Walk.model_validate_json(read_plain(file, _MOST_BYTES))
        except ValidationError:
            raise HomeError(f"{file} holds no walk: it was damaged; move it away") from None

    def _write(self, walk: Walk) -> None:
        write_whole(self._directory / f"{walk.id}.json", walk.model_dump_json() + "\n")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """One command changes walks at a time."""
        with self._told():
            self._directory.mkdir(exist_ok=True, mode=0o700)
            handle = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self._directory
            raise HomeError(f"{where} cannot be used ({error.strerror}): mend its rights, or make room") from error
