"""What the stream and the bucket are called on the server: the only module that spells these names.

A server of the user's own keeps its permissions by these names too, and so does a snapshot: they stay as they are.
"""

from __future__ import annotations

STREAM = "CONCH"
"""The stream of all events."""
BUCKET = "conch"
"""The key-value bucket, as a NATS client names it."""
BUCKET_STREAM = f"KV_{BUCKET}"
"""The stream that the server keeps the bucket in."""
EPOCH = "conch-epoch"
"""Metadata key of the stream, and key of the bucket: the stream's identity."""
KEY_WORDS = "conch-words"
"""Metadata key of the bucket: each part of a key is a word of its subject, so that a server can grant by consumer."""
OWNER = "conch-holder"
"""Metadata key of a durable consumer of the stream: the reader that made it. A reader that comes back and finds
another one there is fenced."""
_KEY_SUBJECTS = f"$KV.{BUCKET}."


def key_subject(key: str) -> str:
    """The subject under which the bucket stores `key`. Also of a pattern of keys: `state/needs/>`.

    >>> key_subject("position/needs")
    '$KV.conch.position.needs'
    """
    return _KEY_SUBJECTS + key.replace("/", ".")


def subject_key(subject: str) -> str:
    """The key that the bucket stores under `subject`: the inverse of `key_subject`.

    >>> subject_key("$KV.conch.position.needs")
    'position/needs'
    """
    return subject.removeprefix(_KEY_SUBJECTS).replace(".", "/")
