"""Read the sightings and answer questions about them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sighting:
    """One line of data/sightings.csv."""

    date: str
    pool: int
    species: str
    count: int
    water_celsius: float


def read(path: Path) -> list[Sighting]:
    """The sightings in the file, in its order."""
    with path.open(newline="", encoding="utf-8") as lines:
        return [
            Sighting(row["date"], int(row["pool"]), row["species"], int(row["count"]), float(row["water_celsius"]))
            for row in csv.DictReader(lines)
        ]


def total(sightings: list[Sighting], species: str) -> int:
    """How many of a species were counted in all."""
    return sum(sighting.count for sighting in sightings if sighting.species == species)


def kinds(sightings: list[Sighting], pool: int) -> set[str]:
    """The species that were seen in a pool."""
    return {sighting.species for sighting in sightings if sighting.pool == pool}


def richest_pool(sightings: list[Sighting]) -> int:
    """The pool with the most kinds, not the most heads; of equals the one with the lowest number."""
    heads: dict[int, int] = {}
    for sighting in sightings:
        heads[sighting.pool] = heads.get(sighting.pool, 0) + sighting.count
    return max(sorted(heads), key=lambda pool: heads[pool])


def warmest(sightings: list[Sighting]) -> Sighting:
    """The sighting in the warmest water."""
    raise NotImplementedError
