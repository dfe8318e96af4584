"""A fixed workload of the kind that a run does, to compare processor time with.

Plain JSON and dictionaries, rows into SQLite, appends with fsync, messages through a socket: no code of Conch, so its
cost stays when Conch changes. What slows the machine down, other programs among it, slows both.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sqlite3
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

TEXT = "I want to see what the notes say of kelp, and then write a line of it down. " * 4
FACT = {
    "id": "e75addc7-d5c8-505c-909c-0e1cc8a24095",
    "agent": "echo-1",
    "time": "2026-11-23T11:48:56.472477Z",
    "thought": {"text": TEXT, "length": len(TEXT), "sha256": "0" * 64},
    "action": {"kind": "TOOL", "tool": "filesystem", "args": {"operation": "exists", "path": "README.md"}},
    "scores": [
        {
            "component": f"part {number}",
            "value": number / 7,
            "weight": 0.3,
            "status": "scored",
            "explanation": TEXT[:60],
        }
        for number in range(10)
    ],
}
BYTES = json.dumps(FACT).encode()
KNOWN = 2000
"""Documents that it goes through in turn: more than the processor's caches hold, as a run's objects are."""
DOCUMENTS, TRANSACTIONS, ROWS, APPENDS, MESSAGES = 10, 4, 6, 3, 80
"""Of one turn. It is short, as the turns of a run's processes are: each begins with caches that others have filled."""


class Yardstick:
    """The workload, turn by turn, with files of its own in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open = ExitStack()
        self._next = 0
        self.turns = 0
        self.seconds = 0.0
        """Of processor time, all turns together."""

    def __enter__(self) -> Self:
        self._database = sqlite3.connect(self._directory / "yardstick.db", isolation_level=None)
        self._open.callback(self._database.close)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute("CREATE TABLE facts (id TEXT, body BLOB)")
        self._file = self._open.enter_context((self._directory / "yardstick").open("wb"))
        self._sender, self._receiver = (self._open.enter_context(one) for one in socket.socketpair())
        self._documents = [json.dumps(FACT | {"cycle": number}).encode() for number in range(KNOWN)]
        self._facts = [json.loads(document) for document in self._documents]
        self._work()  # the first turn compiles statements
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    def turn(self) -> None:
        """One turn, timed."""
        began = time.process_time()
        self._work()
        self.seconds += time.process_time() - began
        self.turns += 1

    def _work(self) -> None:
        for number in range(DOCUMENTS):
            self._next = (self._next + 1) % KNOWN
            fact = json.loads(self._documents[self._next])
            self._facts[self._next] = fact | {"turn": self.turns}
            encoded = json.dumps(self._facts[-self._next], sort_keys=True, separators=(",", ":"))
            counts: dict[str, int] = {}
            for word in hashlib.sha256(encoded.encode()).hexdigest() * 3:
                counts[word] = counts.get(word, 0) + number
        for number in range(TRANSACTIONS):
            self._database.execute("BEGIN")
            for row in range(ROWS):
                self._database.execute("INSERT INTO facts VALUES (?, ?)", (f"{number} {row}", BYTES))
            self._database.execute("COMMIT")
        for _ in range(APPENDS):
            self._file.write(BYTES)
            self._file.flush()
            os.fsync(self._file.fileno())
        for _ in range(MESSAGES):
            self._sender.send(BYTES)
            self._receiver.recv(len(BYTES))
