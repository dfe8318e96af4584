"""Adapters travel by the bus: another home has the same one, checked, or none."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conch.bus import Bus, MemoryBus
from conch.errors import BusError, CheckError
from conch.training import AdapterShelf, drop_adapters, fetch_adapter, send_adapter
from tests.shelved import shelve

UID = "6b0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11"


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with MemoryBus() as made:
        yield made


@pytest.fixture
def shelf(tmp_path: Path) -> AdapterShelf:
    """Of the home that trains."""
    return AdapterShelf(tmp_path / "here" / "adapters")


@pytest.fixture
def other(tmp_path: Path) -> AdapterShelf:
    """Of the home that acts."""
    return AdapterShelf(tmp_path / "there" / "adapters")


async def test_another_home_has_the_same_adapter(bus: Bus, shelf: AdapterShelf, other: AdapterShelf) -> None:
    """By its digest, with the replies by which it is known; fetched again nothing happens."""
    made = shelve(shelf, UID, 1)
    assert await send_adapter(bus, shelf, made.digest)

    for _ in range(2):
        await fetch_adapter(bus, other, made.digest, UID)

    found = other.get(made.digest)
    assert (found.identity, found.weights) == (made.identity, made.weights)
    assert found.probe("openai") == made.probe("openai") != ()


async def test_what_is_in_neither_place_is_said(bus: Bus, shelf: AdapterShelf, other: AdapterShelf) -> None:
    """Also an adapter of another agent, and one whose sending was cut off: its identity is sent last."""
    made = shelve(shelf, UID, 1)
    with pytest.raises(CheckError, match="nor on the bus"):
        await fetch_adapter(bus, other, made.digest, UID)
    await send_adapter(bus, shelf, made.digest)
    with pytest.raises(CheckError, match="nor on the bus"):
        await fetch_adapter(bus, other, made.digest, "0" * 8)
    await bus.drop_object(f"{UID}/{made.digest}/identity")
    with pytest.raises(CheckError, match="nor on the bus"):
        await fetch_adapter(bus, other, made.digest, UID)
    assert other.digests() == []
    assert list(other.folder.iterdir()) == []


async def test_another_adapter_under_its_digest_is_refused(bus: Bus, shelf: AdapterShelf, other: AdapterShelf) -> None:
    """Whoever may write objects cannot bring other weights, damaged ones, or a pickle to act; nothing is left."""
    made, bad = shelve(shelf, UID, 1), shelve(shelf, UID, 2)
    await send_adapter(bus, shelf, made.digest)
    weights = f"{UID}/{made.digest}/weights"
    for content, why in (
        ((bad.folder / "adapter_model.safetensors").read_bytes(), "its digest is"),
        ((made.folder / "adapter_model.safetensors").read_bytes()[:-8], "cut short or damaged"),
        (b"\x80\x04\x95" + b"\x00" * 60, "is no safetensors file"),
        (b"\xff" * 7 + b"\x7f" + b"{}", "is no safetensors file"),
    ):
        await bus.put_object(weights, io.BytesIO(content))
        with pytest.raises(CheckError, match=why):
            await fetch_adapter(bus, other, made.digest, UID)
    assert list(other.folder.iterdir()) == []


async def test_a_bus_that_takes_no_objects_is_no_failure(shelf: AdapterShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home's own agents do without: a line in the log, and the move goes on."""
    made = shelve(shelf, UID, 1)

    async def full(*_: object) -> None:
        raise BusError("no space left")

    async with MemoryBus() as bus:
        monkeypatch.setattr(bus, "put_object", full)
        assert not await send_adapter(bus, shelf, made.digest)


async def test_what_a_lineage_does_not_keep_leaves_the_bus(bus: Bus, shelf: AdapterShelf) -> None:
    """Adapters of other lineages stay."""
    mine, kept, others = shelve(shelf, UID, 1), shelve(shelf, UID, 2), shelve(shelf, "another", 3)
    for one in (mine, kept, others):
        await send_adapter(bus, shelf, one.digest)

    await drop_adapters(bus, UID, {kept.digest})

    assert {name.split("/")[1] for name in await bus.objects()} == {kept.digest, others.digest}


async def test_what_was_fetched_long_ago_makes_room(
    bus: Bus, shelf: AdapterShelf, other: AdapterShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest that came by the bus stay; what was trained there, and other lineages, are not touched."""
    monkeypatch.setattr("conch.training.travel.MOST_FETCHED", 2)
    own = shelve(other, UID, 9).digest
    foreign = shelve(shelf, "another", 8).digest
    made = [shelve(shelf, UID, number).digest for number in (1, 2, 3)]
    for digest in (foreign, *made):
        await send_adapter(bus, shelf, digest)
        await fetch_adapter(bus, other, digest, "another" if digest == foreign else UID)

    assert set(other.digests()) == {own, foreign, *made[1:]}
