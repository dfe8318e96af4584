"""What stands between the name of a secret and its value."""

from __future__ import annotations

import re
from typing import Final

_BLANKS: Final = r"[ \t\0]{0,40}"
QUOTE_MARK: Final = r"(?:\0{0,40}[\"'`]{1,3}|%22|%27|\*\*)"
_LINE_END: Final = r"(?:[ \t\0]{0,40}\\?\n(?:[ \t\0]{0,40}[>|])*[ \t\0]{0,80})"
_TYPE: Final = (
    r"(?:&(?:'\w{1,20} )?(?:mut )?)?[A-Za-z_][\w.]{0,40}(?:\[[\w., |]{0,40}\])?"
    rf"(?:{_BLANKS}\|{_BLANKS}\w{{1,40}}){{0,3}}\??"
)
EQUALS: Final = re.compile(
    rf"(?:{QUOTE_MARK})?(?:\[\w{{0,20}}\]|[\])}}]|</\w{{1,12}}>| \([^()\n=]{{1,40}}\)(?=:))?"
    rf"(?:\.{{2,60}}|{_BLANKS}\{{ ?get;[\w ;]{{0,40}}\}})?{_BLANKS}"
    rf"(?:(?P<sign>"
    rf":{_BLANKS}{_TYPE}[ \t\0]{{1,40}}=(?![=>])| As \w{1, 30} =|<-|"
    rf"(?:\|\||\?\?|\bor\b)=?(?={_BLANKS}{QUOTE_MARK})|:-|=>|:=|\?=|\+=|={{1,3}}|!==?|->|→|⇒|＝|：|%3[dD]|:(?!//))|\|)"
    rf"(?:\*\*)?{_BLANKS}(?:«{_BLANKS})?(?:(?:!!?|&)\w{{1,20}}[ ])?(?P<next>{_LINE_END})?"
)
"""`=`, `: `, `" => "`, `: str = `, `|`; at most one line end."""
COMMA: Final = re.compile(rf"{QUOTE_MARK}{_BLANKS},{_BLANKS}(?={QUOTE_MARK})")
"""Between two arguments or items."""
SENT: Final = re.compile(
    rf"[:?]?[ ]?{QUOTE_MARK}\)?[\s\0;>|]{{1,40}}(?:\w{{1,20}}\.)?send(?:line)?[ (](?:-- )?(?={QUOTE_MARK})"
)
"""Between a question that a program waits for, and the answer that it sends."""
CALL: Final = re.compile(rf"[({{{{][\s\0]{{0,40}}(?:[\w. ]{{1,60}},{_BLANKS})?(?=[bBrRfFuU]?{QUOTE_MARK})")
"""Between the name of a function and what it is given."""
ELEMENT: Final = re.compile(
    rf"(?:{QUOTE_MARK}?[^<>\n]{{0,120}}>|</[\w:.-]{{1,40}}>)[\s>|]{{0,40}}(?:<[A-Za-z][\w:.-]{{0,40}}>)?"
)
"""Between the name of an element, of an attribute or in an element, and what the next element holds."""
ATTRIBUTE: Final = re.compile(
    rf"{QUOTE_MARK}?:?[\s\0,;{{}}/>-]{{1,60}}{QUOTE_MARK}?"
    rf"(?:(?:type|description|noecho|sensitive|secure|valueFrom|isSecret|key)\"?{_BLANKS}[=:]{_BLANKS}[^\n]{{0,120}}\n[\s\0>|]{{0,40}})"
    rf"{{0,3}}<?{QUOTE_MARK}?(?:(?:parameter)?value|default|content|val|stringValue|plaintext|secretString|body)"
    rf"(?:>|{QUOTE_MARK}?{_BLANKS}[=:]){_BLANKS}",
    re.IGNORECASE,
)
"""Between a name and the field that has its value: `name: X` and `value: x`, on one line or on the next."""
WORDS: Final = re.compile(
    r"[ \t\0]{1,40}(?:(?:(?:is|was|to|as|will be|should be|set to|of|BY|value|ascii-text|hexadecimal"
    r"|lautet|ist|war|est|es|é|è|är|jest|это)"
    r"(?: now)?|--?(?:body|value|data)"
    r"|(?:for|of|to|on) [^\n:=]{1,60}?(?:[:=]| (?:is|was)(?: now)?)|from \S{1,60} to|-{1,2}|[–—])"
    r"[ :=]{1,3})?[ \t\0]{0,40}"
    r"|,(?=[^\s\"'`,;]{8,200}[\"'`)}]{0,3}[ \t]*(?:\n|\Z))",
    re.IGNORECASE,
)
"""Where no sign stands: blanks, `is`, `for bob:`; a comma in a line of two cells."""
