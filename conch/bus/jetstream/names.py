"""What the stream and the bucket are called on the server: the only module that spells these names.

A server of the user's own keeps its permissions by these names too, and so does a snapshot: they stay as they are.
"""

from __future__ import annotations

import base64

STREAM = "CONCH"
"""The stream of all events."""
BUCKET = "conch"
"""The key-value bucket, as a NATS client names it."""
BUCKET_STREAM = f"KV_{BUCKET}"
"""The stream that the server keeps the bucket in."""
OBJECT_STREAM = f"OBJ_{BUCKET}"
"""The stream that the server keeps the object store in."""
OBJECT_SUBJECTS = f"$O.{BUCKET}.>"
"""Subjects of the object store."""
EPOCH = "conch-epoch"
"""Metadata key of the stream, and key of the bucket: the stream's identity."""
KEY_WORDS = "conch-words"
"""Metadata key of the bucket: each part of a key is a word of its subject, so that a server can grant by consumer."""
OWNER = "conch-holder"
"""Metadata key of a durable consumer of the stream: the reader that made it. A reader that comes back and finds
another one there is fenced."""
_KEY_SUBJECTS = f"$KV.{BUCKET}."
_OBJECT_SUBJECTS = OBJECT_SUBJECTS.removesuffix(">")


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


def object_subject(name: str) -> str:
    """The subject under which the object store describes `name`; of `>`: of all.

    >>> object_subject("a/b")
    '$O.conch.M.YS9i'
    """
    return f"{_OBJECT_SUBJECTS}M.{name if name == '>' else base64.urlsafe_b64encode(name.encode()).decode()}"


def object_name(subject: str) -> str:
    """The name of the object that is described under `subject`: the inverse of `object_subject`.

    >>> object_name("$O.conch.M.YS9i")
    'a/b'
    """
    return base64.urlsafe_b64decode(subject.rpartition(".")[2]).decode()


def chunk_subject(nuid: str) -> str:
    """The subject of an object's chunks; of `>`: of all."""
    return f"{_OBJECT_SUBJECTS}C.{nuid}"
