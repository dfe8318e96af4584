"""What a run looks at before its first cycle, where others have left their marks."""

from __future__ import annotations

from typing import Any

import pytest

from conch.bus import MemoryBus
from conch.cli.run.agents import AgentIdentity
from conch.cli.run.prepare import set_weights, without_strangers
from conch.config import Settings
from conch.consumer.plugins.discover import Discovery
from conch_schemas import PolicySet, WeightsSet, decode, encode, source_of, subject_filter

UID, OTHER = "6b0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11", "00000000-9d4e-4a86-8a8c-3c8f6f2f9b11"
CREW = [AgentIdentity("echo", UID, fresh=False)]


@pytest.mark.parametrize("garbage", [b"", b"\xff\x00{", b'{"type":"conch.v2.policy.set"}', b"[" * 100_000])
async def test_garbage_where_the_last_policy_or_weights_stand_keeps_no_run_from_starting(garbage: bytes) -> None:
    """It is nobody's word: the weights are said once more, and nobody is taken for a stranger."""
    async with MemoryBus() as bus:
        await set_weights(bus, CREW, Settings(), Discovery())
        for kind in ("policy.set", "weights.set"):
            await bus.publish(f"conch.v1.echo.{kind}", garbage, id=kind)

        ours, failed = await without_strangers(bus, CREW)
        await set_weights(bus, CREW, Settings(), Discovery())
        await set_weights(bus, CREW, Settings(), Discovery())

        assert (ours, failed) == (CREW, {})
        said = [delivery async for delivery in bus.read([subject_filter(WeightsSet)])]
        assert len(said) == 3
        assert decode(said[-1].data).agentuid == UID


async def test_an_agent_of_that_name_that_is_another_one_is_told() -> None:
    """As long as its word stands there."""
    policy: Any = {"id": "p", "source": source_of("echo", OTHER), "agent": "echo", "mind": "m", "model": "m"}
    async with MemoryBus() as bus:
        event = PolicySet(**policy, system_prompt="")
        await bus.publish(f"conch.v1.echo.{PolicySet.TYPE}", encode(event), id=event.id)

        ours, failed = await without_strangers(bus, CREW)

    assert ours == []
    assert "belongs to another agent named echo" in str(failed["echo"])
