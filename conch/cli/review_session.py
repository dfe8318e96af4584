"""Rows one after the other on a terminal, decided on by keys."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
import termios
import tty
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from conch.errors import UsageError

if TYPE_CHECKING:
    from conch.review import QueuedRow, ReviewDecisions, ReviewPool, ReviewVerdict
    from conch.views import ReviewCard
    from conch_schemas import ReviewDecided

KEYS = "a approve, r reject, e edit, s skip, u back to the one before, q quit"
BLIND_KEYS = "1 or 2 is better, s skip, u back to the one before, q quit"


@dataclass
class ReviewSession:
    """Shows the rows of a pool to one reviewer, until none is left or the reviewer quits."""

    pool: ReviewPool
    decisions: ReviewDecisions
    card: Callable[[QueuedRow], ReviewCard]
    show: Callable[[ReviewCard, int], None]
    say: Callable[[str], None]
    decide: Callable[[QueuedRow, ReviewVerdict], Awaitable[ReviewDecided]]
    _seen: list[QueuedRow] = field(default_factory=list)
    """Rows decided on or skipped, in that order."""
    _draft: str | None = None
    """What the reviewer made of the reply that is shown, and was refused."""

    async def run(self) -> None:
        """Until the end of the rows, or `q`, or the end of the input. What is wrong with a decision is said, and the
        row stays; `e` goes on with a correction that was refused. Raises StoreError, BusError."""
        back: QueuedRow | None = None
        while True:
            skipped = [one.row.row_id for one in self._seen]
            one, back = back or next(self.pool.queue(self.decisions, skipped), None), None
            if one is None:
                self.say("no row is left")
                return
            card = self.card(one)
            self.show(card, self.pool.open - len(self._seen))
            key = await self._settled(one, card)
            if key == "q":
                return
            if key == "u":
                back = self._seen.pop()
            else:
                self._seen.append(one)

    async def _settled(self, one: QueuedRow, card: ReviewCard) -> str:
        """The key that the row is left by: a decision was made, or `s`, `u` or `q`."""
        keys = BLIND_KEYS if card.blind else KEYS
        self.say(f"[{keys}]")
        self._draft = None
        while True:
            key = await _key()
            if key in ("", "\x04", "q"):
                return "q"
            if key == "s" or (key == "u" and self._seen):
                return key
            if key == "u":
                self.say("there is no row before this one")
                continue
            try:
                verdict = await self._verdict(one, card, key)
                if verdict is None:
                    continue
                said = await self.decide(one, verdict)
            except UsageError as error:
                self.say(str(error))
                continue
            self.decisions.add(said)
            self.say(f"{said.decision}: {one.row.row_id[:12]}")
            return key

    async def _verdict(self, one: QueuedRow, card: ReviewCard, key: str) -> ReviewVerdict | None:
        """None: the key means nothing here, or the reviewer thought better of it. Raises UsageError."""
        from conch.review import ReviewVerdict, preference

        if card.blind:
            sides: dict[str, Literal["first", "second"]] = {"1": "first", "2": "second"}
            return preference(one.row, self.pool.reviewer, sides[key]) if key in sides else None
        if key == "a":
            return ReviewVerdict("approved")
        if key == "r":
            reason = await self._line("reason: ")
            return ReviewVerdict("rejected", reason) if reason else None
        if key == "e" and card.replies:
            self._draft = await asyncio.to_thread(_edited, self._draft or card.replies[0].text)
            return ReviewVerdict("edited", text=self._draft)
        return None

    async def _line(self, prompt: str) -> str:
        sys.stdout.write(prompt)
        sys.stdout.flush()
        return (await _read(4096)).strip()


async def _key() -> str:
    """The next key, without waiting for the end of a line; empty at the end of the input."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSADRAIN)  # a key that was pressed while the row was printed counts
    try:
        return await _read(1)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def _read(most: int) -> str:
    """Up to so many bytes of the input, once there are some. Cancelled, nothing was read."""
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    ready = asyncio.Event()
    loop.add_reader(terminal, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(terminal)
    with suppress(OSError):  # the terminal is gone
        return os.read(terminal, most).decode(errors="replace")
    return ""


def _edited(text: str) -> str:
    """The text as the person's editor left it: $VISUAL, $EDITOR, else vi. Raises UsageError where it cannot be run."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="conch-review-") as folder:
        path = Path(folder) / "reply.txt"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)
            return path.read_text(encoding="utf-8-sig")
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise UsageError(f"the editor {editor[:60]!r} failed ({error}): EDITOR names another one") from error
