"""The settings on the page about endpoints: each block is loaded as a user's file, and works with its server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conch.config.load import load
from conch.home import Home
from conch.minds import MindFactory
from tests.endpoints.asking import decision
from tests.endpoints.base import Server
from tests.endpoints.conftest import SERVERS
from tests.endpoints.test_contract import HELD, LISTS

PAGE = Path(__file__).parents[2] / "docs" / "pages" / "guides" / "endpoints.md"
BLOCKS = {
    title: block
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for block in re.findall(r"```yaml\n(mind:\n.*?)```", text, re.DOTALL)
}
STAND_INS: dict[str, type[Server]] = {kind.name: kind for kind in SERVERS if kind.name in BLOCKS}
NAMES = {"a grammar": "grammar", "a JSON schema": "schema"}


def test_every_stand_in_has_a_block_and_every_block_a_stand_in() -> None:
    """A server on the page is one that is tested."""
    assert set(BLOCKS) == set(STAND_INS) == {kind.name for kind in SERVERS} - {"OpenAI, a reasoning model"}


@pytest.mark.parametrize("title", BLOCKS)
async def test_the_block_of_a_server_gives_a_mind_that_decides(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loaded by the loader of the configuration, with the key from the environment; only the port is another."""
    kind = STAND_INS[title]
    (tmp_path / "conch.yaml").write_text(BLOCKS[title])
    if kind.key is not None:
        monkeypatch.setenv("CONCH_MIND__API_KEY", kind.key)
    mind_settings = load(None, Home(tmp_path), {}).mind

    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1|https://api\.openai\.com/v1", mind_settings.base_url)
    async with kind(model=mind_settings.model).serving() as server:
        here = mind_settings.model_copy(update={"base_url": server.url, "free_share": 0.0})
        async with MindFactory(here) as minds:
            reply = await minds.make(seed=1, memory=tmp_path).complete(decision())

    assert (reply.text, reply.constrained) == (LISTS, True)
    assert reply.decoding is not None
    assert reply.decoding.constraint == HELD[title][1]


def test_the_page_says_what_each_server_holds() -> None:
    """In the words after its block, where it is one form."""
    text = PAGE.read_text()
    for title in set(BLOCKS) - {"LiteLLM"}:
        [said] = re.findall(
            rf"^## {re.escape(title)}\n.*?^It holds (a grammar|a JSON schema)", text, re.MULTILINE | re.DOTALL
        )
        assert NAMES[said] == HELD[title][1], title


def test_the_table_names_the_fields_of_the_forms() -> None:
    """In the order in which they are tried."""
    fields = re.findall(r"^\| [^|]+ \| `(\w+)`", PAGE.read_text(), re.MULTILINE)

    assert fields == ["grammar", "structured_outputs", "response_format", "tools"]
