"""Secrets by the name before them: `password: x`, `"apiKey": "x"`, `--token x`, `Authorization: Bearer x`."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, NamedTuple

from conch.secrets.forms import Span
from conch.secrets.headers import SCHEME, bearer_span, cookie_spans, credential_spans, parameter_spans
from conch.secrets.names import Grade
from conch.secrets.separators import ATTRIBUTE, CALL, COMMA, ELEMENT, EQUALS, QUOTE_MARK, SENT, WORDS
from conch.secrets.tables import entry_spans
from conch.secrets.values import is_expression, is_secret
from conch.secrets.view import SearchedText, backslashes
from conch.secrets.wrapped import with_wrapped_lines

_FOREIGN: Final = (
    *("パスワード", "密码", "密碼", "口令", "비밀번호", "암호", "пароль", "contraseña", "hasło", "lösenord", "şifre"),
    *("κωδικός", "heslo", "סיסמה", "كلمة المرور", "पासवर्ड", "mật khẩu", "jelszó"),
)
FOREIGN: Final = tuple(dict.fromkeys(form for name in _FOREIGN for form in (name, name.capitalize(), name.upper())))
"""Names of passwords in other languages."""
BEARERS: Final = frozenset((b"bearer", b"Bearer", b"BEARER"))
_PEOPLE: Final = ("creds", "credentials", "login")
"""Ends of names whose value is a user and a password."""
_USER: Final = re.compile(r"[\w.@+-]{1,60}[ ]?[/:|][ ]?")
_WRAPPER: Final = re.compile(
    rf"(?!re\.|\w{{0,20}}compile|get|\w{{0,20}}find)[\w.\[\]:]{{1,40}}\([\s\0]{{0,40}}(?=[bBrRfFuU]?{QUOTE_MARK})"
)
"""A call that makes a value of a text, such as `SecretStr("x")`."""
_GROUPS: Final = ("secrets", "secret", "credentials", "creds", "passwords", "tokens", "keys")
"""Ends of names whose value may be a group of named secrets."""
_CHILD: Final = re.compile(r"[\w.\"'-]{1,60}[ \t]*:[ \t]")
_OPEN: Final = re.compile(
    rf"(?:[\[({{{{][\s\0>|]{{0,80}}(?:{QUOTE_MARK}(?:value|plaintext){QUOTE_MARK}[\s\0]{{0,20}}:[\s\0]{{0,20}})?"
    rf"|[\"']{{2}}[ ]?\+[ ]?)(?={QUOTE_MARK})"
)
_PREFIX: Final = re.compile(r"(?:[bBrRfFuUlL]{1,2}|@|\$)?(?=\0{0,40}[\"'`])")
_QUOTE: Final = re.compile(r"\0{0,40}(\"\"\"|'''|[\"'`])|(%22|%27)")
_NEXT_ITEM: Final = re.compile(rf"[\s\0]{{0,80}},[\s\0]{{0,80}}(?={QUOTE_MARK})")
_BLOCK: Final = re.compile(r"[|>][+-]?\d?[+-]?[ \t\0]*\n")
_JOINED_BLOCK: Final = re.compile(r"[|>][+-]? ")
"""The begin of a block whose line ends became blanks."""
_WORD: Final = re.compile(r"(\S{6,200}) ?")
_DASH: Final = re.compile(r"- {1,4}")
_DASHED: Final = re.compile(
    r"(?:[\"'\0]*)([^\s\"',\0]{1,4096})[\"'\0]*[ \t]*(?:(\n(?:[ \t]*[>|])*[ \t]*- {1,4})|\n|\Z)"
)
_ITEMS: Final = 100
"""Most items of a list that are looked at."""
_LINE_BEGIN: Final = re.compile(
    r"(?:[^\n:]{1,120}:\d{1,7}[:-])?(?:[ \t\0>+|#*;\"'`-]|\d{1,6}[\t:)\-]|export |set |setx |setenv |declare -\w+ "
    r"|local |readonly |env |ENV |ARG |let |const |var ){0,40}\Z"
)
"""What may stand before a name that begins its line, with the place that `grep -n` writes before it."""
_DIRECTIVE: Final = re.compile(
    r"(?:\A|[\n;&]|\0)[ \t\0>|+$#\"'`*-]{0,20}(?:RUN )?(?:ENV|ARG|setenv|setx|set(?: -\w{1,4})?)[ \t]{1,8}\Z"
)
"""A command that gives a variable a value without a sign between the two."""
_LINE: Final = 200
"""Characters before a name in which its line begins."""
_SAID_BEFORE: Final = re.compile(
    r"[\"'`*]{0,2}[,]? (?:as|is) (?:the|your|my|our|his|her|its|an?) (?:[a-z]{2,12} ){0,2}\Z"
)
"""What stands between a value and the name behind it: `use x as the password`."""
_VALUE_BEFORE: Final = re.compile(r"[^\s\"'`*\0]{8,200}\Z")
_BELOW: Final = re.compile(
    r"[^\n:]{0,60}:[ \t\0]{0,8}\n[ \t\0>|#*]{0,40}\n[ \t\0>|#*]{0,40}([^\s\"'`<>\0]{8,200})[ \t\0]{0,40}(?:\n|\Z)"
)
"""A value alone in its line, below the sentence that names it and an empty line."""
_REST: Final = re.compile(r"[^\n\0]{0,4096}")
_COMMENT: Final = re.compile(r"\s+(?:#|//|;|--\s|/\*)[^\n]*\Z")
_CALLED: Final = re.compile(r"[A-Za-z_][\w.]*[(\[{]")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z_.]*;?")
_BARE: Final = re.compile(
    r"(?:[^\s\"'`<>\0&;,|\\]|\\(?![nrt\"'])|&(?!\w{1,40}=|amp;|\s|&)"
    r"|[;,](?![\s\"'\])}]|\s{0,8}[\w. -]{1,40}[=:]|\Z)){1,256}"
)
"""An unquoted value, up to a blank, a quote, or a sign behind which another name stands."""
_LONGEST: Final = 256
"""Most characters of an unquoted value that are looked at; a longer one is followed to its end."""
_MORE: Final = re.compile(r"[^\s\"'`<>\0]*")
_VALUE: Final = 4096
"""Most characters of a quoted value; a longer one is followed to the end of its letters and digits."""
_TAIL: Final = re.compile(r"[A-Za-z0-9+/=_-]*")
_QUOTES: Final = 200
"""Most quotes within a quoted value."""
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[A-Za-z]")
_BOTH_CASES: Final = re.compile(r"[a-z][A-Z]")
_LONG: Final = 16
"""Characters of a value without a digit that is looked at."""
_LEAST_LOOSE: Final = {Grade.PASSWORD: 8, Grade.STRONG: 12, Grade.WEAK: 16}
"""Characters of a value that no sign joins to its name."""


class ValuePlace(NamedTuple):
    """Where the value of a name may begin, and what is known of it."""

    at: int
    name: str
    grade: Grade
    sign: str = ""
    """What stands between the two; empty: no sign."""
    is_line: bool = False
    """Whether the name begins its line, so that the value may end it."""
    is_next: bool = False
    """Whether a line end stands between the two."""

    @property
    def is_env(self) -> bool:
        """Whether it is a line as files of variables have it."""
        return self.name.isupper() and (self.sign.strip() in {"?=", "::="} or self.sign in {"=", ":", ": "})

    @property
    def is_loose(self) -> bool:
        """Whether the two may stand together by chance."""
        return self.is_next or not self.sign


class NameSearch:
    """The search for names, and for the values behind them."""

    def __init__(self, searched: SearchedText) -> None:
        self._searched, self._text, self._view = searched, searched.text, searched.view
        self._done = 0
        """What stands before this place was looked at whole: a name in it is none."""

    def spans(self) -> Iterator[Span]:
        """The values of all names. A name within a secret is none."""
        found: list[Span] = []
        for start, name, grade in self._searched.names():
            place = bisect_left(found, (start + 1, 0)) - 1
            if start >= self._done and (place < 0 or found[place][1] <= start):
                end = start + len(name)
                for span in (*self._values(start, end, name, grade), *self._apart(start, end, grade)):
                    insort(found, span)
                    yield span
        if not self._view.isascii():
            yield from self._foreign()
        if not BEARERS.isdisjoint(self._searched.words):
            spans = (bearer_span(self._view, place) for place in self._searched.places(b"bearer"))
            yield from (span for span in spans if span)

    def _foreign(self) -> Iterator[Span]:
        for name in FOREIGN:
            at = self._view.find(name)
            while at >= 0:
                end = at + len(name)
                if match := EQUALS.match(self._view, end):
                    yield from self._value(ValuePlace(match.end(), name, Grade.PASSWORD, match[0]))
                elif match := WORDS.match(self._view, end):
                    yield from self._value(ValuePlace(match.end(), name, Grade.PASSWORD))
                at = self._view.find(name, end)

    def _values(self, start: int, end: int, name: str, grade: Grade) -> Iterator[Span]:
        view = self._view
        if match := SENT.match(view, end):
            yield from self._quoted(ValuePlace(match.end(), name, grade, ":"), is_list=False)
        elif match := EQUALS.match(view, end):
            if (spans := self._header(match.end(), name)) is not None:
                yield from spans
                return
            is_line = match["sign"] is not None and self._begins_line(start)
            sign = match[0].strip("\0\n")
            if name.isupper() and sign == "=":
                grade = max(grade, Grade.STRONG)
            yield from self._value(ValuePlace(match.end(), name, grade, sign, is_line, match["next"] is not None))
            if match["next"] is None or match["sign"] is None:
                return
        if match := ATTRIBUTE.match(view, end):
            yield from self._value(ValuePlace(match.end(), name, grade, match[0], is_line=True))
        elif match := COMMA.match(view, end):
            yield from self._quoted(ValuePlace(match.end(), name, grade, ","), is_list=False)
        elif match := CALL.match(view, end):
            yield from self._value(ValuePlace(match.end(), name, grade, "("))
        elif (view[start - 1 : start] in {"<", ":"} or view[end : end + 1] in {'"', "'", "<"}) and (
            match := ELEMENT.match(view, end)
        ):
            stop = view.find("<", match.end(), match.end() + _VALUE)
            if stop >= 0 and is_secret(view[match.end() : stop], grade, is_literal=True):
                yield match.end(), stop
        elif match := WORDS.match(view, end):
            sign, is_line = "--" if view[start : start + 1] == "-" else "", False
            if not match[0].strip(" \t\0"):
                if not sign and name.lower() == "pass":
                    return
                is_line = _DIRECTIVE.search(view, max(0, start - 40), start) is not None
            yield from self._value(ValuePlace(match.end(), name, grade, " " if is_line else sign, is_line))

    def _apart(self, start: int, end: int, grade: Grade) -> Iterator[Span]:
        """A value that a sentence says before its name, or that stands below it behind an empty line."""
        if grade <= Grade.WEAK:
            return
        said = _SAID_BEFORE.search(self._view, max(0, start - 50), start)
        before = _VALUE_BEFORE.search(self._view, max(0, said.start() - 200), said.start()) if said else None
        below = _BELOW.match(self._view, end)
        for span in ((before.span() if before else (0, 0)), (below.span(1) if below else (0, 0))):
            value = self._view[slice(*span)]
            if _stands_apart(value, _LEAST_LOOSE[grade]) and is_secret(value, grade, is_literal=False):
                yield span

    def _header(self, at: int, name: str) -> list[Span] | None:
        """The secrets of a header of HTTP whose value begins at a place; None where it is none, or has none."""
        last = name.lower().rsplit(".", 1)[-1]
        if last.endswith(("cookie", "cookies")):
            spans, stop = cookie_spans(self._view, at)
            if "=" in self._view[at:stop]:
                self._done = max(self._done, stop)
                return spans
        if last.endswith("authorization") or last in {"auth", "_auth"}:
            spans, stop = parameter_spans(self._view, at)
            if spans:
                self._done = max(self._done, stop)
            return spans or list(credential_spans(self._view, at)) or None
        return None

    def _begins_line(self, start: int) -> bool:
        line = self._view.rfind("\n", max(0, start - _LINE), start) + 1
        return (line > 0 or start < _LINE) and _LINE_BEGIN.match(self._view, line, start) is not None

    def _value(self, place: ValuePlace) -> Iterator[Span]:
        view = self._view
        if place.is_line and place.sign.startswith(":") and (match := _BLOCK.match(view, place.at)):
            yield from self._block(place.at, match.end(), place.grade)
            return
        if place.sign.startswith(":") and (match := _JOINED_BLOCK.match(view, place.at)):
            yield from self._words(match.end())
            return
        if place.is_next and (match := _DASH.match(view, place.at)):
            yield from self._dashed(match.end(), place.grade)
            return
        if place.is_next and place.name.lower().endswith(_GROUPS) and _CHILD.match(view, place.at):
            yield from self._group(place)
            return
        if wrapper := _WRAPPER.match(view, place.at):
            place = place._replace(at=wrapper.end())
        if opened := _OPEN.match(view, place.at):
            yield from self._quoted(place._replace(at=opened.end()), is_list=True)
            return
        if place.name.lower().endswith(_PEOPLE) and (match := _USER.match(view, place.at)):
            place = place._replace(at=match.end())
        prefix = _PREFIX.match(view, place.at)
        if prefix and _QUOTE.match(view, prefix.end()):
            yield from self._quoted(place._replace(at=prefix.end()), is_list=False)
        elif span := (self._line_value(place) if place.is_line else None) or self._bare(place):
            yield from with_wrapped_lines(view, [span])

    def _quoted(self, place: ValuePlace, *, is_list: bool) -> Iterator[Span]:
        """Quoted values: one, or all of a list."""
        quote = _QUOTE.match(self._view, place.at)
        while quote is not None:
            start, end = quote.end(), self._closing(quote)
            grade = max(place.grade, Grade.STRONG) if is_list and place.name.lower().endswith("tokens") else place.grade
            if scheme := SCHEME.match(self._view, start, end):
                start = scheme.end()
            if is_secret(self._view[start:end].replace("\0", ""), grade, is_literal=True):
                yield from with_wrapped_lines(self._view, [(start, end)])
            item = _NEXT_ITEM.match(self._view, end + len(quote[1] or quote[2])) if is_list else None
            quote = _QUOTE.match(self._view, item.end()) if item else None

    def _line_value(self, place: ValuePlace) -> Span | None:
        """A value that ends its line, where no blank is in it."""
        rest = _REST.match(self._view, place.at)
        value = _COMMENT.sub("", rest[0]).rstrip().rstrip("\"'`" if place.is_env else "\"'`,;") if rest else ""
        if not value or " " in value or "\t" in value:
            return None
        is_code = "=" in place.sign and not place.is_env
        is_literal = not (is_code and (_CALLED.match(value) or (" " in place.sign and _VARIABLE.fullmatch(value))))
        return (place.at, place.at + len(value)) if is_secret(value, place.grade, is_literal=is_literal) else None

    def _bare(self, place: ValuePlace) -> Span | None:
        """An unquoted value within a line."""
        bare = _BARE.match(self._view, place.at)
        if bare is None or is_expression(bare[0]):
            return None
        value = bare[0].rstrip(")]}>,;:.\\")
        if place.is_loose and not _stands_apart(value, _LEAST_LOOSE[place.grade]):
            return None
        if not is_secret(value, place.grade, is_literal=False):
            return None
        more = _MORE.match(self._view, bare.end()) if len(bare[0]) == _LONGEST else None
        return place.at, more.end() if more else place.at + len(value)

    def _closing(self, quote: re.Match[str]) -> int:
        """The place of the quote that closes a value, or where the line ends. A quote that is escaped more often than
        the first one is a part of the value."""
        start, sign = quote.end(), quote[1] or quote[2]
        opened = backslashes(self._text, start - len(sign))
        most = min(len(self._view), start + _VALUE)
        line = self._view.find("\n", start, most)
        stop = most if line < 0 or len(sign) == 3 else line
        at = self._view.find(sign, start, stop)
        for _ in range(_QUOTES):
            if at < 0:
                break
            slashes = backslashes(self._text, at)
            if slashes <= opened or (slashes - opened) % (2 * (opened + 1)) == 0:
                return at
            at = self._view.find(sign, at + 1, stop)
        tail = _TAIL.match(self._view, stop) if stop == most else None
        return tail.end() if tail else stop

    def _block(self, at: int, start: int, grade: Grade) -> Iterator[Span]:
        """A value of several lines, which are indented deeper than their name."""
        begin = self._view.rfind("\n", 0, at) + 1
        depth, end, is_first = _depth(self._view[begin : begin + _LINE], " \t\0>|-"), start, True
        while end < len(self._view):
            stop = self._view.find("\n", end)
            stop = len(self._view) if stop < 0 else stop
            indent, value = _depth(self._view[end:stop], " \t\0>|"), self._view[end:stop].strip(" \t\0>|\"'")
            if value:
                is_one = is_secret(value, grade, is_literal=True) or is_secret(value, Grade.PASSWORD, is_literal=True)
                if indent <= depth or (is_first and not is_one):
                    return
                yield end + indent, stop
                is_first = False
            end = stop + 1

    def _group(self, place: ValuePlace) -> Iterator[Span]:
        """The values of a mapping whose name says that all of them are secrets."""
        begin = self._view.rfind("\n", 0, place.at) + 1
        name = self._view.rfind("\n", 0, max(0, begin - 1)) + 1
        depth = _depth(self._view[name : name + _LINE], " \t\0>|-")
        for start, end in entry_spans(self._view, begin, depth):
            if is_secret(self._view[start:end], Grade.STRONG, is_literal=True):
                yield start, end

    def _words(self, at: int) -> Iterator[Span]:
        while (match := _WORD.match(self._view, at)) and is_secret(match[1], Grade.PASSWORD, is_literal=True):
            yield match.span(1)
            at = match.end()

    def _dashed(self, at: int, grade: Grade) -> Iterator[Span]:
        """The items of a list, each on a line of its own."""
        for _ in range(_ITEMS):
            match = _DASHED.match(self._view, at)
            if match is None:
                return
            if is_secret(match[1], grade, is_literal=False):
                yield match.span(1)
            self._done = match.end(1)
            if match[2] is None:
                return
            at = match.end()


def _stands_apart(value: str, least: int) -> bool:
    """Whether a value is no word of a sentence: it has letters and digits, or is long and of both cases."""
    if _LETTER.search(value) is None or len(value) < least:
        return False
    return _DIGIT.search(value) is not None or (len(value) >= _LONG and _BOTH_CASES.search(value) is not None)


def _depth(line: str, marks: str) -> int:
    return len(line) - len(line.lstrip(marks))
