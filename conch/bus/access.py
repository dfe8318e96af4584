"""How a bus is reached: its address, and what opens it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Access:
    """The address of a NATS server (or several, separated by commas) and who we are there."""

    url: str
    token: str | None = field(default=None, repr=False)

    def options(self) -> dict[str, Any]:
        """What nats-py's `connect` is given for it."""
        return {"token": self.token}
