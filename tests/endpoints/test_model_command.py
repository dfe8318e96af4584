"""`conch model test` at an endpoint: the form of the constraint, the speed, the shares of valid replies."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.endpoints.base import Server
from tests.endpoints.llama_cpp import LlamaCpp
from tests.endpoints.ollama import Ollama
from tests.endpoints.openai import OpenAI


@dataclass
class Done:
    """How the command ended."""

    status: int
    out: str
    err: str


async def model_test(server: Server, home: Path, *words: str) -> Done:
    """Run the command with the settings of a user of this server."""
    mind = {"KIND": "openai", "BASE_URL": server.url, "MODEL": server.model, "API_KEY": server.key}
    named = {f"CONCH_MIND__{key}": value for key, value in mind.items() if value is not None}
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("conch")), "model", "test", *words,
        env={**os.environ, "CONCH_HOME": str(home), **named},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return Done(process.returncode or 0, out.decode(), err.decode())


async def test_it_says_the_form_the_speed_and_the_shares(tmp_path: Path) -> None:
    """OpenAI takes a schema and refuses the fields before it; under it all replies are actions, without it none."""
    async with OpenAI().serving() as server:
        done = await model_test(server, tmp_path)

    lines = dict(line.split(maxsplit=1) for line in done.out.splitlines() if line[0] != " ")
    assert (done.status, done.err) == (0, "")
    assert lines["constraint"] == "schema, in the field response_format"
    assert "not grammar: " in done.out
    assert "Unrecognized request argument supplied: grammar" in done.out
    assert lines["replies"] == "100% valid under the constraint, 0% valid without a constraint (of 5 each)"
    assert float(lines["speed"].split()[0]) > 0
    assert lines["reply"] == 'TOOL: filesystem(operation="list", path=".")'


async def test_it_looks_anew_and_a_home_keeps_what_it_finds(tmp_path: Path) -> None:
    """A server that was changed is tested as it is; without a home nothing is written."""
    async with LlamaCpp().serving() as server:
        without = json.loads((await model_test(server, tmp_path / "none", "--json")).out)
        assert not (tmp_path / "none").exists()
        (tmp_path / "format").write_text("1\n")
        before = json.loads((await model_test(server, tmp_path, "--json")).out)
        server.disabled.add("grammar")
        after = json.loads((await model_test(server, tmp_path, "--json")).out)

    assert (before["schema"], before["constraint"], before["form"]) == ("conch.v1.endpoint_test", "grammar", "grammar")
    assert without | {"first_seconds": 0, "tokens_per_second": 0} == before | {
        "first_seconds": 0,
        "tokens_per_second": 0,
    }
    assert (after["constraint"], after["without"]["grammar"]) == ("schema", "ignored")
    [file] = (tmp_path / "endpoints").glob("*.json")
    assert json.loads(file.read_text())["form"] == "response_format"


async def test_an_endpoint_without_a_constraint_is_no_error(tmp_path: Path) -> None:
    """Its share of valid replies is its own."""
    async with Ollama(disabled={"response_format"}).serving() as server:
        found = json.loads((await model_test(server, tmp_path, "--json")).out)

    assert (found["constraint"], found["form"], found["valid"], found["valid_free"]) == ("free", None, None, 0.0)


@pytest.mark.parametrize("key", ["sk-another"])
async def test_an_endpoint_that_refuses_is_one_sentence(tmp_path: Path, key: str) -> None:
    """Exit status 3, as of a run; the key is not in it."""
    async with OpenAI().serving() as server:
        asked = OpenAI(url=server.url, key=key)
        done = await model_test(asked, tmp_path)

    assert (done.status, done.out) == (3, "")
    assert "Incorrect API key provided" in done.err
    assert key not in done.err
    assert done.err.count("\n") == 1
