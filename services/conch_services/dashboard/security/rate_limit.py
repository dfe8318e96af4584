"""The rate limit of logins: how many wrong tokens an address may send."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network

MOST_WRONG = 10
"""Wrong tokens from one address within WINDOW_SECONDS; then each further one is refused until they are over."""
WINDOW_SECONDS = 60.0
MOST_PLACES = 1024
"""Addresses that are remembered; the one that was wrong longest ago is forgotten first."""


class LoginRateLimit:
    """Counts wrong tokens by address. Times are of a clock that never goes back."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """Address -> (when its window began, how many wrong ones since)."""

    def wait(self, address: str, now: float) -> float:
        """Seconds that a wrong token from there has to wait; 0: none."""
        begun, count = self._wrong.get(place(address), (0.0, 0))
        return max(0.0, begun + WINDOW_SECONDS - now) if count >= MOST_WRONG else 0.0

    def note(self, address: str, now: float) -> None:
        """A wrong one came from there."""
        begun, count = self._wrong.pop(place(address), (now, 0))
        if now - begun >= WINDOW_SECONDS:
            begun, count = now, 0
        self._wrong[place(address)] = begun, count + 1
        if len(self._wrong) > MOST_PLACES:
            self._wrong.popitem(last=False)


def place(address: str) -> str:
    """The key by which tries count together: of IPv6 the network of 64 bits, which one machine has to itself."""
    try:
        number = ip_address(address)
    except ValueError:
        return ""
    return str(ip_network((number, 64), strict=False)) if isinstance(number, IPv6Address) else str(number)
