"""Parsing of `host:port` addresses."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

HOST_AND_PORT = r"^(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+):\d{1,5}$"
"""A listening address; an IPv6 address is in brackets."""


def host_and_port(address: str) -> tuple[str, int]:
    """Host and port of `host:port`. Raises ValueError for a port beyond 65535."""
    parts = urlsplit(f"//{address}")
    return parts.hostname or "", parts.port or 0


def is_loopback(host: str) -> bool:
    """Whether the host is a loopback address, reachable from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
