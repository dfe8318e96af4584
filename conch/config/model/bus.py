"""Settings of the message bus: address, credentials, durability, retention."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from conch.config.model.section import SettingsSection

NATS_URL = re.compile(r"(nats|tls)://(.*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(:\d{1,5})?/?")
"""Address of a NATS server; before the last @ comes a user and a password, or a token."""


class StreamRetentionSettings(SettingsSection):
    """Retention of the stream, after every consumer has read the events."""

    days: Annotated[float, Field(gt=0)] = 30.0
    """Days that read events stay on the stream."""
    gib: Annotated[float, Field(gt=0)] = 4.0
    """GiB of read events that stay on the stream; the smaller of days and GiB applies."""


class BusTlsSettings(SettingsSection):
    """TLS for the connection to a NATS server of your own."""

    ca: str | None = None
    """File (PEM) of the CAs for the server's certificate; none: those of the system."""
    certificate: str | None = None
    """File (PEM) of the client certificate, if the server asks for one."""
    key: str | None = None
    """File (PEM) of the client certificate's key, without a passphrase; none: it is in the certificate's file."""
    hostname: str | None = None
    """Name that the server's certificate must have; none: the one in bus.url."""

    @model_validator(mode="after")
    def _key_has_certificate(self) -> Self:
        if self.key is not None and self.certificate is None:
            raise ValueError("bus.tls.key needs bus.tls.certificate beside it")
        return self


class BusSettings(SettingsSection):
    """The message bus."""

    url: str | None = None
    """Address of your own NATS server (nats://…, tls://…; several: with commas); none: Conch starts one in the home."""
    server: str | None = None
    """The nats-server that Conch starts: a path, or a name on PATH; none: the one installed with Conch."""
    token: SecretStr | None = None
    """Token for your own server, if it asks for one."""
    user: str | None = None
    """User at your own server, if it asks for one."""
    password: SecretStr | None = None
    """That user's password."""
    nkey: str | None = None
    """File with the seed of an nkey (SU…), if your own server asks for one."""
    credentials: str | None = None
    """File (.creds) with a user's JWT and seed, if your own server asks for them."""
    tls: BusTlsSettings = BusTlsSettings()
    """TLS for the connection to your own server; used too if the server requires it."""
    durability: Literal["strict", "fast"] = "strict"
    """strict: acknowledged is on disk (your own server: with sync_interval: always); fast: may lose the last second."""
    keep: StreamRetentionSettings = StreamRetentionSettings()
    """Retention of events that every consumer has read."""
    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """Replicas of the stream in your own cluster."""

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        if url is not None and not all(NATS_URL.fullmatch(part) for part in url.split(",")):
            raise ValueError("an address is nats://host:port or tls://host:port (several separated by commas)")
        return url

    @model_validator(mode="after")
    def _come_in_one_way(self) -> Self:
        ways = {
            "a user in bus.url": self.url is not None and "@" in self.url,
            "bus.token": self.token is not None,
            "bus.user": self.user is not None or self.password is not None,
            "bus.nkey": self.nkey is not None,
            "bus.credentials": self.credentials is not None,
        }
        given = [way for way, is_given in ways.items() if is_given]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are given: leave all but one of them out")
        if (self.user is None) != (self.password is None):
            raise ValueError("bus.user and bus.password belong together: give both")
        return self
