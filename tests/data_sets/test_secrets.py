"""No secret is in any export, whatever its kind, wherever it stands in what an agent read, thought and wrote."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from conch.config import Masker
from conch.data import FORMATS, Format, Manifest, Row, Selection, redactor, rows_of
from conch.experience import SqliteStore
from conch.secrets import HIDDEN
from conch_schemas import PolicySet, consequence_id, source_of
from tests.data_sets.conftest import NOON, UID
from tests.secrets.planted import KINDS, PIECE, PLACES, leaks, planted

if TYPE_CHECKING:
    from tests.data_sets.conftest import Append, Put

REDACT = redactor(Masker())
GOOD = 'TOOL: filesystem(operation="read", path="notes/tide.md")'


def _row_texts(store: SqliteStore, format: Format) -> list[str]:
    rows = rows_of(store, format, Selection(eval_share=0.0, near=1.0), redact=REDACT)
    return [json.dumps(row.document()) for row in rows if isinstance(row, Row)]


@pytest.fixture
def secrets(store: SqliteStore, put: Put, append: Append) -> list[str]:
    """The secrets that were planted: of each kind one in each place of the prompt, in the arguments of a call, in a
    thought and in the system prompt."""
    del store
    cycle, secrets = 0, list[str]()
    for name, plant in planted(frozenset(KINDS), 4, seed=11):
        secrets.append(plant.secret)
        prompt = list(PLACES.values())[cycle // 2 % len(PLACES)](plant.text)
        thought = plant.text if cycle % 3 else "so be it"
        content = json.dumps(f"# {name}\n{plant.text}\n")
        for raw, total in ((f'TOOL: filesystem(operation="write", path="a", content={content})', 0.9), (GOOD, -0.4)):
            cycle += 1
            put(cycle, raw, total, state=f"s{cycle // 2}", prompt=prompt, thought=thought, step=1, episode="e")
    system = "\n\n".join(plant.text for _, plant in planted(frozenset(KINDS), 1, seed=12))
    secrets += [plant.secret for _, plant in planted(frozenset(KINDS), 1, seed=12)]
    where = {"source": source_of("echo", UID), "agent": "echo", "time": NOON + timedelta(days=1)}
    identity = consequence_id(UID, "run", "p2", PolicySet)
    append(PolicySet(id=identity, mind="scripted", model="m", system_prompt=system, policy="p2", **where))
    for state in range(4):
        put(cycle + state + 1, prompt=f"tide {state}", policy="p2", state=f"p{state // 2}", total=0.5 - state % 2)
    return secrets


def test_no_secret_is_in_any_export(store: SqliteStore, secrets: list[str]) -> None:
    """Of 300 secrets of 60 kinds none, in each of the formats; the masks are there."""
    pieces = {secret[at : at + PIECE]: secret for secret in secrets for at in range(len(secret) - PIECE + 1)}
    assert len(secrets) == 300
    for format in FORMATS:
        texts = _row_texts(store, format)
        whole = "\n".join(texts)
        plain = whole.encode().decode("unicode_escape", "replace").replace("\\\\", "\\")
        assert texts, format
        assert HIDDEN in whole
        windows = {text[at : at + PIECE] for text in (whole, plain) for at in range(len(text) - PIECE + 1)}
        assert [pieces[piece] for piece in windows & pieces.keys()] == [], format


def test_texts_that_are_redacted_together_hold_no_secret() -> None:
    """As the format `cycles` redacts them."""
    made = planted(frozenset(KINDS), 3)

    together = REDACT.all([text for _, (text, _) in made])

    assert together == [REDACT(text) for _, (text, _) in made]
    assert [name for (name, plant), text in zip(made, together, strict=True) if leaks(plant.secret, text)] == []


def test_a_manifest_names_the_version_of_the_redactor_and_older_ones_still_hold() -> None:
    """The digest of a manifest that does not name it is as it was."""
    about = partial(Manifest.model_validate, strict=False)
    bare = {
        "conch": "1", "format": "sft", "rows_seen": 0, "rows_in": 0, "left_out": {}, "splits": {}, "filters": {},
        "figures": {}, "content": "",
    }  # fmt: skip
    older, newer = about(bare).sealed(), about(bare | {"redactor": 2}).sealed()
    written = json.loads(older.encode())
    del written["redactor"]

    assert Manifest.decode(json.dumps(written).encode(), "x") == older
    assert newer.digest != older.digest
