"""MQTT: the broker, sensors that are heard, devices that are commanded."""

from __future__ import annotations

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from conch.config.model.address import HOST_AND_PORT, host_and_port, is_loopback
from conch.config.model.section import SettingsSection

BROKER_URL = r"^mqtts?://([^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(:\d{1,5})?/?$"
"""Of an MQTT broker; a `/` or `@` in user or password is percent-encoded."""

MOST_SENSES = 64
"""Senses at once: the agent remembers the last word of each."""


def _is_word(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,47}", name):
        raise ValueError("the name is small letters, digits and `_`, at most 48, a letter first")
    return name


def _is_broker(url: str) -> str:
    if not re.fullmatch(BROKER_URL, url):
        raise ValueError(
            "write mqtt://[user[:password]@]host[:port], or mqtts://, and percent-encode / and @ before host"
        )
    return url


EdgeName = Annotated[str, AfterValidator(_is_word)]
"""Name of a sense or a device: a word that a thought can use."""


class EdgeTlsSettings(SettingsSection):
    """TLS towards the broker."""

    ca: str | None = None
    """File (PEM) of who may sign the broker's certificate; none: whom the system trusts. Of mqtts:// only."""
    certificate: str | None = None
    """File (PEM) of our own certificate, where the broker asks for one."""
    key: str | None = None
    """File (PEM) of our own certificate's key, without a passphrase; none: it stands in the certificate's file."""


class SenseSettings(SettingsSection):
    """A sensor that the agent hears."""

    topic: Annotated[str, Field(min_length=1, max_length=1000)]
    """MQTT topic that it speaks on; `+` stands for one level, `#` at the end for all that follow."""
    unit: Annotated[str, Field(max_length=32)] = ""
    """Unit of its numbers, as people write it."""
    path: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Where the value stands in a JSON payload: keys, or places in a list, with dots between; none: it is all of it."""
    agent: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] | None = None
    """Name of the agent that hears it; none: every agent of this home."""
    every: Annotated[float, Field(ge=0.1, le=86400)] = 1.0
    """Seconds from one fact about it to the next at least; of what it says in between the newest counts."""
    max_age: Annotated[float, Field(gt=0)] = 600.0
    """Seconds after which what it said is no evidence any more."""

    @field_validator("topic")
    @classmethod
    def _filters(cls, topic: str) -> str:
        levels = topic.split("/")
        if "\x00" in topic or any(len(level) > 1 and set("+#") & set(level) for level in levels):
            raise ValueError("a wildcard is a whole level of a topic: home/+/temperature, home/#")
        if "#" in levels[:-1]:
            raise ValueError("# can only be the last level of a topic")
        return topic


class ActuatorSettings(SettingsSection):
    """A device that the agent may command, and all that it may be told."""

    topic: Annotated[str, Field(min_length=1, max_length=1000)]
    """MQTT topic that it listens on; no wildcards."""
    payloads: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """The payloads that it may be sent; none: a number in `range`."""
    range: tuple[float, float] | None = None
    """The least and the greatest number that it may be sent, where it has no `payloads`."""
    retain: bool = False
    """Whether the broker keeps the last command for a device that connects later."""

    @field_validator("topic")
    @classmethod
    def _names(cls, topic: str) -> str:
        if set("+#\x00") & set(topic) or topic.startswith("$"):
            raise ValueError("a command goes to one topic: + and # cannot be part of it, nor $ its beginning")
        return topic

    @model_validator(mode="after")
    def _allows(self) -> Self:
        if bool(self.payloads) == (self.range is not None):
            raise ValueError("a device takes either some payloads or a range of numbers: give one of the two")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError("a range has its least number first")
        return self


class EdgeSettings(SettingsSection):
    """MQTT: devices and smart homes."""

    bridge: Annotated[str, Field(json_schema_extra={"pattern": BROKER_URL}), AfterValidator(_is_broker)] | None = None
    """Address of the MQTT broker that every fact goes to: mqtt://[user[:password]@]host[:port], mqtts:// with TLS."""
    user: str | None = None
    """User at the broker, where the address names none."""
    password: SecretStr | None = None
    """Password at the broker, where the address has none."""
    tls: EdgeTlsSettings = EdgeTlsSettings()
    """TLS towards the broker."""
    discovery: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$")] | None = "homeassistant"
    """Topic that Home Assistant looks under for what there is; none: nothing is announced to it."""
    senses: Annotated[dict[EdgeName, SenseSettings], Field(max_length=MOST_SENSES)] = Field(default_factory=dict)
    """Sensors by name, at the broker of `bridge`: {name: {topic: …, unit: …}}."""
    actuators: Annotated[dict[EdgeName, ActuatorSettings], Field(max_length=64)] = Field(default_factory=dict)
    """Devices by name that the agent may command with its tool `device`; nothing else is ever sent for it."""
    listen: Annotated[str, Field(pattern=HOST_AND_PORT)] | None = None
    """host:port (0: a free one) where the embedded server lets MQTT clients hear conch/v1/<agent>/…, at best effort."""
    listen_password: SecretStr | None = None
    """Password of the user `edge` at `listen`; none: anybody on this machine comes in, and nobody from outside."""

    @model_validator(mode="after")
    def _address(self) -> Self:
        if self.bridge is not None:
            _ = urlsplit(self.bridge).port  # raises for one that there cannot be
            if "@" in self.bridge and (self.user or self.password):
                raise ValueError("edge.bridge names a user, and so do edge.user or edge.password: leave one of them")
        elif self.senses or self.actuators:
            raise ValueError("senses and actuators are at a broker: say in edge.bridge at which")
        return self

    @model_validator(mode="after")
    def _listens(self) -> Self:
        if self.listen is not None:
            host, _ = host_and_port(self.listen)  # raises for a port that there cannot be
            if self.listen_password is None and not is_loopback(host):
                raise ValueError(
                    "edge.listen is open to other machines: set edge.listen_password, or listen on 127.0.0.1"
                )
        return self
