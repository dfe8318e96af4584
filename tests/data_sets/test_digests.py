"""The bytes of a data set are those of before: recorded digests of one store."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.config import Masker
from conch.data import Format, Selection, redactor, rows_of, write_snapshot
from conch.experience import SqliteStore
from conch_schemas import Cut, Outcome

if TYPE_CHECKING:
    from tests.data_sets.conftest import Put

TOKEN = "ghp_" + "a1B2" * 9
PATHS = ("plan", TOKEN, "é — ſ", "bob@example.com 10.0.0.12", "4111 1111 1111 1111")
RECORDED: dict[Format, str] = {
    "sft": "d6d4c791141f5ad4e659a92b5624e180955091fd01c1d7dec87f701644da9d5f",
    "kto": "1c7e349003b71dd6581e5bd331508ba85374f0d9efe81765813e471f73787810",
    "grpo": "55b42617e2e494646fb6753833d0d881ab11d86668b610b32122c1d4267fef54",
    "dpo": "5312f47e1906df32b77bb1167feefca45cf68039fc0846c33673915b682d58db",
    "reward": "20693141ac0505dc07398a6b535005b73dc892834534c633e7a6605265c10de4",
    "cycles": "6c25dff8df7ae224a071962d4828e866dfdfb44834fcff1434db2493cd59819f",
    "minari": "59a11af86c2d239ad61a60a9d27467dce33892efe54b8d14968d3101b2d01d37",
}
"""Format -> the digest of rows, reasons and figures, as they were recorded."""


@pytest.fixture
def lived(store: SqliteStore, put: Put) -> SqliteStore:
    """Acts of three states: good and bad ones, blocked and invalid ones, with secrets, numbers and other scripts."""
    blocked = Outcome(status="blocked", output=Cut(text="", length=0, sha256="0" * 64))
    for cycle in range(1, 40):
        path = ("plan", f"{TOKEN[: 30 + cycle]}", "é — ſ", "bob@example.com 10.0.0.12", "4111 1111 1111 1111")[
            cycle % 5
        ]
        put(
            cycle,
            f'TOOL: filesystem(operation="read", path="{path}")' if cycle % 7 else f"prose {cycle}\nTOOL: shell()",
            total=(cycle * 37 % 100 - 40) / 100,
            state=f"s{cycle % 3}",
            thought=f"line {cycle} {path}\n" * 3,
            **({"outcome": blocked} if cycle % 11 == 0 else {}),
        )
    return store


@pytest.mark.parametrize("format", RECORDED)
def test_an_export_has_the_recorded_digest(lived: SqliteStore, tmp_path: Path, format: Format) -> None:
    """The same rows give the same ids, the same lines and the same figures in each version, so reviews stay valid. Rows
    with a secret get other ids with a new version of the redactor alone: these are of version 2."""
    answers = rows_of(lived, format, redact=redactor(Masker(["hunter2-of-the-settings"])))

    _, manifest = write_snapshot(answers, tmp_path / "out", format, Selection(), jsonl=True)

    assert manifest.rows_in
    assert manifest.redactor == 2
    figures = manifest.figures.model_dump_json()
    assert hashlib.sha256(f"{manifest.content} {manifest.left_out} {figures}".encode()).hexdigest() == RECORDED[format]
