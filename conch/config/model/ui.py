"""Settings of the dashboard: address, token, origins."""

from __future__ import annotations

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from conch.config.model.address import is_loopback
from conch.config.model.section import SettingsSection

UI_PORT = 26624
"""The dashboard's port unless one is configured: CONCH on a telephone's keys."""

LEAST_TOKEN = 16
"""Least characters of the dashboard's token: with each drawn from 16 signs or more, guessing it is infeasible."""

ORIGIN = r"^[Hh][Tt][Tt][Pp][Ss]?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)(:\d{1,5})?$"
"""Origin of a page, as a browser sends it."""


def _is_origin(text: str) -> str:
    """The origin as browsers write it: lower case, without its scheme's default port."""
    if not re.fullmatch(ORIGIN, text):
        raise ValueError("write an origin as browsers name it, https://host or http://host:port, without a path")
    parts = urlsplit(text.lower())
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{parts.netloc.removesuffix(f':{usual}') if parts.port == usual else parts.netloc}"


class UiSettings(SettingsSection):
    """The dashboard."""

    enabled: bool = True
    """Whether `conch run` serves the dashboard."""
    host: str = "127.0.0.1"
    """Address that it listens on; any but a loopback address needs `token` and `origins`."""
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """TCP port of the dashboard; none: 26624, or a free one when that is taken."""
    token: SecretStr | None = None
    """Bearer token for programs, typed once by people, 16 characters or more; none: the home makes one (ui/token)."""
    origins: tuple[Annotated[str, Field(json_schema_extra={"pattern": ORIGIN}), AfterValidator(_is_origin)], ...] = ()
    """Further addresses under which browsers reach the dashboard, such as https://conch.example.org."""
    unsafe_allow_unauthenticated: bool = False
    """Whether every client may see and do everything without a token."""

    @field_validator("token")
    @classmethod
    def _token_travels(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not re.fullmatch(r"[!-~]+", token.get_secret_value()):
            raise ValueError("a token travels in a header: letters, digits and signs of ASCII, no blanks, at least one")
        if token is not None and len(token.get_secret_value()) < LEAST_TOKEN:
            raise ValueError(
                f"a token that nobody guesses has {LEAST_TOKEN} characters or more: openssl rand -hex 16 draws one"
            )
        return token

    @model_validator(mode="after")
    def _lets_in_whom_it_knows(self) -> Self:
        known = self.token is not None and self.origins
        if not (is_loopback(self.host) or known or self.unsafe_allow_unauthenticated):
            raise ValueError(
                f"ui.host {self.host} is open to other machines: set ui.token, and in ui.origins what browsers call "
                "the page (https://conch.example.org), or let everybody in with ui.unsafe_allow_unauthenticated"
            )
        return self
