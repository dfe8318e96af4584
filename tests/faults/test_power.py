"""The power is cut: what an acknowledgement is worth."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.conftest import TOKEN
from tests.faults.power import WAYS, Cut, NoMountError, power_cut

pytestmark = pytest.mark.torture


@pytest.fixture
def cut(tmp_path: Path, needs: Callable[[str, str], None]) -> Callable[..., Awaitable[Cut]]:
    """`await cut(strict=…, way=…, seconds=…)`: see `power_cut`."""
    needs("mkfs.ext4", "install e2fsprogs")

    async def make(*, strict: bool, way: str, seconds: float) -> Cut:
        try:
            return await power_cut(tmp_path, TOKEN, strict=strict, way=way, seconds=seconds)
        except NoMountError:
            pytest.skip("no disk image can be mounted here: run the tests as root, in a container that may mount")

    return make


@pytest.mark.parametrize("way", WAYS)
async def test_strict_loses_nothing_that_was_acknowledged(way: str, cut: Callable[..., Awaitable[Cut]]) -> None:
    """Singly, many at once or in batches: an acknowledged event is on the disk."""
    found = await cut(strict=True, way=way, seconds=0.7)

    assert found.acknowledged > 100
    assert (found.lost, found.doubled) == (0, 0)


async def test_fast_loses_at_most_the_last_second_or_so(cut: Callable[..., Awaitable[Cut]]) -> None:
    """Under `fast` an acknowledged event is on the disk about a second later."""
    found = await cut(strict=False, way="in batches", seconds=2.5)

    assert found.lost < found.acknowledged
    assert found.seconds < 1.8
    assert found.doubled == 0
