"""The view of a removal at a person's request, for `conch forget --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View


class Forgotten(View):
    """What `conch forget` removed."""

    schema_: Literal["conch.v1.forgotten"] = Field(default="conch.v1.forgotten", alias="schema")
    id: str
    """Of the request."""
    acts: int
    events: int
    """Events that were erased on the stream."""
    marks: int
    """Marks that are without their words."""
    memories: int
    """Rows of memories, notes and other tables beside the store."""
    files: int
    """Files of which lines or values were removed."""
    left: tuple[str, ...]
    """Files of the home in which the words still stand."""
    server_keeps: bool
    """Whether a server that others use keeps earlier checkpoints until it writes over them."""
