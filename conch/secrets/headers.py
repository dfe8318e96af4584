"""Secrets in the headers of HTTP: credentials, bearer tokens, cookies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from conch.secrets.forms import Span
from conch.secrets.names import Grade, grade_of, words_of
from conch.secrets.values import is_placeholder, is_secret
from conch.secrets.wrapped import with_wrapped_lines

_QUOTE: Final = re.compile(r"(?:[bBrRfFuU]?\0{0,8}[\"'`])?")
SCHEME: Final = re.compile(
    r"(?:bearer|basic|token|digest|api-?key|negotiate|splunk|ssws|googlelogin|jwt|dpop|hawk|aws4-hmac-sha256|sharedkey\w*"
    r"|oauth|key)(?:[ \t]+|=)(?:auth=)?",
    re.IGNORECASE,
)
"""The name of a scheme before credentials."""
_CREDENTIAL: Final = re.compile(r"[^\s\"'`<>\0,;\\]{4,2000}")
_NAMED_SCHEME: Final = re.compile(r"\0{0,8}[\"'`]?[A-Za-z][\w-]{2,40}[ ]{1,4}(?=\w{1,40}=)")
_PARAMETER: Final = re.compile(r"[ \t\0]{0,8},?[ \t\0]{0,8}(\w{1,40})=\0{0,8}\"?([^\s\",\0]{0,2000})\0{0,8}\"?")
_SECRET_PARAMETERS: Final = words_of("response signature oauth_signature oauth_token credential cnonce mac")
_COOKIE: Final = re.compile(r"[ \t\0]{0,8}([\w.$-]{1,80})(?:=([^\s;,\"'`\0]{0,4096}))?[ \t\0]{0,8}(;?)")
_BEARER: Final = re.compile(r"bearer[ \t]{1,8}", re.IGNORECASE)
_LEAST: Final = 12
"""Characters of a bearer token where no header is named."""
_LONG: Final = 16
"""Characters of a cookie from which it is looked at whatever its name is."""


def parameter_spans(view: str, at: int) -> tuple[list[Span], int]:
    """(The secrets among the parameters of credentials that begin at a place, where the last parameter ends)."""
    spans, begin = list[Span](), _NAMED_SCHEME.match(view, at)
    end = begin.end() if begin else at
    while match := _PARAMETER.match(view, end):
        end = match.end()
        if match[1].lower() in _SECRET_PARAMETERS and is_secret(match[2], Grade.STRONG, is_literal=True):
            spans.append(match.span(2))
    return spans, end


def credential_spans(view: str, at: int) -> Iterator[Span]:
    """What a header of credentials has behind the name of its scheme."""
    quote = _QUOTE.match(view, at)
    begin = quote.end() if quote else at
    scheme = SCHEME.match(view, begin)
    match = _CREDENTIAL.match(view, scheme.end() if scheme else begin)
    if match is None or is_placeholder(match[0]) or not is_secret(match[0], Grade.PASSWORD, is_literal=True):
        return
    if scheme or is_secret(match[0], Grade.STRONG, is_literal=False):
        start = match.start()
        yield from with_wrapped_lines(view, [(start, start + len(match[0].rstrip(")]}")))])


def bearer_span(view: str, at: int) -> Span | None:
    """The token behind the word `bearer` at a place; None where there is none."""
    begin = _BEARER.match(view, at)
    match = _CREDENTIAL.match(view, begin.end()) if begin else None
    value = match[0].rstrip(")]}.") if match else ""
    if match is None or len(value) < _LEAST or not is_secret(value, Grade.STRONG, is_literal=False):
        return None
    return match.start(), match.start() + len(value)


def cookie_spans(view: str, at: int) -> tuple[list[Span], int]:
    """(The values of cookies that are secrets, the end of the last cookie of a header that begins at a place)."""
    spans, quote = list[Span](), _QUOTE.match(view, at)
    end = quote.end() if quote else at
    while match := _COOKIE.match(view, end):
        if match[2] is None and not match[3]:  # no cookie and no attribute, but what stands behind the header
            break
        name, value, end = match[1], match[2] or "", match.end()
        grade = grade_of(name)
        is_looked_at = grade is not Grade.NONE or len(value) >= _LONG
        if is_looked_at and is_secret(value, max(grade, Grade.STRONG), is_literal=True):
            spans.append(match.span(2))
        if not match[3]:
            break
    return spans, end
