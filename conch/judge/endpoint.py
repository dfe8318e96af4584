"""The OpenAI-compatible endpoint of a judge: concurrency, timeouts and request forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

from conch.config import JudgeSettings, MindSettings
from conch.errors import JudgeError, ModelError
from conch.judge.question import JudgeQuestion
from conch.minds import ChatEndpoint, ConnectionPool, StreamedReply, TransientError, split_reasoning
from conch.text import well_formed
from conch_schemas import JsonObject

MAX_TOKENS: Final = 4096
"""Token limit of one answer: a reasoning model uses tokens before its first word."""
REFUSED: Final = frozenset({400, 422})
"""Statuses of endpoints that do not support a part of the request."""
UNREAD: Final = 2
"""Answers in a row that cannot be read, from which the next plainer form is asked for."""
PLAINER: Final[tuple[frozenset[str], ...]] = (
    frozenset(),
    frozenset({"response_format"}),
    frozenset({"response_format", "temperature", "max_tokens"}),
)
"""Optional parts that are left out of a request, one after the other, where an endpoint refuses it."""


class JudgeEndpoint:
    """Sends questions, a bounded number at once. The first request form that the endpoint accepts, and whose answers
    can be read, is kept."""

    def __init__(
        self, name: str, settings: JudgeSettings, mind: MindSettings, count: Callable[[], Awaitable[None]]
    ) -> None:
        """`count` is awaited before each request; a JudgeError that it raises ends the question.

        Settings that the judge leaves open are the mind's; the mind's key is used for the mind's address alone. Raises
        ConfigError
        for an address or a key that cannot be used.
        """
        base_url, self.model = settings.asks(mind)
        """The model's name at the endpoint."""
        key = settings.api_key or (mind.api_key if base_url == mind.base_url else None)
        self._line, self._count = ConnectionPool(), count
        self._endpoint = ChatEndpoint(base_url, key, self._line, section=f"rewards.judges.{name}")
        self._turns = asyncio.Semaphore(settings.concurrency)
        self._timeout, self._plainer = settings.timeout, 0
        self._unread = 0
        """Answers that could not be read, in a row."""

    async def ask(self, question: JudgeQuestion) -> str:
        """The answer without reasoning. Raises JudgeError, `passing` where a retry may succeed.

        The timeout runs from the request, not from when the question begins to wait for a slot.
        """
        async with self._turns:
            try:
                async with asyncio.timeout(self._timeout):
                    reply = await self._in_some_form(question)
            except TimeoutError:
                sentence = f"{self._endpoint.where} gave no whole answer within {self._timeout:g} s"
                raise JudgeError(sentence, passing=True) from None
            except TransientError as failure:
                unreachable = failure.unreachable
                raise JudgeError(str(failure), passing=True, after=failure.after, unreachable=unreachable) from None
            except ModelError as failure:
                raise JudgeError(str(failure), passing=not failure.fatal) from None
        if reply.finish_reason == "length":
            raise JudgeError(f"the answer of {self.model} was cut off at {MAX_TOKENS} tokens", passing=True)
        _, answer = split_reasoning(reply.text)
        return answer

    async def close(self) -> None:
        """Close the connections; the next question opens them again. A second call does nothing."""
        await self._line.close()

    async def _in_some_form(self, question: JudgeQuestion) -> StreamedReply:
        plainer = self._plainer
        while True:
            await self._count()
            try:
                reply = await self._endpoint.once(self._body(question, PLAINER[plainer]))
            except ModelError as failure:
                self._unread = self._unread + 1 if failure.unread else 0
                is_refusal = failure.status in REFUSED or self._unread >= UNREAD
                if not is_refusal or plainer + 1 == len(PLAINER):
                    raise
                plainer += 1
            else:
                self._unread = 0
                self._plainer = max(plainer, self._plainer)
                return reply

    def _body(self, question: JudgeQuestion, without: frozenset[str]) -> bytes:
        schema = {"name": "judgement", "strict": True, "schema": question.schema}
        request: JsonObject = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": well_formed(question.system)},
                {"role": "user", "content": well_formed(question.user)},
            ],
            "stream": False,
            "temperature": 0.0,
            "max_tokens": MAX_TOKENS,
            "response_format": {"type": "json_schema", "json_schema": schema},
        }
        return json.dumps({key: value for key, value in request.items() if key not in without}).encode()
