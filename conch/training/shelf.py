"""The adapters in a home: a directory for each digest, under another name until it is whole, checked when read."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from conch.errors import CheckError
from conch.files import read_plain
from conch.home import write_whole
from conch.training.adapter import (
    CONFIG,
    IDENTITY,
    PROBE,
    WEIGHTS,
    AdapterIdentity,
    LoraFile,
    ProbeLine,
    ProbeRecord,
    adapter_digest,
    check_weights,
    read_identity,
)

UNFINISHED: Final = ".unfinished-"
MOST_PROBE: Final = 16 * 1024 * 1024
"""Bytes of the record of an adapter's replies: eight prompts of several engines take some 100 KB."""


@dataclass(frozen=True)
class ShelvedAdapter:
    """An adapter of the shelf."""

    digest: str
    folder: Path
    identity: AdapterIdentity
    weights: LoraFile

    def probe(self, engine: str) -> tuple[ProbeLine, ...]:
        """The replies by which an engine of this kind is known to apply it; empty where none were recorded."""
        with contextlib.suppress(OSError, ValueError):
            return ProbeRecord.model_validate_json((self.folder / PROBE).read_bytes()).lines.get(engine, ())
        return ()


class AdapterShelf:
    """The adapters in `folder`. Several processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, source: Path, identity: AdapterIdentity) -> ShelvedAdapter:
        """Copy an adapter's files to the shelf; the same again changes nothing. Its files are on the disk when this
        returns; after any error nothing is left. Raises CheckError where they are no adapter, OSError."""
        check_weights(source)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        work = self.folder / f"{UNFINISHED}{uuid4().hex}"
        work.mkdir(mode=0o700)
        try:
            for name in (WEIGHTS, CONFIG):
                shutil.copyfile(source / name, work / name)
                _sync(work / name)
            write_whole(work / IDENTITY, identity.model_dump_json(indent=1) + "\n")
            digest = adapter_digest(work, identity)
            if not (self.folder / digest).exists():
                _sync(work)
                with contextlib.suppress(OSError):  # another process was first: its files are the same
                    work.rename(self.folder / digest)
                _sync(self.folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return self.get(digest)

    def get(self, digest: str) -> ShelvedAdapter:
        """The adapter of this digest, checked. Raises CheckError where there is none, or its files are not those that
        the digest was taken of."""
        folder = self.folder / digest
        if not folder.is_dir():
            raise CheckError(f"there is no adapter {digest[:12]} in {self.folder}")
        identity, weights = read_identity(folder), check_weights(folder)
        if (found := adapter_digest(folder, identity)) != digest:
            raise CheckError(f"the adapter in {folder} was changed: its digest is {found[:12]} now; it is not used")
        return ShelvedAdapter(digest, folder, identity, weights)

    def record_probe(self, digest: str, engine: str, lines: Iterable[ProbeLine]) -> None:
        """Keep the replies by which an engine of this kind is known to apply the adapter, in place of earlier ones."""
        path = self.folder / digest / PROBE
        known: dict[str, tuple[ProbeLine, ...]] = {}
        with contextlib.suppress(OSError, ValueError):
            known = ProbeRecord.model_validate_json(path.read_bytes()).lines
        write_whole(path, ProbeRecord(lines=known | {engine: tuple(lines)}).model_dump_json(indent=1) + "\n")

    def replies(self, digest: str) -> dict[str, tuple[ProbeLine, ...]]:
        """The replies that engines gave under this adapter, by the engine's kind. The weights are not looked at."""
        with contextlib.suppress(OSError, ValueError):
            return ProbeRecord.model_validate_json(read_plain(self.folder / digest / PROBE, MOST_PROBE)).lines
        return {}

    def digests(self) -> list[str]:
        """The digests of all adapters, sorted; their files are not looked at."""
        with contextlib.suppress(OSError):
            return sorted(one.name for one in self.folder.iterdir() if not one.name.startswith("."))
        return []

    def keep(self, digests: Iterable[str]) -> list[str]:
        """Remove all others; returns them. Raises OSError."""
        gone = sorted(set(self.digests()) - set(digests))
        for digest in gone:
            shutil.rmtree(self.folder / digest)
        return gone


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
