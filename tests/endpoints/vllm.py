"""vLLM's server, as of 0.12: unknown fields are ignored, `structured_outputs` holds one constraint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conch_schemas import JsonObject
from tests.endpoints.base import Refused, Server


@dataclass
class Vllm(Server):
    """`vllm serve MODEL`."""

    name = "vLLM"
    forms = ("structured_outputs", "response_format", "tools")

    def error(self, status: int, message: str, **more: Any) -> Refused:
        error = {"message": message, "type": "BadRequestError", "param": None, "code": status, **more}
        return Refused(status, {"error": error})

    def unauthorized(self) -> Refused:
        return Refused(401, {"error": "Unauthorized"})

    def check(self, body: JsonObject) -> None:
        if body["model"] != self.model:
            words = f"The model `{body['model']}` does not exist."
            raise self.error(404, words, type="NotFoundError", param="model")
        for name in ("max_tokens", "max_completion_tokens", "seed"):
            if name in body and (not isinstance(body[name], int) or isinstance(body[name], bool)):
                words = f"1 validation error: {{'type': 'int_parsing', 'loc': ('body', '{name}'), 'msg': 'Input should be a valid integer'}}"  # fmt: skip # noqa: E501
                raise self.error(400, words, param=name)
        held = [name for name in ("structured_outputs", "response_format") if name in body]
        if len(held) > 1:
            raise self.error(400, "You can only use one kind of structured outputs constraint.")
        outputs = body.get("structured_outputs", {})
        if unknown := outputs.keys() - {"json", "regex", "choice", "grammar", "json_object", "structural_tag"}:
            raise self.error(400, f"StructuredOutputsParams got an unexpected keyword argument '{min(unknown)}'")
        if "grammar" in outputs and not outputs["grammar"].startswith("root ::= "):
            raise self.error(400, "The grammar is not valid: the root rule 'root' is not found.")
