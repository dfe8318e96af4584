"""The minds that fork and replay: of a kind and with settings of their own, each with a seed, learning nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from conch.config import SERVED, MindSettings, OneMindSettings, Settings
from conch.home import Home
from conch.minds import Mind, MindFactory

if TYPE_CHECKING:
    from collections.abc import Callable

_POLICY = frozenset(
    {"kind", "model", "base_url", "temperature", "max_tokens", "extra", "constrain", "free_share", "script", "reflex"}
)
"""Settings of a mind that its replies depend on."""


class ForkMinds:
    """Makes a mind for each seed. Of the reflex mind each starts with a copy of what the agent's own has learnt."""

    def __init__(self, settings: Settings, make: Callable[[int], Mind], asked: OneMindSettings | None = None) -> None:
        self.settings = settings
        """Those of the run, with the mind that decides as the only one."""
        self.asked = asked or settings.mind.deciding
        """Its settings, with the address at which its model is served."""
        self._make = make

    def of(self, seed: int) -> Mind:
        """The mind of this seed; of a script the line of this number, from 0. Raises ConfigError."""
        return self._make(seed)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits of the settings that the replies depend on."""
        chosen = self.settings.mind.model_dump(mode="json", include=set(_POLICY))
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]


@asynccontextmanager
async def fork_minds(settings: Settings, home: Home, agent: str) -> AsyncIterator[ForkMinds]:
    """The minds of these settings, for an agent; closed at the end. The model of a mind `local` is served meanwhile.

    Raises ConfigError, and ConchError where the model cannot be served.
    """
    settings = settings.model_copy(update={"mind": only_deciding(settings.mind)})
    digested = settings
    async with AsyncExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conch-fork-")))
        if settings.mind.kind in SERVED:
            from conch.engine import checked_model, minded, running_engine

            (place / "logs").mkdir()
            model = checked_model(settings.mind)
            engine = await stack.enter_async_context(running_engine(settings, place, model))
            settings = minded(settings, model, engine.address)
        endpoints = place / "endpoints"
        if home.endpoints.is_dir():  # what is found out about an endpoint stays here: the home is left as it is
            shutil.copytree(home.endpoints, endpoints)
        factory = await stack.enter_async_context(
            MindFactory(settings.mind, bonus=settings.curiosity.bonus, endpoints=endpoints)
        )
        learnt = home.reflex_file(agent)

        def make(seed: int) -> Mind:
            memory = place / f"{seed}.npz"
            if settings.mind.kind == "reflex" and learnt.exists():
                shutil.copyfile(learnt, memory)
            return factory.make(seed=seed, memory=memory, decided=seed)

        yield ForkMinds(digested, make, settings.mind.deciding)


def only_deciding(settings: MindSettings) -> MindSettings:
    """These settings with the mind that decides as the only one."""
    deciding = {name: getattr(settings.deciding, name) for name in OneMindSettings.model_fields}
    return settings.alone().model_copy(update=deciding)
