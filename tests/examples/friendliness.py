"""A rule that waits for something outside: an async function. It runs beside the others and holds up none of them."""

import os

import httpx2

from conch import rule
from conch_schemas import ActionTaken

SERVICE = os.environ.get("FRIENDLINESS_URL", "http://127.0.0.1:8030/score")


@rule(weight=0.05, range=(0.0, 1.0), timeout=5.0)
async def friendliness(action: ActionTaken) -> float | None:
    """What a service says of the reply. Nobody there, or no number: status error; slower than 5 s: timeout."""
    if not action.raw:
        return None
    async with httpx2.AsyncClient() as service:
        answer = await service.post(SERVICE, json={"text": action.raw})
        return float(answer.raise_for_status().json()["score"])
