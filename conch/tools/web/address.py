"""Which addresses the tool `http` may reach: a name of the allow-list, and public addresses alone. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from conch.errors import ToolError
from conch.text import safe_text

PORTS = {"http": 80, "https": 443}
"""The schemes that are fetched, with their ports."""
LONGEST_URL = 4000
"""Most characters of an address."""
UNICAST = ipaddress.ip_network("2000::/3")
"""The IPv6 addresses that are given to machines of the public network (IANA)."""
NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
"""IPv6 addresses that a gateway turns into the IPv4 address in their last 32 bits (RFC 6052, RFC 8215)."""
Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


class RefusedError(ToolError):
    """The address is not fetched; the message says why in a sentence."""


@dataclass(frozen=True)
class Target:
    """Where a request goes."""

    scheme: str
    host: str
    """Lower case, in the form of the DNS (IDNA); not resolved."""
    port: int
    path: str
    """With its query."""

    @property
    def authority(self) -> str:
        """Host, with the port where it is not the scheme's own."""
        return self.host if self.port == PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.scheme}://{self.authority}{self.path}"


def target_of(url: str, allow: Sequence[str]) -> Target:
    """The target of an address. Raises RefusedError for one that is none, of another scheme, with a user or a password,
    or of a host that is not allowed."""
    try:
        if len(url) > LONGEST_URL or any(ord(one) < 33 or ord(one) == 127 for one in url) or "\\" in url:
            raise ValueError
        parts = urlsplit(url)
        scheme, port = parts.scheme.lower(), parts.port
        host = (parts.hostname or "").rstrip(".").encode("idna").decode("ascii").lower()
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        path.encode("ascii")
    except (ValueError, UnicodeError):
        raise RefusedError(f"{_shown(url)} is no address that can be fetched") from None
    if scheme not in PORTS:
        raise RefusedError(f"{_shown(url)}: only http and https are fetched")
    if parts.username is not None or parts.password is not None:
        raise RefusedError(f"{_shown(url)} names a user: an address without one is fetched")
    wanted = port if port is not None else PORTS[scheme]
    if not host or not _is_allowed(host, wanted, scheme, allow):
        raise RefusedError(f"the host {_shown(host)} (port {wanted}) is not allowed (tools.http.allow)")
    return Target(scheme, host, wanted, path)


def _is_allowed(host: str, port: int, scheme: str, allow: Sequence[str]) -> bool:
    for entry in allow:
        name, _, own = entry.partition(":")
        if port != (int(own) if own else PORTS[scheme]):
            continue
        if host == name or (name.startswith("*.") and host.endswith(name[1:]) and host != name[2:]):
            return True
    return False


def refuse_private(address: str) -> Ip:
    """The address, where it is a public one. Raises RefusedError for every other: of this machine, of the own network,
    link-local as 169.254.169.254 is, multicast, reserved; and for an IPv6 address that stands for such an IPv4
    address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        raise RefusedError(f"{_shown(address)} is no address") from None
    for one in (found, *_embedded(found)):
        is_public = one.is_global and not one.is_multicast and not one.is_reserved
        if not is_public or (isinstance(one, ipaddress.IPv6Address) and one not in UNICAST):
            raise RefusedError(f"the address {found} is not a public one: it is not fetched")
    return found


def _embedded(found: Ip) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address stands for: mapped, compatible, 6to4, Teredo, NAT64."""
    if not isinstance(found, ipaddress.IPv6Address):
        return []
    low = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    stands = [one for one in (found.ipv4_mapped, found.sixtofour, *(found.teredo or ())) if one is not None]
    return [*stands, *([low] if int(found) >> 32 == 0 or any(found in net for net in NAT64) else [])]


def _shown(text: str) -> str:
    return repr(safe_text(text, one_line=True)[:200])
