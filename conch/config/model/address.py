"""Where things listen, as people write it."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

HOST_AND_PORT = r"^(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+):\d{1,5}$"
"""Where something listens; an IPv6 address stands in brackets."""


def host_and_port(address: str) -> tuple[str, int]:
    """Of `host:port`. Raises ValueError for a port beyond 65535."""
    parts = urlsplit(f"//{address}")
    return parts.hostname or "", parts.port or 0


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
