"""Every vector of a covered op."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conch_vectors", TESTS / "vectors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OPS = _load().OPS
VECTORS = json.loads((TESTS / "data" / "vectors.json").read_text(encoding="utf-8"))["vectors"]


def _covered() -> Iterator[Any]:
    for vector in VECTORS:
        if vector["op"] in OPS:
            yield pytest.param(vector, id=vector["id"])


@pytest.mark.parametrize("vector", list(_covered()))
def test_a_rule_gives_what_its_vector_says(vector: dict[str, Any]) -> None:
    """Each vector's input gives its expected output, numbers within the vector's tolerance."""
    result = OPS[vector["op"]](vector["input"])

    _compare(result, vector["expected"], vector["tol"])


def _compare(result: Any, expected: Any, tolerance: float) -> None:
    """Of a table only the fields that are expected; of a list every one."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            _compare(result[name], value, tolerance)
    elif isinstance(expected, list):
        assert len(result) == len(expected)
        for one, value in zip(result, expected, strict=True):
            _compare(one, value, tolerance)
    elif isinstance(expected, int | float) and not isinstance(expected, bool):
        assert result == pytest.approx(expected, abs=tolerance, rel=0)
    else:
        assert result == expected
        assert type(result) is type(expected)


def test_every_covered_op_has_a_vector() -> None:
    """No op stands in the table that no vector tries."""
    assert set(OPS) <= {vector["op"] for vector in VECTORS}
