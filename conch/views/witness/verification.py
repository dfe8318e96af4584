"""The verification of an agent's marks: the check and its view, for `conch mark verify --json` and the pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from conch.errors import HomeError
from conch.experience import Removal, StreamLoss
from conch.home import Home
from conch.views.base import View
from conch.views.witness.sealed import Compared
from conch.witness import (
    ChainStart,
    CheckpointFile,
    ForgottenRecords,
    MarkProblem,
    SignedHead,
    Verification,
    key_file,
    public_key,
    signature_problems,
)


class MarkRemoval(View):
    """Marks that were removed on one day for one reason."""

    why: str
    """The setting that they were removed by."""
    first: int | None
    """Sequence of the first mark."""
    last: int | None
    time: str


class RemovedMarks(View):
    """The marks that store.keep removed from the chain."""

    first: int
    """Sequence of the first of them."""
    last: int
    marks: int
    """How many there were."""
    hash: str
    """The last removed mark's hash: the chain goes on from it."""
    removals: tuple[MarkRemoval, ...]


class ForgottenActs(View):
    """What was removed at people's requests."""

    requests: int
    acts: int
    marks: int
    """Marks that are without their words, with the hashes that they had."""
    last: str
    """When the last removal was, in ISO 8601."""


class Verified(View):
    """The result of a verification, as the HTTP API answers it."""

    schema_: Literal["conch.v1.verification"] = Field(default="conch.v1.verification", alias="schema")
    agent: str
    ok: bool
    """Whether nothing was found wrong."""
    acts: int
    marks: int
    waiting: int
    """Acts that have no mark yet."""
    removed: RemovedMarks | None
    forgotten: ForgottenActs | None = None
    """None: nothing was removed at a person's request."""
    compared: Compared | None = None
    """How much of what the marks seal was compared."""
    problems: tuple[MarkProblem, ...]


class Signed(View):
    """The checkpoints of a chain, checked with one key."""

    checkpoints: int
    """How many bear the key's signature and fit the chain, or are of removed marks."""
    upto: int | None
    """Sequence of the last mark that one of them signs; None: there is none."""
    time: str | None
    """When that one was signed."""
    key: str = ""
    """File of the key; empty: there was none, and the checkpoints were checked with the keys that they name."""


class VerifiedLocally(Verified):
    """The result of a verification, as `conch mark verify --json` prints it."""

    lost: tuple[StreamLoss, ...]
    """Streams before this one that were lost."""
    signed: Signed | None = None
    """None: there is neither a key nor a checkpoint."""


def signed_by(home: Home, chain: Verification, key: Path | None) -> tuple[Signed | None, list[MarkProblem]]:
    """The home's checkpoints of the chain, checked with a key, and what they find wrong.

    `key`: a file with a secret or a public key. None: the key that runs on this machine sign with; where there is none,
    the keys that the checkpoints name, which shows only that the home agrees with itself. (None, []) where there is no
    key and no checkpoint. Raises HomeError, and UsageError for a key that cannot be read.
    """
    file = CheckpointFile(home.path)
    try:
        checkpoints = list(file.read(chain.agent))
    except OSError as error:
        raise HomeError(f"{file.path} cannot be read ({error.strerror}): mend its rights") from None
    own = key_file() if key is None else key
    if key is None and not own.exists():
        return _signed_by_itself(chain, checkpoints)
    public = public_key(own)
    known = [checkpoint for checkpoint in checkpoints if checkpoint.key == public]
    problems, last = signature_problems(chain, known, public)
    if problems and not known and checkpoints:
        what = (
            f"The checkpoints of {chain.agent} bear another key's signature than {own}: name the key of the machine "
            "that ran the agent with --key."
        )
        problems = [MarkProblem("unsigned", chain.agent, None, what)]
    return _signed(known, problems, last, str(own)), problems


def _signed_by_itself(
    chain: Verification, checkpoints: Sequence[SignedHead]
) -> tuple[Signed | None, list[MarkProblem]]:
    problems: list[MarkProblem] = []
    last: SignedHead | None = None
    for public in dict.fromkeys(checkpoint.key for checkpoint in checkpoints):
        wrong, fits = signature_problems(chain, checkpoints, public)
        problems += wrong
        last = fits or last
    return (_signed(checkpoints, problems, last, "") if checkpoints else None), problems


def _signed(
    checkpoints: Sequence[SignedHead], problems: Sequence[MarkProblem], last: SignedHead | None, key: str
) -> Signed:
    good = len(checkpoints) - len(problems) if checkpoints else 0
    upto, time = (None, None) if last is None else (last.count - 1, last.time.isoformat())
    return Signed(checkpoints=max(0, good), upto=upto, time=time, key=key)


def signed_words(signed: Signed | None) -> str:
    """Up to where the chain is signed, in a sentence."""
    if signed is None:
        return (
            f"signatures were not checked: the home has no checkpoint, and there is no key {key_file()}; without them "
            "whoever can write in the home could have made the whole chain anew"
        )
    if signed.upto is None:
        return "no checkpoint of this key fits the chain"
    said = f"signed up to mark {signed.upto} on {signed.time} ({signed.checkpoints} checkpoints)"
    if signed.key:
        return said
    return (
        f"{said}, by the key that the checkpoints name themselves: whoever can write in the home could have made them; "
        "conch mark verify --key FILE checks them with the key of the machine that ran the agent"
    )


def chain_start(removals: Iterable[Removal]) -> ChainStart | None:
    """The start of the chain behind the removed marks; None where none was removed."""
    ends = [
        (one.last_mark, one.first_mark, one.hash)
        for one in removals
        if one.first_mark is not None and one.last_mark is not None and one.hash is not None
    ]
    if not ends:
        return None
    last, _, digest = max(ends)
    return ChainStart(min(first for _, first, _ in ends), last + 1, digest)


def removed_marks_words(removals: Sequence[Removal]) -> str:
    """The removed marks in words, and where the chain goes on; empty where none was removed."""
    start = chain_start(removals)
    if start is None:
        return ""
    days = sorted(f"{one.time:%Y-%m-%d}" for one in removals if one.marks)
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    last = start.sequence - 1
    which = f"mark {last} was" if start.first == last else f"marks {start.first} to {last} were"
    return f"{which} removed by store.keep {when}, the chain goes on from hash {start.previous[:12]}…"


def forgotten_acts(records: ForgottenRecords) -> ForgottenActs | None:
    """What these records come to; None where there is none."""
    if not (requests := records.requests):
        return None
    last = requests[-1].time.isoformat()
    return ForgottenActs(requests=len(requests), acts=len(records.actions), marks=records.marks, last=last)


def forgotten_words(found: ForgottenActs) -> str:
    """What was removed at people's requests, in a line."""
    times = "at a person's request" if found.requests == 1 else f"at {found.requests} requests of people"
    return f"{found.acts} acts and the words of {found.marks} marks were removed {times}, last on {found.last[:10]}"


def verification(
    agent: str,
    problems: Sequence[MarkProblem],
    *,
    acts: int,
    marks: int,
    waiting: int,
    removals: Sequence[Removal] = (),
    forgotten: ForgottenRecords | None = None,
    compared: Compared | None = None,
) -> Verified:
    """The findings about the marks of a number of acts, `waiting` of which have no mark yet."""
    return Verified(
        agent=agent,
        ok=not problems,
        acts=acts,
        marks=marks,
        waiting=waiting,
        removed=_removed(removals),
        forgotten=None if forgotten is None else forgotten_acts(forgotten),
        compared=compared,
        problems=tuple(problems),
    )


def _removed(removals: Sequence[Removal]) -> RemovedMarks | None:
    start = chain_start(removals)
    if start is None:
        return None
    rows = [
        MarkRemoval(why=one.why, first=one.first_mark, last=one.last_mark, time=one.time.isoformat())
        for one in removals
        if one.marks
    ]
    return RemovedMarks(
        first=start.first,
        last=start.sequence - 1,
        marks=sum(one.marks for one in removals),
        hash=start.previous,
        removals=tuple(rows),
    )
