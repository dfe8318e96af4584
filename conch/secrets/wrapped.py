"""Values that go on behind the end of a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from conch.secrets.forms import Span
from conch.secrets.names import Grade
from conch.secrets.values import is_secret

_WRAP: Final = re.compile(
    r"(?:[ ][>|][ ]|\\[ ])(?P<joined>[A-Za-z0-9+/=_-]{8,4096})(?=[ ]|\Z)"
    r"|[ \t\0]{0,40}\\?\n(?:[ \t\0]{0,40}[>|#])*[ \t\0]{0,80}"
    r"(?P<rest>(?<=> )(?=[A-Z0-9]{2,6}[ ]*(?:\n|\Z))[A-Z0-9]{2,6}"
    r"|[A-Za-z0-9+/=_.~%!@^*?-]{4,4096})[\"'`,;]{0,3}(?=[ \t\0]{0,40}\\?(?:\n|\Z))"
)
_LINES: Final = 40
"""Most further lines of a value."""
_SHORT: Final = 6
"""Characters of the last part of a value in a quote that may be capitals and digits alone."""
_WORDS: Final = frozenset(("EOF", "END", "OK", "YES", "NO", "TODO", "DONE"))
_RANDOM: Final = re.compile(r"\d|[a-z][A-Z]|[+/=]")


def with_wrapped_lines(view: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Each span, and each further line of its value: a line that has nothing else, behind quote marks (`>`) or
    not, also where line ends became blanks."""
    for span in spans:
        yield span
        end = span[1]
        for _ in range(_LINES):
            match = _WRAP.match(view, end)
            if match is None or match.lastgroup is None or not _goes_on(match[match.lastgroup]):
                break
            yield match.span(match.lastgroup)
            end = match.end(match.lastgroup)


def _goes_on(rest: str) -> bool:
    if len(rest) <= _SHORT and rest.upper() == rest:
        return rest not in _WORDS
    return _RANDOM.search(rest) is not None and is_secret(rest, Grade.PASSWORD, is_literal=False)
