"""The mind at an OpenAI-compatible endpoint: one streamed chat completion per question."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable

from conch.config import MindSettings
from conch.errors import ModelError
from conch.minds.endpoint import ChatEndpoint, ConnectionPool, StreamedReply, TransientError
from conch.minds.protocol import Completion, Prompt
from conch.minds.sampling import Sampler, Sampling
from conch.retry import MODEL_REQUEST
from conch.text import well_formed
from conch_schemas import ExperienceRecorded

QUIET_SECONDS = 5.0
"""How long a fault may pass by itself before anybody is told of it."""


class OpenAIMind:
    """A mind that asks `<base_url>/chat/completions`, streamed.

    A failure before the reply begins (429, 500, 502, 503, 504, no connection) is retried with back-off, and as the
    endpoint's Retry-After says, for QUIET_SECONDS; then it is raised to the caller, which reports that it waits. The
    deadline `settings.timeout` covers the whole call.
    A reply that breaks off is an error at once. The key is in no error and no log line. Where the endpoint counts no
    tokens, the usage is 0.
    """

    kind, learns = "openai", False

    def __init__(
        self,
        settings: MindSettings,
        *,
        seed: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        line: ConnectionPool | None = None,
        first_word: float | None = None,
    ) -> None:
        """Raises ConfigError for an address or a key that cannot be used. `sleep` waits between retries; `line` is
        shared with other minds, without it this mind has its own. `first_word`: seconds in which a mind that has not
        replied yet must begin to, or it counts as unreachable; None: `settings.timeout` alone counts."""
        self._settings, self.kind = settings, settings.kind
        self._line, self._shares = line or ConnectionPool(), line is not None
        self._random = random.Random(seed)  # noqa: S311 - jitter, no secret
        self._sampler = Sampler(settings, seed=seed)
        self._sleep = sleep
        self._first_word = first_word
        self._endpoint = ChatEndpoint(settings.base_url, settings.api_key, self._line, section="mind")

    @property
    def model(self) -> str:
        """The model's name at the endpoint."""
        return self._settings.model

    async def complete(self, prompt: Prompt) -> Completion:
        """The reply. Raises ModelError: `fatal` if the request itself is refused; `retry_after` as requested."""
        started, sampling = time.monotonic(), self._sampler.of(prompt)
        async with self._line.turns:  # waiting for a slot does not count as the endpoint's time
            reply = await self._in_time(prompt, sampling)
        self._first_word = None
        return Completion(
            text=well_formed("".join(reply.parts)),  # a surrogate pair may be split over two chunks
            finish_reason=str(reply.finish_reason),
            usage=reply.usage,
            model=reply.model or self.model,
            ms=(time.monotonic() - started) * 1000,
            constrained=sampling.constraint != "free",
            decoding=sampling.decoding(reply, self.model),
        )

    async def _in_time(self, prompt: Prompt, sampling: Sampling) -> StreamedReply:
        began, timeout = asyncio.get_running_loop().time(), self._settings.timeout
        deadline = began + timeout
        first = deadline if self._first_word is None else min(deadline, began + self._first_word)
        last: list[str] = []
        try:
            async with asyncio.timeout_at(first) as limit:

                def heard() -> None:
                    if not limit.expired():  # the deadline neither expired nor is about to
                        limit.reschedule(deadline)

                return await self._persistently(self._body(prompt, sampling), deadline, last, heard)
        except TimeoutError:
            silent = limit.when() != deadline
            whole, most = ("said nothing", self._first_word) if silent else ("gave no whole reply", timeout)
            before = f" (before that: {last[-1]})" if last else ""
            raise ModelError(f"{self._endpoint.where} {whole} within {most:g} s{before}", unreachable=silent) from None

    def learn(self, experience: ExperienceRecorded) -> None:
        """Does nothing: the endpoint's model does not learn from experiences."""

    async def close(self) -> None:
        """Close the connections, unless they are shared. A second call does nothing."""
        if not self._shares:
            await self._line.close()

    def _body(self, prompt: Prompt, sampling: Sampling) -> bytes:
        said = [("system", prompt.system), *((message.role, message.content) for message in prompt.messages)]
        request = {
            "model": self.model,
            "messages": [{"role": role, "content": well_formed(content)} for role, content in said],
            "temperature": self._settings.temperature,
            "max_tokens": min(prompt.max_tokens, self._settings.max_tokens),
            "stream": True,
            "stream_options": {"include_usage": True},
            **sampling.fields,
        }
        return json.dumps(request).encode()

    async def _persistently(
        self, body: bytes, deadline: float, last: list[str], heard: Callable[[], None]
    ) -> StreamedReply:
        failures = 0  # for which the endpoint did not say how long to wait
        loop = asyncio.get_running_loop()
        quiet_until = min(deadline, loop.time() + QUIET_SECONDS)
        while True:
            try:
                return await self._endpoint.once(body, heard)
            except TransientError as failure:
                last.append(str(failure))
                if not failure.unreachable:
                    heard()
                wait = failure.after
                if wait is None:
                    failures += 1
                    wait = MODEL_REQUEST.after(failures, self._random)
                if loop.time() + wait >= (deadline if failure.after is not None else quiet_until):
                    raise ModelError(str(failure), retry_after=failure.after, unreachable=failure.unreachable) from None
                await self._sleep(wait)
