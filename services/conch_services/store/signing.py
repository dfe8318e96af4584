"""Signing the chains of a home while their marks are stored, and what is said where they cannot be signed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from conch.errors import UsageError
from conch.experience import ExperienceStore
from conch.log import get_logger
from conch.witness import CheckpointFile, Signer, key_file, signing_key
from conch_schemas import Event, Mark, MarkWitnessed

log = get_logger(__name__)


class CheckpointSigning:
    """Signs every 1,000 marks of a chain and each chain's head at the end of a run.

    Where that fails, the run goes on unsigned: `tell` gets one sentence, and `conch mark verify --key` says up to where
    the chain is signed.
    """

    def __init__(self, home: Path, tell: Callable[[str], None]) -> None:
        self._home, self._tell = home, tell
        self._signer: Signer | None = None
        self._store: ExperienceStore | None = None

    def open(self, store: ExperienceStore) -> None:
        """Sign the chains of the agents that this store's writer owns from now on, with the key of the person's
        configuration directory."""
        self._store, self._signer = store, None
        try:
            key = signing_key(key_file())
        except (UsageError, RuntimeError) as error:  # RuntimeError: there is no home directory
            self._unsigned(str(error))
            return
        self._signer = Signer(key, CheckpointFile(self._home), self._mark, lambda: datetime.now(UTC))

    def stored(self, events: Iterable[Event]) -> None:
        """Take the marks among the events that were just stored."""
        if self._signer is not None:
            marks = [event.mark for event in events if isinstance(event, MarkWitnessed)]
            self._signed(lambda signer: signer.stored(marks))

    def end(self) -> None:
        """Sign the heads of these chains."""
        if self._signer is not None and self._store is not None:
            agents = filter(self._store.has, self._store.agents())
            self._signed(lambda signer: signer.end(agents))

    def _signed(self, sign: Callable[[Signer], None]) -> None:
        signer = self._signer
        assert signer is not None
        try:
            sign(signer)
        except OSError as error:
            self._signer = None
            self._unsigned(f"the checkpoint cannot be written ({error.strerror}): mend {error.filename or self._home}")
        for sentence in signer.refused:
            log.error("store.chain_unsigned", why=sentence)
            self._tell(sentence)
        signer.refused.clear()

    def _unsigned(self, why: str) -> None:
        sentence = f"marks are not signed: {why}"
        log.warning("store.unsigned", why=sentence)
        self._tell(sentence)

    def _mark(self, agent: str, sequence: int | None) -> Mark | None:
        assert self._store is not None
        at = self._store.chain.last_mark(agent) if sequence is None else sequence
        found = next(iter(self._store.chain.marks(agent, at)), None) if at is not None else None
        return found if found is not None and found.sequence == at else None
