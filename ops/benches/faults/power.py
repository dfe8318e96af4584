"""The power cut, under strict and under fast durability. Needs root: the store lies on an image of a disk."""

from __future__ import annotations

from pathlib import Path

from runs import fresh_home

from faults.row import TOKEN, Fault, Row
from tests.faults.power import NoMountError, power_cut


def _cut(way: str, *, strict: bool, seconds: float) -> Fault:
    async def run(times: int) -> Row:
        row = Row(f"power cut, {'strict' if strict else 'fast'}, {way}")
        before = 0.0
        for _ in range(times):
            with fresh_home() as place:
                try:
                    found = await power_cut(Path(place), TOKEN, strict=strict, way=way, seconds=seconds)
                except NoMountError:
                    break
            row.injected += 1
            row.lost += found.lost
            row.doubled += found.doubled
            row.seconds.append(found.recovery)
            before = max(before, found.seconds)
        if not strict:
            row.allowed = f"all of the last {before:.2f} s"
        return row

    return run


FAULTS = [
    *((0.1, _cut(way, strict=True, seconds=1.0)) for way in ("singly", "pipelined", "in batches")),
    (0.1, _cut("in batches", strict=False, seconds=2.5)),
]
