"""Grammars: GBNF in a field of its own for llama.cpp's server, and in `structured_outputs` for vLLM.

llama.cpp: `grammar`, in its server's README among the options of `/completion`, which `/v1/chat/completions` takes too.
vLLM: `{"structured_outputs": {"grammar": …}}`, in its documentation under "Structured Outputs". The fields `guided_*`
before it were removed in 0.12 and are ignored since, with status 200 (vllm-project/vllm#53975). Its default backend,
xgrammar, reads the same notation: release 0.2.8 has accepted and refused the same replies for the built-in tools.
"""

from __future__ import annotations

from functools import lru_cache

from conch.actions import Registry, gbnf
from conch.minds.constraint.form import RequestFields
from conch.minds.replies.reply import StreamedReply
from conch_schemas import Constraint

_BEGINNINGS = ("TOOL: ", "DO_NOTHING: ", "REFLECT: ")


class LlamaGrammar:
    """GBNF as llama.cpp's server takes it."""

    field = "grammar"
    kind: Constraint = "grammar"

    def fields(self, registry: Registry, longest: int | None) -> RequestFields:
        """The grammar of all actions."""
        return {"grammar": _grammar(registry.specs, longest)}

    def begun(self, _: StreamedReply, text: str) -> bool:
        """Whether the text begins as an action."""
        return any(text.startswith(word) or word.startswith(text) for word in _BEGINNINGS)

    def read(self, _: StreamedReply, text: str, registry: Registry) -> str:
        """The text: the grammar is the parser's."""
        del registry
        return text


class VllmGrammar(LlamaGrammar):
    """The same grammar as vLLM takes it."""

    field = "structured_outputs"

    def fields(self, registry: Registry, longest: int | None) -> RequestFields:
        """The grammar of all actions."""
        return {"structured_outputs": {"grammar": _grammar(registry.specs, longest)}}


@lru_cache(maxsize=8)
def _grammar(specs: tuple[object, ...], longest: int | None) -> str:
    return gbnf(Registry(specs), longest=longest)  # type: ignore[arg-type]
