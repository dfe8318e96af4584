"""OpenAI's chat completions, from its API reference: unknown fields are refused, schemas must be strict.

A reasoning model refuses `max_tokens`, and a temperature that is not its default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conch_schemas import JsonObject
from tests.endpoints.base import Refused, Server

TYPES: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "messages": list,
    "stream": bool,
    "stream_options": dict,
    "temperature": (int, float),
    "top_p": (int, float),
    "max_tokens": int,
    "max_completion_tokens": int,
    "reasoning_effort": str,
    "seed": int,
    "logprobs": bool,
    "top_logprobs": int,
    "response_format": dict,
    "tools": list,
    "tool_choice": (str, dict),
    "parallel_tool_calls": bool,
}
STRICT = {"type", "properties", "required", "additionalProperties", "anyOf", "items", "enum", "description", "$ref"}


def strict_problem(schema: JsonObject, where: str = "()") -> str | None:
    """Why strict mode does not take a schema, in its words; None where it does."""
    if where == "()" and schema.get("type") != "object":
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    if unknown := sorted(schema.keys() - STRICT):
        return f"In context={where}, '{unknown[0]}' is not permitted."
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return f"In context={where}, 'additionalProperties' is required to be supplied and to be false."
        missing = sorted(schema["properties"].keys() - set(schema.get("required", ())))
        if missing:
            return (
                f"In context={where}, 'required' is required to be supplied and to be an array including every key in "
                f"properties. Missing '{missing[0]}'."
            )
    if "array" in (kind if isinstance(kind := schema.get("type"), list) else [kind]) and "items" not in schema:
        return f"In context={where}, array schema missing items."
    branches = schema.get("anyOf", [])
    firsts = [next(iter(one["properties"])) for one in branches if "properties" in one]
    if len(set(firsts)) < len(firsts):
        return f"In context={where}, Objects provided via 'anyOf' must not share identical first keys."
    inner = [*schema.get("properties", {}).items(), *enumerate(branches), ("items", schema.get("items"))]
    problems = (strict_problem(one, f"('{key}')") for key, one in inner if one is not None)
    return next((problem for problem in problems if problem is not None), None)


@dataclass
class OpenAI(Server):
    """A model of the GPT-4.1 kind."""

    name = "OpenAI"
    forms = ("response_format", "tools")
    key: str | None = "sk-standin"

    def error(self, status: int, message: str, **more: Any) -> Refused:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}
        return Refused(status, {"error": error})

    def unauthorized(self) -> Refused:
        return self.error(401, "Incorrect API key provided: sk-wrong.", code="invalid_api_key")

    def check(self, body: JsonObject) -> None:
        for name, value in body.items():
            if name not in TYPES:
                raise self.error(400, f"Unrecognized request argument supplied: {name}")
            if not isinstance(value, TYPES[name]) or (isinstance(value, bool) and TYPES[name] is not bool):
                raise self.error(400, f"Invalid type for '{name}'.", param=name, code="invalid_type")
        if body["model"] != self.model:
            words = f"The model `{body['model']}` does not exist or you do not have access to it."
            raise self.error(404, words, code="model_not_found")
        if "stream_options" in body and not body.get("stream"):
            raise self.error(400, "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        if "tool_choice" in body and "tools" not in body:
            raise self.error(400, "'tool_choice' is only allowed when 'tools' are specified.")
        self._check_schemas(body)

    def _check_schemas(self, body: JsonObject) -> None:
        if "response_format" in body:
            named = body["response_format"]["json_schema"]
            if problem := strict_problem(named["schema"]):
                words = f"Invalid schema for response_format '{named['name']}': {problem}"
                raise self.error(400, words, param="response_format")
        for number, tool in enumerate(body.get("tools", ())):
            function = tool["function"]
            if len(function.get("description", "")) > 1024:
                words = f"Invalid 'tools[{number}].function.description': string too long."
                raise self.error(400, words, code="string_above_max_length")
            if function.get("strict") and (problem := strict_problem(function["parameters"])):
                words = f"Invalid schema for function '{function['name']}': {problem}"
                raise self.error(400, words, param=f"tools[{number}].function.parameters", code="invalid_function_parameters")  # fmt: skip # noqa: E501


@dataclass
class OpenAIReasoning(OpenAI):
    """A model of the o-series."""

    name = "OpenAI, a reasoning model"

    def check(self, body: JsonObject) -> None:
        super().check(body)
        if "max_tokens" in body:
            words = (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead."
            )
            raise self.error(400, words, param="max_tokens", code="unsupported_parameter")
        if body.get("temperature", 1) != 1:
            words = (
                "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is "
                "supported."
            )
            raise self.error(400, words, param="temperature", code="unsupported_value")
