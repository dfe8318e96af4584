"""The protocol by which adapters are loaded beside the base of an engine, and the names that they are served under."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

PREFIX: Final = "conch-"
"""How the served name of each adapter of Conch begins."""
NAME_DIGITS: Final = 16
"""Hexadecimal digits of an adapter's digest in its served name."""


def served_name(digest: str) -> str:
    """The name under which an engine serves the adapter of this digest. Another adapter has another name: engines keep
    what they computed by name, so weights are never replaced under a name.

    Raises ValueError for a digest of fewer than 16 hexadecimal digits.
    """
    digits = digest[:NAME_DIGITS]
    if len(digits) < NAME_DIGITS or set(digits) - set("0123456789abcdef"):
        raise ValueError(f"{digest!r} is no digest of an adapter: it does not begin with {NAME_DIGITS} hex digits")
    return PREFIX + digits


@dataclass(frozen=True)
class AdapterFiles:
    """An adapter in a directory: `adapter_config.json` and `adapter_model.safetensors`, in the format of PEFT."""

    directory: Path
    """Absolute. An engine on another machine must see the same path."""
    digest: str
    """Of its files, hexadecimal."""

    @property
    def name(self) -> str:
        """The name under which it is served."""
        return served_name(self.digest)


class AdapterServing(Protocol):
    """An engine that serves a base model and adapters of it, each under a name of its own.

    That an adapter is loaded does not prove that it acts: see `probe`. One object serves one task at a time.
    """

    base: str
    """Name of the base model: a request that carries it is replied to without an adapter."""

    async def ensure(self, adapter: AdapterFiles) -> str:
        """Load the adapter beside those that are loaded, and return the model name that a request for it must carry.

        A second call changes nothing. Raises ServingError: the engine is away, too slow, or refuses the adapter.
        Cancelled, the engine may have loaded it.
        """
        ...

    async def release(self, digest: str) -> None:
        """Unload the adapter of this digest; replies that are being decoded end first. One that is not loaded is no
        error. Raises ServingError."""
        ...

    async def names(self) -> frozenset[str]:
        """The served names of the adapters of Conch that the engine lists. Raises ServingError."""
        ...

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        ...
