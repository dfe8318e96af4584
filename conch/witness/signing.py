"""Checkpoints: Ed25519 signatures over the head of a chain, kept in the home and made with a key outside it.

A chain whose every hash was made anew still links; it does not fit the checkpoints that were signed before. Whoever can
read the secret key can sign another chain: keep it, or the public key at least, on a machine of its own.
"""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conch.errors import UsageError
from conch.files import read_plain
from conch.home import write_whole
from conch.witness.canonical import canonical
from conch.witness.verify import MarkProblem, Verification
from conch_schemas import Mark

if TYPE_CHECKING:
    from nacl.signing import SigningKey

EVERY: Final = 1000
"""Marks from one checkpoint to the next within a run."""
SECRET, PUBLIC = "conch-witness-secret-key", "conch-witness-public-key"
"""First words of a key file; the key's 32 bytes follow in base64."""
MOST_BYTES: Final = 1024
"""Most bytes of a key file."""
MOST_CHECKPOINTS: Final = 64 * 2**20
"""Most bytes of a checkpoint file: some 200,000 checkpoints."""


class SignedHead(BaseModel):
    """The head of one agent's chain at one time, signed."""

    model_config = ConfigDict(frozen=True)

    agent: str
    count: int = Field(ge=1)
    """Marks in the chain: the last one's sequence and one."""
    hash: str
    """Of the last mark."""
    time: datetime
    key: str
    """The public key, base64."""
    signature: str = ""
    """Ed25519 over the canonical JSON of the other fields, base64."""

    def message(self) -> bytes:
        """The bytes that are signed."""
        return canonical(self.model_dump_json(exclude={"signature"}))

    def is_valid(self) -> bool:
        """Whether the signature is the key's own."""
        from nacl.exceptions import BadSignatureError
        from nacl.signing import VerifyKey

        try:
            VerifyKey(base64.b64decode(self.key, validate=True)).verify(
                self.message(), base64.b64decode(self.signature, validate=True)
            )
        except (BadSignatureError, ValueError, TypeError):
            return False
        return True


class Head(Protocol):
    """Reads the stored chain of an agent."""

    def __call__(self, agent: str, sequence: int | None) -> Mark | None:
        """The stored mark of this sequence, None for the last one; None where there is none."""


class CheckpointFile:
    """The checkpoints of a home, one JSON line each, appended and synced to disk."""

    def __init__(self, home: Path) -> None:
        self.path = home / "checkpoints.jsonl"

    def append(self, checkpoint: SignedHead) -> None:
        """Add a checkpoint. Raises OSError."""
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # A line that a crash cut off must not swallow this one: blank lines are passed over.
            os.write(handle, b"\n" + checkpoint.model_dump_json().encode() + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self, agent: str) -> Iterator[SignedHead]:
        """The checkpoints of an agent, oldest first; a line that is none is passed over. Raises OSError."""
        try:
            text = read_plain(self.path, MOST_CHECKPOINTS)
        except FileNotFoundError:
            return
        for line in text.splitlines():
            with contextlib.suppress(ValidationError):
                if line and (one := SignedHead.model_validate_json(line)).agent == agent:
                    yield one


class Signer:
    """Signs the heads of a home's chains, as marks are stored.

    A mark that does not follow the head that is known is not signed, nor is a chain that does not fit its own last
    checkpoint: a signature says that the chain grew from what was signed before.
    """

    def __init__(self, key: SigningKey, file: CheckpointFile, head: Head, clock: Callable[[], datetime]) -> None:
        self._key, self._file, self._head, self._clock = key, file, head, clock
        self._public = base64.b64encode(bytes(key.verify_key)).decode()
        self._heads: dict[str, tuple[int, str]] = {}
        """Agent -> (count, hash) of the chain as it was stored."""
        self._signed: dict[str, int] = {}
        """Agent -> count of its last checkpoint."""
        self.refused: list[str] = []
        """A sentence for each chain that does not fit its last checkpoint, since the list was last cleared."""

    def stored(self, marks: Iterable[Mark]) -> None:
        """Take marks that were just stored, in order; sign every EVERY of an agent. Raises OSError."""
        for mark in marks:
            if mark.agent not in self._signed:
                self._begin(mark.agent)
                if not self._signed[mark.agent]:
                    self._sign(mark.agent)  # at once: a chain that has no checkpoint is one of which they were removed
                continue
            count, previous = self._heads.get(mark.agent, (0, ""))
            if (mark.sequence, mark.previous) == (count, previous) or count == mark.sequence == 0:
                self._heads[mark.agent] = (count + 1, mark.hash)
                if count + 1 - self._signed[mark.agent] >= EVERY:
                    self._sign(mark.agent)

    def end(self, agents: Iterable[str]) -> None:
        """Sign what was stored since the last checkpoint of each agent. Raises OSError."""
        for agent in agents:
            if agent not in self._signed:
                self._begin(agent)
            self._sign(agent)

    def _begin(self, agent: str) -> None:
        """Find the agent's head in the store, and whether its last checkpoint fits the chain."""
        last = self._head(agent, None)
        self._heads[agent] = (0, "") if last is None else (last.sequence + 1, last.hash)
        self._signed[agent] = 0
        for checkpoint in reversed([one for one in self._file.read(agent) if one.key == self._public]):
            if not checkpoint.is_valid():
                continue
            there = self._head(agent, checkpoint.count - 1)
            if (there is not None and there.hash != checkpoint.hash) or checkpoint.count > self._heads[agent][0]:
                self._heads.pop(agent)
                self.refused.append(
                    f"the chain of {agent} is not what was signed at mark {checkpoint.count - 1}: it is not signed any "
                    "more, conch mark verify --key says what is wrong"
                )
            self._signed[agent] = checkpoint.count
            break

    def _sign(self, agent: str) -> None:
        count, digest = self._heads.get(agent, (0, ""))
        if count <= self._signed[agent]:
            return
        head = SignedHead(agent=agent, count=count, hash=digest, time=self._clock(), key=self._public)
        signature = base64.b64encode(self._key.sign(head.message()).signature).decode()
        self._file.append(head.model_copy(update={"signature": signature}))
        self._signed[agent] = count


def key_file() -> Path:
    """The path of the key that marks are signed with, by the XDG base directories."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(config) if os.path.isabs(config) else Path.home() / ".config") / "conch" / "witness.key"


def signing_key(file: Path) -> SigningKey:
    """The secret key in `file`, which is made where it is missing (mode 0600), with its public key beside it.

    Raises UsageError where it cannot be read or made.
    """
    from nacl.signing import SigningKey

    with contextlib.suppress(FileNotFoundError):
        kind, key = _key_in(file)
        if kind != SECRET:
            raise UsageError(f"{file} holds a public key, and marks are signed with the secret one: put that back")
        return SigningKey(key)
    made = SigningKey.generate()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(f"{SECRET} {base64.b64encode(bytes(made)).decode()}\n")
            stream.flush()
            os.fsync(handle)
        write_whole(file.with_suffix(".pub"), f"{PUBLIC} {base64.b64encode(bytes(made.verify_key)).decode()}\n", 0o644)
    except FileExistsError:
        return signing_key(file)  # another run made it meanwhile
    except OSError as error:
        raise UsageError(f"the key {file} cannot be made ({error.strerror}): mend its directory's rights") from None
    return made


def public_key(file: Path) -> str:
    """The public key of a file that holds it or the secret one, base64. Raises UsageError."""
    from nacl.signing import SigningKey

    try:
        kind, key = _key_in(file)
    except FileNotFoundError:
        raise UsageError(f"--key {file}: there is no such file; conch run makes {key_file()}") from None
    return base64.b64encode(bytes(SigningKey(key).verify_key) if kind == SECRET else key).decode()


def _key_in(file: Path) -> tuple[str, bytes]:
    """(SECRET or PUBLIC, the key). Raises FileNotFoundError, and UsageError for any other failure."""
    try:
        kind, _, text = read_plain(file, MOST_BYTES).decode("ascii").strip().partition(" ")
        key = base64.b64decode(text, validate=True)
        if kind not in (SECRET, PUBLIC) or len(key) != 32:
            raise ValueError
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"the key {file} cannot be read ({error.strerror}): mend its rights") from None
    except ValueError:
        raise UsageError(
            f"{file} holds no key of the witness ({SECRET} or {PUBLIC}, then 32 bytes in base64): put the right one "
            "back, or move it away to have a new one made"
        ) from None
    return kind, key


def signature_problems(
    chain: Verification, checkpoints: Sequence[SignedHead], key: str
) -> tuple[list[MarkProblem], SignedHead | None]:
    """What the checkpoints of this public key find wrong with the chain, and the last one that fits it.

    A checkpoint of a removed mark is passed over; so is one of another key.
    """
    problems: list[MarkProblem] = []
    fits: SignedHead | None = None
    passed = False
    for one in checkpoints:
        if one.key != key:
            continue
        sequence, when = one.count - 1, f"{one.time:%Y-%m-%d %H:%M:%S}"
        if not one.is_valid():
            what = f"The checkpoint at mark {sequence} of {when} does not bear the key's signature."
        elif sequence < chain.start - 1:
            passed = True
            continue
        elif (there := chain.head(sequence)) is None:
            what = f"Mark {sequence} is missing, which was signed on {when}."
        elif there != one.hash:
            what = f"Mark {sequence} is not the one that was signed on {when}: the chain was made anew."
        else:
            fits = one
            continue
        problems.append(MarkProblem("forged", chain.agent, sequence, what))
    if fits is None and not problems and not passed and chain.length:
        problems.append(
            MarkProblem("unsigned", chain.agent, None, "No checkpoint of the chain bears this key's signature.")
        )
    return problems, fits
