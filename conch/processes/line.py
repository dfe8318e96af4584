"""The framing of messages on a pipe between two processes of a run: a line is a JSON object that names its kind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter, ValidationError

from conch.errors import ContractError

SHOWN = 200
"""Characters of what is wrong with a line that an error shows; of the line itself it shows nothing: it may hold
secrets."""
LineT = TypeVar("LineT")


def _path(value: Any) -> Any:
    return os.fsdecode(value.encode("latin-1")) if isinstance(value, str) else value


LocalPath = Annotated[
    Path, PlainSerializer(lambda path: os.fsencode(path).decode("latin-1"), return_type=str), BeforeValidator(_path)
]
"""A path byte for byte: a name need not be UTF-8. In Python a Path; on the line a text."""


class PipeMessage(BaseModel):
    """A line of either side. Fields that are not known are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)  # a process needs few of them

    def encode(self) -> bytes:
        """The line, with its end."""
        try:
            return self.model_dump_json().encode() + b"\n"
        except ValueError:  # a lone surrogate, as an error's words may have
            return json.dumps(self.model_dump(mode="json"), ensure_ascii=False).encode(errors="replace") + b"\n"


class _Kind(PipeMessage):
    kind: str


def kind_of(line: bytes, what: str) -> str:
    """The kind of a line; `what` it should be, for the error. Raises ContractError, in one sentence, where it has
    none."""
    return decode_line(_Kind, line, what).kind


def decode_line(kind: type[LineT], line: bytes, what: str) -> LineT:
    """The line of this kind; `what` it should be, for the error. Raises ContractError, in one sentence, for any other
    line."""
    return decode(TypeAdapter(kind), line, what)


def decode(adapter: TypeAdapter[LineT], line: bytes, what: str) -> LineT:
    """The message on a line. Raises ContractError, in one sentence, for a line that holds no such message."""
    try:
        return adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        why = (f"{where}: {first['msg']}" if where else first["msg"])[:SHOWN]
        raise ContractError(f"a line of {len(line)} bytes is not {what} ({why})") from None
