"""The servers that people use, as strict stand-ins: a cycle is decided in the form of a constraint that each takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conch.actions import Registry, ToolSpec
from conch.errors import ModelError
from conch.minds import MindFactory
from conch.tools import BUILTIN_TOOLS, Toolbox
from conch_schemas import ActionDecided, ActionTaken, PolicySet
from tests.cycle.conftest import Life
from tests.endpoints.asking import REGISTRY, decision
from tests.endpoints.base import FREE, PROMPT_TOKENS, REPLY_TOKENS, Server
from tests.endpoints.openai import OpenAI

HELD = {
    "OpenAI": ("response_format", "schema"),
    "OpenAI, a reasoning model": ("response_format", "schema"),
    "vLLM": ("structured_outputs", "grammar"),
    "llama.cpp": ("grammar", "grammar"),
    "Ollama": ("response_format", "schema"),
    "LM Studio": ("response_format", "schema"),
    "LiteLLM": ("response_format", "schema"),
}
"""The field of the best form that a server takes, and what is recorded."""
WRONG_KEY = {
    "OpenAI": r"Incorrect API key provided.*check mind\.api_key",
    "OpenAI, a reasoning model": r"Incorrect API key provided.*check mind\.api_key",
    "llama.cpp": r"Invalid API Key.*check mind\.api_key",
    "LiteLLM": r"Invalid proxy server token passed.*check mind\.api_key",
}
LISTS = 'TOOL: filesystem(operation="list", path=".")'


async def test_a_whole_cycle_is_decided_and_acted(server: Server, life: Life, tmp_path: Path) -> None:
    """The best form that the server takes holds the decision, its tool is called, its tokens are counted."""
    async with MindFactory(server.settings) as minds:
        life.mind = minds.make(seed=1, memory=tmp_path)  # type: ignore[assignment]
        await life.run(1)
    [decided], [taken] = life.facts(ActionDecided), life.facts(ActionTaken)

    field, kind = HELD[server.name]
    assert (decided.raw, decided.constrained, decided.decoding.constraint) == (LISTS, True, kind)
    assert (decided.usage.input_tokens, decided.usage.output_tokens) == (PROMPT_TOKENS, REPLY_TOKENS)
    assert (taken.action.skill, taken.outcome.status) == ("filesystem.list", "success")
    assert "tides.md" in taken.outcome.output.text
    assert server.asked()[-1] == field
    *_, policy = life.facts(PolicySet)
    assert policy.constraint is not None
    assert policy.policy == decided.policy


@pytest.mark.parametrize("form", ["grammar", "schema", "tools"])
async def test_a_form_that_is_asked_for_is_the_only_one(server: Server, tmp_path: Path, form: str) -> None:
    """An explicit `mind.constrain` sends that form alone. A server without a grammar is named; a form that a server
    ignores counts for nothing."""
    settings = server.settings.model_copy(update={"constrain": form})
    has = {
        "grammar": {"grammar", "structured_outputs"} & set(server.forms),
        "schema": {"response_format"} & set(server.forms),
        "tools": {"tools"} & set(server.forms),
    }[form]
    async with MindFactory(settings) as minds:
        mind = minds.make(seed=1, memory=tmp_path)
        if form == "grammar" and not has:
            with pytest.raises(ModelError, match=r"holds no reply to a grammar \(mind\.constrain\)") as refused:
                await mind.complete(decision())
            assert refused.value.fatal
        else:
            reply = await mind.complete(decision())
            assert (reply.text, reply.constrained) == ((LISTS, True) if has else (FREE, False))
    kinds = {"grammar": "grammar", "structured_outputs": "grammar", "response_format": "schema", "tools": "tools"}
    assert {kinds[field] for field in server.asked()} == {form}


async def test_a_wrong_key_or_model_is_named_in_the_servers_words(server: Server, tmp_path: Path) -> None:
    """The server's own sentence and what to check are in one error; nothing is asked again."""
    settings = server.settings
    if server.key is not None:
        server.key, words = "another", WRONG_KEY[server.name]
    else:
        server.model, words = "another", r"tiny.*check mind\.base_url \(up to and with /v1\) and mind\.model"

    async with MindFactory(settings) as minds:
        with pytest.raises(ModelError, match=words) as refused:
            await minds.make(seed=1, memory=tmp_path).complete(decision())

    assert refused.value.fatal
    assert len(server.requests) == 1


async def test_free_cycles_are_asked_without_a_constraint(server: Server, tmp_path: Path) -> None:
    """`mind.free_share: 1`: no search, no field, and the reply is what the model says by itself."""
    settings = server.settings.model_copy(update={"free_share": 1.0})
    async with MindFactory(settings) as minds:
        reply = await minds.make(seed=1, memory=tmp_path).complete(decision())

    assert (reply.text, reply.constrained) == (FREE, False)
    assert set(server.asked()) == {"free"}


async def test_fields_of_the_users_own_go_along(server: Server, tmp_path: Path) -> None:
    """Beside the constraint, with their types; a field of null is left out. No other field of Conch's is sent."""
    extra = {"top_p": 0.9, "temperature": None}
    async with MindFactory(server.settings.model_copy(update={"extra": extra})) as minds:
        reply = await minds.make(seed=1, memory=tmp_path).complete(decision())

    sent = server.requests[-1]
    assert reply.constrained
    assert sent["top_p"] == 0.9
    limit = {"max_tokens", "max_completion_tokens"} & sent.keys()
    assert sent.keys() - limit == {"model", "messages", "stream", "stream_options", "top_p", HELD[server.name][0]}
    assert len(limit) == 1


async def test_a_tool_with_a_long_description_can_be_called(tmp_path: Path) -> None:
    """OpenAI takes 1,024 characters of it."""
    long = ToolSpec("filesystem", "Reads files. " * 200, REGISTRY["filesystem"].arguments)
    async with OpenAI().serving() as server:
        settings = server.settings.model_copy(update={"constrain": "tools"})
        async with MindFactory(settings) as minds:
            mind = minds.make(seed=1, memory=tmp_path)
            reply = await mind.complete(replace(decision(), registry=Registry([long])))

    assert (reply.text, reply.constrained) == (LISTS, True)


def test_the_wanted_call_is_one_of_the_built_in_tools() -> None:
    """The stand-ins' model wants what an agent can do."""
    assert "filesystem" in Toolbox(BUILTIN_TOOLS).registry.names
