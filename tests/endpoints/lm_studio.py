"""LM Studio's server: `response_format` must be a JSON schema, `tool_choice` a word, errors are texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conch_schemas import JsonObject
from tests.endpoints.base import Refused, Server


@dataclass
class LmStudio(Server):
    """The local server of LM Studio with one loaded model."""

    name = "LM Studio"
    forms = ("response_format", "tools")

    def error(self, status: int, message: str, **more: Any) -> Refused:
        return Refused(status, {"error": message, **more})

    def check(self, body: JsonObject) -> None:
        if body["model"] != self.model:
            raise self.error(404, f'Model "{body["model"]}" not found. Please specify a valid model.')
        if (kind := body.get("response_format", {}).get("type")) not in (None, "json_schema", "text"):
            raise self.error(400, f"'response_format.type' must be 'json_schema' or 'text', got '{kind}'")
        if not isinstance(body.get("tool_choice", ""), str):
            words = "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"
            raise self.error(400, words)
