"""Masks secrets, wherever a text enters an event, a prompt or a log line.

Those of the settings and of the environment are known: each is searched as it is, and as it is written inside JSON. A
text is searched once for each of them, which takes 1.3 us of 8 KB. An alternation of the `re` module takes 26 to 39 us
for 5 to 20 secrets, and more where they begin with letters that are frequent. Others are found by `conch.secrets`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Self, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec
from pydantic import JsonValue, SecretStr

from conch.config.model import Settings
from conch.secrets import HIDDEN, hide_secrets, is_secret_of, may_become_secret, secret_spans
from conch_schemas import ContractViolationError, Event, JsonObject, decode, wire_form

LEAST = 8
"""Characters of a secret at least: a shorter one is a word that stands in many texts."""
_NAME = re.compile(
    r"(^|_)(KEYS?|PASS|PAT)(_|$)|(API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(_|$)", re.IGNORECASE
)
_NO_SECRET = re.compile(r"_(FILE|PATH|DIR)$", re.IGNORECASE)
"""Ends of names whose values are places."""
_CONTRACT_WORD = re.compile(r"[a-z_]{1,20}")
"""What the closed fields of an event hold, such as a status."""
_LAST_WORD: Final = re.compile(r"\S+\Z")
_LONG: Final = 200
"""Characters from which a text of an event is searched alone, and what was found is kept: a prompt enters several
events."""
_KEPT: Final = 64
_decoded: Final = msgspec.json.Decoder().decode
E = TypeVar("E", bound=Event)


class Masker:
    """Masks a set of secrets."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Secrets of less than LEAST characters are left out."""
        known = {form for secret in secrets for form in _forms(secret) if len(form) >= LEAST}
        self._secrets = sorted(known, key=lambda form: (-len(form), form))  # one may contain another
        self._encoded = [secret.encode("utf-8", "surrogatepass") for secret in self._secrets]

    @classmethod
    def of(cls, settings: Settings | None, environ: Mapping[str, str] | None = None) -> Self:
        """The secrets of these settings (None: of no settings), and of the variables whose names look like keys; None:
        our own variables."""
        found = [] if settings is None else list(_of_settings(settings.model_dump()))
        for name, value in (os.environ if environ is None else environ).items():
            if _NAME.search(name) and not _NO_SECRET.search(name):
                found.append(value)
        return cls(found)

    def text(self, text: str) -> str:
        """The text with each secret replaced by HIDDEN; itself where there is none."""
        text = self._without_known(text)
        return hide_secrets(text) if _shows(text) else text

    def _without_known(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        return text

    def knows(self, text: str) -> bool:
        """Whether one of the known secrets stands in the text."""
        return any(secret in text for secret in self._secrets)

    def growing(self, text: str) -> str:
        """The same of a text that still grows: an end that may become a secret is left out until it has or has not.
        Of known ones no letter is shown; of others, no letter of a word that may become one."""
        while cut := max((_begun(secret, text) for secret in self._secrets), default=0):
            text = text[:-cut]  # before it is masked: what has come of a long secret may hold a short one
        text = self._without_known(text)
        if not text.endswith(HIDDEN) and may_become_secret(text[text.rfind("\n") + 1 :]):
            text = _LAST_WORD.sub("", text)
        return hide_secrets(text)

    def event(self, event: E) -> E:
        """The event with the secrets in its data masked; itself where there is none."""
        data = wire_form(event)
        if not any(secret in data for secret in self._encoded) and not _shows_secret(_decoded(data)["data"]):
            return event
        whole: JsonObject = json.loads(data)
        try:
            return self._masked(event, whole, spare=False)
        except ContractViolationError:  # a password that is a word of the contract
            return self._masked(event, whole, spare=True)

    def _masked(self, event: E, whole: JsonObject, *, spare: bool) -> E:
        found = decode(json.dumps(whole | {"data": self._walk(whole["data"], spare=spare)}).encode())
        assert isinstance(found, type(event))
        return found

    def _walk(self, value: Any, *, spare: bool) -> Any:
        if isinstance(value, str):
            return value if spare and _CONTRACT_WORD.fullmatch(value) else self.text(value)
        if isinstance(value, dict):
            return {
                key if spare else self.text(key): HIDDEN if is_secret_of(key, part) else self._walk(part, spare=spare)
                for key, part in value.items()
            }
        return [self._walk(part, spare=spare) for part in value] if isinstance(value, list) else value


NO_SECRETS: Final = Masker()
"""Knows no secret: masks those alone that show by their form, their name or their place."""


def _shows(text: str) -> bool:
    return bool(secret_spans(text)) if len(text) < _LONG else _long_shows(text)


@lru_cache(_KEPT)
def _long_shows(text: str) -> bool:
    return bool(secret_spans(text))


def _shows_secret(value: JsonValue) -> bool:
    """Whether a text within a value shows a secret. Short texts are searched together, which takes a tenth of the
    time."""
    short: list[str] = []
    return _walks_to_secret(value, short) or bool(secret_spans("\n".join(short)))


def _walks_to_secret(value: JsonValue, short: list[str]) -> bool:
    if isinstance(value, str):
        if len(value) >= _LONG:
            return _long_shows(value)
        if len(value) >= LEAST - 2:
            short.append(value)
        return False
    if isinstance(value, dict):
        return any(is_secret_of(key, part) or _walks_to_secret(part, short) for key, part in value.items())
    return isinstance(value, list) and any(_walks_to_secret(part, short) for part in value)


def _begun(secret: str, text: str) -> int:
    """The number of characters at the text's end that the secret begins with."""
    longest = min(len(secret) - 1, len(text))
    return next((size for size in range(longest, 0, -1) if text.endswith(secret[:size])), 0)


def _forms(secret: str) -> Iterator[str]:
    """A secret as it may stand in a text: whole, line by line, and as JSON has it."""
    for part in {secret.strip(), *(line.strip() for line in secret.splitlines() if not line.startswith("-----"))}:
        yield part
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield json.dumps(part)[1:-1]


def _of_settings(value: Any) -> Iterator[str]:
    """The secret values, and the passwords in addresses."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, str):
        yield from _password(value)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _of_settings(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _of_settings(part)


def _password(address: str) -> Iterator[str]:
    try:
        password = urlsplit(address).password if "://" in address else None
    except ValueError:
        return
    if password is not None:
        yield from {password, unquote(password)}
