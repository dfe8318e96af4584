"""Witness: an audit trail with a hash-chained mark for every act, every score set and every alarm."""

from conch.witness.canonical import canonical, content_hash, mark_hash
from conch.witness.chain import CONSUMER, GENESIS, VERSION, ChainState, seal, under
from conch.witness.regained import regained
from conch.witness.verify import ChainStart, MarkProblem, Verification, verify
from conch.witness.words import Witnessed

__all__ = [
    "CONSUMER",
    "GENESIS",
    "VERSION",
    "ChainStart",
    "ChainState",
    "MarkProblem",
    "Verification",
    "Witnessed",
    "canonical",
    "content_hash",
    "mark_hash",
    "regained",
    "seal",
    "under",
    "verify",
]
