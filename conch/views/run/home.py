"""The views of a new home and of its page's address, for `conch init --json` and `conch ui --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View


class HomeMade(View):
    """The home that `conch init --json` made."""

    schema_: Literal["conch.v1.home"] = Field(default="conch.v1.home", alias="schema")
    home: str
    made: bool
    """False: it was there already, and nothing was changed."""


class PageAt(View):
    """The address of the dashboard, as `conch ui --json` prints it."""

    schema_: Literal["conch.v1.ui"] = Field(default="conch.v1.ui", alias="schema")
    address: str
    link: str
    """A fresh login link, with a token that is valid once."""
