"""The mind at an OpenAI-compatible endpoint: one streamed chat completion per question."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pydantic import JsonValue

from conch.actions import parse
from conch.config import SERVED, OneMindSettings, PriceSettings
from conch.errors import ModelError
from conch.log import get_logger
from conch.minds.constraint.findings import ConstraintFindings
from conch.minds.constraint.form import ConstraintForm
from conch.minds.constraint.search import ConstraintSearch
from conch.minds.dialect import RequestForm, own_fields, refuse_other, refuse_unknown, without_fence
from conch.minds.endpoint import ChatEndpoint, ConnectionPool, TransientError
from conch.minds.protocol import Completion, Prompt
from conch.minds.replies.continued import CutReply, cut_reply
from conch.minds.replies.reasoning import split_reasoning
from conch.minds.replies.reply import StreamedReply
from conch.minds.sampling import Sampler, Sampling
from conch.retry import MODEL_REQUEST
from conch.text import BYTES_PER_TOKEN, estimated_tokens, well_formed
from conch_schemas import ExperienceRecorded, Usage

log = get_logger(__name__)

QUIET_SECONDS = 5.0
"""How long a fault may pass by itself before anybody is told of it."""


class OpenAIMind:
    """A mind that asks `<base_url>/chat/completions`, streamed.

    A failure before the reply begins (429, 500, 502, 503, 504, 529, no connection) is retried with back-off, and as the
    endpoint's Retry-After says, for QUIET_SECONDS; then it is raised to the caller, which reports that it waits. The
    deadline `settings.timeout` covers the whole call.
    A reply that breaks off, or cannot be read, is an error at once. A redirect is not followed, but retried like a 502.
    The key is in no error and no log line. Where the endpoint counts no tokens, they are estimated.
    """

    kind, learns = "openai", False

    def __init__(
        self,
        settings: OneMindSettings,
        *,
        seed: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        line: ConnectionPool | None = None,
        first_word: float | None = None,
        section: str = "mind",
        findings: ConstraintFindings | None = None,
        adapters: bool = False,
    ) -> None:
        """Raises ConfigError for an address or a key that cannot be used. `sleep` waits between retries; `line` is
        shared with other minds, without it this mind has its own. `first_word`: seconds in which a mind that has not
        replied yet must begin to, or it counts as unreachable; None: `settings.timeout` alone counts. `section`: the
        key of these settings, for errors. `findings`: which constraint endpoints take, shared with other minds; None:
        this mind has its own. `adapters`: whether it is asked under a prompt's adapter; else that is passed over."""
        self._settings, self.kind = settings, settings.kind
        self._line, self._shares = line or ConnectionPool(), line is not None
        self._random = random.Random(seed)  # noqa: S311 - jitter, no secret
        self._sampler = Sampler(settings, seed=seed, adapters=adapters)
        self._sleep = sleep
        self._first_word, self._section = first_word, section
        self._estimates = False
        self._endpoint = ChatEndpoint(settings.base_url, settings.api_key, self._line, section=section)
        self.constraint = ConstraintSearch(settings, self._endpoint.where, findings or ConstraintFindings(), section)
        """What its decisions are held to."""

    @property
    def model(self) -> str:
        """The model's name at the endpoint."""
        return self._settings.model

    async def complete(self, prompt: Prompt) -> Completion:
        """The reply. Raises ModelError: `fatal` if the request itself is refused; `retry_after` as requested."""
        started = time.monotonic()
        async with self._line.turns:  # waiting for a slot does not count as the endpoint's time
            sampling, reply = await self._constrained(prompt)
        self._first_word = None
        said = self._said(prompt, sampling, reply)
        held = self._is_held(prompt, sampling, reply, said)
        completion = Completion(
            text=said,
            finish_reason="refusal" if reply.refusal else str(reply.finish_reason),
            usage=self._usage(prompt, reply, reply.text or said),
            model=reply.model or sampling.served_as(self.model),
            ms=(time.monotonic() - started) * 1000,
            constrained=held,
            decoding=sampling.decoding(reply, self.model, held=held),
            cost=_cost_of(reply, self._settings.price),
        )
        # What a small model of Conch's engines goes on to write is mostly repetition.
        cut = None if self.kind in SERVED else cut_reply(prompt, reply)
        return completion if cut is None else await self._whole(prompt, sampling, cut, completion, started)

    async def _whole(
        self, prompt: Prompt, sampling: Sampling, cut: CutReply, first: Completion, started: float
    ) -> Completion:
        """The reply with its rest, asked for once; as far as it came where there is no room for that, or none comes."""
        asked = cut.question(prompt, self._most(prompt), self._settings.context_window)
        if asked is None:
            return first
        try:
            async with self._line.turns:
                rest = await self._in_time(asked, self._sampler.of(asked, None))
            whole = cut.joined(rest)
            said = self._said(prompt, sampling, whole)
        except ModelError as error:
            log.warning("mind.rest_not_given", endpoint=self._endpoint.where, error=str(error))
            return first
        usage, held = self._usage(asked, rest, rest.text), first.constrained and whole.finish_reason == "length"
        joined = _with_rest(first, whole, usage, _cost_of(rest, self._settings.price))
        decoding, ms = sampling.decoding(whole, self.model, held=held), (time.monotonic() - started) * 1000
        return replace(joined, text=said, constrained=held, decoding=decoding, ms=ms)

    async def form(self, prompt: Prompt) -> ConstraintForm | None:
        """The form of the constraint that the reply to `prompt` is held to, looked for where it is not known; None: the
        reply is free. Raises ModelError."""
        if not self._sampler.holds(prompt):
            return None
        return await self.constraint.form(
            prompt.registry, lambda asked, tried: self._in_time(asked, self._sampler.of(asked, tried))
        )

    async def _constrained(self, prompt: Prompt) -> tuple[Sampling, StreamedReply]:
        """The reply under the constraint that the endpoint takes. Where it fails at a question that it takes without
        the constraint, the form is forgotten, and the reply is a free one."""
        form = await self.form(prompt)
        sampling = self._sampler.of(prompt, form)
        try:
            reply = await self._in_time(prompt, sampling)
        except ModelError as refusal:
            if form is None or not self.constraint.is_refusal(refusal):
                raise
            free = self._sampler.of(prompt, None)
            reply = await self._in_time(prompt, free)
            await self.constraint.refused(form, refusal)
            return free, reply
        self.constraint.unread = 0
        return sampling, reply

    def _is_held(self, prompt: Prompt, sampling: Sampling, reply: StreamedReply, said: str) -> bool:
        """Whether the reply was held to its constraint: it is an action, or was cut before it was one.

        Another reply is logged, unless the model refused: the endpoint does not do what it said that it does. It counts
        as a free reply, so that its format is scored.
        """
        if sampling.form is None or prompt.registry is None or reply.refusal or reply.finish_reason == "content_filter":
            return False
        if reply.finish_reason == "length" and sampling.form.begun(reply, said):
            return True
        if parse(said, prompt.registry).valid:
            return True
        self.constraint.unheld(sampling.form, said)
        return False

    def _said(self, prompt: Prompt, sampling: Sampling, reply: StreamedReply) -> str:
        """The reply without reasoning, a decision without a code fence around it and as an action of the grammar; or a
        refusal's words.

        Raises ModelError where the tokens were used up before the reply began.
        """
        reasoning, said = split_reasoning(reply.text)
        if sampling.form is not None and prompt.registry is not None:
            said = sampling.form.read(reply, without_fence(said), prompt.registry)
        if not said.strip() and reply.refusal:
            return reply.refusal
        if not said.strip() and reply.finish_reason == "length":
            used = f"{self._endpoint.where} used up its {self._most(prompt)} tokens"
            on = f" on {reply.reasoned + len(reasoning)} characters of reasoning" if reply.reasoned or reasoning else ""
            raise ModelError(f"{used}{on} before the reply began: raise {self._section}.max_tokens")
        if prompt.purpose != "decide":
            return said if said.strip() else reasoning.strip()  # a thought that is all between marks is the thought
        return without_fence(said)

    def _usage(self, prompt: Prompt, reply: StreamedReply, text: str) -> Usage:
        """The tokens as the endpoint counted them, else by the estimate, which is logged once."""
        if reply.counted:
            return reply.usage
        if not self._estimates:
            self._estimates = True
            log.warning("mind.tokens_estimated", endpoint=self._endpoint.where, bytes_per_token=BYTES_PER_TOKEN)
        return _estimated(prompt, reply, text)

    async def _in_time(self, prompt: Prompt, sampling: Sampling) -> StreamedReply:
        began, timeout = asyncio.get_running_loop().time(), self._settings.timeout
        deadline = began + timeout
        first = deadline if self._first_word is None else min(deadline, began + self._first_word)
        last: list[str] = []
        try:
            async with asyncio.timeout_at(first) as limit:

                def heard(reply: StreamedReply) -> None:
                    if prompt.progress is not None:
                        prompt.progress.characters = reply.size + reply.reasoned
                        prompt.progress.reply = reply
                    if not limit.expired():  # the deadline neither expired nor is about to
                        limit.reschedule(deadline)

                return await self._persistently(prompt, sampling, deadline, last, heard)
        except TimeoutError:
            silent = limit.when() != deadline
            if not silent:
                _count_unread(prompt)
            raise _late(self._endpoint.where, self._first_word if silent else None, timeout, last) from None

    def learn(self, experience: ExperienceRecorded) -> None:
        """Does nothing: the endpoint's model does not learn from experiences."""

    async def close(self) -> None:
        """Close the connections, unless they are shared. A second call does nothing."""
        if not self._shares:
            await self._line.close()

    def _most(self, prompt: Prompt) -> int:
        return min(prompt.max_tokens, self._settings.reply_tokens)

    async def _in_some_form(
        self, prompt: Prompt, sampling: Sampling, heard: Callable[[StreamedReply], None]
    ) -> StreamedReply:
        """The reply to the request in the form that the endpoint is known to take, or in a plainer one that it takes: a
        part that it refuses by name is left out or renamed, and that is remembered once it has replied."""
        key = (self._endpoint.where, self.model)
        form = known = self._line.forms.get(key, RequestForm())
        while True:
            body = _body(self._settings, prompt, sampling, form, self._most(prompt))
            try:
                reply = await self._endpoint.once(body, heard)
                _refuse_lost_call(sampling, reply, self._endpoint.where)
            except ModelError as refusal:
                refuse_unknown(sampling.adapter, refusal)
                plainer = form.plainer(refusal)
                if plainer is None:
                    raise
                form = plainer
            else:
                if form != known:
                    log.info("mind.asked_without", endpoint=key[0], model=key[1], refused=sorted(form.refused))
                    self._line.forms[key] = form
                refuse_other(sampling.adapter, reply.model or "")
                return reply

    async def _persistently(
        self,
        prompt: Prompt,
        sampling: Sampling,
        deadline: float,
        last: list[str],
        heard: Callable[[StreamedReply], None],
    ) -> StreamedReply:
        failures = 0  # for which the endpoint did not say how long to wait
        loop = asyncio.get_running_loop()
        quiet_until = min(deadline, loop.time() + QUIET_SECONDS)
        while True:
            try:
                return await self._in_some_form(prompt, sampling, heard)
            except ModelError as failure:
                if failure.unread:
                    _count_unread(prompt)
                raise
            except TransientError as failure:
                last.append(str(failure))
                if not failure.unreachable:
                    _count_unread(prompt)
                    heard(StreamedReply())
                wait = failure.after
                if wait is None:
                    failures += 1
                    wait = MODEL_REQUEST.after(failures, self._random)
                if loop.time() + wait >= (deadline if failure.after is not None else quiet_until):
                    raise ModelError(
                        str(failure),
                        retry_after=failure.after,
                        unreachable=failure.unreachable,
                        status=failure.status,
                        unread=not failure.unreachable,
                    ) from None
                await self._sleep(wait)


def _late(where: str, first_word: float | None, timeout: float, failures: list[str]) -> ModelError:
    """The error of a mind that did not reply in time: within `first_word` seconds (None: it began to) or `timeout`."""
    silent = first_word is not None
    whole, most = ("said nothing", first_word) if silent else ("gave no whole reply", timeout)
    before = f" (before that: {failures[-1]})" if failures else ""
    return ModelError(f"{where} {whole} within {most:g} s{before}", unreachable=silent, unread=not silent)


def _estimated(prompt: Prompt, reply: StreamedReply, text: str) -> Usage:
    """The tokens of a question and its reply by the estimate."""
    asked = sum(map(estimated_tokens, (prompt.system, *(message.content for message in prompt.messages))))
    return Usage(input_tokens=asked, output_tokens=estimated_tokens(text) + -(-reply.reasoned // BYTES_PER_TOKEN))


def _messages(prompt: Prompt, form: RequestForm) -> list[tuple[str, str]]:
    """Role and content of each message. Where there is no system role, the question begins with the system prompt."""
    said: list[tuple[str, str]] = [("system", prompt.system)]
    said += [(message.role, message.content) for message in prompt.messages]
    if "system" in form.refused:
        (_, system), (role, first), *others = said
        said = [(role, f"{system}\n\n{first}"), *others]
    return said


def _with_rest(first: Completion, whole: StreamedReply, usage: Usage, cost: float | None) -> Completion:
    """A reply that was cut off with what both questions used, and why the whole of it ended."""
    both = Usage(
        input_tokens=first.usage.input_tokens + usage.input_tokens,
        output_tokens=first.usage.output_tokens + usage.output_tokens,
    )
    price = None if first.cost is None or cost is None else first.cost + cost
    return replace(first, finish_reason=str(whole.finish_reason), usage=both, cost=price)


def _body(settings: OneMindSettings, prompt: Prompt, sampling: Sampling, form: RequestForm, most: int) -> bytes:
    """The request as JSON, in the form that the endpoint takes. `most`: tokens of the reply."""
    request: dict[str, JsonValue] = {
        "model": sampling.served_as(settings.model),
        "messages": [{"role": role, "content": well_formed(content)} for role, content in _messages(prompt, form)],
        "temperature": settings.temperature,
        "max_tokens": most,
        "stream": True,
        "stream_options": {"include_usage": True},
        **sampling.fields,
    }
    request |= own_fields(settings.extra)
    return json.dumps({name: value for name, value in form.body(request).items() if value is not None}).encode()


def _cost_of(reply: StreamedReply, price: PriceSettings | None) -> float | None:
    """The price of the reply; None where prices or tokens are unknown."""
    if price is None or not reply.counted:
        return None
    return price.of(reply.usage.input_tokens, reply.usage.output_tokens, reply.cached)


def _count_unread(prompt: Prompt) -> None:
    if prompt.progress is not None:
        prompt.progress.unread += 1


def _refuse_lost_call(sampling: Sampling, reply: StreamedReply, where: str) -> None:
    """Raises ModelError for a reply that was to be a call of a tool, or is nothing else, and whose call is lost."""
    is_call = sampling.form is not None and sampling.form.kind == "tools"
    if reply.has_lost_call and (is_call or not any(reply.parts)):
        what = "replied by a call of a tool that cannot" if is_call else "sent a reply with no text that can"
        raise ModelError(f"{where} {what} be read", unread=True)
