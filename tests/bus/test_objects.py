"""Files beside the stream: whole or not there, on every bus."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import OBJECT_STREAM, JetStreamBus
from conch.errors import BusError

if TYPE_CHECKING:
    from tests.conftest import World

NAME = "0b6c2b0e-7f55-4a3e-9a54-35a5f7b1d0aa/abc/weights"
MOST = 1_000_000


async def content(bus: Bus, name: str = NAME, most: int = MOST) -> bytes | None:
    """What is kept under a name."""
    file = io.BytesIO()
    return file.getvalue() if await bus.get_object(name, file, most=most) else None


async def test_a_file_comes_back_as_it_was_stored(bus: Bus) -> None:
    """In one chunk, in many, and empty; stored again it changes nothing."""
    for size in (0, 10, 300_000):
        data = os.urandom(size)
        await bus.put_object(NAME, io.BytesIO(data))
        await bus.put_object(NAME, io.BytesIO(data))
        assert await content(bus) == data
    assert list(await bus.objects()) == [NAME]


async def test_what_was_removed_is_not_there(bus: Bus) -> None:
    """Nor is what was never stored; removing it again is no error, and others stay."""
    assert await content(bus) is None
    assert list(await bus.objects()) == []
    await bus.drop_object(NAME)
    await bus.put_object(NAME, io.BytesIO(b"one"))
    await bus.put_object("other", io.BytesIO(b"two"))

    await bus.drop_object(NAME)

    assert await content(bus) is None
    assert await content(bus, "other") == b"two"
    assert list(await bus.objects()) == ["other"]


async def test_more_than_is_read_is_refused(bus: Bus) -> None:
    """Before any of it is written."""
    await bus.put_object(NAME, io.BytesIO(b"x" * 11))

    with pytest.raises(BusError, match="has 11 bytes, at most 10 are read"):
        await content(bus, most=10)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a/*", ">"])
async def test_a_name_that_is_no_key_is_refused(bus: Bus, name: str) -> None:
    """For both ways."""
    with pytest.raises(BusError, match="can be no key"):
        await bus.put_object(name, io.BytesIO(b""))
    with pytest.raises(BusError, match="can be no key"):
        await content(bus, name)


async def test_an_object_outlives_its_bus(world: World) -> None:
    """The next process finds it."""
    async with world.bus() as first:
        await first.put_object(NAME, io.BytesIO(b"kept"))
    async with world.bus() as second:
        assert await content(second) == b"kept"


async def test_a_chunk_that_was_lost_or_changed_is_found(serve: Callable[[str], str]) -> None:
    """Its digest is compared: a file is whole or refused."""
    async with JetStreamBus(Access(serve("jetstream {}"))) as bus:
        await bus.put_object(NAME, io.BytesIO(os.urandom(300_000)))
        await bus.connection.api(f"STREAM.MSG.DELETE.{OBJECT_STREAM}", {"seq": 2})

        with pytest.raises(BusError, match="is not whole on the bus: store it again"):
            await content(bus)


async def test_replaced_content_takes_no_room(serve: Callable[[str], str]) -> None:
    """The chunks of what stood there before are gone."""
    async with JetStreamBus(Access(serve("jetstream {}"))) as bus:
        for _ in range(3):
            await bus.put_object(NAME, io.BytesIO(os.urandom(300_000)))

        info = await bus.connection.api(f"STREAM.INFO.{OBJECT_STREAM}")

        assert info["state"]["messages"] == 4
