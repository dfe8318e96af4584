"""llama.cpp's server: unknown fields are ignored, GBNF is in `grammar`, one constraint at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conch_schemas import JsonObject
from tests.endpoints.base import Refused, Server


@dataclass
class LlamaCpp(Server):
    """`llama-server -m FILE --jinja`. Any name of a model is taken."""

    name = "llama.cpp"
    forms = ("grammar", "response_format", "tools")
    key: str | None = "local-key"
    loading: int = 0
    """So many requests are answered with 503, as the model is loaded."""

    def error(self, status: int, message: str, **more: Any) -> Refused:
        kinds = {400: "invalid_request_error", 401: "authentication_error", 503: "unavailable_error"}
        return Refused(status, {"error": {"code": status, "message": message, "type": kinds[status], **more}})

    def unauthorized(self) -> Refused:
        return self.error(401, "Invalid API Key")

    def check(self, body: JsonObject) -> None:
        if self.loading:
            self.loading -= 1
            raise self.error(503, "Loading model")
        if "grammar" in body and "response_format" in body:
            raise self.error(400, 'Either "json_schema" or "grammar" can be specified, but not both')
        if "grammar" in body and body.get("tools"):
            raise self.error(400, "Cannot use custom grammar constraints with tools.")
        if body.get("tools") and body.get("logprobs") and body.get("stream"):
            raise self.error(400, "logprobs is not supported with tools + stream")
        if "grammar" in body and not isinstance(body["grammar"], str):
            raise self.error(400, "[json.exception.type_error.302] type must be string, but is object")
