"""Servers of llama.cpp behind the front. Each names its adapters when it starts; a new adapter needs a new server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx2
from starlette.types import ASGIApp

from conch.clients import http_client
from conch.engine.convert import BaseFacts, converted
from conch.engine.front.engine import MOST_ADAPTERS, EngineRefusalError
from conch.engine.front.relay import Relay
from conch.engine.models import served_base
from conch.engine.serving import ENGINE_MODULE, RunningEngine, running_engine
from conch.errors import ConchError, ConfigError
from conch.log import get_logger
from conch.processes import messages
from conch.tasks import OwnedTasks
from conch_schemas import JsonObject

log = get_logger(__name__)

KEPT_FILES = 2 * MOST_ADAPTERS
"""Newest converted adapters that are kept for the next start."""


@dataclass
class LlamaServer:
    """A server of llama.cpp in a process of its own, with the adapters that it has loaded."""

    number: int
    """Of its log: the smallest that no other server has."""
    adapters: Mapping[str, Path]
    """GGUF file by name, in the order of llama.cpp's numbers."""
    engine: RunningEngine | None = None
    """It listens, once it has loaded."""
    client: httpx2.AsyncClient | None = None
    replies: int = 0
    """Replies that it is decoding."""
    is_old: bool = False
    """Whether another server has taken over: it ends after its last reply."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @contextmanager
    def reply(self) -> Iterator[None]:
        """Count a reply while entered."""
        self.replies += 1
        try:
            yield
        finally:
            self.replies -= 1
            self.changed.set()

    def retire(self) -> None:
        """End it after its last reply."""
        self.is_old = True
        self.changed.set()

    async def over(self) -> None:
        """Returns when it is old and has sent its last reply."""
        while not (self.is_old and self.replies == 0):
            self.changed.clear()
            await self.changed.wait()

    def chosen(self, adapter: str | None) -> list[dict[str, float]]:
        """The field `lora` of a request. It is never empty: an empty one leaves a slot's adapters as they were."""
        wanted = next((number for number, name in enumerate(self.adapters) if name == adapter), None)
        return [{"id": wanted or 0, "scale": 0.0 if wanted is None else 1.0}]


class LlamaServers:
    """The engine of the front: one server replies; for a new adapter another one starts beside it and takes over.

    Entered as a context, the first server serves the base alone; left, all have ended.
    """

    def __init__(self, start: messages.EngineStart) -> None:
        self._start, self.base = start, served_base(start.model)
        self._place = start.home / "adapters" / ".gguf"
        self._tasks = OwnedTasks()
        self._servers: dict[int, tuple[LlamaServer, asyncio.Task[None]]] = {}
        """By number, with the task that keeps it."""
        self._now: LlamaServer | None = None
        self._names: dict[str, Path] = {}
        self._facts: BaseFacts | None = None
        self.failed: asyncio.Future[ConchError] = asyncio.get_running_loop().create_future()
        """The error for which the server that replies has ended for good."""

    async def __aenter__(self) -> Self:
        try:
            self._now = await self._begun({})
        except BaseException:
            await self._tasks.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The adapters that are loaded."""
        return tuple(self._names)

    @property
    def context(self) -> int:
        """Tokens of context of each slot."""
        engine = self._acting.engine
        assert engine is not None
        assert engine.address.context is not None
        return engine.address.context

    async def load(self, name: str, directory: Path) -> None:
        """Convert the adapter, start a server with it beside the one that replies, and let that one take over.

        A server that took over before has ended by then, so at most two have the base in memory and one more is being
        loaded. Raises EngineRefusalError; what replied before goes on then.
        """
        try:
            file = await asyncio.to_thread(self._converted, directory)
            await self._old_ones_ended()
            adapters = self._names | {name: file}
            server = await self._begun(adapters)
        except ConchError as error:
            raise EngineRefusalError(400, str(error)) from None
        old, self._now, self._names = self._acting, server, adapters
        old.retire()
        await asyncio.to_thread(_prune, self._place, {*adapters.values()})

    async def unload(self, name: str) -> None:
        """Reply no more under this name. The next server starts without it; until then it stays in memory."""
        self._names = {other: file for other, file in self._names.items() if other != name}

    def chat(self, asked: JsonObject, adapter: str | None) -> ASGIApp:
        """The reply of the server that replies now."""
        server = self._acting
        if server.adapters:
            asked = asked | {"lora": server.chosen(adapter)}
        else:
            asked.pop("lora", None)
        body = json.dumps(asked | {"model": self.base}).encode()
        return self._relay(server, "POST", "/v1/chat/completions", body, model=adapter)

    def other(self, method: str, path: str, body: bytes) -> ASGIApp:
        """What llama.cpp answers, such as /tokenize and /props; nothing that decodes or changes adapters."""
        if path not in ("/tokenize", "/detokenize", "/apply-template", "/props", "/health", "/v1/health"):
            raise EngineRefusalError(404, f"there is no {path} here")
        return self._relay(self._acting, method, path, body)

    @property
    def _acting(self) -> LlamaServer:
        assert self._now is not None
        return self._now

    def _relay(self, server: LlamaServer, method: str, path: str, body: bytes, *, model: str | None = None) -> Relay:
        assert server.client is not None
        assert server.engine is not None
        return Relay(
            server.client, method, f"{server.engine.address.url}{path}", body, model=model, counted=server.reply
        )

    def _converted(self, directory: Path) -> Path:
        if not directory.is_absolute() or not directory.is_dir():
            raise ConfigError(f"there is no directory {directory} with an adapter (its path must be absolute)")
        self._facts = self._facts or BaseFacts.of(self._start.model)
        return converted(directory, self._facts, self._place)

    async def _old_ones_ended(self) -> None:
        olds = [task for server, task in self._servers.values() if server.is_old]
        if olds:
            await asyncio.wait(olds)

    async def _begun(self, adapters: Mapping[str, Path]) -> LlamaServer:
        """A server that listens. Raises ConchError where it does not begin; cancelled, it is ended."""
        number = next(number for number in range(len(self._servers) + 1) if number not in self._servers)
        server = LlamaServer(number, dict(adapters))
        up = asyncio.Event()
        keeping = self._tasks.start(self._kept(server, up.set), name=f"conch.engine.server.{number}")
        self._servers[number] = server, keeping
        waiting = self._tasks.start(up.wait(), name=f"conch.engine.up.{number}")
        try:
            await asyncio.wait({keeping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            keeping.cancel()
            raise
        finally:
            waiting.cancel()
        if not up.is_set():
            await keeping
        return server

    async def _kept(self, server: LlamaServer, up: Callable[[], None]) -> None:
        """Run a server until it is old and its replies are out. Raises ConchError where it does not begin."""
        start = self._start
        try:
            running = running_engine(
                start.settings,
                start.home,
                start.model,
                module=ENGINE_MODULE,
                slots=start.slots,
                adapters=tuple(server.adapters.values()),
                process=f"engine-{server.number}",
            )
            async with running as engine:
                server.engine = engine
                url, key = httpx2.URL(str(engine.address.url)), engine.address.key
                headers = {"authorization": f"Bearer {key}"}
                server.client = http_client(url, headers, httpx2.Timeout(None, connect=5.0))
                up()
                over = self._tasks.start(server.over(), name=f"conch.engine.over.{server.number}")
                await asyncio.wait({over, engine.living}, return_when=asyncio.FIRST_COMPLETED)
                over.cancel()
                await server.client.aclose()
                if not server.is_old and not self.failed.done():
                    self.failed.set_result(ConchError(f"llama.cpp's server stays down: {engine.record.why}"))
        finally:
            self._servers.pop(server.number, None)


def _prune(place: Path, used: set[Path]) -> None:
    """Remove converted adapters beyond the newest KEPT_FILES that no server uses."""
    files = sorted(place.glob("*.gguf"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[KEPT_FILES:]:
        if file not in used:
            with suppress(OSError):
                file.unlink()
