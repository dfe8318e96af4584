"""Secrets by the place where they stand: in addresses, behind the options of commands, in calls that log in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from conch.secrets.forms import Span
from conch.secrets.names import Grade, words_of
from conch.secrets.values import is_placeholder, is_secret
from conch.secrets.view import SearchedText

_USER_INFO: Final = re.compile(r"([^\s/\"'<>`@:?#\\\0]{0,256}):([^\s\"'<>`/\\\0]{1,512})@(?=[\w\[${%(*.-])")
_SLASHED_INFO: Final = re.compile(
    r"([^\s/\"'<>`@:?#\\\0]{0,256}):(?!\d{0,5}(?:[/?#]|$))([^\s\"'<>`\\\0]{1,200}?)@(?=[\w\[${%(*.-]+(?:[:/?,\"'\s]|$))"
)
_USER_ALONE: Final = re.compile(r"([^\s/\"'<>`@:?#\\\0]{16,400})@(?=[\w\[])")
_EXAMPLES: Final = words_of("pass passwd password pwd pw secret token user username mypassword mypass xxx")
_PIPED: Final = (
    r"(-n )?[\"'\0]{0,4}([^\s\"'`\0|]{6,200})[\"'\0]{0,4}[ ]?\|[^\n|]{0,80}?"
    r"(?:sudo -S|--password-stdin|--passphrase-fd|--stdin|kinit\b)"
)
"""A text that is piped to a program that reads a password."""
_SIGNED: Final = r"([^()\"'\n]{0,80})b?[\"']([^\s\"'`\0]{6,400})[\"']"
"""The key of a call that signs."""
_COMMANDS: Final = tuple(
    (frozenset(words.encode().split()), text, re.compile(pattern))
    for words, text, pattern in (
        ("-u curl", " -u", r"(?:=|[ \t]*)[\"'\0]{0,4}([^\s:\"'`\\/<>|]{1,120}):([^\s\"'`\0]{3,400})"),
        ("--user", " --user", r"(?:=|[ \t]+)[\"'\0]{0,4}([^\s:\"'`\\/<>|]{1,120}):([^\s\"'`\0]{3,400})"),
        ("--proxy-user", " --proxy-user", r"(?:=|[ \t]+)[\"'\0]{0,4}([^\s:\"'`\\/<>|]{1,120}):([^\s\"'`\0]{3,400})"),
        ("-U", " -U ", r"[\"'\0]{0,4}([^\s:%\"'`\\<>|]{1,120})%([^\s\"'`\0]{3,400})"),
        (
            "mysql mysqldump mysqladmin mysqlimport mysqlsh mysqlshow",
            "mysql",
            r"\w{0,12}\b([^\n|;&]{0,300}?)[ \"',\0]-p[\"'\0]{0,4}([^\s\"'`\0-][^\s\"'`\0]{4,200})",
        ),
        (
            "mariadb mariadb-dump mariadb-admin",
            "mariadb",
            r"[\w-]{0,12}\b([^\n|;&]{0,300}?)[ \"',\0]-p[\"'\0]{0,4}([^\s\"'`\0-][^\s\"'`\0]{4,200})",
        ),
        (
            "login",
            "login ",
            r"([^\s]{1,120}\s{1,20}(?:[>|]\s)?(?:account\s{1,20}\S{1,80}\s{1,20})?)password\s{1,20}([^\s\"'`\0]{4,200})",
        ),
        ("sshpass", "sshpass", r"([ \t]+)-p[ \t]*[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("redis-cli", "redis-cli", r"([^\n|;&]{0,200}?)[ ]-a[ \t]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("login", " login", r"([^\n|;&]{0,200}?)[ ]-p[ \t]*[\"'\0]{0,4}([^\s\"'`\0-][^\s\"'`\0]{4,400})"),
        (
            "ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldappasswd",
            "ldap",
            r"\w{1,12}([^\n|;&]{0,300}?)[ ]-w[ \t]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})",
        ),
        (
            "htpasswd",
            "htpasswd",
            r"([ \t]+-\w*b\w*[ \t]+[^\s]{1,200}[ \t]+[^\s]{1,80}[ \t]+)[\"'\0]{0,4}([^\s\"'`\0]{4,200})",
        ),
        ("pass", "pass:", r"()([^\s\"'`\0]{4,200})"),
        ("openssl", "openssl", r"([^\n|;&]{0,300}?)[ ]-k[ \t]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("IDENTIFIED", "IDENTIFIED", r"(?: WITH \w{1,40})? (?:BY|AS)( PASSWORD)? [\"'\0]{1,4}([^\s\"'`\0]{4,200})"),
        ("identified", "identified", r"(?: with \w{1,40})? (?:by|as)( password)? [\"'\0]{1,4}([^\s\"'`\0]{4,200})"),
        ("thin", "jdbc:oracle:thin:", r"([\w.$#-]{1,60})/([^\s\"'`\0@]{4,200})(?=@)"),
        ("sqlplus", "sqlplus", r"((?:[ ]+-\w{1,8})*[ ]+[\"'\0]{0,4}[\w.$#-]{1,60})/([^\s\"'`\0@]{4,200})(?=@)"),
        (
            "http https xh",
            "http",
            r"(s?(?:[ ][^\n|;&]{0,100})?)[ ](?:-a|--auth)[ =][^\s:\"'`]{1,80}:([^\s\"'`\0]{4,400})",
        ),
        (
            "mongo mongosh mongodump mongorestore mongoimport mongoexport",
            "mongo",
            r"\w{0,8}([^\n|;&]{0,300}?)[ ]-p[ ]+[\"'\0]{0,4}([^\s\"'`\0-][^\s\"'`\0]{4,200})",
        ),
        (
            "mosquitto_pub mosquitto_sub mosquitto_rr",
            "mosquitto_",
            r"\w{1,4}([^\n|;&]{0,300}?)[ ]-P[ ]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})",
        ),
        (
            "mosquitto_passwd",
            "mosquitto_passwd",
            r"([ ]+-\w*b\w*[ ]+\S{1,200}[ ]+\S{1,80}[ ]+)[\"'\0]{0,4}([^\s\"'`\0]{4,200})",
        ),
        ("ipmitool", "ipmitool", r"([^\n|;&]{0,200}?)[ ]-P[ ]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("kadmin kadmin.local", "kadmin", r"([^\n|;&]{0,200}?)[ ]-w[ ]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("useradd usermod", "user", r"\w{3}([^\n|;&]{0,200}?)[ ](?:-p|--password)[ ]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("wandb", "wandb login", r"((?:[ ]+--[\w-]{1,20})*)[ ]+[\"'\0]{0,4}([^\s\"'`\0-][^\s\"'`\0]{8,200})"),
        (
            "rabbitmqctl",
            "rabbitmqctl",
            r"([^\n|;&]{0,100}?)[ ](?:add_user|change_password|authenticate_user)[ ]+\S{1,80}[ ]+[\"'\0]{0,4}"
            r"([^\s\"'`\0]{4,200})",
        ),
        ("influx", "influx", r"([^\n|;&]{0,200}?)[ ]-t[ ]+[\"'\0]{0,4}([^\s\"'`\0]{8,200})"),
        ("doctl", "doctl", r"([^\n|;&]{0,200}?)[ ]-t[ ]+[\"'\0]{0,4}([^\s\"'`\0]{8,200})"),
        ("AUTH", "AUTH ", r"((?:PLAIN |LOGIN |\w{1,40} )?)[\"'\0]{0,4}([^\s\"'`\0]{12,400})(?=[\"'`\s\0]|\Z)"),
        (
            "auth-user-pass",
            "auth-user-pass",
            r"(\n[>| ]{0,12}\S{1,80}\n[>| ]{0,12}|[ ]\S{1,80}[ ])([^\s\"'`\0]{4,200})",
        ),
        ("sudo", "sudo -S", r"([ ]?<<<[ ]?)[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("zip unzip", "zip", r"([^\n|;&]{0,200}?)[ ]-P[ ]?[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("7z 7za 7zz", "7z", r"(\w? \w[^\n|;&]{0,200}?)[ ]-p[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("twine", "twine", r"([^\n|;&]{0,200}?)[ ]-p[ ]?[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        *(
            (word, word, r"((?:[ ]+-\w{1,20})*)[ ]+[\"'\0]{1,4}([^\s\"'`\0]{4,200})")
            for word in ("ConvertTo-SecureString", "convertto-securestring")
        ),
        ("vault", "vault login", r"([ ])([^\s\"'`\0-][^\s\"'`\0]{8,200})"),
        ("PRAGMA", "PRAGMA key", r"([ ]?=[ ]?)[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("ssh-keygen", "ssh-keygen", r"([^\n|;&]{0,300}?)[ ]-[NP][ ]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        ("alias", "mc alias set", r"([ ]+\S{1,60}[ ]+\S{1,200}[ ]+\S{1,200})[ ]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})"),
        (
            "snmp-server snmpwalk snmpget snmpset snmpbulkwalk",
            "snmp",
            r"[\w-]{0,20}([^\n|;&]{0,100}?)[ ](?:community|-c)[ ]+[\"'\0]{0,4}([^\s\"'`\0]{4,200})",
        ),
        ("secret", "secret ", r"([057689] )([^\s\"'`\0]{4,200})"),
        ("password", "password ", r"([057689] )([^\s\"'`\0]{4,200})"),
        ("net", "net use", r"([^\n]{0,120}?)/user:[^\s]{1,80}[ \t]+[\"'\0]{0,4}([^\s\"'`\0/*]{4,200})"),
        *((word, f"{word} ", _PIPED) for word in ("echo", "printf")),
        *((word, f"{word}(", _SIGNED) for word in (*("jwt.encode", "jwt.sign", "jwt.verify", "hmac.new"), "Fernet")),
    )
)
"""Words of which one stands in the text, what a command begins with, and what follows up to the secret."""
COMMAND_WORDS: Final = frozenset[bytes]().union(*(words for words, _, _ in _COMMANDS))
_TUPLE: Final = re.compile(
    r"(?:\W{0,4}=|[\"']?\s?:)?\s?\w{0,20}\(\s?[\"'][^\"'\n]{1,120}[\"'],\s?[\"']([^\"'\n]{4,400})[\"']", re.IGNORECASE
)
_ENDS: Final = (b"auth", b"login", b"credentials")
"""Ends of names of calls and arguments that take a user and a password."""


def place_spans(searched: SearchedText) -> Iterator[Span]:
    """Secrets that show by the place where they stand."""
    yield from _in_addresses(searched.view)
    if not COMMAND_WORDS.isdisjoint(searched.words):
        for words, text, pattern in _COMMANDS:
            if not words.isdisjoint(searched.words):
                yield from _behind(searched.view, text, pattern, group=2)
    for word in filter(takes_user, searched.words):
        yield from _behind(searched.view, word.decode(), _TUPLE, group=1)


def commands_in(searched: SearchedText) -> list[str]:
    """What the commands begin with that stand in the text, of those that take a secret."""
    return [text for words, text, _ in _COMMANDS if not words.isdisjoint(searched.words) and text in searched.view]


@lru_cache(65536)
def takes_user(word: bytes) -> bool:
    """Whether a name is that of a call or an argument that takes a user and a password."""
    return word.lower().endswith(_ENDS)


def _in_addresses(view: str) -> Iterator[Span]:
    if "@" not in view:
        return
    at = view.find("://")
    while at >= 0:
        begin = at + 3
        match = _USER_INFO.match(view, begin) or _SLASHED_INFO.match(view, begin)
        if match and match[2].lower() not in _EXAMPLES and not is_placeholder(match[2]):
            yield match.span(2)
        alone = None if match else _USER_ALONE.match(view, begin)
        if alone and is_secret(alone[1], Grade.STRONG, is_literal=True):
            yield alone.span(1)
        at = view.find("://", begin)


def _behind(view: str, text: str, pattern: re.Pattern[str], *, group: int) -> Iterator[Span]:
    at = view.find(text)
    while at >= 0:
        match = pattern.match(view, at + len(text))
        if match and is_secret(match[group], Grade.PASSWORD, is_literal=True):
            yield match.span(group)
        at = view.find(text, at + len(text))
