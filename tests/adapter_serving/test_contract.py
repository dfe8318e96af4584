"""Every form of loading adapters keeps one contract, over real HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from conch.config import OneMindSettings
from conch.errors import ConfigError, ServingError
from conch.serving import AdapterFiles, NamedServing, SGLangServing, VllmServing, adapter_serving, served_name
from conch.serving import api as engine_api
from tests.adapter_serving.engines import BASE, Engine

ADAPTER = AdapterFiles(Path("/adapters/a"), "0123456789abcdef" * 4)
FORMS = ("vllm", "sglang", "named")


def engine(form: str) -> Engine:
    """One that has loaded the adapter, where an operator does that."""
    return Engine(form, loaded={ADAPTER.name: str(ADAPTER.directory)} if form == "named" else {})


@pytest.mark.parametrize("form", FORMS)
async def test_an_adapter_is_loaded_once_and_replies_under_its_name(form: str) -> None:
    """Loaded twice, the engine is told once; the name that is given back is the one that a request has to carry."""
    acting = engine(form)
    async with acting.listening() as settings:
        serving = await adapter_serving(settings)
        names = [await serving.ensure(ADAPTER), await serving.ensure(ADAPTER)]

        assert set(names) == {f"{BASE}:{ADAPTER.name}" if form == "sglang" else ADAPTER.name}
        assert await serving.names() == {ADAPTER.name}
        assert serving.base == BASE
        assert acting.loads == (form != "named")
        await serving.close()


@pytest.mark.parametrize("form", ["vllm", "sglang"])
async def test_an_adapter_is_released_and_releasing_it_again_is_no_error(form: str) -> None:
    """Released, the engine lists it no more."""
    acting = engine(form)
    async with acting.listening() as settings:
        serving = await adapter_serving(settings)
        await serving.ensure(ADAPTER)
        await serving.release(ADAPTER.digest)
        await serving.release(ADAPTER.digest)

        assert await serving.names() == frozenset()
        await serving.close()


@pytest.mark.parametrize("form", ["vllm", "sglang"])
async def test_an_adapter_that_another_process_loads_meanwhile_is_loaded(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine refuses the second request for a name that it has; that is no error."""
    acting = engine(form)
    async with acting.listening() as settings:
        serving = await adapter_serving(settings)
        listed: list[dict[str, str]] = [{}]

        async def models(api: engine_api.EngineApi) -> dict[str, str] | None:
            acting.loaded[ADAPTER.name] = "/adapters/a"
            return listed.pop() if listed else {ADAPTER.name: "vllm"}

        monkeypatch.setattr(engine_api.EngineApi, "models", models)

        assert (await serving.ensure(ADAPTER)).endswith(ADAPTER.name)
        await serving.close()


@pytest.mark.parametrize("form", ["vllm", "sglang"])
async def test_a_refusal_is_one_sentence_without_the_key(form: str) -> None:
    """The engine's own words are quoted; a key in them is masked."""
    async with engine(form).listening() as settings:
        serving = await adapter_serving(settings)
        broken = AdapterFiles(Path("/adapters/broken"), "f" * 64)
        with pytest.raises(
            ServingError, match=r"answered 400 to the request to load .*holds no adapter \(\*\*\*\)"
        ) as no:
            await serving.ensure(broken)
        assert not no.value.passing
        await serving.close()


@pytest.mark.parametrize("form", ["vllm", "sglang"])
async def test_loading_that_is_not_switched_on_says_how_to_start_the_engine(form: str) -> None:
    """404 without words: the addresses are missing, so the sentence names the option."""
    acting = Engine(form, refuses=True)
    async with acting.listening() as settings:
        serving = await adapter_serving(settings)
        with pytest.raises(ServingError, match=r"answered 404 .*--enable-lora"):
            await serving.ensure(ADAPTER)
        await serving.close()


async def test_an_endpoint_without_the_adapter_says_what_to_load() -> None:
    """Where an operator loads adapters, the sentence names directory and name."""
    async with Engine("named").listening() as settings:
        serving = await adapter_serving(settings)
        with pytest.raises(ServingError, match=f"no model {ADAPTER.name}: load the adapter in /adapters/a"):
            await serving.ensure(ADAPTER)
        await serving.close()


@pytest.mark.parametrize("form", FORMS)
async def test_an_engine_that_is_away_may_be_tried_again(form: str) -> None:
    """A refused connection is passing, and the sentence names the address."""
    async with engine(form).listening() as settings:
        named = settings.model_copy(update={"adapters": form})
    serving = await adapter_serving(named)
    with pytest.raises(ServingError, match=r"127\.0\.0\.1:\d+ cannot be reached") as away:
        await serving.ensure(ADAPTER)
    assert away.value.passing
    await serving.close()


@pytest.mark.parametrize("form", ["vllm", "sglang"])
async def test_an_engine_that_is_slow_is_given_up(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the longest wait the sentence says how long that was."""
    monkeypatch.setattr(engine_api, "LOAD_SECONDS", 0.05)
    acting = Engine(form, hangs=True)
    async with acting.listening() as settings:
        serving = await adapter_serving(settings)
        with pytest.raises(ServingError, match=r"did not answer within 0\.05 s") as slow:
            await serving.ensure(ADAPTER)
        assert slow.value.passing
        await serving.close()


async def test_an_answer_without_end_is_left() -> None:
    """A list of models of 3 MB is not read to its end."""
    async with Engine("vllm", huge=True).listening() as settings:
        serving = await adapter_serving(settings.model_copy(update={"adapters": "vllm"}))
        with pytest.raises(ServingError, match="answers with more than 1024 KiB"):
            await serving.names()
        await serving.close()


@pytest.mark.parametrize(
    ("kind", "adapters", "made"),
    [
        ("openai", "auto", SGLangServing),
        ("openai", "vllm", VllmServing),
        ("openai", "named", NamedServing),
        ("local", "auto", VllmServing),
        ("transformers", "auto", VllmServing),
    ],
)
async def test_the_form_is_the_settings_or_what_the_endpoint_says(kind: str, adapters: str, made: type[object]) -> None:
    """`auto` at an endpoint whose models SGLang owns takes its form; Conch's own engines speak vLLM's."""
    async with Engine("sglang").listening() as settings:
        serving = await adapter_serving(settings.model_copy(update={"kind": kind, "adapters": adapters}))
        assert type(serving) is made
        await serving.close()


async def test_a_mind_without_a_model_serves_no_adapter() -> None:
    """The reflex mind has no weights that an adapter could change."""
    with pytest.raises(ConfigError, match=r"mind\.kind reflex serves no adapters"):
        await adapter_serving(OneMindSettings())


def test_a_served_name_comes_of_the_digest() -> None:
    """Two adapters have two names; what is no digest has none."""
    assert served_name("a" * 64) == "conch-" + "a" * 16 != served_name("b" * 64)
    with pytest.raises(ValueError, match="no digest of an adapter"):
        served_name("A" * 64)
