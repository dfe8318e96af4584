"""The adapters that are proven in this process: loaded by the engine, and known by their replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from conch.errors import CheckError, ConchError, ModelError, ServingError
from conch.log import get_logger
from conch.minds import AskedAdapter
from conch.retry import MODEL_REQUEST, Backoff
from conch.serving import served_name

if TYPE_CHECKING:
    from conch.training import AdapterIdentity, AdapterShelf, ShelvedAdapter

log = get_logger(__name__)

PROBE_EVERY: Final = 200
"""Decisions under an adapter between two probes of it. A probe is 8 replies: some 4 % of the decoding at most."""
PROOF_SECONDS: Final = 120.0
"""Longest time that loading and probing may take. An adapter of 20 MB takes under 2 s on a busy machine."""
RELEASE_SECONDS: Final = 5.0
"""Longest wait until an adapter is unloaded: an agent waits for it before its next decision."""
AWAY: Final = 3
"""Times in a row that an engine may be away as an adapter is to be proven; then the base is asked without it."""
AWAY_SECONDS: Final = 5.0
"""How long an engine is tried again that is away: one that was killed is back by then."""
REST: Final = Backoff.doubling(15.0, 600.0)
"""Wait before an adapter that could not be proven is tried again."""

FetchAdapter = Callable[[str, str], Awaitable[None]]
"""Puts an adapter on the shelf where it lacks it. Its arguments: the digest, the agent's uid."""


class ProvingEngine(Protocol):
    """The engine that replies under adapters."""

    @property
    def kind(self) -> str:
        """Its kind, as probes are recorded by it."""
        ...

    async def prove(self, adapter: ShelvedAdapter) -> AskedAdapter:
        """Load it where it is not loaded, and probe it. Raises ServingError where that does not prove it; `passing`
        where the engine cannot be reached."""
        ...

    async def release(self, digest: str) -> None:
        """Unload it; one that is not loaded is no error. Raises ServingError."""
        ...


@dataclass(frozen=True)
class ProvenAdapter:
    """An adapter that the engine applies, as its replies have shown."""

    asked: AskedAdapter
    identity: AdapterIdentity


@dataclass(frozen=True)
class AdapterProof:
    """The outcome of loading and probing an adapter."""

    digest: str
    engine: str
    served_as: str
    why: str
    """Why it is not proven, in one sentence; empty: it is."""
    ms: float


@dataclass
class _KnownAdapter:
    proven: ProvenAdapter | None = None
    asked: int = 0
    """Decisions since the last probe."""
    away: int = 0
    """Times in a row that the engine was away."""
    failures: int = 0
    again: float = 0.0
    """When it is tried again, by the clock."""


class ProvenAdapters:
    """The adapters of one engine, shared by the agents of a process. One is proven at a time."""

    def __init__(
        self,
        engine: ProvingEngine,
        shelf: AdapterShelf,
        clock: Callable[[], float] = time.monotonic,
        fetch: FetchAdapter | None = None,
    ) -> None:
        """`fetch`: puts an adapter on the shelf that it lacks; None: what it lacks is not there."""
        self._engine, self._shelf, self._clock, self._fetch = engine, shelf, clock, fetch
        self._known: dict[str, _KnownAdapter] = {}
        self._named: dict[str, frozenset[str]] = {}
        """By agent: the adapters that its pointer names."""
        self._turn = asyncio.Lock()

    async def prove(
        self, digest: str, agentuid: str, tell: Callable[[AdapterProof], Awaitable[None]]
    ) -> ProvenAdapter | None:
        """The adapter, loaded and probed where that was not done yet; None: it is not proven, and rests before it is
        tried again. `tell` is called with each outcome, before this returns.

        Raises ModelError where the engine cannot be reached: that says nothing of the adapter.
        """
        known = self._known.setdefault(digest, _KnownAdapter())
        if known.proven is not None and known.asked < PROBE_EVERY:
            return known.proven
        if self._clock() < known.again:
            return None
        async with self._turn:
            if known.proven is not None and known.asked < PROBE_EVERY:
                return known.proven
            began = time.perf_counter()
            known.proven, why = await self._tried(known, digest, agentuid)
            known.asked = known.away = 0
            self._rest(known, failed=known.proven is None)
        served_as = known.proven.asked.served_as if known.proven is not None else served_name(digest)
        await tell(AdapterProof(digest, self._engine.kind, served_as, why, (time.perf_counter() - began) * 1000))
        return known.proven

    async def keep(self, agentuid: str, digests: frozenset[str]) -> None:
        """Unload what no pointer names any longer. `digests`: those that this agent's pointer names now. An engine that
        is away keeps them."""
        if self._named.get(agentuid, frozenset()) == digests:
            return
        self._named[agentuid] = digests
        for digest in self._known.keys() - frozenset[str]().union(*self._named.values()):
            del self._known[digest]
            try:
                async with asyncio.timeout(RELEASE_SECONDS):
                    await self._engine.release(digest)
            except (TimeoutError, ServingError) as error:
                log.info("adapter.not_released", adapter=digest[:12], error=str(error) or "no reply")

    def decided(self, digest: str) -> None:
        """Count a decision under the adapter."""
        self._known.setdefault(digest, _KnownAdapter()).asked += 1

    def doubt(self, digest: str) -> None:
        """Load and probe it again before it decides: the engine did not know it."""
        self._known.setdefault(digest, _KnownAdapter()).proven = None

    def doubt_all(self) -> None:
        """The same for all adapters: the engine may have been started again."""
        for known in self._known.values():
            known.proven = None

    def failed(self, digest: str) -> AdapterProof:
        """Let the adapter rest, as it did not reply although it was proven; the outcome to publish."""
        known = self._known.setdefault(digest, _KnownAdapter())
        known.proven = None
        self._rest(known, failed=True)
        why = "the engine proved it and did not reply under it"
        return AdapterProof(digest, self._engine.kind, served_name(digest), why, 0.0)

    def _rest(self, known: _KnownAdapter, *, failed: bool) -> None:
        known.failures = known.failures + 1 if failed else 0
        known.again = self._clock() + REST.after(known.failures) if failed else 0.0

    async def _tried(self, known: _KnownAdapter, digest: str, agentuid: str) -> tuple[ProvenAdapter | None, str]:
        try:
            async with asyncio.timeout(PROOF_SECONDS):
                if self._fetch is not None:
                    await self._fetch(digest, agentuid)
                adapter = await asyncio.to_thread(self._shelf.get, digest)
                if adapter.identity.agentuid != agentuid:
                    raise CheckError("it belongs to the lineage of another agent")
                return ProvenAdapter(await self._persistently(adapter), adapter.identity), ""
        except TimeoutError:
            why = f"loading and probing it took longer than {PROOF_SECONDS:g} s"
        except ServingError as error:
            known.away += error.passing
            if error.passing and known.away < AWAY:
                raise ModelError(str(error), unreachable=True) from None
            why = str(error)
        except (ConchError, OSError) as error:
            why = str(error)
        log.warning("adapter.not_proven", adapter=digest[:12], why=why)
        return None, why

    async def _persistently(self, adapter: ShelvedAdapter) -> AskedAdapter:
        until, failures = self._clock() + AWAY_SECONDS, 0
        while True:
            try:
                return await self._engine.prove(adapter)
            except ServingError as error:
                failures += 1
                wait = MODEL_REQUEST.after(failures)
                if not error.passing or self._clock() + wait >= until:
                    raise
                await asyncio.sleep(wait)
