"""The settings of the tool `http`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from conch.config.model.section import SettingsSection

HOST = r"^(\*\.)?[a-zA-Z0-9]([a-zA-Z0-9.-]{0,250}[a-zA-Z0-9])?(:[0-9]{1,5})?$"
"""A name of the DNS, with *. before it for all below it, and a port behind it for another one than the scheme's."""
HostPattern = Annotated[str, StringConstraints(to_lower=True, pattern=HOST)]


class HttpToolSettings(SettingsSection):
    """The tool `http`, which fetches pages of the hosts that are named; it is off where none is."""

    allow: Annotated[tuple[HostPattern, ...], Field(max_length=1000)] = ()
    """Hosts: example.org, *.example.org for all below it; with :PORT for another port than 80 and 443."""
    timeout: Annotated[float, Field(gt=0)] = 10.0
    """Seconds that one fetch may take, redirects and all."""
    size_kib: Annotated[int, Field(gt=0, le=16_384)] = 512
    """KiB of a page that are read; a longer one is an error."""
