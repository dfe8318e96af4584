"""The names of the page: which Host a request may have, and from which origin it may change something. Pure.

With DNS rebinding, a foreign page's name leads to this machine; it sends its own name in Host, so any name that is not
ours is refused. A foreign page that sends a form here with our cookie sends its own name in Origin, and the browser
says in Sec-Fetch-Site that it is cross-site.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from conch.config import UiSettings
from conch.config.model import is_loopback

CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""Methods that change something."""

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?")
"""A host, perhaps a port, and nothing else."""


@dataclass(frozen=True)
class PageNames:
    """The host names and origins of the page that listens at one port."""

    hosts: frozenset[str]
    """Accepted values of the header Host, in small letters."""
    named: frozenset[str]
    """Those of them that only ui.origins knows."""
    origins: frozenset[str]
    """Those of ui.origins."""
    by_number: bool
    """Whether any IP address is accepted as Host: the page is open to other machines without a login."""

    @classmethod
    def of(cls, settings: UiSettings, port: int) -> PageNames:
        """The names of a page that listens at this port."""
        own = ["127.0.0.1", "localhost", "[::1]"]
        if is_loopback(settings.host):
            own.append(f"[{settings.host}]" if ":" in settings.host else settings.host)
        hosts = {f"{name}:{port}" for name in own} | {name for name in own if port == 80}
        named: set[str] = set()
        for origin in settings.origins:
            parts = urlsplit(origin)
            named |= {parts.netloc} if parts.port else {parts.netloc, f"{parts.netloc}:{_usual(parts.scheme)}"}
        open_to_all = settings.unsafe_allow_unauthenticated and not is_loopback(settings.host)
        return cls(frozenset(hosts | named), frozenset(named - hosts), frozenset(settings.origins), open_to_all)

    def knows(self, host: str, *, harmless: bool = False) -> bool:
        """Whether a request with this Host is meant for us. `harmless`: for answers without data, any IP address will
        do: a health check of a container knows no other name."""
        if host.lower() in self.hosts:
            return True
        return (harmless or self.by_number) and _is_number(host)

    def is_secure(self, host: str) -> bool:
        """Whether browsers reach this host by TLS alone."""
        named = {urlsplit(origin).scheme for origin in self.origins if urlsplit(origin).netloc == host.lower()}
        return named == {"https"}

    def comes_from_us(self, host: str, headers: Mapping[str, str]) -> bool:
        """Whether a request that changes something was sent by our own page, or by a program.

        A browser reports another page in one header or the other; a program sends neither.
        """
        site, origin, host = headers.get("sec-fetch-site", "none"), headers.get("origin"), host.lower()
        if site not in ("same-origin", "none"):
            return False
        if origin == "null":  # sent by a form of a page with Referrer-Policy: no-referrer, as ours are
            return site == "same-origin"
        return origin is None or origin in self.origins or (host not in self.named and origin == f"http://{host}")


def is_part_of_another(headers: Mapping[str, str]) -> bool:
    """Whether a foreign page has its browser fetch this as a part of it, such as a picture: it is not a person's visit,
    as by a link."""
    site = headers.get("sec-fetch-site", "none")
    return site not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate"


def named_by(target: str) -> str:
    """The host, with its port, that a request's target names which is a whole address; else ""."""
    return target.partition("://")[2].partition("/")[0]


def _usual(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def _is_number(host: str) -> bool:
    found = _HOST.fullmatch(host)
    try:
        ip_address((found[1] or found[2]) if found else "")
    except ValueError:
        return False
    return True
