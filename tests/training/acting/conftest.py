"""An engine that loads adapters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapter_engine import AdapterEngine


@pytest.fixture
def engine() -> Iterator[AdapterEngine]:
    with AdapterEngine().serving() as serving:
        yield serving
