"""The engine that an agent acts through, for the gate: its adapters are loaded and proven before they are asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from conch.config import Settings
from conch.errors import AdapterError
from conch.forks import ForkMinds, fork_minds
from conch.home import Home
from conch.training import AdapterShelf, ShelvedAdapter

if TYPE_CHECKING:
    from conch.serving import AdapterServing

PROBED_BY_CHILD = "train"
"""Kind under which the training child records its own replies to the probe's prompts."""
AS_TRAINED = frozenset({"transformers"})
"""Kinds of mind whose engine computes as the training child does: by the same library, in 32 bits."""


class ServedEngine:
    """See `ActingEngine`. Made by `acting_engine`."""

    def __init__(self, kind: str, minds: ForkMinds, serving: AdapterServing, shelf: AdapterShelf) -> None:
        self.kind, self.minds = kind, minds
        self._serving, self._shelf = serving, shelf
        self._proven: set[str] = set()

    async def load(self, adapter: ShelvedAdapter) -> None:
        """Have the engine serve the adapter. The first time, its replies to the prompts of the child's probe have to be
        the child's, as far as its numerics allow, and are recorded; later ones have to be those of the record.

        Raises AdapterError where they are not, ServingError.
        """
        from conch.serving import AdapterFiles, probe, record_probe, unlike_training

        if adapter.digest in self._proven:
            return
        files = AdapterFiles(adapter.folder, adapter.digest)
        settings, name = self.minds.asked, await self._serving.ensure(files)
        if lines := adapter.probe(self.kind):
            result = await probe(settings, name, self._serving.base, lines)
            if not result.proven:
                raise AdapterError(f"the engine does not apply the adapter {adapter.digest[:12]}: {result.why}")
        else:
            trained = adapter.probe(PROBED_BY_CHILD)
            if not trained:
                raise AdapterError("it changes no greedy reply by which it could be told from its base")
            base = self._serving.base
            made = await record_probe(settings, name, base, [line.messages for line in trained])
            if why := unlike_training(made, trained, name, base, same_numerics=self.kind in AS_TRAINED):
                raise AdapterError(why)
            self._shelf.record_probe(adapter.digest, self.kind, made)
        self._proven.add(adapter.digest)


@asynccontextmanager
async def acting_engine(settings: Settings, home: Home) -> AsyncIterator[ServedEngine]:
    """The engine of an agent with these settings, while entered. Raises ConfigError for a mind that serves no adapters,
    ServingError where the engine does not answer."""
    from conch.serving import adapter_serving  # imported late: it brings an HTTP client

    async with AsyncExitStack() as stack:
        minds = await stack.enter_async_context(fork_minds(settings, home, settings.agent))
        serving = await adapter_serving(minds.asked)
        stack.push_async_callback(serving.close)
        yield ServedEngine(settings.mind.deciding.kind, minds, serving, AdapterShelf(home.adapters))
