"""The API asked everything that its own document allows, and much that it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from conch.passes import Passes
from tests.dashboard.conftest import Dashboard

CHOSEN = settings(
    max_examples=10,  # of each operation and mode
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
async def test_the_api_keeps_to_its_document(dashboard: Dashboard, mode: GenerationMode) -> None:
    """Whatever is asked, the answer has a status, a type and a shape that the document names, and none is a crash;
    what cannot be is refused, and nobody gets in without the token."""
    token = Passes(dashboard.seeded.home).token()
    described = (await dashboard.client.get("/api/v1/openapi.json")).json()
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=f"{dashboard.address}/api/v1")
    statuses: dict[str, set[int]] = {}

    def tried() -> None:
        for found in schema.get_all_operations():
            operation = found.ok()

            def answered(case: Any) -> None:
                answer = case.call_and_validate(headers={"Authorization": f"Bearer {token}"})
                statuses.setdefault(case.operation.label, set()).add(answer.status_code)

            CHOSEN(given(case=operation.as_strategy(mode))(answered))()

    await asyncio.to_thread(tried)

    assert len(statuses) >= 25
    if mode is GenerationMode.POSITIVE:
        assert {name for name, seen in statuses.items() if not seen - {404, 409, 503}} <= WITHOUT
    print({name: sorted(seen) for name, seen in sorted(statuses.items())})


WITHOUT = {
    "GET /bus",  # a bus in memory has no server to tell of
    "POST /agents/{agent}/pause",
    "POST /agents/{agent}/resume",
    "POST /agents/{agent}/tell",
    "POST /agents/{agent}/goal",
    "POST /agents/{agent}/goal/drop",
    "POST /dlq/{letter}/retry",
    "POST /dlq/{letter}/drop",
    "GET /cycles/{cycle}",
    "POST /cycles/{cycle}/approve",
    "POST /cycles/{cycle}/reject",
}
"""What needs a name or a number that is not guessed."""
