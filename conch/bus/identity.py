"""Client identities for servers that ask for an nkey or a JWT: read from files and checked before they are used.

`nkeys` needs a C library and is imported only when it is used. nats-py's own reader of credentials files loops for ever
on a file without a JWT, and its nkeys do not verify a seed's checksum: so both are read here.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from conch.errors import BusUnreachableError, ConfigError
from conch.files import read_plain

MOST_BYTES = 2**20
"""Most bytes of a file of keys or credentials."""
_JWT = re.compile(r"BEGIN NATS USER JWT-+\s+(\S+)")
_SEED = re.compile(r"BEGIN USER NKEY SEED-+\s+(\S+)")


@dataclass(frozen=True)
class NkeyIdentity:
    """A user's seed, and the JWT that an account has signed for it."""

    public: str
    """The public key (U…) by which the server knows this user."""
    seed: str = field(repr=False)
    jwt: str | None = field(default=None, repr=False)

    def sign(self, nonce: str) -> bytes:
        """The signature of the server's challenge, encoded as the server expects it."""
        import nkeys

        return base64.b64encode(nkeys.from_seed(bytearray(self.seed.encode())).sign(nonce.encode()))


class _JwtClaims(NamedTuple):
    """What is used of a JWT's claims."""

    subject: str
    """The public key of its user."""
    expiry: int
    """Seconds since the epoch; 0: it does not expire."""


def read_nkey(file: str, setting: str = "bus.nkey") -> NkeyIdentity:
    """The identity in a seed file. Raises ConfigError with a sentence that names the setting and shows no secret."""
    return _of_seed(_text(file, setting), f"{setting}: {file}")


def read_credentials(file: str, setting: str = "bus.credentials") -> NkeyIdentity:
    """The identity in a `.creds` file. Raises ConfigError, or BusUnreachableError for a JWT that has expired."""
    text, place = _text(file, setting), f"{setting}: {file}"
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None:
        raise ConfigError(f"{place} holds no {'user JWT' if jwt is None else 'user seed'}: it is no credentials file")
    identity, claims = _of_seed(seed[1], place), _claims(jwt[1], place)
    if claims.subject != identity.public:
        raise ConfigError(f"{place}: the seed in it is not that of its JWT: get the file anew")
    if 0 < claims.expiry < time.time():
        when = datetime.fromtimestamp(claims.expiry, UTC).strftime("%Y-%m-%d %H:%M UTC")
        raise BusUnreachableError(f"{place}: its JWT has expired ({when}): get the file anew")
    return NkeyIdentity(identity.public, identity.seed, jwt[1])


def _of_seed(text: str, place: str) -> NkeyIdentity:
    import nkeys

    seed = text.strip()
    try:
        prefix, raw = nkeys.decode_seed(seed.encode())
        whole = nkeys.encode_seed(raw, prefix) == seed.encode()
        public = nkeys.from_seed(bytearray(seed.encode())).public_key.decode() if whole else ""
    except (nkeys.NkeysError, ValueError):
        public = ""
    if not public.startswith("U"):
        raise ConfigError(f"{place} holds no user's seed (SU…, as `nk -gen user` writes it)") from None
    return NkeyIdentity(public, seed)


def _claims(jwt: str, place: str) -> _JwtClaims:
    try:
        body = jwt.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return _JwtClaims(str(found["sub"]), int(found.get("exp", 0)))
    except (ValueError, LookupError, TypeError, AttributeError, binascii.Error):
        raise ConfigError(f"{place}: the JWT in it cannot be read: get the file anew") from None


def _text(file: str, setting: str) -> str:
    try:
        return read_plain(Path(file).expanduser(), MOST_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"{setting}: {file} cannot be read ({why})") from None
