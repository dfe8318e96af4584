"""What the process may take from the machine: low priority, bounded memory, no network, the fewest threads."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

from conch.training.child.failures import TrainingRefusedError
from conch.training.job import TrainingJob

NICE: Final = 19
"""The lowest priority: an agent that thinks meanwhile gets the processor first."""
LEAST_ROOM: Final = 128
"""MiB that trl's modules need to start. Measured: 100 do; with 10 the process ends by SIGSEGV, with 30 by
std::bad_alloc."""
_PR_SET_PDEATHSIG: Final = 1
_OFFLINE: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "TQDM_DISABLE": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}
"""Read by the libraries when they are imported."""


def die_with_parent() -> None:
    """The process is killed when its parent ends. Linux; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def go_offline(caches: Path) -> None:
    """Before a library is imported: none of them asks a hub; what they cache goes to `caches`."""
    os.environ.update(_OFFLINE)
    os.environ["HF_HOME"] = str(caches)


def take_little(job: TrainingJob) -> int:
    """Lower the priority; returns how many threads torch may have."""
    os.nice(NICE)
    return job.threads if job.threads is not None else max(1, _processors() - 1)


def limit_memory(job: TrainingJob) -> None:
    """Limit the memory, once torch is imported: its modules crash where their start is refused memory. The trainers of
    trl come later, as they reserve a gigabyte where they may: a limit just above what torch has can end the process.

    The limit is one of writable private memory (RLIMIT_DATA), which Linux holds; address space would count libraries
    and the stacks of threads. It is the soft limit: `lift_limit` takes it back. Raises TrainingRefusedError where it
    leaves less than LEAST_ROOM beside what the process has already.
    """
    if job.memory_mib is None:
        return
    if job.memory_mib < (least := _private_bytes() // 2**20 + LEAST_ROOM):
        raise TrainingRefusedError(
            f"the libraries of training take {least} MiB here, and training may use {job.memory_mib}: set "
            "training.memory_mib higher, or free some memory"
        )
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (job.memory_mib * 2**20, most))


def lift_limit() -> None:
    """Allow the process memory again: after a MemoryError, what is left is a report of some bytes."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def peak_mib() -> float:
    """The most memory that this process has had, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _private_bytes() -> int:
    """Writable private memory, as RLIMIT_DATA counts it; elsewhere than on Linux 0."""
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[5]) * resource.getpagesize()


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
