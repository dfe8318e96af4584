"""Adapters on their way between machines: a home's shelf to the bus's object store, and from there to another shelf.

Below an adapter's digest the object store has its files, the identity last: with it the adapter is whole. What arrives
is checked as a file of the home is, and its digest is taken anew, before it is on the shelf.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final
from uuid import uuid4

from pydantic import ValidationError

from conch.bus import Bus
from conch.errors import BusError, CheckError
from conch.log import get_logger
from conch.training.adapter import (
    CONFIG,
    IDENTITY,
    MOST_CONFIG,
    PROBE,
    WEIGHTS,
    ProbeLine,
    ProbeRecord,
    adapter_digest,
    check_weights,
    read_identity,
)
from conch.training.shelf import MOST_PROBE, UNFINISHED, AdapterShelf

log = get_logger(__name__)

MOST_WEIGHTS: Final = 2 * 1024**3
"""Bytes of weights. LoRA of rank 64 on all linear layers of a 70 B model has 1.6 GB."""
MOST_FETCHED: Final = 8
"""Adapters of a lineage that stay where they were fetched: more than a pointer names. An older one is fetched again."""
FETCHED: Final = ".fetched"
"""Name of an empty file beside an adapter's: it came by the bus."""
_FILES: Final = {
    "weights": (WEIGHTS, MOST_WEIGHTS),
    "config": (CONFIG, MOST_CONFIG),
    "probe": (PROBE, MOST_PROBE),
    "identity": (IDENTITY, MOST_CONFIG),
}
"""File and most bytes by the last part of an object's name, in the order in which they are stored."""


async def send_adapter(bus: Bus, shelf: AdapterShelf, digest: str) -> bool:
    """Store an adapter of the shelf for agents on other machines; the same again changes nothing.

    False, with a line in the log, where the bus takes no objects: agents of this home do without. Raises CheckError
    where the shelf has no such adapter.
    """
    adapter = shelf.get(digest)
    try:
        for part, (name, _) in _FILES.items():
            path = adapter.folder / name
            if path.exists():
                with path.open("rb") as file:
                    await bus.put_object(_object(adapter.identity.agentuid, digest, part), file)
    except (BusError, OSError) as error:
        log.warning("adapter.not_sent", adapter=digest[:12], error=str(error))
        return False
    return True


async def fetch_adapter(bus: Bus, shelf: AdapterShelf, digest: str, agentuid: str) -> None:
    """Put an adapter of an agent's lineage on the shelf, from the object store; one that is there stays.

    Raises CheckError where it is in neither place, or what arrived is another; BusError, OSError. Nothing is left then.
    """
    if (shelf.folder / digest).is_dir():
        return
    shelf.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    work = shelf.folder / f"{UNFINISHED}{uuid4().hex}"
    work.mkdir(mode=0o700)
    try:
        for part, (name, most) in _FILES.items():
            with (work / name).open("wb") as file:
                found = await bus.get_object(_object(agentuid, digest, part), file, most=most)
            if not found and part != "probe":
                raise CheckError(f"there is no adapter {digest[:12]} in {shelf.folder}, nor on the bus")
        check_weights(work)
        identity = read_identity(work)
        if (arrived := adapter_digest(work, identity)) != digest:
            raise CheckError(f"the bus has another adapter under {digest[:12]}: its digest is {arrived[:12]}")
        shelf.put(work, identity)
        for engine, lines in _probes(work / PROBE).items():
            shelf.record_probe(digest, engine, lines)
        (shelf.folder / digest / FETCHED).touch()
        _make_room(shelf, agentuid)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    log.info("adapter.fetched", adapter=digest[:12])


async def drop_adapters(bus: Bus, agentuid: str, keep: Collection[str]) -> None:
    """Remove from the object store what a lineage does not keep. Raises BusError."""
    for name in await bus.objects():
        owner, _, rest = name.partition("/")
        if owner == agentuid and rest.partition("/")[0] not in keep:
            await bus.drop_object(name)


def _make_room(shelf: AdapterShelf, agentuid: str) -> None:
    """Remove the oldest adapters of a lineage that came by the bus; what was trained here is the trainer's."""
    marks = [mark for mark in shelf.folder.glob(f"*/{FETCHED}") if read_identity(mark.parent).agentuid == agentuid]
    for mark in sorted(marks, key=lambda one: one.stat().st_mtime_ns)[:-MOST_FETCHED]:
        shutil.rmtree(mark.parent, ignore_errors=True)


def _object(agentuid: str, digest: str, part: str) -> str:
    return f"{agentuid}/{digest}/{part}"


def _probes(path: Path) -> dict[str, tuple[ProbeLine, ...]]:
    """The recorded replies; none where the file holds none: the engine that acts then proves nothing."""
    try:
        return ProbeRecord.model_validate_json(path.read_bytes()).lines
    except ValidationError:
        return {}
