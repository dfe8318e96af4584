"""The embedded server's own MQTT listener: its clients receive the published events and cannot publish.

The server delivers the stream's subjects to MQTT clients at QoS 0, while they are connected: best effort.
"""

from __future__ import annotations

import errno
import json
import secrets
import socket
from dataclasses import dataclass, replace
from typing import Self

from conch.config.model import EdgeSettings, host_and_port
from conch.errors import ConchError
from conch_schemas import STREAM_SUBJECTS

OWNER = "conch"
"""Conch's own user at a server with an MQTT listener; its password is the server's token."""
LISTENER = "edge"
"""The user of every MQTT client."""


@dataclass(frozen=True)
class MqttListener:
    """Address and password of the MQTT listener."""

    host: str
    port: int
    """0: a free one."""
    password: str | None
    """None: clients on this machine need no password."""

    @classmethod
    def of(cls, edge: EdgeSettings) -> Self | None:
        """The listener that `edge.listen` asks for."""
        if edge.listen is None:
            return None
        password = edge.listen_password.get_secret_value() if edge.listen_password is not None else None
        return cls(*host_and_port(edge.listen), password)

    @property
    def address(self) -> str:
        """`mqtt://host:port`."""
        return f"mqtt://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def settled(self) -> Self:
        """With a free port in place of 0. Raises ConchError where the configured port is taken."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            with socket.create_server((self.host, self.port), family=family) as found:
                return replace(self, port=found.getsockname()[1])
        except OSError as error:
            why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
            raise ConchError(
                f"port {self.port} of {self.host} {why}: name another one in edge.listen (port 0: a free one)"
            ) from None

    def config(self, token: str) -> str:
        """The lines of nats-server.conf: its users, in place of a token, and the listener."""
        heard = [*STREAM_SUBJECTS, *(subject.removesuffix(".>") for subject in STREAM_SUBJECTS), "$MQTT.sub.>"]
        users = [
            {"user": OWNER, "password": token, "allowed_connection_types": ["STANDARD"]},
            {
                "user": LISTENER,
                "password": self.password if self.password is not None else secrets.token_urlsafe(24),
                "allowed_connection_types": ["MQTT"],
                # Without this, what an MQTT client publishes on a subject of the stream would be stored as an event.
                "permissions": {"publish": {"deny": ">"}, "subscribe": {"allow": heard}},
            },
        ]
        mqtt = {"host": self.host, "port": self.port}
        anybody = {"no_auth_user": LISTENER} if self.password is None else {}
        return f"authorization {{ users: {quoted(users)} }}\nmqtt {quoted(mqtt | anybody)}\n"


def quoted(value: object) -> str:
    """A value in nats-server's syntax: JSON, except that it has no `\\u`."""
    return json.dumps(value, ensure_ascii=False)
