"""The model of values and guardrails, and the check of a decision against them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from conch.actions import forbidden_as
from conch_schemas import Action

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
Skill = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_.*?-]{1,100}$")]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class _ValuesSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Guardrail(_ValuesSection):
    """A rule that forbids calls."""

    name: Name
    why: Sentence
    """The reason, for the mind and for people."""
    skills: Annotated[tuple[Skill, ...], Field(min_length=1)]
    """`tool` or `tool.operation`, with * and ?; a tool alone means all its operations. filesystem.write means edits
    too."""
    says: tuple[Words, ...] = ()
    """Any of these in any argument, ignoring case and blanks; empty: every use of the skills."""

    def blocks(self, action: Action) -> bool:
        """Whether it forbids this decision."""
        names = (*forbidden_as(action.skill.casefold()), action.tool or "")
        if not any(fnmatchcase(name, wanted) for name in names for wanted in self.skills):
            return False
        said = [_plain(text) for text in _texts(action.args)]
        return not self.says or any(_plain(words) in text for words in self.says for text in said)


class Values(_ValuesSection):
    """The values of an agent. Empty values have no digest and block nothing."""

    values: dict[Words, Sentence] = Field(default_factory=dict)
    guardrails: tuple[Guardrail, ...] = ()
    digest: str = ""
    """SHA-256 of the values file, hexadecimal; every mark holds it."""

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        names = [one.name for one in self.guardrails]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"there are two guardrails {twice[0]}: give each a name of its own")
        return self

    def guard(self, action: Action) -> str | None:
        """Why this decision must not be run, in a sentence; None: no guardrail forbids it. Never raises.

        Words are compared literally: a different spelling (encoded, assembled by a program) is not detected. The
        sandbox is what confines an act.
        """
        if action.kind != "TOOL" or not action.valid:
            return None
        for one in self.guardrails:
            if one.blocks(action):
                return f"the guardrail {one.name} forbids it: {one.why}"
        return None


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _texts(value: Any) -> Iterator[str]:
    """Every text within a JSON value; depth and size are bounded by the parser of replies."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif value is not None:
        yield str(value)
