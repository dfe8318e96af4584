"""Which addresses are of this machine: what is sent there leaves it by no wire."""

from __future__ import annotations

import ipaddress
import socket

_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
"""As RFC 6761 and the hosts files of Linux distributions have them."""


def is_own_machine(host: str) -> bool:
    """Whether a host is this machine: a name of its loopback, its own name, or a loopback or unspecified address, in
    any spelling that the resolver reads. No name is looked up.

    >>> [is_own_machine(host) for host in ("127.0.0.1", "[::1]", "LOCALHOST.", "127.1", "10.0.0.1", "localhost.org")]
    [True, True, True, True, False, False]
    """
    name = host.strip("[]").rstrip(".").lower()
    try:
        found = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        try:
            found = ipaddress.IPv4Address(socket.inet_aton(name))  # 127.1, 0x7f000001 and the like
        except OSError:
            return name in _NAMES or name.endswith(".localhost") or name == socket.gethostname().lower()
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return any(one.is_loopback or one.is_unspecified for one in (found, mapped or found))
