"""Native calls of tools: `tools` with `tool_choice: required`, in OpenAI's API reference of chat completions.

DO_NOTHING and REFLECT are two further tools, so that each reply is a call. `parallel_tool_calls: false`, as a decision
is one action, and as OpenAI's strict mode does not hold parallel calls. LM Studio takes `tool_choice` as a word alone.
Ollama ignores `tool_choice`; llama.cpp takes it, and does not apply it with every chat template (llama.cpp#27217).
"""

from __future__ import annotations

from pydantic import JsonValue

from conch.actions import Registry, call_schemas, from_call
from conch.minds.constraint.form import RequestFields
from conch.minds.replies.reply import StreamedReply
from conch_schemas import Constraint

LONGEST_DOC = 1024
"""Most characters of a tool's description that OpenAI takes. The prompt has all of it."""


class ToolCalls:
    """A reply that is a call of one of the tools."""

    field = "tools"
    kind: Constraint = "tools"

    def fields(self, registry: Registry, longest: int | None) -> RequestFields:
        """Every call that is an action, and that one is required."""
        del longest
        tools: list[JsonValue] = [
            {
                "type": "function",
                "function": {"name": name, "description": doc[:LONGEST_DOC], "strict": True, "parameters": parameters},
            }
            for name, doc, parameters in call_schemas(registry)
        ]
        return {"tools": tools, "tool_choice": "required", "parallel_tool_calls": False}

    def begun(self, reply: StreamedReply, _: str) -> bool:
        """Whether a call has begun."""
        return reply.call is not None

    def read(self, reply: StreamedReply, text: str, registry: Registry) -> str:
        """The action that the first call is; content beside it is no part of the reply."""
        if reply.call is None:
            return text
        name, arguments = reply.call
        if (
            not arguments and reply.finish_reason != "length"
        ):  # a call without arguments, as Anthropic's gateways send it
            arguments = "{}"
        found = from_call(name, arguments, registry)
        return f"TOOL: {name}({arguments}" if found is None else found
