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
    "sft": "28a7fd2100c9b8f7d2eadd627e5a49f14e902a5fb7ef87737b33ff3e9e0c05a6",
    "kto": "0f5e509a9454b5c687b0cee4a7323f14a647a76bb0e7f2fa81626bf691e94cd6",
    "grpo": "55b42617e2e494646fb6753833d0d881ab11d86668b610b32122c1d4267fef54",
    "dpo": "78f4be9423cb2776b12ebb49a432d1d9c495ba05fb4c241bcb3eeb1144bf4f8e",
    "reward": "6b2231efca253ece90a0082f9c158b7338395b84369b1f1815b5b11bc099d832",
    "cycles": "a5981c30e938221b048e00ec8018ca9ab9d5f98693bfff55366c63f0a7c5d0fc",
    "minari": "068f538e6268954774e8dd628becf38940ef1b8070ed435959edc8af3e4b135f",
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
    """The same rows give the same ids, the same lines and the same figures in each version, so reviews stay valid."""
    answers = rows_of(lived, format, redact=redactor(Masker(["hunter2-of-the-settings"])))

    _, manifest = write_snapshot(answers, tmp_path / "out", format, Selection(), jsonl=True)

    assert manifest.rows_in
    figures = manifest.figures.model_dump_json()
    assert hashlib.sha256(f"{manifest.content} {manifest.left_out} {figures}".encode()).hexdigest() == RECORDED[format]
