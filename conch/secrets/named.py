"""Secrets by the name before them: `password: x`, `"apiKey": "x"`, `--token x`, `Authorization: Bearer x`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from conch.secrets.forms import Span
from conch.secrets.names import Grade, grade_of
from conch.secrets.values import is_expression, is_placeholder, is_secret
from conch.secrets.view import SearchedText, backslashes
from conch.secrets.wrapped import with_wrapped_lines

_SP: Final = r"[ \t\0]{0,40}"
_Q: Final = r"(?:\0{0,8}[\"'`]{1,3}|&quot;|&\#0?3[49];|&apos;|%22|%27|\*\*)"
_EOL: Final = r"(?:[ \t\0]{0,40}\\?\n(?:[ \t\0]{0,40}[>|])*[ \t\0]{0,80})"
_TYPE: Final = rf"(?:&(?:'\w{{1,20}} )?(?:mut )?)?[A-Za-z_][\w.]{{0,40}}(?:\[[\w., |]{{0,40}}\])?(?:{_SP}\|{_SP}\w{{1,40}}){{0,3}}\??"
_EQUALS: Final = re.compile(
    rf"(?P<quote>{_Q})?[\])]?(?:\.{{2,60}}|{_SP}\{{ ?get;[\w ;]{{0,40}}\}})?{_SP}"
    rf"(?:(?P<sign>:{_SP}{_TYPE}[ \t\0]{{1,40}}=(?![=>])|=>|:=|\?=|\+=|={{1,3}}|!==?|->|＝|：|%3[dD]|:(?!//))|\|)"
    rf"(?:\*\*)?{_SP}(?:(?:!!?|&)\w{{1,20}}[ ])?(?P<next>{_EOL})?"
)
"""Between a name and its value: `=`, `: `, `" => "`, `: str = `, `|`; at most one line end."""
_COMMA: Final = re.compile(rf"{_Q}{_SP},{_SP}(?={_Q})")
_ELEMENT: Final = re.compile(rf"(?:{_Q}?[^<>\n]{{0,120}}>|</[\w:.-]{{1,40}}>)\s{{0,40}}(?:<[A-Za-z][\w:.-]{{0,40}}>)?")
_ATTRIBUTE: Final = re.compile(
    rf"{_Q}?[\s\0,;{{}}/>-]{{1,60}}(?:(?:type|description|sensitive|secure|valueFrom|isSecret|key)\"?{_SP}[=:]{_SP}[^\n]{{0,120}}\n[\s\0]{{0,40}}){{0,3}}"
    rf"(?:<)?{_Q}?(?:value|default|content|val|stringValue|plaintext|secretString|body)(?:>|{_Q}?{_SP}[=:]){_SP}",
    re.IGNORECASE,
)
_BLANK: Final = re.compile(
    r"[ \t\0]{1,40}(?:(?:(?:is|was|to|as|will be|should be|set to|of|BY|value)(?: now)?|--?(?:body|value|data)|(?:for|of|to|on) [^\n:=]{1,60}[:=])[ :=]{1,3})?[ \t\0]{0,40}"
    r"|,(?=[^\s\"'`,;]{8,200}[ \t]*(?:\n|\Z))",
    re.IGNORECASE,
)
"""Between a name and its value where no sign stands: blanks, `is`, `for bob:`; a comma in a line of two cells."""
_USER_BEFORE: Final = re.compile(r"[\w.@+-]{1,60}[ ]?[/:|][ ]?")
FOREIGN: Final = (
    "パスワード",
    "密码",
    "密碼",
    "口令",
    "비밀번호",
    "암호",
    "пароль",
    "contraseña",
    "hasło",
    "lösenord",
    "şifre",
    "κωδικός",
    "heslo",
    "סיסמה",
    "كلمة المرور",
    "पासवर्ड",
    "mật khẩu",
    "jelszó",
)
"""Names of passwords in other scripts and languages."""
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
    r"(?:[^\s\"'`<>\0&;,|\\]|\\(?![nrt\"'])|&(?!\w{1,40}=|amp;|\s|&)|[;,](?![\s\"'\])}]|\s{0,8}[\w. -]{1,40}[=:]|\Z)){1,512}"
)
_MORE: Final = re.compile(r"[^\s\"'`<>\0]*")
_REST: Final = re.compile(r"[^\n\0]{0,4096}")
_COMMENT: Final = re.compile(r"\s+(?:#|//|;|--\s|/\*)[^\n]*\Z")
_SCHEME: Final = re.compile(
    r"(?:bearer|basic|token|digest|api-?key|negotiate|splunk|sswx?s?|googlelogin|jwt|dpop|hawk|aws4-hmac-sha256|sharedkey\w*|oauth|key)"
    r"(?:[ \t]+|=)(?:auth=)?",
    re.IGNORECASE,
)
_CREDENTIAL: Final = re.compile(r"[^\s\"'`<>\0,;\\]{4,2000}")
_PARAMETERS: Final = 400
"""Characters of a header of credentials in which its parameters are searched."""
_PARAMETER: Final = re.compile(
    r"(response|signature|oauth_signature|oauth_token|credential|cnonce|mac)=\"?([^\s\",]{8,2000})", re.IGNORECASE
)
_PAIR: Final = re.compile(r"([\w.$-]{1,80})=([^\s;,\"'`]{1,4096})")
_TAIL: Final = re.compile(r"[A-Za-z0-9+/=_-]*")
_LONGEST: Final = 512
"""Most characters of an unquoted value that are looked at; a longer one is followed to its end."""
_VALUE: Final = 4096
"""Most characters of a quoted value; a longer one is followed to the end of its letters and digits."""
_BEARERS: Final = frozenset((b"bearer", b"Bearer", b"BEARER"))
_BEARER: Final = re.compile(r"bearer[ \t]{1,8}", re.IGNORECASE)


class NameSearch:
    """The search for names, and for the values behind them."""

    def __init__(self, searched: SearchedText) -> None:
        self._searched, self.text, self.view = searched, searched.text, searched.view
        self._done = 0
        """What stands before this place was looked at whole: a name in it is none."""

    def spans(self) -> Iterator[Span]:
        """The values of all names. A name within a secret is none."""
        for start, name, grade in self._searched.names():
            if start >= self._done:
                for span in self._values(start, start + len(name), name, grade):
                    self._done = max(self._done, span[1])
                    yield span
        yield from self._foreign()
        if not _BEARERS.isdisjoint(self._searched.words):
            yield from self._bearers()

    def _foreign(self) -> Iterator[Span]:
        if self.view.isascii():
            return
        for name in FOREIGN:
            at = self.view.find(name)
            while at >= 0:
                end = at + len(name)
                match = _EQUALS.match(self.view, end) or _BLANK.match(self.view, end)
                if match:
                    yield from self._value(match.end(), Grade.PASSWORD, "PASSWORD", match, is_line=False)
                at = self.view.find(name, end)

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
        if (
            (view[start - 1 : start] == "<" or view[end : end + 1] in "\"'<")
            and (match := _ELEMENT.match(view, end))
            and view[match.end() - 1] == ">"
        ):
            stop = view.find("<", match.end(), match.end() + _VALUE)
            stop = stop if stop >= 0 else match.end()
            if is_secret(view[match.end() : stop], grade, is_literal=True):
                yield match.end(), stop
            return
        if match := _BLANK.match(view, end):
            is_option = view[start : start + 1] == "-"
            yield from self._value(
                match.end(),
                grade if is_option or grade is Grade.PASSWORD else Grade(grade),
                name,
                match,
                is_line=False,
                is_loose=not is_option,
            )

    def _begins_line(self, start: int) -> bool:
        line = self.view.rfind("\n", max(0, start - 200), start) + 1
        return (line > 0 or start < 200) and _LINE_BEGIN.match(self.view, line, start) is not None

    def _value(
        self,
        at: int,
        grade: Grade,
        name: str,
        separator: re.Match[str],
        *,
        is_line: bool,
        is_apart: bool = False,
        is_loose: bool = False,
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
        elif name.lower().endswith(("creds", "credentials", "login")) and (match := _USER_BEFORE.match(view, at)):
            at = match.end()
        prefix = _PREFIX.match(view, at)
        if prefix and (match := _QUOTE.match(view, prefix.end())):
            while True:
                start, end = match.end(), self._closing(match)
                if scheme := _SCHEME.match(view, start, end):
                    start = scheme.end()
                if is_secret(view[start:end].replace("\0", ""), grade, is_literal=True):
                    yield from with_wrapped_lines(self.view, [(start, end)])
                item = _ITEM.match(view, end + len(match[1] or match[2])) if opened else None
                match = _QUOTE.match(view, item.end()) if item else None
                if match is None:
                    return
        if opened or (is_apart and separator.re is _COMMA):
            return
        yield from self._bare(
            at, grade, name, separator, is_line=is_line or separator.re is _ATTRIBUTE, is_loose=is_loose or is_next
        )

    def _bare(
        self, at: int, grade: Grade, name: str, separator: re.Match[str], *, is_line: bool, is_loose: bool
    ) -> Iterator[Span]:
        view = self.view
        if is_line:
            rest = _REST.match(view, at)
            assert rest is not None
            value = _COMMENT.sub("", rest[0]).rstrip()
            is_env = name.isupper() and separator[0].strip("\0") in {"=", ":", ": "}
            if value and not re.search(r"\s", value):
                is_literal = is_env or separator[0].startswith(":") or not re.match(r"[A-Za-z_][\w.]*[(\[{]", value)
                stripped = value.rstrip("\"'`,;" if not is_env else "\"'`")
                if is_secret(
                    stripped,
                    grade,
                    is_literal=is_literal
                    and not (separator[0].strip() == "=" and " " in separator[0] and _is_name(value)),
                ):
                    yield from with_wrapped_lines(self.view, [(at, at + len(stripped))])
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
            more = _MORE.match(view, bare.end()) if len(bare[0]) == _LONGEST else None
            yield from with_wrapped_lines(self.view, [(at, more.end() if more else at + len(value))])

    def _closing(self, quote: re.Match[str]) -> int:
        """The place of the quote that closes a value, or where the line ends. A quote that is escaped more often than
        the first one is a part of the value."""
        start, sign = quote.end(), quote[1] or quote[2]
        opened = backslashes(self.text, start - len(sign))
        most = min(len(self.view), start + _VALUE)
        line = self.view.find("\n", start, most)
        stop = most if line < 0 or len(sign) == 3 else line
        at = self.view.find(sign, start, stop)
        tries = 0
        while at >= 0 and tries < 200:
            slashes = backslashes(self.text, at)
            if slashes <= opened or (slashes - opened) % (2 * (opened + 1)) == 0:
                return at
            at, tries = self.view.find(sign, at + 1, stop), tries + 1
        tail = _TAIL.match(self.view, stop) if stop == most else None
        return tail.end() if tail else stop

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
            if (
                first
                and not is_secret(value, grade, is_literal=True)
                and not is_secret(value, Grade.PASSWORD, is_literal=True)
            ):
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
            self._done = match.end(1)
            if not match[0].rstrip(" ").endswith("-"):
                return
            at = match.end()

    def _credentials(self, at: int) -> Iterator[Span]:
        """What a header of credentials has behind the name of its scheme."""
        quote = re.compile(r"(?:[bBrRfFuU]?\0{0,8}[\"'`])?").match(self.view, at)
        assert quote is not None
        scheme = _SCHEME.match(self.view, quote.end())
        start = scheme.end() if scheme else quote.end()
        line = self.view.find("\n", start, start + _PARAMETERS)
        stop = line if line >= 0 else min(len(self.view), start + _PARAMETERS)
        parameters = [match.span(2) for match in _PARAMETER.finditer(self.view, start, stop)]
        if parameters:
            self._done = max(self._done, stop)
            yield from parameters
            return
        match = _CREDENTIAL.match(self.view, start)
        if match and not is_placeholder(match[0]) and (scheme or is_secret(match[0], Grade.STRONG, is_literal=False)):
            if is_secret(match[0], Grade.PASSWORD, is_literal=True):
                yield from with_wrapped_lines(
                    self.view, [(match.start(), match.end() - len(match[0]) + len(match[0].rstrip(")]}")))]
                )

    def _bearers(self) -> Iterator[Span]:
        for place in self._searched.places(b"bearer"):
            if (begin := _BEARER.match(self.view, place)) and (match := _CREDENTIAL.match(self.view, begin.end())):
                value = match[0].rstrip(")]}.")
                if is_secret(value, Grade.STRONG, is_literal=False) and len(value) >= 12:
                    yield match.start(), match.start() + len(value)

    def _cookies(self, at: int) -> Iterator[Span]:
        rest = _REST.match(self.view, at)
        assert rest is not None
        self._done = max(self._done, rest.end())
        for match in _PAIR.finditer(self.view, at, rest.end()):
            grade = max(grade_of(match[1]), Grade.STRONG)
            if grade_of(match[1]) is not Grade.NONE or len(match[2]) >= 16:
                if is_secret(match[2], grade, is_literal=True):
                    yield match.span(2)


def _is_name(value: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z_.]*;?", value) is not None
