"""The API asked everything that its own document allows, and much that it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import ignored_auth

from conch.auth import LoginTokens
from conch.requests import TRAINER_VERBS
from tests.dashboard.conftest import Dashboard

CHOSEN = settings(
    max_examples=6,  # of each operation and mode
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
async def test_the_api_keeps_to_its_document(dashboard: Dashboard, mode: GenerationMode) -> None:
    """Whatever is asked, the answer has a status, a type and a shape that the document names, and none is a crash;
    what cannot be is refused."""
    described = (await dashboard.client.get("/api/v1/openapi.json")).json()
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=f"{dashboard.address}/api/v1")
    refused = schema.config.checks.negative_data_rejection
    refused.expected_statuses = [*refused.expected_statuses, "413"]
    allowed = {"Authorization": f"Bearer {LoginTokens(dashboard.seeded.home).token()}"}
    statuses: dict[str, set[int]] = {}
    positive = mode is GenerationMode.POSITIVE

    def tried() -> None:
        for found in schema.get_all_operations():
            operation = found.ok()

            def answered(case: Any) -> None:
                # Wrong tokens would soon be answered with 429, whatever else is asked.
                answer = case.call_and_validate(headers=allowed, excluded_checks=[ignored_auth, not_a_server_error])
                statuses.setdefault(case.operation.label, set()).add(answer.status_code)

            known = {"agent": "echo"} if positive and "/agents/" in operation.path else {}
            CHOSEN(given(case=operation.as_strategy(mode, path_parameters=known or None))(answered))()

    await asyncio.to_thread(tried)

    assert len(statuses) >= 25
    assert {name for name, seen in statuses.items() if any(status >= 500 for status in seen)} <= {"GET /bus"}
    assert not any(500 in seen for seen in statuses.values())
    if positive:
        assert {name for name, seen in statuses.items() if not seen - {404, 409, 503}} <= WITHOUT


WITHOUT = {
    "GET /bus",  # a bus in memory has no server to tell of
    "POST /agents/{agent}/pause",
    "POST /agents/{agent}/resume",
    "POST /agents/{agent}/goal/drop",
    "POST /agents/{agent}/goal/accept",
    "POST /agents/{agent}/goal/veto",
    "POST /agents/{agent}/alarms/acknowledge",  # of an alarm that is on
    "GET /agents/{agent}/team",  # of an agent that is a team
    "POST /agents/{agent}/switch",
    "POST /agents/{agent}/weights",  # of the parts that there are, in a run
    "POST /agents/{agent}/approve",
    "POST /agents/{agent}/deny",
    "POST /agents/{agent}/chat",
    "POST /agents/{agent}/chat/rating",
    *(f"POST /agents/{{agent}}/training/{verb}" for verb in TRAINER_VERBS),  # no trainer runs
    "POST /dlq/{letter}/retry",
    "POST /dlq/{letter}/drop",
    "GET /cycles/{cycle}",
    "GET /memories/{memory}",
    "DELETE /memories/{memory}",
    "POST /cycles/{cycle}/approve",
    "POST /cycles/{cycle}/reject",
    "POST /reviews/{row}/approve",
    "POST /reviews/{row}/reject",
    "POST /reviews/{row}/edit",
    "POST /reviews/{row}/prefer",
}
"""What needs a name or a number that is not guessed."""
