"""The reflex mind's learnt parameters and pending decisions, and their file."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from conch.errors import HomeError
from conch.log import get_logger
from conch.minds.embedded.bandit import LinUCB, Sparse
from conch.minds.embedded.features import GROUPS, SIZE, TemplateRecord
from conch.minds.embedded.templates import TEMPLATES

ALPHA = 0.08
RIDGE = 0.03
GAMMA = 0.998
"""Discount of the bandit. Measured over ten seeds of 300 cycles in the default workspace; nearby values do as well."""
DECISIONS = 256
"""Decisions kept until their reward comes or is corrected."""
STAGED = 64
"""Most files remembered as staged; the first one is forgotten first."""
CALLS = 4096
"""Most calls remembered; the first one made is forgotten first."""

_LEARNT_FOR = ("credit over steps", str(SIZE), *(template.name for template in TEMPLATES))
LAYOUT = hashlib.sha256("\n".join(_LEARNT_FOR).encode()).hexdigest()[:16]
"""Digest of templates and features, and of what is learnt: parameters learnt for others mean nothing here."""
OTHER_LAYOUT = "it was learnt for other templates, and what was learnt for those means nothing to these"
"""Why parameters are not used."""

log = get_logger(__name__)


def blank_bandit() -> LinUCB:
    """A bandit that has learnt nothing."""
    return LinUCB(SIZE, alpha=ALPHA, gamma=GAMMA, ridge=RIDGE)


@dataclass
class PendingDecision:
    """A decision that awaits its reward or a correction of it."""

    template: int
    reply: int
    """Digest of the reply: an experience of another reply does not belong to this decision."""
    x: Sparse
    chosen_at: int
    """`LinUCB.choices` right after it was made."""
    goal: int = 0
    """Digest of the goal that it was made for; 0: for none."""
    reward: float = 0.0
    """Its reward as learnt last."""
    credit: float = 0.0
    """What was learnt for it: the reward, and what is credited to it of later ones."""
    revision: int = 0
    """Revision of the experience learnt last; 0: none yet."""


@dataclass
class BanditMemory:
    """All that the reflex mind stores. Decisions are by cycle."""

    bandit: LinUCB = field(default_factory=blank_bandit)
    decisions: dict[int, PendingDecision] = field(default_factory=dict)
    lately: dict[int, TemplateRecord] = field(default_factory=dict)
    tries: NDArray[np.float64] = field(default_factory=lambda: np.zeros((len(TEMPLATES), 2)))
    """Per template: experiences, sum of their totals."""
    uses: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(GROUPS)))
    """Decisions for each of GROUPS."""
    mean: float | None = None
    """Running mean reward of an act; None: none was scored."""
    calls: dict[int, None] = field(default_factory=dict)
    """Digests of calls, the oldest first."""
    noticed: int = -1
    """The last cycle with an act that was evaluated."""
    staged: dict[int, None] = field(default_factory=dict)
    """Digests of the files that were staged since the last commit, the oldest first; of EVERYTHING for all."""
    generation: str = ""
    """Digest of the frozen parameters that it goes on from; empty: it has learnt from the beginning."""

    def begin_again(self) -> None:
        """Forget what was learnt of rewards; calls stay."""
        empty = BanditMemory()
        self.bandit, self.decisions, self.lately = empty.bandit, empty.decisions, empty.lately
        self.tries, self.uses, self.mean, self.generation = empty.tries, empty.uses, None, ""


def trim(table: dict[Any, Any], limit: int) -> None:
    """Drop the first entries beyond `limit`."""
    while len(table) > limit:
        del table[next(iter(table))]


def save(memory: BanditMemory, path: Path) -> None:
    """Write the memory atomically: a killed process leaves the old or the new file. Raises OSError.

    Without fsync: a power failure may cost the file, and then what was learnt is learnt again.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        np.savez(file, **_arrays(memory))
    os.replace(fresh, path)


def load(path: Path) -> BanditMemory:
    """The stored memory; an empty one where there is no file. Raises HomeError where the file may not be read.

    A file that is damaged, or was learnt for other templates, is moved aside with a warning and replaced: a running
    agent is worth more than what was learnt.
    """
    try:
        with path.open("rb") as file:
            return _read(file)
    except FileNotFoundError:
        return BanditMemory()
    except OSError as error:
        raise HomeError(f"what the mind learnt cannot be read from {path}: {error.strerror}") from error
    except Exception as error:  # numpy has no common exception class for malformed files
        _set_aside(path, error)
        return BanditMemory()


def forget_old_memory(path: Path) -> int:
    """Delete the memory of an earlier version beside `path` or in its place; how many files there were. Earlier
    versions kept words of what they read, and nothing else of these files is used. Raises OSError."""
    aside, gone = _aside(path), 0
    if path.exists() and not _is_of_this_layout(path):
        path.unlink()
        gone += 1
    if aside.exists():
        aside.unlink()
        gone += 1
    return gone


def _is_of_this_layout(path: Path) -> bool:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return str(arrays["layout"]) == LAYOUT
    except Exception:  # numpy has no common exception class for malformed files
        return False


@dataclass(frozen=True)
class LearningProgress:
    """Statistics of what the bandit has learnt."""

    choices: int
    """Decisions that the bandit made."""
    waiting: int
    """Decisions, of the last ones, that await their reward."""
    calls: int
    """Different calls that it remembers."""
    templates: dict[str, tuple[int, float]]
    """Per template: experiences, mean of their totals (0.0 without any)."""


def learnt(path: Path) -> LearningProgress | None:
    """Learning statistics read from the file, which is not changed, damaged or not.

    None where there is no file. Raises HomeError where it cannot be read, or was learnt for other templates.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            if str(arrays["layout"]) != LAYOUT:
                raise ValueError(OTHER_LAYOUT)
            tries = arrays["tries"].reshape(len(TEMPLATES), 2).tolist()
            revisions = arrays["decisions"].reshape(-1, 6)[:, 4]
            return LearningProgress(
                choices=int(arrays["counts"][0]),
                waiting=int((revisions == 0).sum()),
                calls=len(arrays["calls"]),
                templates={
                    template.name: (int(count), total / count if count else 0.0)
                    for template, (count, total) in zip(TEMPLATES, tries, strict=True)
                },
            )
    except FileNotFoundError:
        return None
    except Exception as error:  # numpy has no common exception class for malformed files
        raise HomeError(f"what the mind learnt cannot be read from {path}: {error}") from error


def _aside(path: Path) -> Path:
    return path.with_name(path.name + ".set-aside")


def _set_aside(path: Path, error: Exception) -> None:
    aside = _aside(path)
    try:
        os.replace(path, aside)
    except OSError as refused:
        raise HomeError(f"{path} is broken and cannot be set aside: {refused.strerror}") from error
    log.warning("reflex.memory_set_aside", file=str(path), moved_to=str(aside), error=str(error))


def _read(file: IO[bytes]) -> BanditMemory:
    with np.load(file, allow_pickle=False) as arrays:
        return _memory({name: arrays[name] for name in arrays.files})


class _MemoryArrays(TypedDict):
    """The arrays of the file, by their names in it."""

    layout: NDArray[Any]
    A: NDArray[Any]
    b: NDArray[Any]
    counts: NDArray[Any]
    tries: NDArray[Any]
    uses: NDArray[Any]
    lately: NDArray[Any]
    decisions: NDArray[Any]
    rewards: NDArray[Any]
    x: NDArray[Any]
    mean: NDArray[Any]
    staged: NDArray[Any]
    calls: NDArray[Any]
    generation: NDArray[Any]


def _arrays(memory: BanditMemory) -> _MemoryArrays:
    decisions, bandit = memory.decisions, memory.bandit
    table = [(cycle, d.template, d.reply, d.chosen_at, d.revision, d.goal) for cycle, d in decisions.items()]
    return {
        "layout": np.array(LAYOUT),
        "A": bandit.A,
        "b": bandit.b,
        "counts": np.array([bandit.choices, memory.noticed], dtype=np.int64),
        "tries": memory.tries,
        "uses": memory.uses,
        "lately": np.array([(key, went.success, went.discovery) for key, went in memory.lately.items()]),
        "decisions": np.array(table, dtype=np.int64),
        "rewards": np.array([(decision.reward, decision.credit) for decision in decisions.values()]),
        "x": np.array([decision.x.whole(SIZE) for decision in decisions.values()], dtype=np.float32),
        "mean": np.array([] if memory.mean is None else [memory.mean]),
        "staged": np.array(list(memory.staged), dtype=np.int64),
        "calls": np.array(list(memory.calls), dtype=np.int64),
        "generation": np.array(memory.generation),
    }


def _memory(found: dict[str, NDArray[Any]]) -> BanditMemory:
    """The memory in these arrays. Raises for arrays that are not what `_arrays` makes."""
    if str(found["layout"]) != LAYOUT:
        raise ValueError(OTHER_LAYOUT)
    bandit, a = blank_bandit(), found["A"].reshape(SIZE, SIZE)
    bandit.b = found["b"].reshape(SIZE)
    if not (np.isfinite(a).all() and np.isfinite(bandit.b).all()):
        raise ValueError("it holds numbers that are not finite")
    bandit.A = a
    bandit.choices, noticed = (int(count) for count in found["counts"].tolist())
    x = found["x"].astype(np.float64).reshape(-1, SIZE)
    table = zip(found["decisions"].reshape(-1, 6).tolist(), found["rewards"].reshape(-1, 2).tolist(), x, strict=True)
    return BanditMemory(
        bandit=bandit,
        decisions={
            cycle: PendingDecision(template, reply, Sparse.of(x), chosen_at, goal, reward, credit, revision)
            for (cycle, template, reply, chosen_at, revision, goal), (reward, credit), x in table
        },
        lately={int(key): TemplateRecord(success, discovery) for key, success, discovery in found["lately"].tolist()},
        tries=found["tries"].reshape(len(TEMPLATES), 2),
        uses=found["uses"].reshape(len(GROUPS)),
        mean=float(found["mean"][0]) if found["mean"].size else None,
        calls=dict.fromkeys(found["calls"].tolist()),
        noticed=noticed,
        staged=dict.fromkeys(found["staged"].tolist()),
        generation=str(found["generation"]),
    )
