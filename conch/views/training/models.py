"""The views of models, for `conch model list | test --json`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import Constraint


class ModelRow(View):
    """A model that can be installed from the package index."""

    name: str
    title: str
    licence: str
    download_mb: float
    """MB of the download."""
    installed: bool
    file: str
    """Where its file is, or would be."""


class Models(View):
    """The models that `conch model install` knows."""

    schema_: Literal["conch.v1.models"] = Field(default="conch.v1.models", alias="schema")
    models: tuple[ModelRow, ...]


class EndpointTest(View):
    """What a test of the mind's endpoint found."""

    schema_: Literal["conch.v1.endpoint_test"] = Field(default="conch.v1.endpoint_test", alias="schema")
    endpoint: str
    """Address of its chat completions, without secrets."""
    model: str
    constraint: Constraint
    """What its replies are held to: grammar, schema, tools, or free where it takes none."""
    form: str | None
    """The field of the request that holds the constraint."""
    without: dict[str, str]
    """By the fields that were tried before it in vain: the refusal, or `ignored`."""
    first_seconds: float
    """Seconds of the first reply."""
    tokens_per_second: float
    """Output tokens of all replies ÷ their seconds, which include reading the prompt."""
    replies: int
    """Replies with the constraint, and as many without."""
    valid: Annotated[float, Field(ge=0, le=1)] | None
    """Share of the replies under the constraint that are valid actions; None: there is no constraint."""
    valid_free: Annotated[float, Field(ge=0, le=1)]
    """The same share of those without it."""
    reply: str
    """The last reply, under the constraint where there is one."""


class ModelTest(View):
    """What a test of a model measured."""

    schema_: Literal["conch.v1.model_test"] = Field(default="conch.v1.model_test", alias="schema")
    file: str
    load_seconds: float
    first_seconds: float
    """Seconds of the first reply: the prompt of some 500 tokens is read before it."""
    tokens_per_second: float
    """Tokens of the second reply ÷ its seconds."""
    reply: str
    valid: bool
    """Whether both replies are valid actions."""
    memory_mib: float
    """Resident memory of the engine after the reply."""
