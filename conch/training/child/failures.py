"""What may go wrong, as one sentence each."""

from __future__ import annotations

import errno
from typing import Final

from conch.errors import ConchError
from conch.training.job import TrainingJob

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_NO_SPACE: Final = (
    "No space left on device",
    "Disk quota exceeded",
    "PytorchStreamWriter failed writing",
    "inline_container.cc",
)
"""The last two are of torch's file writer: it says where a write ended too early, and drops the system's error."""
_NO_MEMORY: Final = (
    "can't allocate memory",
    "not enough memory",
    "Cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "failed to map segment",
)
"""What torch, safetensors, the C++ runtime and the loader of compiled modules say."""
_NO_MEMORY_UNDER_LIMIT: Final = (
    "Failed to launch worker thread",
    "can't start new thread",
    "error return without exception set",
)
"""What is said where the memory of a new thread is refused (Arrow, Python), and where a compiled module drops its
MemoryError (Python). Without a limit of memory these have other causes."""
_SHOWN: Final = 300
"""Most characters of another library's words in a reason."""


class TrainingRefusedError(ConchError):
    """The job cannot be trained as it is: the same job fails again."""


def failure_of(error: BaseException, job: TrainingJob) -> tuple[str, bool]:
    """(the reason in one sentence, whether the same job may succeed at another time)."""
    if isinstance(error, ConchError):
        return str(error), False
    said = " ".join(str(error).split())
    if (isinstance(error, OSError) and error.errno in _FULL) or any(one in said for one in _NO_SPACE):
        return f"the disk of {job.out.parent} is full: free some space, then train again", True
    no_memory = _NO_MEMORY + _NO_MEMORY_UNDER_LIMIT if job.memory_mib else _NO_MEMORY
    if isinstance(error, MemoryError) or any(words in said for words in no_memory):
        limit = f"the {job.memory_mib} MiB that it may use" if job.memory_mib else "the memory that is free"
        return (
            f"training needs more than {limit}: a smaller batch or shorter rows need less (batch {job.batch}, at most "
            f"{job.max_tokens} tokens a row)",
            job.memory_mib is None,
        )
    if isinstance(error, ImportError):
        return f"training needs what is not installed ({error.name}): pip install 'conch-agent[train]'", False
    return f"training failed with {type(error).__name__}: {said[:_SHOWN]}", True
