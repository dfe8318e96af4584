"""Where the experiences of a home are kept."""

from __future__ import annotations

from pathlib import Path

from conch.errors import ConfigError

_SQLITE = "sqlite:///"


def store_path(url: str | None, home: Path) -> Path:
    """The SQLite file that `store.url` names (`sqlite:///relative/to/the/home` or `sqlite:////absolute`), else
    `store.db` in the home. Raises ConfigError for any other address."""
    if url is None:
        return home / "store.db"
    if not url.startswith(_SQLITE) or len(url) == len(_SQLITE):
        scheme = url.partition("://")[0][:20]
        raise ConfigError(
            f"store.url begins with {scheme!r}: a file is named by sqlite:///path, there is no other store yet"
        )
    return home / url.removeprefix(_SQLITE)
