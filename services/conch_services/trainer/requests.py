"""What people ask of the trainer over the bus, and its answers; `conch.requests.ask_trainer` is the other end."""

from __future__ import annotations

import json
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from conch.errors import ContractError
from conch.requests import trainer_subject

REQUESTS: Final = f"{trainer_subject('run').rpartition('.')[0]}.*"
"""The subjects of all requests."""


class TrainerRequest(BaseModel):
    """A request about an agent's lineage."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    agent: str
    adapter: str | None = None
    """Digest of the adapter that is meant."""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The request in these bytes. Raises ContractError."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise ContractError("that is no request to a trainer: it names no agent") from error


def answer(*, said: str = "", error: str = "") -> bytes:
    """The reply to a request: what was done, or why not."""
    return json.dumps({"error": error} if error else {"ok": True, "said": said}).encode()
