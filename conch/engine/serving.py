"""How the engine's process is started, and what an agent's process needs to reach it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from conch.bus import Access
from conch.config import SERVED, OneMindSettings, Settings
from conch.engine.models import served_base
from conch.errors import ConchError
from conch.processes import GRACE_SECONDS, ChildProcess, ChildRecord, first_fatal, messages
from conch.tasks import background

ENGINE_MODULE: Final = "conch.engine.process"
FRONT_MODULE: Final = "conch.engine.front.process"
"""The engine's process that serves adapters, too: servers of llama.cpp are its children."""
TORCH_MODULE: Final = "conch.engine.pytorch.process"
"""The engine's process of the kind transformers."""
TEMPERATURE: Final = 0.3
"""Sampling temperature of a small model where none is set. In trials SmolLM2 wrote more calls right with it than with
0.7."""
REPLY_TOKENS: Final = 1024
"""Most tokens of a reply of a small model where no limit is set: its window has 8,192 at most, and what it goes on to
write is mostly repetition."""
MOST_SLOTS: Final = 4
"""Most replies that are decoded side by side; each slot has a context of its own in memory."""


@dataclass
class EngineAddress:
    """Where the engine of a run listens. Started again, it takes the same port and key, as the agents know them."""

    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    url: str | None = None
    context: int | None = None
    """Tokens of context of each slot, of the model that it serves; None: it has not said it yet."""
    up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it has loaded its model."""

    @property
    def port(self) -> int:
        """Its port; 0 before the first start: a free one."""
        return (urlsplit(self.url).port or 0) if self.url is not None else 0

    def served(self, report: messages.EngineServed) -> None:
        """Take its report that it listens."""
        self.url, self.context = report.url, report.context
        self.up.set()


@dataclass(frozen=True)
class RunningEngine:
    """An engine that has loaded its model."""

    address: EngineAddress
    seconds: float
    """How long loading took."""
    record: ChildRecord
    """Its process: state, pid, restarts."""
    living: asyncio.Task[int]
    """Ends when the process does and is not started again."""


def engine_module(settings: Settings) -> str:
    """The module of the engine's process for the mind of these settings that an engine of Conch serves."""
    if settings.mind.of_kind("transformers") is not None:
        return TORCH_MODULE
    return FRONT_MODULE if settings.training.enabled else ENGINE_MODULE


@asynccontextmanager
async def running_engine(
    settings: Settings,
    home: Path,
    model: Path,
    at: EngineAddress | None = None,
    *,
    module: str | None = None,
    slots: int = 1,
    adapters: Sequence[Path] = (),
    process: str | None = None,
) -> AsyncIterator[RunningEngine]:
    """An engine of its own, outside of a run, until the context is left; its logs are in `home`/logs.

    `at`: the address to listen at; None: a free port. `module`: of its process; None: as `engine_module` says.
    `process`: its name in logs. `adapters`: GGUF files that it loads, without which it does not begin: then its first
    death is the last.

    Raises ConchError with the engine's reason where it cannot serve the model.
    """
    address, record = EngineAddress(url=at.url if at is not None else None), ChildRecord("engine")
    loaded: list[float] = []

    def hear(_: ChildRecord, report: messages.Report) -> None:
        if isinstance(report, messages.EngineServed):
            loaded.append(report.seconds)
            address.served(report)

    async def spec() -> messages.EngineStart:
        start = engine_start(settings, home, model, address, slots)
        return start.model_copy(update={"adapters": tuple(adapters), "process": process})

    def changed() -> None:
        if adapters and record.state == "restarting" and not address.up.is_set():
            child.end()

    child = ChildProcess(
        record, module or engine_module(settings), hear=hear, changed=changed, tell=lambda _: None, secrets=False
    )
    async with background(child.live(spec), name="engine") as living, background(address.up.wait(), name="up") as up:
        await asyncio.wait({living, up}, return_when=asyncio.FIRST_COMPLETED)
        if (fatal := first_fatal([child])) is not None:
            raise fatal
        if living.done():
            raise ConchError(f"the engine died again and again as it loaded {model}: {record.why}")
        yield RunningEngine(address, loaded[0], record, living)
        child.end()
        await asyncio.wait({living}, timeout=GRACE_SECONDS)


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
    """The settings of an agent's process: its minds of the kind local ask the engine, which has begun, and have the
    context window that it serves.

    Without a temperature in the settings it is TEMPERATURE, without a limit of the reply's tokens REPLY_TOKENS.
    """
    update = {
        "base_url": f"{address.url}/v1",
        "api_key": SecretStr(address.key),
        "model": served_base(model),
        "context_window": address.context,
    }

    def asking(one: OneMindSettings) -> dict[str, object]:
        defaults = {"temperature": TEMPERATURE, "max_tokens": REPLY_TOKENS}
        unset = {name: value for name, value in defaults.items() if name not in one.model_fields_set}
        return update | unset if one.kind in SERVED else {}

    return settings.model_copy(update={"mind": settings.mind.each(asking)})
