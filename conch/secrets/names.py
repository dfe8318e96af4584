"""Names that say that their value is a secret, such as `db_password`, `apiKey` and `X-Auth-Token`."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_of(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


class Grade(IntEnum):
    """How sure a name is, the least first."""

    NONE = 0
    WEAK = 1
    """`key`, `auth`, `session`: a secret only where the value is long and random."""
    STRONG = 2
    """`secret`, `token`, `api_key`: a secret where the value is random."""
    PASSWORD = 3
    """`password`: a secret where the value is no word, name or expression."""


_PASSWORDS: Final = (
    "password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "contrasena", "wachtwoord", "salasana",
    "motdepasse", "mnemonic", "seedphrase", "recoveryphrase",
)  # fmt: skip
_PASSWORD_WORDS: Final = words_of(
    "pass pwd pw psw passw pswd pwrd psk requirepass masterauth senha parola passe clave "
    "bindpw authtok passord losenord adgangskode lozinka parool haslo heslo jelszo sifre sandi"
)
_STRONG: Final = (
    "secret", "token", "credential", "authorization", "cookie", "bearer", "webhook", "connectionstring", "sessid",
    "jsessionid",
)  # fmt: skip
_STRONG_WORDS: Final = words_of("secret token jwt creds cred bearer apikeys secrets passwords credentials")
_KEYS: Final = words_of(
    "api access secret private encryption encrypt signing sign master account auth authentication app application "
    "client service session consumer shared storage deploy webhook hmac jwt subscription admin write server aes rsa "
    "ssh des pgp gpg license integration developer dev ingest ingestion rest bot user project management root sas "
    "wrapping seal unseal cipher crypto decryption live token password host device stream push maps site "
    "preshared network"
)
"""Words before `key` that make it the key to something."""
_WEAK_WORDS: Final = words_of(
    "key keys auth session sessionid sid sig signature tokens cookies dsn seed pin otp hmac sas csrf xsrf license pat"
)
_PUBLIC: Final = words_of("public publishable pub primary foreign sort partition cache state row lookup idempotency")
"""Words before `key` that make it no secret."""
_ABOUT: Final = words_of(
    "count counts counter type types url urls uri endpoint file files filename path paths dir directory folder name "
    "names id ids len length size sizes limit limits max min ttl expiry expires expired expiration expire index idx "
    "pattern regex re policy field fields column columns prefix suffix format version env var variable ref label "
    "title hint prompt help error errors message messages msg age rotation usage used budget class manager provider "
    "store handler helper service factory generator validator checker enabled required allowed valid invalid present "
    "missing exists rate per seconds ms minutes days timeout time date at created updated issuer audience scope "
    "scopes kind algorithm alg encoding strength score reset change changed confirm link page form view input button "
    "placeholder location source sources list set map table func function method callback cls obj object model schema "
    "validation auditor info digest fingerprint checksum sha256 sha1 md5 hash hashes kid row rows number num position "
    "bytes request requests response text_color color width height icon"
)
"""Last words of names that are about a secret, and hold none."""
_BEHIND: Final = words_of(
    "value val values string str text raw plain plaintext base dev development prod production test testing stage "
    "staging old new current previous default primary secondary hex b64 base64 env live sandbox main a b c"
)
"""Last words that change nothing."""


@lru_cache(8192)
def grade_of(name: str) -> Grade:
    """How sure the name says that its value is a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _BEHIND or words[-2:] == ["key", "data"]):
        words.pop()
    if not words or words[-1] in _ABOUT:
        return Grade.NONE
    last, joined = words[-1], "".join(words)
    if joined.endswith(_PASSWORDS) or last in _PASSWORD_WORDS or _is_glued(last):
        return Grade.PASSWORD
    if joined.endswith(_STRONG) or last in _STRONG_WORDS or (last == "salt" and len(words) > 1):
        return Grade.STRONG
    if last == "auth" and words[-2:-1] == ["bearer"]:
        return Grade.STRONG
    if last in {"key", "keys"}:
        return _grade_of_key(words)
    if last.endswith("key"):
        return Grade.STRONG if last[:-3] in _KEYS or last[:-3].endswith(("secret", "api", "access")) else Grade.NONE
    if last in _WEAK_WORDS or last.rstrip("s").endswith(_PASSWORDS + _STRONG):
        return Grade.WEAK
    is_about = any(word.endswith((*_PASSWORDS, "secret")) or word in _STRONG_WORDS for word in words)
    return Grade.WEAK if is_about or "apikey" in joined or "accesskey" in joined else Grade.NONE


def _is_glued(word: str) -> bool:
    """Whether the word ends with an abbreviation of a password: `dbpass`, `userpwd`."""
    return len(word) > 4 and word.endswith(
        (
            "pwd",
            "rootpw",
            "userpw",
            "dbpw",
            "dbpass",
            "userpass",
            "rootpass",
            "mypass",
            "adminpass",
            "storepass",
            "keypass",
        )
    )


def _grade_of_key(words: list[str]) -> Grade:
    before = words[-2] if len(words) > 1 else ""
    if before in _PUBLIC or "public" in words:
        return Grade.NONE
    if before in _KEYS or before.endswith("secret"):
        return Grade.STRONG
    return Grade.WEAK
