"""The form of a constraint that an endpoint takes: found once, kept in the home, forgotten when it is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conch.config import OneMindSettings
from conch.home import write_whole
from conch.log import get_logger
from conch.minds.constraint.form import ConstraintForm
from conch.minds.constraint.grammar import LlamaGrammar, VllmGrammar
from conch.minds.constraint.schema import ResponseSchema
from conch.minds.constraint.tools import ToolCalls

log = get_logger(__name__)

FORMS: Final[tuple[ConstraintForm, ...]] = (LlamaGrammar(), VllmGrammar(), ResponseSchema(), ToolCalls())
"""The best first. A grammar is the notation that the prompt describes, and limits the length of texts; a schema is held
by more servers than a call of a tool, which some only ask of the model."""
FIELDS: Final = frozenset(form.field for form in FORMS)


class ConstraintFinding(BaseModel):
    """What was found of a model at an endpoint, as its file says it."""

    model_config = ConfigDict(frozen=True)

    endpoint: str
    """Address of its chat completions, without secrets."""
    model: str
    form: str | None
    """The field of the form that it takes, one of FORMS; None: it takes none that was tried."""
    tried: tuple[str, ...]
    """The fields of the forms that were candidates: a finding counts for these alone."""
    without: dict[str, str] = Field(default_factory=dict)
    """By the field of a form that it does not take: its refusal, or `ignored`."""
    found_at: datetime

    @property
    def taken(self) -> ConstraintForm | None:
        """The form that it takes."""
        return next((form for form in FORMS if form.field == self.form), None)


@dataclass(frozen=True)
class EndpointModel:
    """A model at an endpoint, and the candidates that its form is one of."""

    endpoint: str
    model: str
    candidates: tuple[ConstraintForm, ...]

    @property
    def tried(self) -> tuple[str, ...]:
        """The fields of the candidates."""
        return tuple(form.field for form in self.candidates)


class ConstraintFindings:
    """The findings of all endpoints that a process asks, each also in a file of `directory`."""

    def __init__(self, directory: Path | None = None) -> None:
        """`directory`: made when the first finding is kept; None: findings end with the process."""
        self._directory = directory
        self._known: dict[EndpointModel, ConstraintFinding] = {}
        self._locks: dict[EndpointModel, asyncio.Lock] = {}

    def turn(self, at: EndpointModel) -> asyncio.Lock:
        """Held while the form is looked for: agents that share a process look once."""
        return self._locks.setdefault(at, asyncio.Lock())

    async def get(self, at: EndpointModel) -> ConstraintFinding | None:
        """The finding; None where there is none, its file cannot be read, or other forms were candidates then."""
        found = self._known.get(at)
        if found is None and (file := self._file(at)) is not None:
            found = await asyncio.to_thread(_read, file)
            if found is not None and (found.endpoint, found.model, found.tried) == (at.endpoint, at.model, at.tried):
                self._known[at] = found
            else:
                found = None
        return found

    async def keep(
        self, at: EndpointModel, form: ConstraintForm | None, without: Mapping[str, str], *, lasting: bool
    ) -> None:
        """Keep the finding that it takes `form`, and others not. `lasting`: also in the file. A file that cannot be
        written is logged: the next process looks again."""
        finding = ConstraintFinding(
            endpoint=at.endpoint,
            model=at.model,
            form=form.field if form is not None else None,
            tried=at.tried,
            without=dict(without),
            found_at=datetime.now(UTC),
        )
        self._known[at] = finding
        if lasting and (file := self._file(at)) is not None:
            try:
                await asyncio.to_thread(_write, file, finding)
            except OSError as error:
                log.warning("mind.constraint_not_kept", file=str(file), error=error.strerror)

    async def forget(self, at: EndpointModel) -> None:
        """Forget the finding: it is looked for again. A second call does nothing. A file that cannot be removed stays:
        the next process finds out again that the form is refused."""
        self._known.pop(at, None)
        if (file := self._file(at)) is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(file.unlink, missing_ok=True)

    def _file(self, at: EndpointModel) -> Path | None:
        if self._directory is None:
            return None
        key = json.dumps([at.endpoint, at.model, at.tried])
        return self._directory / f"{blake2b(key.encode(), digest_size=8).hexdigest()}.json"


def forms_of(settings: OneMindSettings) -> tuple[ConstraintForm, ...]:
    """The forms that `mind.constrain` allows, the best first; of the kind local the best alone, of transformers none.
    Where one of `mind.extra` is a constraint, there is none of Conch's."""
    if settings.constrain == "off" or settings.kind == "transformers" or FIELDS & settings.extra.keys():
        return ()
    forms = tuple(form for form in FORMS if settings.constrain in ("auto", form.kind))
    return forms[:1] if settings.kind == "local" else forms


def _read(file: Path) -> ConstraintFinding | None:
    try:
        return ConstraintFinding.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None


def _write(file: Path, finding: ConstraintFinding) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(file, finding.model_dump_json() + "\n")
