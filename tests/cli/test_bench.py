"""`conch bus bench`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus.jetstream import trial
from conch.bus.jetstream.connection import Connection
from conch.cli import bench
from conch.cli.common import CommonOptions
from conch.errors import BusError, UsageError
from conch.home import Home

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life, Publish


Printed = Callable[[], str]


async def streams(connection: Connection) -> list[str]:
    """Names of what there is."""
    return sorted((await connection.api("STREAM.NAMES"))["streams"])


async def test_a_bus_is_measured_and_left_as_it_was(
    life: Life,
    home: Home,
    common: CommonOptions,
    in_progress: InProgress,
    publish: Publish,
    printed: Printed,
) -> None:
    """Beside what is on it: three figures, of as many events as were asked for; no event and no stream is left."""
    async with in_progress() as bus:
        await publish(bus, life.act(0))
        before = await bus.state()
        await bench.bench(events=400, size=64, common=replace(common, json=True))
        found = json.loads(printed())
        await bench.bench(events=3, size=64, common=common)

        assert await bus.state() == before
        async with Connection(bus._connection._access) as connection:
            assert await streams(connection) == ["CONCH", "KV_conch"]

    assert [(one["what"], one["events"]) for one in found["figures"]] == [
        ("publish one at a time", 300),
        ("publish many at once", 400),
        ("read", 701),
    ]
    assert all(one["per_second"] > 0 for one in found["figures"])
    assert found["fsync_ms"] > 0
    assert "fsyncs each" in printed()


async def test_a_measuring_that_fails_leaves_nothing_behind(
    common: CommonOptions, in_progress: InProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one before it that was killed."""

    async def broken(*_: Any) -> Any:
        raise BusError("the bus is gone")

    async with in_progress() as bus, Connection(bus._connection._access) as connection:
        for number in range(2):
            config = {"name": f"CONCH_TRIAL_{number}", "subjects": [f"conch-trial.{number}"]}
            await connection.api(f"STREAM.CREATE.CONCH_TRIAL_{number}", config)
        monkeypatch.setattr(trial, "_timed", broken)
        with pytest.raises(BusError, match="the bus is gone"):
            await bench.bench(events=10, common=common)
        young = await streams(connection)
        monkeypatch.setattr(trial, "LEFT_FOR", -trial.LEFT_FOR)
        with pytest.raises(BusError, match="the bus is gone"):
            await bench.bench(events=10, common=common)

        assert young == ["CONCH", "CONCH_TRIAL_0", "CONCH_TRIAL_1", "KV_conch"]
        assert await streams(connection) == ["CONCH", "KV_conch"]


async def test_more_than_there_is_room_for_is_not_tried(common: CommonOptions) -> None:
    """The disk is others' as well."""
    with pytest.raises(UsageError, match="are more than 256 MiB: fewer or smaller"):
        await bench.bench(events=1_000_000, size=1024, common=common)
