"""How the engine's process is started, and what an agent's process needs to reach it."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from conch.bus import Access
from conch.config import Settings
from conch.processes import messages

ENGINE_MODULE: Final = "conch.engine.process"
MOST_SLOTS: Final = 4
"""Most replies that are decoded side by side; each slot has a context of its own in memory."""


@dataclass
class EngineAddress:
    """Where the engine of a run listens. Started again, it takes the same port and key, as the agents know them."""

    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    url: str | None = None
    up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it has loaded its model."""

    @property
    def port(self) -> int:
        """Its port; 0 before the first start: a free one."""
        return (urlsplit(self.url).port or 0) if self.url is not None else 0

    def served(self, report: messages.EngineServed) -> None:
        """Take its report that it listens."""
        self.url = report.url
        self.up.set()


def engine_start(
    settings: Settings, home: Path, model: Path, address: EngineAddress, agents: int
) -> messages.EngineStart:
    """The start of the engine's process: a slot for each agent, up to MOST_SLOTS."""
    return messages.EngineStart(
        settings=settings,
        home=home,
        access=Access(""),
        model=model,
        port=address.port,
        key=address.key,
        slots=max(1, min(MOST_SLOTS, agents)),
    )


def minded(settings: Settings, model: Path, address: EngineAddress) -> Settings:
    """The settings of an agent's process: its mind asks the engine, which has begun."""
    update = {"base_url": f"{address.url}/v1", "api_key": SecretStr(address.key), "model": model.stem}
    return settings.model_copy(update={"mind": settings.mind.model_copy(update=update)})
