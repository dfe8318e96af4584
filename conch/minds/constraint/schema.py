"""JSON Schema in `response_format`: OpenAI's structured outputs, and what Ollama, LM Studio, LiteLLM, vLLM and
llama.cpp take of them.

`{"type": "json_schema", "json_schema": {"name", "strict", "schema"}}`, in OpenAI's API reference of chat completions.
The rules of its strict mode are those of `conch.actions.json_schema`. Ollama's server ignores `strict`, and holds the
reply to the schema (since 0.5.0); its hosted models take the field and ignore it (ollama/ollama#12362).
"""

from __future__ import annotations

from conch.actions import Registry, from_json, json_schema
from conch.minds.constraint.form import RequestFields
from conch.minds.replies.reply import StreamedReply
from conch_schemas import Constraint


class ResponseSchema:
    """A reply that is an object of the action's schema."""

    field = "response_format"
    kind: Constraint = "schema"

    def fields(self, registry: Registry, longest: int | None) -> RequestFields:
        """The schema of all actions. It has no `maxLength`, which strict mode refuses."""
        del longest
        schema: RequestFields = {"name": "action", "strict": True, "schema": json_schema(registry)}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}

    def begun(self, _: StreamedReply, text: str) -> bool:
        """Whether the text begins as an object."""
        return text.startswith("{")

    def read(self, _: StreamedReply, text: str, registry: Registry) -> str:
        """The action that the object is."""
        found = from_json(text, registry)
        return text if found is None else found
