"""Ollama's /v1: unknown fields and `tool_choice` are ignored, schemas are held, calls come in one chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conch_schemas import JsonObject
from tests.endpoints.base import FREE, Refused, Reply, Server


@dataclass
class Ollama(Server):
    """`ollama serve`. Calls of tools are the model's own choice."""

    name = "Ollama"
    forms = ("response_format",)
    call_in_parts = False
    calls_tools: bool = True
    """Whether the model's template knows tools."""

    def error(self, status: int, message: str, **more: Any) -> Refused:
        kinds = {404: "not_found_error", 400: "invalid_request_error", 401: "authentication_error"}
        return Refused(
            status, {"error": {"message": message, "type": kinds[status], "param": None, "code": None, **more}}
        )

    def check(self, body: JsonObject) -> None:
        if body["model"] != self.model:
            raise self.error(404, f"model '{body['model']}' not found")
        if not isinstance(body.get("max_tokens", 0), int):
            raise self.error(400, "json: cannot unmarshal string into Go struct field .max_tokens of type int")
        if body.get("tools") and not self.calls_tools:
            raise self.error(400, f"registry.ollama.ai/library/{self.model}:latest does not support tools")

    def reply(self, body: JsonObject) -> Reply:
        return Reply(FREE) if body.get("tools") else super().reply(body)
