"""Secrets that show by a form of their own, whatever stands before them: tokens of known services, private keys."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

Span = tuple[int, int]
"""Where a secret begins and ends in a text."""

_FORMS: Final = r"""
gh[opsur]_[A-Za-z0-9]{30,255}
github_pat_%{40,255}
gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct|wt)-[A-Za-z0-9_.-]{16,300}
GR1348941%{18,64}
(?:sk|rk)[-_](?:live|test|proj|ant|or|svcacct|admin|lf|org|prod)?[-_]?(?:v1-|api\d\d-|admin\d\d-)?%{16,300}
whsec_[A-Za-z0-9+/=]{20,100}
xox[abcdeprs](?:\.xox[bp])?-%{10,255}
xapp-%{16,255}
(?:A3T[A-Z0-9]|AKIA|ABIA|ACCA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])
AIza%{35}
ya29\.%{20,2000}
GOCSPX-%{20,40}
1//0%{30,200}
npm_[A-Za-z0-9]{30,60}
pypi-A%{30,500}
(?:api_org|hf)_[A-Za-z0-9]{30,60}
do[opr]_v1_[a-f0-9]{40,80}
shp(?:at|ss|ca|pa|tka)_[A-Fa-f0-9]{32}
SG\.%{16,32}\.%{30,60}
key-[0-9a-f]{32}
xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}
sq0(?:atp|csp|idp)-%{20,60}
EAAA[A-Za-z0-9+/=_-]{56,200}
SK[0-9a-f]{32}
dckr_(?:pat|oat)_%{20,60}
lin_(?:api|oauth)_[A-Za-z0-9]{32,80}
fig[dour]_%{30,80}
(?:ntn|secret)_[A-Za-z0-9]{32,60}
AT(?:ATT|CTT)3[A-Za-z0-9_=-]{40,300}
ATBB[A-Za-z0-9]{24,40}
nvapi-%{40,100}
gsk_[A-Za-z0-9]{32,80}
r8_[A-Za-z0-9]{30,60}
(?:pplx|xai|tvly|csk|fw|esecret|tgp_v1)[-_]%{24,200}
AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{40,120}
hv[sbr]\.%{20,300}
PMAK-[a-f0-9]{20,30}-[a-f0-9]{30,40}
rubygems_[a-f0-9]{40,60}
gl(?:sa|c)_[A-Za-z0-9+/=_]{30,400}
NR(?:AK|JS|II|AA|AL|RA)-[A-Za-z0-9]{16,60}
sntr[yu]s?u?_[A-Za-z0-9+/=_.-]{40,500}
dapi[a-f0-9]{32}(?:-\d)?
CFPAT-%{40,60}
pscale_(?:tkn|pw|oauth|pass)_[A-Za-z0-9_.=-]{30,80}
tskey-(?:[a-z]{2,10}-)?%{16,100}
f(?:o1_|m[12][a-z]?_)%{40,600}
HRKU-%{30,80}
sbp_[a-f0-9]{40}|sb_secret_%{20,60}
pat[A-Za-z0-9]{14}\.[a-f0-9]{60,70}
EZ[AT]K[a-f0-9A-Za-z]{50,60}
dp\.(?:st|pt|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,48}
S[UAONCX][A-Z2-7]{56}(?![A-Z2-7])
ops_eyJ%{50,2000}
eyJ%{8,4000}\.%{8,8000}(?:\.%{0,4000}){0,3}
[0-9]{8,11}:AA%{32,36}
[MNO]%{22,30}\.%{6}\.%{27,50}
[A-Za-z0-9]{3}[0-9]Q~[A-Za-z0-9_.~-]{30,40}
LTAI[A-Za-z0-9]{16,24}
AKID[A-Za-z0-9]{28,36}
AQVN%{35,40}
y[0-3]_%{50,60}
(?:eu|us|ap)?cio[a-z]*_[A-Za-z0-9]{30,60}
duffel_(?:test|live)_[A-Za-z0-9_=-]{40,50}
(?:access|refresh)[-_](?:sandbox|development|production)-[0-9a-f-]{36}
APP_USR-[0-9A-Za-z-]{40,100}
[a-z]{2,8}[-_](?:live|prod|secret|pat|sk)[-_][A-Za-z0-9]{20,200}
bkua_[a-z0-9]{40}
CCIPAT_[A-Za-z0-9_]{40,100}
phx_[A-Za-z0-9]{40,60}
patch?[-_][a-f0-9]{32,40}
vercel_[A-Za-z0-9]{24}|vc[pkiar]_[A-Za-z0-9]{24,80}
re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,30}
lsv2_[a-z]{2}_[a-f0-9]{32}_[a-f0-9]{10}
[5KLc][1-9A-HJ-NP-Za-km-z]{50,51}(?![A-Za-z0-9])
xprv[1-9A-HJ-NP-Za-km-z]{100,112}
"""
"""A pattern of a service's tokens on each line; `%` is a letter, a digit, `_` or `-`."""
_TOKEN: Final = re.compile(f"(?<![A-Za-z0-9])(?:{'|'.join(_FORMS.replace('%', '[A-Za-z0-9_-]').split())})")
_LONG: Final = b"w" * 16
_RUNS: Final = (
    bytes(b"w"[0] if chr(code).isalnum() or chr(code) in "_-" else b" "[0] for code in range(128)) + b" " * 128
)
_LINKS: Final = (
    ("hooks.slack", r"\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/-]{20,200})"),
    ("/api/webhooks/", r"\d{5,25}/([A-Za-z0-9_-]{20,120})"),
    ("webhook.office", r"\.com/(?:webhookb2/)?([\w@/-]{40,300})"),
    ("api.telegram.org/bot", r"(\d{6,12}:[A-Za-z0-9_-]{20,60})"),
    ("hooks.zapier.com/hooks/catch/", r"([\w/]{8,80})"),
    ("maker.ifttt.com/trigger/", r"[\w-]{1,80}/(?:json/)?with/key/([\w-]{16,80})"),
)
"""Addresses that let in whoever knows them, after what each begins with."""
_LINK: Final = tuple((begin, re.compile(pattern)) for begin, pattern in _LINKS)
_HASH: Final = re.compile(
    r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:id|i|d)|scrypt|pbkdf2[\w-]{0,20})\$[^\s:\"'`<>]{16,300}"
)

_BEGIN: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?|USER NKEY SEED|NATS USER JWT|OpenVPN Static key V1)-----|"
    r"Private-Lines: \d{1,3}"
)
_END: Final = re.compile(
    r"-----END (?:[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?|USER NKEY SEED|NATS USER JWT|OpenVPN Static key V1)-----|"
    r"------END (?:USER NKEY SEED|NATS USER JWT)------|Private-MAC: [0-9a-f]{40,64}"
)
_KEY_LENGTH: Final = 20_000
"""Most characters between the two lines of a private key; one that is cut off may end with the text."""


def shows_token(text: str) -> bool:
    """Whether the text may hold a token by its form, or a private key: true for each that does, and for few others."""
    return (
        _LONG in text.encode("ascii", "replace").translate(_RUNS)
        or "-----" in text
        or "Private-Lines" in text
        or ("$" in text and _HASH.search(text) is not None)
        or ("." in text and any(begin in text for begin, _ in _LINK))
    )


def token_spans(text: str) -> Iterator[Span]:
    """Tokens of known services."""
    if "." in text:
        for begin, pattern in _LINK:
            at = text.find(begin)
            while at >= 0:
                if match := pattern.match(text, at + len(begin)):
                    yield match.span(1)
                at = text.find(begin, at + len(begin))
    if "$" in text:
        for match in _HASH.finditer(text):
            yield match.span()
    runs = text.encode("ascii", "replace").translate(_RUNS)
    start, done = runs.find(_LONG), 0
    while start >= 0:
        end = runs.find(b" ", start)
        for at in _starts(text, start, done):
            if match := _TOKEN.match(text, at):
                done = match.end()
                yield match.span()
                break
        start = runs.find(_LONG, max(done, end)) if end >= 0 else -1


def _starts(text: str, at: int, least: int) -> Iterator[int]:
    """Where a token may begin whose first long run stands at a place: there, or before it, behind a shorter run."""
    yield at
    if text[at - 1 : at] == "%":  # of a percent-encoded sign
        yield at + 2
    first = max(least, at - 36)
    while at > first and (text[at - 1].isascii() and (text[at - 1].isalnum() or text[at - 1] in "_.:/~-")):
        at -= 1
        if at == first or not text[at - 1].isalnum():
            yield at


def key_block_spans(text: str) -> Iterator[Span]:
    """Private keys of many lines, also where their end or their beginning was cut off."""
    if "-----" not in text and "Private-Lines" not in text:
        return
    begins, ends = list(_BEGIN.finditer(text)), [match.span() for match in _END.finditer(text)]
    done = 0
    for begin in begins:
        if begin.start() < done:
            continue
        place = bisect_left(ends, (begin.end(), 0))
        if place < len(ends) and ends[place][0] <= begin.end() + _KEY_LENGTH:
            done = ends[place][1]
        elif len(text) <= begin.end() + _KEY_LENGTH:
            done = len(text)
        else:
            continue
        yield begin.start(), done
    yield from _headless(text, begins, ends)


def _headless(text: str, begins: list[re.Match[str]], ends: list[Span]) -> Iterator[Span]:
    """The rest of a key whose first line was cut off: the lines of base64 before its last line."""
    starts = [begin.start() for begin in begins]
    for number, (start, end) in enumerate(ends):
        before = ends[number - 1][1] if number else 0
        place = bisect_left(starts, start) - 1
        if place >= 0 and starts[place] >= before:
            continue
        at = start
        for line in reversed(text[max(before, start - _KEY_LENGTH) : start].splitlines(keepends=True)):
            if not re.fullmatch(r"[\s>|]*[A-Za-z0-9+/=:-]*[\s\\nr]*", line):
                break
            at -= len(line)
        if start - at >= 16:
            yield at, end
