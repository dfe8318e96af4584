"""Addresses and credentials of a NATS server, and the nats-py options made from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ssl import SSLContext
from typing import TypedDict
from urllib.parse import unquote, urlsplit

from conch.bus import identity, tls
from conch.clients import is_own_machine
from conch.config import masked
from conch.config.model import BusSettings, Settings
from conch.errors import ConfigError
from conch.home import Home

_ADDRESS = re.compile(r"(?P<scheme>\w+://)(?:(?P<user>.*)@)?(?P<host>[^@]*)")


class ConnectOptions(TypedDict, total=False):
    """The options of nats-py's `connect` that `Access` sets."""

    token: str | None
    user: str | None
    password: str | None
    nkeys_seed_str: str
    user_jwt_cb: Callable[[], bytearray]
    signature_cb: Callable[[str], bytes]
    tls: SSLContext
    tls_hostname: str
    inbox_prefix: str


@dataclass(frozen=True, repr=False)
class Access:
    """Address of a NATS server (or several, separated by commas), and one kind of credentials for it."""

    url: str
    """May hold `user:password@` or `token@`; of several addresses, all hold the same or none does."""
    token: str | None = None
    user: str | None = None
    password: str | None = None
    nkey: str | None = None
    """File that holds a user's seed."""
    credentials: str | None = None
    """File that holds a user's JWT and seed."""
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    hostname: str | None = None
    """Name that the server's certificate must hold; None: the address's."""

    @classmethod
    def of(cls, settings: BusSettings, url: str | None = None) -> Access:
        """Address and credentials that the settings give for an external server; `url` replaces their address."""
        return cls(
            url=url or settings.url or "",
            token=settings.token.get_secret_value() if settings.token is not None else None,
            user=settings.user,
            password=settings.password.get_secret_value() if settings.password is not None else None,
            nkey=settings.nkey,
            credentials=settings.credentials,
            **settings.tls.model_dump(),
        )

    def __repr__(self) -> str:
        return f"Access({self.shown})"

    @property
    def servers(self) -> list[str]:
        """The addresses without a user: from an address with one, nats-py sends no credentials to servers learnt
        later."""
        return [_ADDRESS.sub(r"\g<scheme>\g<host>", address) for address in self.url.split(",")]

    @property
    def address(self) -> str:
        """The addresses as one text, without a user."""
        return ",".join(self.servers)

    @property
    def shown(self) -> str:
        """The addresses for people and logs: no secret in them."""
        return ",".join(masked(address) for address in self.url.split(","))

    @property
    def secure(self) -> bool:
        """Whether nothing may be sent before the connection is encrypted."""
        return "tls://" in self.url or any((self.ca, self.certificate, self.key, self.hostname))

    @property
    def way(self) -> str:
        """The setting that holds the credentials; empty: there are none."""
        if "@" in self.url:
            return "bus.url"
        named = ("token", "user", "nkey", "credentials")
        return next((f"bus.{name}" for name in named if getattr(self, name) is not None), "")

    @property
    def _is_local(self) -> bool:
        """Whether all servers are on this machine."""
        return all(is_own_machine(urlsplit(address).hostname or "") for address in self.servers)

    def options(self) -> ConnectOptions:
        """The options for nats-py's `connect`. Raises ConfigError, BusUnreachableError, ClientEnvironmentError: see
        `identity`, `tls`."""
        options, who = self._entry()
        if self.secure:
            options["tls"] = tls.context(self.ca, self.certificate, self.key, own_machine=self._is_local)
        if self.hostname is not None:
            options["tls_hostname"] = self.hostname
        # The inbox is under the user's own name, so that a server can forbid all other users to listen to the replies.
        options["inbox_prefix"] = inbox_of(who)
        return options

    def _entry(self) -> tuple[ConnectOptions, str | None]:
        """The options that hold the credentials, and our user's name at the server where it is known."""
        if self.nkey is not None:
            found = identity.read_nkey(self.nkey)
            return {"nkeys_seed_str": found.seed}, found.public
        if (file := self.credentials) is not None:
            # Read again for each connection: a renewed JWT is written to the same file.
            callbacks: ConnectOptions = {
                "user_jwt_cb": lambda: bytearray((identity.read_credentials(file).jwt or "").encode()),
                "signature_cb": lambda nonce: identity.read_credentials(file).sign(nonce),
            }
            return callbacks, identity.read_credentials(file).public
        user, password = self._in_url() or (self.user, self.password)
        if user is not None and password is None:
            return {"token": user}, None
        return {"token": self.token, "user": user, "password": password}, user

    def _in_url(self) -> tuple[str, str | None] | None:
        given = {found["user"] for address in self.url.split(",") if (found := _ADDRESS.match(address))} - {None}
        if len(given) > 1:
            raise ConfigError("bus.url names several users: give all its addresses the same one, or use bus.user")
        if not given:
            return None
        user, colon, password = given.pop().partition(":")
        return unquote(user), unquote(password) if colon else None


def access_to(home: Home, settings: Settings) -> Access | None:
    """The address and credentials of the bus in use: of the run in progress, or of an external server; None without
    either.

    The credentials of an external server are read from the settings alone, never from the run's description.
    """
    own = Access.of(settings.bus) if settings.bus.url is not None else None
    if (running := home.running()) is None:
        return own
    bus = running.bus
    if bus.token is not None:
        if bus.user is None:
            return Access(bus.url, token=bus.token)
        return Access(bus.url, user=bus.user, password=bus.token)
    return own if own is not None and own.address == bus.url else Access.of(settings.bus, bus.url)


def inbox_of(user: str | None) -> str:
    """Prefix of the subjects on which replies to `user` arrive; None: the prefix that has no user in it."""
    return f"_INBOX.{user}" if user is not None and re.fullmatch(r"[\w-]+", user, re.ASCII) else "_INBOX"
