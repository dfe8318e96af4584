"""Digests of texts: what the embedded mind keeps in their place, so that no word of a file or a person is stored."""

from __future__ import annotations

import hashlib


def digest(text: str) -> int:
    """48 bits of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).digest())
