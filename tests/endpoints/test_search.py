"""The form of a constraint is found by asking, kept in the home, and forgotten when the endpoint refuses it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from conch.errors import ModelError
from conch.minds import Completion, MindFactory
from conch.minds.constraint.findings import ConstraintFindings
from conch.minds.openai import OpenAIMind
from conch_schemas import JsonObject
from tests.endpoints.asking import decision
from tests.endpoints.base import FREE, Server
from tests.endpoints.llama_cpp import LlamaCpp
from tests.endpoints.ollama import Ollama
from tests.endpoints.openai import OpenAI
from tests.endpoints.vllm import Vllm

LISTS = 'TOOL: filesystem(operation="list", path=".")'


@pytest.fixture
async def openai() -> AsyncIterator[OpenAI]:
    """A stand-in for OpenAI."""
    async with OpenAI().serving() as server:
        yield server


async def no_wait(_: float) -> None:
    """Stands in for the wait between two tries."""


async def replies(server: Server, kept: Path, number: int = 1, **settings: Any) -> list[Completion]:
    """The replies of a new process to so many decisions; findings are kept in `kept`."""
    chosen = server.settings.model_copy(update=settings)
    async with MindFactory(chosen, endpoints=kept) as minds:
        mind = minds.make(seed=1, memory=kept)
        return [await mind.complete(decision(cycle)) for cycle in range(number)]


async def test_forms_are_tried_in_their_order_until_one_is_taken(openai: OpenAI, tmp_path: Path) -> None:
    """One request for each; then every decision begins with the form that was found. The log says it once."""
    with capture_logs() as logs:
        found = await replies(openai, tmp_path, 3)

    assert [reply.text for reply in found] == [LISTS] * 3
    assert openai.asked() == ["grammar", "structured_outputs", *["response_format"] * 4]
    [said] = [entry for entry in logs if entry["event"] == "mind.constraint"]
    assert (said["form"], sorted(said["without"])) == ("response_format", ["grammar", "structured_outputs"])
    assert "Unrecognized request argument supplied: grammar" in said["without"]["grammar"]


async def test_a_field_that_is_ignored_is_no_form_that_is_taken(tmp_path: Path) -> None:
    """vLLM answers 200 to `grammar` and ignores it: the reply that is no action shows it."""
    async with Vllm().serving() as server:
        [reply] = await replies(server, tmp_path)

    assert reply.constrained
    assert server.asked() == ["grammar", "structured_outputs", "structured_outputs"]


async def test_a_restart_does_not_look_again(openai: OpenAI, tmp_path: Path) -> None:
    """The finding is in a file for the endpoint and its model, without the key; another model is looked for anew."""
    await replies(openai, tmp_path)
    openai.requests.clear()
    [reply] = await replies(openai, tmp_path)

    assert reply.constrained
    assert openai.asked() == ["response_format"]
    [file] = tmp_path.glob("*.json")
    kept = json.loads(file.read_text())
    assert (kept["endpoint"], kept["model"]) == (f"{openai.url}/chat/completions", "tiny")
    assert str(openai.key) not in file.read_text()
    openai.model = "large"
    await replies(openai, tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 2


async def test_an_endpoint_without_any_form_is_remembered_too(tmp_path: Path) -> None:
    """Each form is tried once; decisions are free, then and after a restart."""
    async with Ollama(calls_tools=False, disabled={"response_format"}).serving() as server:
        [first] = await replies(server, tmp_path)
        [second] = await replies(server, tmp_path)

    assert [(reply.text, reply.constrained) for reply in (first, second)] == [(FREE, False)] * 2
    assert server.asked() == ["grammar", "structured_outputs", "response_format", "tools", "free", "free"]


@pytest.mark.parametrize("content", ["", "{", '{"endpoint": "x"}', "[" * 100_000, "\x00" * 9])
async def test_a_damaged_file_is_as_none(openai: OpenAI, tmp_path: Path, content: str) -> None:
    """The form is looked for again, and the file is whole then."""
    await replies(openai, tmp_path)
    [file] = tmp_path.glob("*.json")
    whole = json.loads(file.read_text())
    file.write_text(content)
    [reply] = await replies(openai, tmp_path)

    assert reply.constrained
    assert json.loads(file.read_text()) == whole | {"found_at": json.loads(file.read_text())["found_at"]}


async def test_a_form_that_is_refused_later_is_forgotten(openai: OpenAI, tmp_path: Path) -> None:
    """The decision is asked freely instead, which is said; the next one finds the form that is taken now."""
    async with MindFactory(openai.settings, endpoints=tmp_path) as minds:
        mind = minds.make(seed=1, memory=tmp_path)
        await mind.complete(decision())
        openai.refused.add("response_format")
        openai.requests.clear()
        with capture_logs() as logs:
            refused, after = [await mind.complete(decision(cycle)) for cycle in (2, 3)]

    assert (refused.text, refused.constrained) == (FREE, False)
    assert (after.text, after.constrained) == (LISTS, True)
    tried = ["grammar", "structured_outputs", "response_format", "tools"]
    assert openai.asked() == ["response_format", "free", *tried, "tools"]
    assert [entry["event"] for entry in logs] == ["mind.constraint_refused", "mind.constraint"]


async def test_a_question_that_is_refused_anyway_leaves_the_form(openai: OpenAI, tmp_path: Path) -> None:
    """A prompt that is too long is refused with and without the form: the refusal is raised, the form is kept."""
    await replies(openai, tmp_path)
    check = openai.check

    def full(body: JsonObject) -> None:
        check(body)
        if "Decide." in body["messages"][-1]["content"]:
            raise openai.error(400, "This model's maximum context length is 8192 tokens.")

    openai.check = full  # type: ignore[method-assign]
    with pytest.raises(ModelError, match="maximum context length"):
        await replies(openai, tmp_path)
    openai.check = check  # type: ignore[method-assign]
    openai.requests.clear()
    await replies(openai, tmp_path)

    assert openai.asked() == ["response_format"]


async def test_an_endpoint_that_contradicts_its_own_constraint_is_said_once(tmp_path: Path) -> None:
    """Its replies count as free ones, so that their format is scored; nothing is asked again."""
    async with LlamaCpp().serving() as server, MindFactory(server.settings, endpoints=tmp_path) as minds:
        mind = minds.make(seed=1, memory=tmp_path)
        await mind.complete(decision())
        server.disabled.add("grammar")
        server.requests.clear()
        with capture_logs() as logs:
            found = [await mind.complete(decision(cycle)) for cycle in (2, 3)]

    assert [(reply.text, reply.constrained) for reply in found] == [(FREE, False)] * 2
    assert [reply.decoding.constraint for reply in found if reply.decoding] == ["free"] * 2
    assert server.asked() == ["grammar"] * 2
    assert [entry["event"] for entry in logs] == ["mind.constraint_ignored"]


async def test_agents_of_a_process_look_once(openai: OpenAI, tmp_path: Path) -> None:
    """Those that decide meanwhile wait for the finding."""
    async with MindFactory(openai.settings, endpoints=tmp_path) as minds:
        several = [minds.make(seed=number, memory=tmp_path) for number in range(4)]
        found = await asyncio.gather(*(mind.complete(decision()) for mind in several))

    assert [reply.constrained for reply in found] == [True] * 4
    assert openai.asked() == ["grammar", "structured_outputs", *["response_format"] * 5]


async def test_a_server_that_fails_over_a_field_does_not_take_it(openai: OpenAI, tmp_path: Path) -> None:
    """Status 500 for a field counts as a refusal, after the retries of any question. Where that was all that stood
    against every form, the next process looks again."""
    check = openai.check

    def failing(body: JsonObject) -> None:
        if openai.asked()[-1] != "free":
            raise openai.error(500, "sampler failed")
        check(body)

    openai.check = failing  # type: ignore[method-assign]
    mind = OpenAIMind(openai.settings, sleep=no_wait, findings=ConstraintFindings(tmp_path))
    reply, other = [await mind.complete(decision(cycle)) for cycle in (1, 2)]
    await mind.close()

    assert (reply.text, reply.constrained, other.constrained) == (FREE, False, False)
    assert openai.asked()[-2:] == ["free", "free"]
    assert list(tmp_path.glob("*.json")) == []


async def test_a_search_that_is_broken_off_is_begun_again(tmp_path: Path) -> None:
    """An endpoint that is loading its model says nothing about a form: the error is raised, nothing is remembered."""
    async with LlamaCpp(loading=10**6).serving() as server:
        mind = OpenAIMind(server.settings, sleep=no_wait, findings=ConstraintFindings(tmp_path))
        with pytest.raises(ModelError, match="503"):
            await mind.complete(decision())
        await mind.close()
        assert list(tmp_path.glob("*.json")) == []
        server.loading = 0
        [reply] = await replies(server, tmp_path)

    assert reply.constrained


@pytest.mark.parametrize("field", ["grammar", "response_format", "structured_outputs", "tools"])
async def test_a_constraint_of_the_users_own_is_the_only_one(field: str, tmp_path: Path) -> None:
    """Where `mind.extra` holds one of the fields, nothing is looked for and nothing is added."""
    async with Ollama().serving() as server:
        [reply] = await replies(server, tmp_path, extra={field: None})

    assert not reply.constrained
    assert len(server.requests) == 1


async def test_a_home_that_cannot_be_written_costs_no_reply(openai: OpenAI, tmp_path: Path) -> None:
    """The finding holds for the process, and the log says that it was not kept."""
    kept = tmp_path / "file"
    kept.write_text("")
    with capture_logs() as logs:
        found = await replies(openai, kept / "endpoints", 2)

    assert [reply.constrained for reply in found] == [True, True]
    assert openai.asked().count("grammar") == 1
    assert "mind.constraint_not_kept" in [entry["event"] for entry in logs]


def garble(server: Server, *forms: str, times: int = 10**6) -> None:
    """Have the server answer so many requests in these forms with a stream that cannot be read."""
    stream, left = server._stream, times

    def garbled(body: JsonObject) -> bytes:
        nonlocal left
        if server.asked()[-1] in forms and left > 0:
            left -= 1
            return b"data: {oops\n\n"
        return stream(body)

    server._stream = garbled  # type: ignore[method-assign]


async def test_a_form_under_which_no_reply_can_be_read_is_no_candidate(openai: OpenAI, tmp_path: Path) -> None:
    """A free reply can be read, and the form fails once more: the search goes on, and the finding says why."""
    garble(openai, "response_format")
    with capture_logs() as logs:
        [reply] = await replies(openai, tmp_path)

    assert (reply.text, reply.constrained) == (LISTS, True)
    tried = ["grammar", "structured_outputs", "response_format", "free", "response_format", "tools"]
    assert openai.asked() == [*tried, "tools"]
    [said] = [entry for entry in logs if entry["event"] == "mind.constraint"]
    assert "sent what is no completion: {oops" in said["without"]["response_format"]


async def test_a_stream_that_breaks_once_costs_no_form(openai: OpenAI, tmp_path: Path) -> None:
    """The form is tried again: it was an accident."""
    garble(openai, "response_format", times=1)
    [reply] = await replies(openai, tmp_path)

    assert reply.constrained
    assert openai.asked()[-3:] == ["free", "response_format", "response_format"]


async def test_free_text_works_where_no_form_does(openai: OpenAI, tmp_path: Path) -> None:
    """The agent acts freely; as nothing was refused, the next process looks again."""
    garble(openai, "response_format", "tools")
    [reply] = await replies(openai, tmp_path)

    assert (reply.text, reply.constrained) == (FREE, False)
    assert list(tmp_path.glob("*.json")) == []


async def test_an_endpoint_whose_free_replies_cannot_be_read_says_nothing_of_a_form(
    openai: OpenAI, tmp_path: Path
) -> None:
    """The error is raised, nothing is remembered, and the search is begun again."""
    garble(openai, "response_format", "free")
    with pytest.raises(ModelError, match="no completion") as raised:
        await replies(openai, tmp_path)

    assert raised.value.unread
    assert openai.asked()[-1] == "free"
    assert list(tmp_path.glob("*.json")) == []


async def test_a_form_whose_replies_can_no_longer_be_read_is_forgotten(openai: OpenAI, tmp_path: Path) -> None:
    """The first such reply is an error, as of any question; at the second the decision is asked freely."""
    async with MindFactory(openai.settings, endpoints=tmp_path) as minds:
        mind = minds.make(seed=1, memory=tmp_path)
        await mind.complete(decision())
        garble(openai, "response_format")
        openai.requests.clear()
        with pytest.raises(ModelError, match="no completion"):
            await mind.complete(decision(2))
        free, held = [await mind.complete(decision(cycle)) for cycle in (2, 3)]

    assert (free.text, free.constrained) == (FREE, False)
    assert (held.text, held.constrained) == (LISTS, True)
    assert openai.asked()[:3] == ["response_format", "response_format", "free"]
    assert openai.asked()[-1] == "tools"
