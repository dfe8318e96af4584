"""The data set of cycles is the same, whether one process reads the acts or two."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.config import Masker
from conch.data import Selection, halves, redactor, rows_of, write_cycles, write_snapshot
from conch.errors import StoreError
from conch.experience import SqliteStore, StoreLocation
from conch_schemas import Decoding, TeamTurn

if TYPE_CHECKING:
    from tests.data_sets.conftest import Put

BOUNDS = Selection(policy="p", eval_share=0.3)
TURN = TeamTurn(team="echo", role="coder", step=0, epoch=0, topology="star")


@pytest.fixture
def lived(store: SqliteStore, put: Put, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    """Acts of some states, with secrets and other scripts, read by two processes."""
    for cycle in range(1, 60):
        put(
            cycle,
            f'TOOL: filesystem(operation="read", path="hunter2-of-the-settings {cycle}")',
            total=(cycle * 37 % 100 - 40) / 100,
            state=f"s{cycle // 4}",
            thought=f"é — bob@example.com {cycle}",
            policy="p1" if cycle % 5 else "q1",
            team=None if cycle % 7 else TURN,
            decoding=Decoding(engine="m", model="m", state_key=f"s{cycle // 4}", unread=None if cycle % 7 else 2),
        )
    monkeypatch.setattr(halves, "ALONE", 0)
    monkeypatch.setattr(halves, "_processors", lambda: 2)
    return store


@pytest.mark.parametrize("jsonl", [False, True])
def test_two_processes_write_the_bytes_of_one(lived: SqliteStore, tmp_path: Path, jsonl: bool) -> None:
    """Rows, splits, reasons and figures are those of `rows_of`, to the byte, and all acts are accounted for."""
    masker, location = Masker(["hunter2-of-the-settings"]), StoreLocation(tmp_path / "store.db")

    place, manifest = write_cycles(location, lived, tmp_path / "two", BOUNDS, masker, jsonl=jsonl)

    rows = rows_of(lived, "cycles", BOUNDS, redact=redactor(masker))
    alone, _ = write_snapshot(rows, tmp_path / "one", "cycles", BOUNDS, jsonl=jsonl)
    assert {file.name: file.read_bytes() for file in place.iterdir()} == {
        file.name: file.read_bytes() for file in alone.iterdir()
    }
    assert manifest.rows_seen == 59 + 14 == manifest.rows_in + sum(manifest.left_out.values())
    assert manifest.left_out == {"another policy": 11, "reply not readable": 14}
    assert all(manifest.splits.values())


def test_an_error_of_the_second_process_is_the_error_of_the_export(lived: SqliteStore, tmp_path: Path) -> None:
    """A damaged row in its half is told as the first process tells it, and nothing is left."""
    lived._file.db.execute("UPDATE acts SET body = 'no act' WHERE act = (SELECT max(act) FROM acts)")

    with pytest.raises(StoreError, match="damaged"):
        write_cycles(StoreLocation(tmp_path / "store.db"), lived, tmp_path / "out", Selection(), Masker())

    assert list((tmp_path / "out").iterdir()) == []


def _end(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_second_process_is_told(lived: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The export waits for it no longer; nothing is left."""
    monkeypatch.setattr(halves, "_live", _end)

    with pytest.raises(StoreError, match="was killed: export again"):
        write_cycles(StoreLocation(tmp_path / "store.db"), lived, tmp_path / "out", Selection(), Masker())

    assert list((tmp_path / "out").iterdir()) == []
