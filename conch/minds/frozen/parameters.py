"""The reflex mind's parameters of one moment, in an immutable file that is named by its digest. No words, no calls."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from conch.errors import CheckError
from conch.files import read_plain
from conch.minds.embedded.bandit import LinUCB
from conch.minds.embedded.features import GROUPS, SIZE, TemplateRecord
from conch.minds.embedded.memory import LAYOUT, OTHER_LAYOUT, BanditMemory, blank_bandit
from conch.minds.embedded.templates import TEMPLATES

MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a file; with the present features it has 1.3 MB."""


class FrozenParameters:
    """What the bandit had learnt. `digest` is of the file."""

    def __init__(self, digest: str, size: int, arrays: dict[str, NDArray[Any]]) -> None:
        """`size`: bytes of the file. Raises ValueError and KeyError for arrays that are none of it."""
        self.digest, self.size = digest, size
        if str(arrays["layout"]) != LAYOUT:
            raise ValueError(OTHER_LAYOUT)
        self._a, self._b = arrays["A"].reshape(SIZE, SIZE), arrays["b"].reshape(SIZE)
        self._choices = int(arrays["choices"])
        self._tries = arrays["tries"].reshape(len(TEMPLATES), 2)
        self._uses = arrays["uses"].reshape(len(GROUPS))
        self._mean = float(arrays["mean"][0]) if arrays["mean"].size else None
        self._lately = {int(key): TemplateRecord(went, found) for key, went, found in arrays["lately"].reshape(-1, 3)}
        if not all(np.isfinite(one).all() for one in (self._a, self._b, self._tries, self._uses)):
            raise ValueError("it holds numbers that are not finite")

    def bandit(self) -> LinUCB:
        """A bandit of these parameters, without choices that await a reward."""
        bandit = blank_bandit()
        bandit.b, bandit.A, bandit.choices = self._b.copy(), self._a, self._choices
        bandit.refresh()
        return bandit

    def restore(self, memory: BanditMemory) -> None:
        """Go on from these parameters. What the mind remembers of calls stays; rewards of acts that were
        chosen before are no longer learnt."""
        memory.bandit, memory.decisions = self.bandit(), {}
        memory.tries, memory.uses, memory.lately = self._tries.copy(), self._uses.copy(), dict(self._lately)
        memory.mean, memory.generation = self._mean, self.digest


class FrozenShelf:
    """The frozen parameters in `folder`, a file for each digest. Several processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, memory: BanditMemory) -> FrozenParameters:
        """Freeze the parameters of a mind; the same again changes nothing. The file is on the disk when this returns.
        Raises OSError."""
        data = _encoded(memory)
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            work = self.folder / f".{uuid4().hex}"
            try:
                with work.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(work, path)
            finally:
                work.unlink(missing_ok=True)
        return _decoded(digest, data, path)

    def has(self, digest: str) -> bool:
        """Whether there is a file of this digest; it is not looked at."""
        return self._path(digest).exists()

    def get(self, digest: str) -> FrozenParameters:
        """The parameters of this digest. Raises CheckError where there are none, or the file was changed."""
        path = self._path(digest)
        if not self.has(digest):
            raise CheckError(f"there are no frozen parameters {digest[:12]} in {self.folder}")
        data = read_plain(path, MOST_BYTES)
        if (found := hashlib.sha256(data).hexdigest()) != digest:
            raise CheckError(f"{path} was changed: its digest is {found[:12]} now; it is not used")
        return _decoded(digest, data, path)

    def keep(self, digests: Iterable[str], newest: int) -> None:
        """Remove all files but those of these digests and, of the others, as many of the newest. Raises OSError."""
        kept = {self._path(one) for one in digests}
        others = [path for path in self.folder.glob("*.npz") if path not in kept]
        for path in sorted(others, key=lambda one: one.stat().st_mtime_ns, reverse=True)[newest:]:
            path.unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.npz"


def _encoded(memory: BanditMemory) -> bytes:
    bandit, file = memory.bandit, io.BytesIO()
    lately = [(key, went.success, went.discovery) for key, went in sorted(memory.lately.items())]
    np.savez(
        file,
        layout=np.array(LAYOUT),
        A=bandit.A,
        b=bandit.b,
        choices=np.array(bandit.choices),
        tries=memory.tries,
        uses=memory.uses,
        mean=np.array([] if memory.mean is None else [memory.mean]),
        lately=np.array(lately).reshape(-1, 3),
    )
    return file.getvalue()


def _decoded(digest: str, data: bytes, path: Path) -> FrozenParameters:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return FrozenParameters(digest, len(data), {name: arrays[name] for name in arrays.files})
    except Exception as error:  # numpy has no common exception class for malformed files
        raise CheckError(f"{path} holds no frozen parameters of this version: {error}") from error
