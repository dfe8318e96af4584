"""Finds secrets in a text: by their own form, by the name before them, by the place where they stand.

The text is searched for a few fixed strings; a pattern is tried only where one of them stands, and looks at a bounded
number of characters from there. So the time grows with the length of the text, whatever the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from conch.secrets.forms import Span, key_block_spans, token_spans
from conch.secrets.names import Grade, grade_of
from conch.secrets.values import is_expression, is_placeholder, is_secret

HIDDEN: Final = "[secret hidden by Conch]"
"""What stands in a text in the place of a secret. No code and no prose holds it by chance."""
_SIGNS: Final = tuple(
    b"pass pwd pw secret token key cred auth cookie bearer session sid sig jwt mnemonic phrase connectionstring identified "
    b"webhook psw dsn pat csrf otp pin".split()
)
"""What stands in each name that is a secret's, in small letters."""
_ESCAPE: Final = re.compile(r"\\+(?:[\"'`/nrt&]|u00(?:2[267]|3[cdeCDE]|0[adAD]))")
_ESCAPED: Final = {"n": "\n", "r": "\n", "t": "\t", "u0022": '"', "u0027": "'", "u0026": "&", "u003c": "<", "u003e": ">", "u003d": "=", "u000a": "\n", "u000d": "\n"}  # fmt: skip
_NAME_BEFORE: Final = re.compile(r"[\w.$-]{0,60}\Z")
_NAME_BEHIND: Final = re.compile(r"[\w.$-]{0,60}")

_SP: Final = r"[ \t\0]{0,40}"
_Q: Final = r"(?:\0{0,8}[\"'`]{1,3}|&quot;|&\#0?3[49];|&apos;|%22|%27|\*\*)"
_EOL: Final = r"(?:[ \t\0]{0,40}\\?\n(?:[ \t\0]{0,40}[>|])*[ \t\0]{0,80})"
_TYPE: Final = rf"[A-Za-z_][\w.]{{0,40}}(?:\[[\w., |]{{0,40}}\])?(?:{_SP}\|{_SP}\w{{1,40}}){{0,3}}\??"
_EQUALS: Final = re.compile(
    rf"(?P<quote>{_Q})?[\])]?{_SP}(?:(?P<sign>:{_SP}{_TYPE}{_SP}=(?![=>])|=>|:=|\?=|\+=|={{1,3}}|!==?|->|＝|：|%3[dD]|:(?!//))|\|)"
    rf"{_SP}(?P<next>{_EOL})?"
)
"""Between a name and its value: `=`, `: `, `" => "`, `: str = `, `|`; at most one line end."""
_COMMA: Final = re.compile(rf"{_Q}{_SP},{_SP}(?={_Q})")
_ELEMENT: Final = re.compile(rf"{_Q}?[^<>\n]{{0,120}}>\s{{0,40}}(?:<(?:string|value|data)>)?")
_ATTRIBUTE: Final = re.compile(
    rf"{_Q}?[\s\0,;{{}}/>-]{{1,60}}(?:(?:type|description|sensitive|secure|valueFrom|isSecret|key)\"?{_SP}[=:]{_SP}[^\n]{{0,120}}\n[\s\0]{{0,40}}){{0,3}}"
    rf"(?:<)?{_Q}?(?:value|default|content|val|stringValue|plaintext|secretString|body)(?:>|{_Q}?{_SP}[=:]){_SP}",
    re.IGNORECASE,
)
_BLANK: Final = re.compile(r"(?:[ \t\0]{1,40}(?:=|(?:is|was|to|as|will be|should be|set to|of|BY)(?: now)?[ :]{1,3})?[ \t\0]{0,40})", re.IGNORECASE)
_OPEN: Final = re.compile(rf"[\[({{][\s\0]{{0,80}}(?={_Q})")
_PREFIX: Final = re.compile(r"(?:[bBrRfFuUlL]{1,2}|@|\$)?(?=\0{0,8}[\"'`])")
_QUOTE: Final = re.compile(r"\0{0,8}(\"\"\"|'''|[\"'`])|(&quot;|&\#0?3[49];|&apos;|%22|%27)")
_BLOCK: Final = re.compile(r"[|>][+-]?\d?[+-]?[ \t\0]*\n")
_ITEM: Final = re.compile(rf"[\s\0]{{0,80}},[\s\0]{{0,80}}(?={_Q})")
_DASHED: Final = re.compile(r"- {1,4}")
_LINE_BEGIN: Final = re.compile(
    r"(?:[^\n:]{1,120}:\d{1,7}[:-])?(?:[ \t\0>+|#*;\"'`-]|\d{1,6}[\t:)\-]|export |set |setx |setenv |declare -\w+ |local |readonly |env |ENV |ARG |let |const |var ){0,40}\Z"
)
_BARE: Final = re.compile(
    r"(?:[^\s\"'`<>\0&;,|\\]|\\(?![nrt\"'])|&(?!\w{1,40}=|amp;|\s|&)|[;,](?![\s\"'\])}]|\s{0,8}[\w. -]{1,40}[=:]|\Z))+"
)
_REST: Final = re.compile(r"[^\n\0]{0,4096}")
_COMMENT: Final = re.compile(r"\s+(?:#|//|;|--\s|/\*)[^\n]*\Z")
_SCHEME: Final = re.compile(
    r"(?:bearer|basic|token|digest|api-?key|negotiate|splunk|sswx?s?|googlelogin|jwt|dpop|hawk|aws4-hmac-sha256|sharedkey\w*|oauth|key)"
    r"(?:[ \t]+|=)(?:auth=)?",
    re.IGNORECASE,
)
_CREDENTIAL: Final = re.compile(r"[^\s\"'`<>\0,;\\]{4,8000}")
_PARAMETER: Final = re.compile(r"(response|signature|oauth_signature|oauth_token|credential|cnonce|mac)=\"?([^\s\",]{8,2000})", re.IGNORECASE)
_PAIR: Final = re.compile(r"([\w.$-]{1,80})=([^\s;,\"'`]{1,4096})")
_WRAP: Final = re.compile(
    r"[ \t\0]{0,40}\\?\n(?:[ \t\0]{0,40}[>|#])*[ \t\0]{0,80}(?P<rest>[A-Za-z0-9+/=_.~%!@^*?-]{4,4096})[\"'`,;]{0,3}(?=[ \t\0]{0,40}\\?(?:\n|\Z))"
)
_TAIL: Final = re.compile(r"[A-Za-z0-9+/=_-]*")
_USER_INFO: Final = re.compile(r"([^\s/\"'<>`@:?#\\\0]{0,256}):([^\s\"'<>`/\\\0]{1,512})@(?=[\w\[${%(*.-])")
_SLASHED_INFO: Final = re.compile(r"([^\s/\"'<>`@:?#\\\0]{0,256}):(?!\d{0,5}(?:[/?#]|$))([^\s\"'<>`\\\0]{1,200}?)@(?=[\w\[${%(*.-]+(?:[:/?,\"'\s]|$))")
_USER_ALONE: Final = re.compile(r"([^\s/\"'<>`@:?#\\\0]{16,400})@(?=[\w\[])")
_EXAMPLES: Final = frozenset("pass passwd password pwd pw secret token user username mypassword mypass xxx".split())
_PGPASS: Final = re.compile(r":(?:\d{2,5}|\*):[^:\s]{1,80}:[^:\s]{1,80}:([^\s\"'`]{4,400})(?=[\s\"'`\0]|\Z)")
_COMMANDS: Final = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (" -u", r"(?:=|[ \t]*)[\"'\0]{0,4}([^\s:\"'`\\/<>|]{1,120}):([^\s\"'`\0]{3,400})"),
        (" --user", r"(?:=|[ \t]+)[\"'\0]{0,4}([^\s:\"'`\\/<>|]{1,120}):([^\s\"'`\0]{3,400})"),
        (" --proxy-user", r"(?:=|[ \t]+)[\"'\0]{0,4}([^\s:\"'`\\/<>|]{1,120}):([^\s\"'`\0]{3,400})"),
        (" -U ", r"[\"'\0]{0,4}([^\s:%\"'`\\<>|]{1,120})%([^\s\"'`\0]{3,400})"),
        ("mysql", r"\w{0,12}\b([^\n|;&]{0,300}?)[ ]-p[\"'\0]{0,4}([^\s\"'`\0-][^\s\"'`\0]{4,200})"),
        ("mariadb", r"[\w-]{0,12}\b([^\n|;&]{0,300}?)[ ]-p[\"'\0]{0,4}([^\s\"'`\0-][^\s\"'`\0]{4,200})"),
        ("sshpass", r"([ \t]+)-p[ \t]*[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("redis-cli", r"([^\n|;&]{0,200}?)[ ]-a[ \t]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        (" login", r"([^\n|;&]{0,200}?)[ ]-p[ \t]*[\"'\0]{0,4}([^\s\"'`\0-][^\s\"'`\0]{4,400})"),
        ("ldap", r"\w{1,12}([^\n|;&]{0,300}?)[ ]-w[ \t]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("htpasswd", r"([ \t]+-\w*b\w*[ \t]+[^\s]{1,200}[ \t]+[^\s]{1,80}[ \t]+)[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("pass:", r"()([^\s\"'`\0]{4,200})"),
        ("openssl", r"([^\n|;&]{0,300}?)[ ]-k[ \t]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("net use", r"([^\n]{0,120}?)/user:[^\s]{1,80}[ \t]+[\"'\0]{0,4}([^\s\"'`\0/*]{4,200})"),
        ("ASIC_AUTH", r"\w*([\"'\]\0: =]{1,8})([^\s\"'`\0]{4,200})"),
    )
)
_TUPLE: Final = re.compile(
    r"(?:\W{0,4}=|[\"']?\s?:)?\s?\w{0,20}\(\s?[\"'][^\"'\n]{1,120}[\"'],\s?[\"']([^\"'\n]{4,400})[\"']", re.IGNORECASE
)
_TUPLES: Final = (b"auth", b"login", b"credentials")
_KUBERNETES: Final = re.compile(r"[\"']?kind[\"']?\s{0,8}:\s{0,8}[\"']?Secret\b(?!\w)[\"']?")
_DATA: Final = re.compile(r"^([ \t>|]*)(?:data|stringData):[ \t]*$", re.MULTILINE)
_DATA_JSON: Final = re.compile(r"[\"'](?:data|stringData)[\"']\s{0,8}:\s{0,8}\{([^{}]{0,20000})\}")
_ENTRY: Final = re.compile(r"[\w.-]+[\"']?[ \t]*:[ \t]*[\"']?([^\s\"']+(?: [^\s\"']+)*)")
_ENTRY_JSON: Final = re.compile(r":\s{0,8}\0{0,8}[\"']([^\"'\0]{1,20000})")
_JWK: Final = re.compile(r"\"(?:d|p|q|dp|dq|qi|k)\0{0,8}\"\s{0,8}:\s{0,8}\0{0,8}\"([\w-]{16,4000})")
_VALUE: Final = 4096
"""Most characters of a quoted value; a longer one is followed to the end of its letters and digits."""
_WRAPS: Final = 40
"""Most further lines of a value that is wrapped."""
_BEARER: Final = re.compile(r"bearer[ \t]{1,8}", re.IGNORECASE)


def secret_spans(text: str) -> list[Span]:
    """Where secrets stand in the text, in order and apart."""
    return _TextSearch(text).spans()


def hide_secrets(text: str) -> str:
    """The text with HIDDEN in the place of each secret; itself where there is none. Twice gives the same as once."""
    spans = secret_spans(text)
    if not spans:
        return text
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], HIDDEN]
        at = end
    return "".join((*pieces, text[at:]))


class _TextSearch:
    """The search through one text. `view` is the text with each escape of JSON, such as backslash and `n`, as blanks
    (NUL) and the character that it stands for: each character keeps its place."""

    def __init__(self, text: str) -> None:
        self.text = text
        view = text.replace("\0", " ").replace("\r", "\n") if "\0" in text or "\r" in text else text
        self.view = _ESCAPE.sub(_unescaped, view) if "\\" in text else view
        self.lower = self.view.encode("ascii", "replace").lower()
        """The view in small letters, a byte for each character."""

    def spans(self) -> list[Span]:
        if not self.text:
            return []
        spans = [
            *key_block_spans(self.view), *self._wrapped(token_spans(self.view)), *self._named(), *self._addresses(), *self._commands(),
            *self._tuples(), *self._lines(), *self._kubernetes(), *self._bearers(),
        ]  # fmt: skip
        return _merged(self._trimmed(span) for span in spans)

    def _trimmed(self, span: Span) -> Span:
        start, end = span
        while start < end and self.view[start] in "\0 \t\n":
            start += 1
        while end > start and self.view[end - 1] in "\0 \t\n":
            end -= 1
        mark = self.text.find(HIDDEN, start, end)
        return (start, start) if mark >= 0 and len(self.text[start:end].replace(HIDDEN, "")) < 6 else (start, end)

    def _places(self, word: bytes) -> Iterator[int]:
        at = self.lower.find(word)
        while at >= 0:
            yield at
            at = self.lower.find(word, at + len(word))

    def _named(self) -> Iterator[Span]:
        done = 0
        for place in sorted({place for sign in _SIGNS for place in self._places(sign)}):
            if place < done:
                continue
            before = _NAME_BEFORE.search(self.view, max(done, place - 60), place)
            behind = _NAME_BEHIND.match(self.view, place)
            assert before is not None
            assert behind is not None
            start, end = before.start(), behind.end()
            done = end
            name = self.view[start:end].rstrip(".-$")
            if (grade := grade_of(name)) is not Grade.NONE:
                end = start + len(name)
                for span in self._values(start, end, name, grade):
                    done = max(done, span[1])
                    yield span

    def _values(self, start: int, end: int, name: str, grade: Grade) -> Iterator[Span]:
        view = self.view
        last = name.lower().rsplit(".", 1)[-1]
        if match := _EQUALS.match(view, end):
            if last.endswith("cookie") or last.endswith("cookies"):
                yield from self._cookies(match.end())
                return
            if last.endswith("authorization") or last in {"auth", "_auth", "proxy-authorization"}:
                spans = list(self._credentials(match.end()))
                if spans:
                    yield from spans
                    return
            is_line = match["sign"] is not None and self._begins_line(start)
            yield from self._value(match.end(), grade, name, match, is_line=is_line)
            if match["next"] is None or match["sign"] is None:
                return
        for pattern in (_COMMA, _ATTRIBUTE):
            if match := pattern.match(view, end):
                yield from self._value(match.end(), grade, name, match, is_line=False, is_apart=True)
                return
        if (view[start - 1 : start] == "<" or view[end : end + 1] in "\"'<") and (match := _ELEMENT.match(view, end)) and view[match.end() - 1] == ">":
            stop = view.find("<", match.end(), match.end() + _VALUE)
            stop = stop if stop >= 0 else match.end()
            if is_secret(view[match.end() : stop], grade, is_literal=True):
                yield match.end(), stop
            return
        if match := _BLANK.match(view, end):
            is_option = view[start : start + 1] == "-"
            yield from self._value(match.end(), grade if is_option or grade is Grade.PASSWORD else Grade(grade), name, match, is_line=False, is_loose=not is_option)

    def _begins_line(self, start: int) -> bool:
        line = self.view.rfind("\n", max(0, start - 200), start) + 1
        return (line > 0 or start < 200) and _LINE_BEGIN.match(self.view, line, start) is not None

    def _value(
        self, at: int, grade: Grade, name: str, separator: re.Match[str], *, is_line: bool, is_apart: bool = False, is_loose: bool = False
    ) -> Iterator[Span]:
        view = self.view
        if is_line and separator["sign"] == ":" and not separator["next"] and (match := _BLOCK.match(view, at)):
            yield from self._block(at, match.end(), grade)
            return
        is_next = "next" in separator.re.groupindex and separator["next"] is not None
        if is_next and (match := _DASHED.match(view, at)):
            yield from self._list(match.end(), grade)
            return
        opened = _OPEN.match(view, at)
        if opened:
            at = opened.end()
        prefix = _PREFIX.match(view, at)
        if prefix and (match := _QUOTE.match(view, prefix.end())):
            while True:
                start, end = match.end(), self._closing(match)
                if scheme := _SCHEME.match(view, start, end):
                    start = scheme.end()
                if is_secret(view[start:end].replace("\0", ""), grade, is_literal=True):
                    yield from self._wrapped([(start, end)])
                item = _ITEM.match(view, end + len(match[1] or match[2])) if opened else None
                match = _QUOTE.match(view, item.end()) if item else None
                if match is None:
                    return
        if opened or is_apart and separator.re is _COMMA:
            return
        yield from self._bare(at, grade, name, separator, is_line=is_line or separator.re is _ATTRIBUTE, is_loose=is_loose or is_next)

    def _bare(self, at: int, grade: Grade, name: str, separator: re.Match[str], *, is_line: bool, is_loose: bool) -> Iterator[Span]:
        view = self.view
        if is_line:
            rest = _REST.match(view, at)
            assert rest is not None
            value = _COMMENT.sub("", rest[0]).rstrip()
            is_env = name.isupper() and separator[0].strip("\0") in {"=", ":", ": "}
            if value and not re.search(r"\s", value):
                is_literal = is_env or separator[0].startswith(":") or not re.match(r"[A-Za-z_][\w.]*[(\[{]", value)
                stripped = value.rstrip("\"'`,;" if not is_env else "\"'`")
                if is_secret(stripped, grade, is_literal=is_literal and not (separator[0].strip() == "=" and " " in separator[0] and _is_name(value))):
                    yield from self._wrapped([(at, at + len(stripped))])
                    return
        bare = _BARE.match(view, at)
        if bare is None:
            return
        value = bare[0].rstrip(")]}>,;:.")
        if is_expression(bare[0]):
            return
        if is_loose:
            if len(value) < 8 or not re.search(r"\d", value) or not re.search(r"[A-Za-z]", value):
                return
            if grade is not Grade.PASSWORD and len(value) < 12:
                return
        if is_secret(value, grade, is_literal=False):
            yield from self._wrapped([(at, at + len(value))])

    def _closing(self, quote: re.Match[str]) -> int:
        """The place of the quote that closes a value, or where the line ends. A quote that is escaped more often than
        the first one is a part of the value."""
        start, sign = quote.end(), quote[1] or quote[2]
        opened = _backslashes(self.text, start - len(sign))
        most = min(len(self.view), start + _VALUE)
        line = self.view.find("\n", start, most)
        stop = most if line < 0 or len(sign) == 3 else line
        at = self.view.find(sign, start, stop)
        tries = 0
        while at >= 0 and tries < 200:
            slashes = _backslashes(self.text, at)
            if slashes <= opened or (slashes - opened) % (2 * (opened + 1)) == 0:
                return at
            at, tries = self.view.find(sign, at + 1, stop), tries + 1
        tail = _TAIL.match(self.view, stop) if stop == most else None
        return tail.end() if tail else stop

    def _wrapped(self, spans: Iterator[Span] | list[Span]) -> Iterator[Span]:
        """Each span, and the lines behind it on which the value goes on."""
        for span in spans:
            yield span
            end, lines = span[1], 0
            while lines < _WRAPS and (match := _WRAP.match(self.view, end)):
                rest = match["rest"]
                if not (is_secret(rest, Grade.PASSWORD, is_literal=False) and re.search(r"\d|[a-z][A-Z]|[+/=]", rest)):
                    break
                yield match.span("rest")
                end, lines = match.end("rest"), lines + 1

    def _block(self, at: int, start: int, grade: Grade) -> Iterator[Span]:
        """A value of several lines, which are indented deeper than their name."""
        begin = self.view.rfind("\n", 0, at) + 1
        line = self.view[begin : begin + 200]
        depth, end = len(line) - len(line.lstrip(" \t\0>|-")), start
        first = True
        while end < len(self.view):
            stop = self.view.find("\n", end)
            stop = len(self.view) if stop < 0 else stop
            content = self.view[end:stop]
            indent = len(content) - len(content.lstrip(" \t\0>|"))
            if content.strip() and indent <= depth:
                break
            value = content.strip(" \t\0>|\"'")
            if first and not is_secret(value, grade, is_literal=True) and not is_secret(value, Grade.PASSWORD, is_literal=True):
                return
            if value:
                yield end + indent, stop
                first = False
            end = stop + 1

    def _list(self, at: int, grade: Grade) -> Iterator[Span]:
        item = re.compile(r"(?:[\"'\0]*)([^\s\"',\0]{1,4096})[\"'\0]*[ \t]*(?:\n(?:[ \t]*[>|])*[ \t]*- {1,4}|\n|\Z)")
        for _ in range(100):
            match = item.match(self.view, at)
            if match is None:
                return
            if is_secret(match[1], grade, is_literal=False):
                yield match.span(1)
            if not match[0].rstrip(" ").endswith("-"):
                return
            at = match.end()

    def _credentials(self, at: int) -> Iterator[Span]:
        """What a header of credentials has behind the name of its scheme."""
        quote = re.compile(r"(?:[bBrRfFuU]?\0{0,8}[\"'`])?").match(self.view, at)
        assert quote is not None
        scheme = _SCHEME.match(self.view, quote.end())
        start = scheme.end() if scheme else quote.end()
        found = False
        line = self.view.find("\n", start, start + _VALUE)
        for match in _PARAMETER.finditer(self.view, start, line if line >= 0 else start + _VALUE):
            found = True
            yield match.span(2)
        match = None if found else _CREDENTIAL.match(self.view, start)
        if match and not is_placeholder(match[0]) and (scheme or is_secret(match[0], Grade.STRONG, is_literal=False)):
            if is_secret(match[0], Grade.PASSWORD, is_literal=True):
                yield from self._wrapped([(match.start(), match.end() - len(match[0]) + len(match[0].rstrip(")]}")))])

    def _bearers(self) -> Iterator[Span]:
        for place in self._places(b"bearer"):
            if (begin := _BEARER.match(self.view, place)) and (match := _CREDENTIAL.match(self.view, begin.end())):
                value = match[0].rstrip(")]}.")
                if is_secret(value, Grade.STRONG, is_literal=False) and len(value) >= 12:
                    yield match.start(), match.start() + len(value)

    def _cookies(self, at: int) -> Iterator[Span]:
        rest = _REST.match(self.view, at)
        assert rest is not None
        for match in _PAIR.finditer(self.view, at, rest.end()):
            grade = max(grade_of(match[1]), Grade.STRONG)
            if grade_of(match[1]) is not Grade.NONE or len(match[2]) >= 16:
                if is_secret(match[2], grade, is_literal=True):
                    yield match.span(2)

    def _addresses(self) -> Iterator[Span]:
        if "@" not in self.view:
            return
        at = self.view.find("://")
        while at >= 0:
            begin = at + 3
            match = _USER_INFO.match(self.view, begin) or _SLASHED_INFO.match(self.view, begin)
            if match and match[2].lower() not in _EXAMPLES and not is_placeholder(match[2]):
                yield match.span(2)
            elif match is None and (match := _USER_ALONE.match(self.view, begin)) and is_secret(match[1], Grade.STRONG, is_literal=True):
                yield match.span(1)
            at = self.view.find("://", begin)

    def _commands(self) -> Iterator[Span]:
        for word, pattern in _COMMANDS:
            at = self.view.find(word)
            while at >= 0:
                if (match := pattern.match(self.view, at + len(word))) and is_secret(match[2], Grade.PASSWORD, is_literal=True):
                    yield match.span(2)
                at = self.view.find(word, at + len(word))

    def _tuples(self) -> Iterator[Span]:
        for word in _TUPLES:
            for at in self._places(word):
                if (match := _TUPLE.match(self.view, at + len(word))) and is_secret(match[1], Grade.PASSWORD, is_literal=True):
                    yield match.span(1)

    def _lines(self) -> Iterator[Span]:
        """Lines of .pgpass: host, port, database, user, password."""
        for match in _PGPASS.finditer(self.view):
            if is_secret(match[1].replace("\\:", ":"), Grade.PASSWORD, is_literal=True) and "://" not in match[0]:
                yield match.span(1)

    def _kubernetes(self) -> Iterator[Span]:
        if "Secret" in self.view and _KUBERNETES.search(self.view):
            for match in _DATA.finditer(self.view):
                yield from self._entries(match)
            for match in _DATA_JSON.finditer(self.view):
                for entry in _ENTRY_JSON.finditer(self.view, *match.span(1)):
                    if not is_placeholder(entry[1]):
                        yield entry.span(1)
        if "kty" in self.view:
            for match in _JWK.finditer(self.view):
                yield match.span(1)

    def _entries(self, data: re.Match[str]) -> Iterator[Span]:
        end, depth = data.end() + 1, len(data[1])
        while end < len(self.view):
            stop = self.view.find("\n", end)
            stop = len(self.view) if stop < 0 else stop
            content = self.view[end:stop].rstrip()
            indent = len(content) - len(content.lstrip(" \t>|"))
            if content and indent <= depth:
                return
            if match := _ENTRY.match(self.view, end + indent, stop):
                if match[1] not in {"|", ">", "|-", ">-"} and not is_placeholder(match[1]):
                    yield match.span(1)
            elif content:
                yield end + indent, stop
            end = stop + 1


def _is_name(value: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z_.]*;?", value) is not None


def _unescaped(escape: re.Match[str]) -> str:
    said = escape[0].lstrip("\\")
    return "\0" * (len(escape[0]) - 1) + _ESCAPED.get(said.lower() if said[0] == "u" else said, said)


def _backslashes(text: str, at: int) -> int:
    start = at
    while start > 0 and text[start - 1] == "\\" and at - start < 64:
        start -= 1
    return at - start


def _merged(spans: Iterator[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
