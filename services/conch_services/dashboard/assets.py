"""Static files under a path that names their content, so that a browser keeps them for ever."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER: Final = Path(__file__).parent / "static"
STATIC: Final = "/static/"


def _digest() -> str:
    """The first 12 hexadecimal digits of the SHA-256 over every file's name and content."""
    digest = hashlib.sha256()
    for path in sorted(_files()):
        digest.update(path.relative_to(FOLDER).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _files() -> Iterator[Path]:
    return (path for path in FOLDER.rglob("*") if path.is_file())


HASHED: Final = f"{STATIC}{_digest()}"
"""The path of the files as they are now, without a slash at its end. One digest for all of them: scripts import each
other by relative paths, and a script of one release never meets one of another."""


def cache_control(path: str) -> str | None:
    """The header Cache-Control for this path of a static file; None: it is none.

    A file under its digest never changes. Without it the browser asks each time, and its ETag answers with a few bytes.
    """
    if path.startswith(f"{HASHED}/"):
        return "public, max-age=31536000, immutable"
    return "no-cache" if path.startswith(STATIC) else None


class HashedFiles(StaticFiles):
    """The static files, with the digest of now in front of their path, or without any."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER)

    def get_path(self, scope: Scope) -> str:
        """The path of the file in the folder."""
        return super().get_path(scope).removeprefix(f"{HASHED.removeprefix(STATIC)}/")
