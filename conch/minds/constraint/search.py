"""The search for the form of a constraint that an endpoint takes: one small request per candidate, the best first.

A status of 200 proves nothing: vLLM, llama.cpp, Ollama and LM Studio ignore fields that they do not know. So the
question asks for a word that is no action. An endpoint takes a form where the reply is an action nevertheless.
A form under which no reply can be read, though free replies can, is no candidate: the search goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from conch.actions import Registry, parse
from conch.config import OneMindSettings
from conch.errors import ModelError
from conch.log import get_logger
from conch.minds.constraint.findings import ConstraintFindings, EndpointModel, forms_of
from conch.minds.constraint.form import ConstraintForm
from conch.minds.dialect import REFUSED, without_fence
from conch.minds.protocol import Prompt, Situation
from conch.minds.replies.reasoning import split_reasoning
from conch.minds.replies.reply import StreamedReply
from conch_schemas import PromptMessage

log = get_logger(__name__)

FAILED = frozenset({500, 501})
"""Statuses of a server that fails over a field that it cannot serve. Others, such as 503, say nothing of the field."""
TRIES = 2
"""Replies under a form that cannot be read, in a row, from which it is the form's doing and no accident."""
QUESTION = "Write the word hello, and nothing else."
_SYSTEM = "You are a helpful assistant."

Ask = Callable[[Prompt, ConstraintForm | None], Awaitable[StreamedReply]]
"""Asks a question under a constraint, or freely. Raises ModelError."""


@dataclass
class ConstraintSearch:
    """The form of one mind's constraint."""

    settings: OneMindSettings
    where: str
    """Address of the endpoint, without secrets."""
    findings: ConstraintFindings
    section: str
    """The key of the settings, for error messages."""
    ignored: bool = field(default=False, init=False)
    """Whether it was logged that a reply is not held to its constraint."""
    unread: int = field(default=0, init=False)
    """Replies under the form that was found, in a row, that could not be read."""

    def __post_init__(self) -> None:
        self._forms = forms_of(self.settings)
        self._at = EndpointModel(self.where, self.settings.model, self._forms)

    async def form(self, registry: Registry | None, ask: Ask) -> ConstraintForm | None:
        """The form for a decision on `registry`; None: there is no constraint. With several candidates it is looked for
        once, by `ask`. Raises ModelError for an endpoint that gives no reply, or takes none of the forms that the
        settings ask for."""
        if registry is None or not self._forms:
            return None
        if len(self._forms) == 1:
            return self._forms[0]
        async with self.findings.turn(self._at):
            found = await self.findings.get(self._at)
            if found is not None:
                form = found.taken
            else:
                form = await self._searched(registry, ask)
        if form is None and self.settings.constrain != "auto":
            raise ModelError(
                f"{self.where} holds no reply to a {self.settings.constrain} ({self.section}.constrain): "
                "set it to auto or off",
                fatal=True,
            )
        return form

    def is_refusal(self, failure: ModelError) -> bool:
        """Whether a failure under the form that was found may be the form's doing: a refusal, or once more a reply that
        cannot be read. With one candidate there is nothing else to look for."""
        self.unread = self.unread + 1 if failure.unread else 0
        return len(self._forms) > 1 and (failure.status in REFUSED or self.unread >= TRIES)

    async def refused(self, form: ConstraintForm, why: ModelError) -> None:
        """Forget the form, under which the endpoint fails though it takes the question without it."""
        log.warning(
            "mind.constraint_refused", endpoint=self.where, model=self.settings.model, form=form.field, error=str(why)
        )
        await self.forget()

    async def forget(self) -> None:
        """Forget what was found: it is looked for again."""
        self.unread = 0
        await self.findings.forget(self._at)

    async def without(self) -> Mapping[str, str]:
        """Why the forms that were tried in vain are not taken, by their fields."""
        found = await self.findings.get(self._at)
        return found.without if found is not None else {}

    def unheld(self, form: ConstraintForm, reply: str) -> None:
        """Log, once, that a reply does not keep to its constraint. It counts as decoded freely."""
        if not self.ignored:
            log.warning(
                "mind.constraint_ignored",
                endpoint=self.where, model=self.settings.model, form=form.field, reply=reply[:200],
            )  # fmt: skip
        self.ignored = True

    async def _searched(self, registry: Registry, ask: Ask) -> ConstraintForm | None:
        refusals: dict[str, str] = {}
        failed = False
        form: ConstraintForm | None = None
        question = _question(registry, self.settings.max_tokens)
        for form in self._forms:
            reply = await self._tried(question, form, ask)
            if isinstance(reply, ModelError):
                failed = failed or reply.status not in REFUSED
                refusals[form.field] = str(reply)
            elif is_held(form, reply, registry):
                break
            else:
                refusals[form.field] = "ignored"
        else:
            form = None
        log.info(
            "mind.constraint",
            endpoint=self.where, model=self.settings.model, form=form.field if form else "none", without=refusals,
        )  # fmt: skip
        await self.findings.keep(self._at, form, refusals, lasting=form is not None or not failed)
        return form

    async def _tried(self, question: Prompt, form: ConstraintForm, ask: Ask) -> StreamedReply | ModelError:
        """The reply under a form, or why it is no candidate: a refusal, or replies that cannot be read though a free
        one can. Raises ModelError for a failure that says nothing of the form."""
        try:
            return await ask(question, form)
        except ModelError as failure:
            if failure.status in REFUSED | FAILED:
                return failure
            if not failure.unread:
                raise
        await ask(question, None)
        try:
            return await ask(question, form)  # it may have been an accident
        except ModelError as again:
            if again.unread or again.status in REFUSED:
                return again
            raise


def is_held(form: ConstraintForm, reply: StreamedReply, registry: Registry) -> bool:
    """Whether the reply to QUESTION was held to an action: it is one."""
    _, said = split_reasoning(reply.text)
    text = form.read(reply, without_fence(said), registry)
    return parse(text, registry).valid


def _question(registry: Registry, max_tokens: int) -> Prompt:
    asked = PromptMessage(role="user", content=QUESTION)
    situation = Situation("", 0, {}, {}, "")
    return Prompt("decide", _SYSTEM, (asked,), situation, max_tokens=max_tokens, registry=registry)
