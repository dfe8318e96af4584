"""Settings of MQTT: the broker, sensors, actuators, and the embedded server's listener."""

from __future__ import annotations

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from conch.config.model.address import HOST_AND_PORT, host_and_port, is_loopback
from conch.config.model.section import SettingsSection

BROKER_URL = r"^mqtts?://([^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(:\d{1,5})?/?$"
"""Address of an MQTT broker; a `/` or `@` in user or password is percent-encoded."""

MOST_SENSES = 64
"""Most sensors: the agent remembers the last reading of each."""


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
"""Name of a sensor or a device: a word that a thought can contain."""


class EdgeTlsSettings(SettingsSection):
    """TLS for the connection to the broker."""

    ca: str | None = None
    """File (PEM) of the CAs for the broker's certificate; none: those of the system. For mqtts:// only."""
    certificate: str | None = None
    """File (PEM) of the client certificate, if the broker asks for one."""
    key: str | None = None
    """File (PEM) of the client certificate's key, without a passphrase; none: it is in the certificate's file."""


class SenseSettings(SettingsSection):
    """A sensor whose readings the agent receives."""

    topic: Annotated[str, Field(min_length=1, max_length=1000)]
    """MQTT topic of its readings; `+` stands for one level, `#` at the end for all that follow."""
    unit: Annotated[str, Field(max_length=32)] = ""
    """Unit of its numbers, as people write it."""
    path: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Path of the value in a JSON payload: keys or list indices, separated by dots; none: the whole payload."""
    agent: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] | None = None
    """Name of the agent that receives it; none: every agent of this home."""
    every: Annotated[float, Field(ge=0.1, le=86400)] = 1.0
    """Least seconds between two of its events; of the readings in between the newest counts."""
    max_age: Annotated[float, Field(gt=0)] = 600.0
    """Seconds after which a reading is stale and no evidence any more."""

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
    """A device that the agent may command, with all allowed payloads."""

    topic: Annotated[str, Field(min_length=1, max_length=1000)]
    """MQTT topic of its commands; no wildcards."""
    payloads: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """The allowed payloads; none: a number in `range`."""
    range: tuple[float, float] | None = None
    """The least and the greatest allowed number, if it has no `payloads`."""
    retain: bool = False
    """Whether the broker retains the last command for a device that connects later."""

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
    """Address of the MQTT broker that gets every event: mqtt://[user[:password]@]host[:port], mqtts:// with TLS."""
    user: str | None = None
    """User at the broker, where the address names none."""
    password: SecretStr | None = None
    """Password at the broker, where the address has none."""
    tls: EdgeTlsSettings = EdgeTlsSettings()
    """TLS for the connection to the broker."""
    discovery: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$")] | None = "homeassistant"
    """Home Assistant's discovery topic; none: nothing is announced to it."""
    senses: Annotated[dict[EdgeName, SenseSettings], Field(max_length=MOST_SENSES)] = Field(default_factory=dict)
    """Sensors by name, at the broker of `bridge`: {name: {topic: …, unit: …}}."""
    actuators: Annotated[dict[EdgeName, ActuatorSettings], Field(max_length=64)] = Field(default_factory=dict)
    """Devices by name that the agent may command with its tool `device`; it can send nothing else."""
    listen: Annotated[str, Field(pattern=HOST_AND_PORT)] | None = None
    """host:port (0: a free one) where the embedded server lets MQTT clients read conch/v1/<agent>/…, at best effort."""
    listen_password: SecretStr | None = None
    """Password of the user `edge` at `listen`; none: clients on this machine need none, all others are refused."""

    @model_validator(mode="after")
    def _address(self) -> Self:
        if self.bridge is not None:
            _ = urlsplit(self.bridge).port  # raises for an invalid port
            if "@" in self.bridge and (self.user or self.password):
                raise ValueError("edge.bridge names a user, and so do edge.user or edge.password: leave one of them")
        elif self.senses or self.actuators:
            raise ValueError("senses and actuators are at a broker: say in edge.bridge at which")
        return self

    @model_validator(mode="after")
    def _listens(self) -> Self:
        if self.listen is not None:
            host, _ = host_and_port(self.listen)  # raises for an invalid port
            if self.listen_password is None and not is_loopback(host):
                raise ValueError(
                    "edge.listen is open to other machines: set edge.listen_password, or listen on 127.0.0.1"
                )
        return self
