"""The model is asked under the adapter that its prompt names, and a reply says which adapter it is of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from conch.config import MindSettings
from conch.errors import AdapterError, ModelError
from conch.minds import AskedAdapter, Mind, MindFactory, Prompt
from tests.adapter_engine import BASE, AdapterEngine
from tests.endpoints.asking import decision

DIGEST = "a" * 64
ASKED = AskedAdapter(DIGEST, "conch-aaaaaaaaaaaaaaaa")


@pytest.fixture
def loaded(engine: AdapterEngine, make_adapter: object) -> AdapterEngine:
    """The engine with an adapter."""
    assert callable(make_adapter)
    engine.load({"lora_name": ASKED.served_as, "lora_path": str(make_adapter())})
    return engine


@pytest.fixture
async def mind(engine: AdapterEngine, tmp_path: Path) -> AsyncIterator[Mind]:
    settings = MindSettings.model_validate({
        "kind": "openai", "base_url": engine.url, "model": BASE, "constrain": "off",
        "think": {"temperature": 0.1}, "fallbacks": [{"temperature": 0.2}],
    })  # fmt: skip
    async with MindFactory(settings) as factory:
        yield factory.make(seed=0, memory=tmp_path / "reflex.npz")


def under(adapter: AskedAdapter | None) -> Prompt:
    return replace(decision(), adapter=adapter)


async def test_a_decision_is_asked_for_by_the_name_of_its_adapter(loaded: AdapterEngine, mind: Mind) -> None:
    """The request names the adapter, the record its digest; without an adapter both are as they were."""
    base, adapted = await mind.complete(under(None)), await mind.complete(under(ASKED))

    assert loaded.asked == [BASE, ASKED.served_as]
    assert base.decoding is not None
    assert adapted.decoding is not None
    assert (base.decoding.adapter, adapted.decoding.adapter) == (None, DIGEST)
    assert adapted.text != base.text


@pytest.mark.parametrize("serves_base", [False, True], ids=["404", "as the base"])
async def test_an_adapter_that_is_not_served_is_an_error_of_its_own(
    engine: AdapterEngine, mind: Mind, serves_base: bool
) -> None:
    """It is an AdapterError, and no fallback is asked in its place: the mind itself is in order."""
    engine.serves_base = serves_base

    with pytest.raises(AdapterError):
        await mind.complete(under(ASKED))
    assert engine.asked == [ASKED.served_as]
    assert (await mind.complete(under(None))).text.startswith("DO_NOTHING: base")


async def test_a_mind_that_does_not_decide_passes_over_the_adapter(loaded: AdapterEngine, mind: Mind) -> None:
    """A thought is of the model that thinks."""
    thought = await mind.complete(replace(under(ASKED), purpose="think", registry=None))

    assert loaded.asked == [BASE]
    assert thought.decoding is not None
    assert thought.decoding.adapter is None


async def test_other_failures_stay_what_they_are(loaded: AdapterEngine, tmp_path: Path) -> None:
    """An address without an endpoint is no missing adapter."""
    settings = MindSettings.model_validate({"kind": "openai", "base_url": "http://127.0.0.1:9/v1"})
    async with MindFactory(settings, first_word=0.2) as factory:
        with pytest.raises(ModelError) as failed:
            await factory.make(seed=0, memory=tmp_path / "reflex.npz").complete(under(ASKED))

    assert failed.value.unreachable
    assert not isinstance(failed.value, AdapterError)
