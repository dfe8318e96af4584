"""The views of values and guardrails, for `conch values … --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.values import Guardrail
from conch.views.base import View


class ValuesShown(View):
    """The values and guardrails in force, as `conch values show --json` prints them."""

    schema_: Literal["conch.v1.values"] = Field(default="conch.v1.values", alias="schema")
    file: str | None
    """None: the values that come with Conch."""
    key: str | None
    """Public key that the file is signed with."""
    values: dict[str, str]
    """Name -> what it means."""
    guardrails: tuple[Guardrail, ...]
    digest: str
    """SHA-256 of the file, hexadecimal."""


class ValuesWritten(View):
    """The result of `conch values new --json`."""

    schema_: Literal["conch.v1.values-new"] = Field(default="conch.v1.values-new", alias="schema")
    file: str


class ValuesSigned(View):
    """The result of `conch values sign --json`."""

    schema_: Literal["conch.v1.values-signed"] = Field(default="conch.v1.values-signed", alias="schema")
    file: str
    signature: str
    """File of the signature."""
    secret: str
    """File of the secret key."""
    key: str
    """Public half of the key."""
    digest: str
    """SHA-256 of the signed file, hexadecimal."""
