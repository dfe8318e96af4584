"""Claims: what a thought asserts, the verdict, and the sentence that it stands in."""

from __future__ import annotations

import re
from typing import Any

from conch.text import safe_text
from conch_schemas import Claim

AROUND = 300
"""Characters of a sentence that are read on each side of a match."""
_END = re.compile(r"[.!?](?=\s)|\n")


def claim(words: str, about: Any, verdict: Any, evidence: str) -> Claim:
    """A claim: the assertion and the evidence, each one line of at most 300 harmless characters."""
    return Claim(
        claim=safe_text(words, one_line=True)[:300],
        about=about,
        verdict=verdict,
        evidence=safe_text(evidence, one_line=True)[:300],
    )


def sentence(text: str, match: re.Match[str]) -> tuple[str, str]:
    """The words of its sentence before the match and after it, at most AROUND characters each."""
    before, after = text[max(0, match.start() - AROUND) : match.start()], text[match.end() : match.end() + AROUND]
    ends = [end.end() for end in _END.finditer(before)]
    end = _END.search(after)
    return before[ends[-1] if ends else 0 :].lstrip(), after[: end.start() if end else AROUND]
