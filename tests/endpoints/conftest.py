"""Stand-ins for the servers that people use, each entered for a test; and an agent's life to run cycles in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from conch.tools import Notes
from tests.cycle.conftest import Life
from tests.endpoints.base import Server
from tests.endpoints.litellm import LiteLLM
from tests.endpoints.llama_cpp import LlamaCpp
from tests.endpoints.lm_studio import LmStudio
from tests.endpoints.ollama import Ollama
from tests.endpoints.openai import OpenAI, OpenAIReasoning
from tests.endpoints.vllm import Vllm

SERVERS: tuple[type[Server], ...] = (OpenAI, OpenAIReasoning, Vllm, LlamaCpp, Ollama, LmStudio, LiteLLM)


@pytest.fixture(params=SERVERS, ids=lambda kind: str(kind.name))
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    """Each of them in turn."""
    kind: type[Server] = request.param
    async with kind().serving() as entered:
        yield entered


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    """An agent with a workspace of one file."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "tides.md").write_text("high at noon\n")
    with Notes(tmp_path / "notes.db") as notes:
        yield Life(workspace, notes)
