"""The engine of a gate, as it serves an adapter for the first time: its replies are held against the training's."""

from __future__ import annotations

from pathlib import Path

import pytest

from conch.config import Settings
from conch.errors import AdapterError, ServingError
from conch.forks import ForkMinds
from conch.minds import Mind
from conch.rounds.judging.engine import PROBED_BY_CHILD, ServedEngine
from conch.serving import adapter_serving
from conch.training import AdapterIdentity, AdapterShelf, ProbeLine, ShelvedAdapter
from tests.adapter_serving.engines import BASE, PROMPTS, Engine
from tests.rounds.stand_in import write_adapter


def no_mind(seed: int) -> Mind:
    raise AssertionError(f"no decision is decoded here, nor with the seed {seed}")


@pytest.fixture
def adapter(tmp_path: Path) -> ShelvedAdapter:
    """An adapter with the replies that its training recorded: those of an honest engine."""
    write_adapter(tmp_path / "made", 0.1)
    identity = AdapterIdentity(
        base=BASE, base_digest="b" * 64, tokenizer_digest="c" * 64, template_digest="d" * 64, agentuid="uid",
        generation=1, round="e" * 64, snapshot="f" * 64, method="sft",
    )  # fmt: skip
    shelf = AdapterShelf(tmp_path / "adapters")
    found, honest = shelf.put(tmp_path / "made", identity), Engine()
    honest.loaded["it"] = str(found.folder)
    lines = [
        ProbeLine(
            messages=tuple(prompt),
            base=honest.reply(BASE, prompt[0].content),
            adapter=honest.reply("it", prompt[0].content),
        )
        for prompt in PROMPTS
    ]
    shelf.record_probe(found.digest, PROBED_BY_CHILD, lines)
    return found


async def load(adapter: ShelvedAdapter, lie: str, kind: str) -> None:
    """Have an engine serve it that tells this lie."""
    async with Engine(lie=lie).listening() as asked:
        serving = await adapter_serving(asked)
        minds = ForkMinds(Settings(), no_mind, asked)
        await ServedEngine(kind, minds, serving, AdapterShelf(adapter.folder.parent)).load(adapter)
        await serving.close()


@pytest.mark.parametrize("kind", ["openai", "transformers"])
async def test_replies_as_of_the_training_are_recorded(adapter: ShelvedAdapter, kind: str) -> None:
    """They are the record by which this engine is known from now on."""
    await load(adapter, "", kind)

    assert adapter.probe(kind) == adapter.probe(PROBED_BY_CHILD)


@pytest.mark.parametrize(
    ("lie", "error", "why"),
    [
        ("stale", AdapterError, "to 0 of 8 prompts: other weights are served under the name"),
        ("applies-nothing", ServingError, "the engine does not apply the adapter, or the adapter changes nothing"),
    ],
)
async def test_other_replies_than_those_of_the_training_are_refused(
    adapter: ShelvedAdapter, lie: str, error: type[Exception], why: str
) -> None:
    """They are not recorded: the engine would be proven by them for ever."""
    with pytest.raises(error, match=why):
        await load(adapter, lie, "openai")

    assert not adapter.probe("openai")
