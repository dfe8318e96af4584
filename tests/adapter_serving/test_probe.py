"""A probe tells an engine that applies an adapter from each kind that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from conch.errors import ServingError
from conch.serving import AdapterFiles, adapter_serving, probe, record_probe, unlike_training
from conch.training import ProbeLine
from tests.adapter_serving.engines import BASE, PROMPTS, Engine

ADAPTER = AdapterFiles(Path("/adapters/a"), "0123456789abcdef" * 4)


async def recorded() -> tuple[str, tuple[ProbeLine, ...]]:
    """The name and the record that an honest engine gave when the adapter was trained."""
    async with Engine().listening() as settings:
        serving = await adapter_serving(settings)
        name = await serving.ensure(ADAPTER)
        await serving.close()
        return name, await record_probe(settings, name, BASE, PROMPTS)


async def test_an_engine_that_applies_the_adapter_is_proven() -> None:
    """Its replies equal the record, are not the base's, and bear the name."""
    name, lines = await recorded()
    async with Engine(loaded={name: "/adapters/a"}).listening() as settings:
        result = await probe(settings, name, BASE, lines)

    assert result.proven
    assert (result.matches, result.differs_from_base, result.name_echoed, result.why) == (True, True, True, "")


@pytest.mark.parametrize(
    ("lie", "echoed", "why"),
    [
        ("applies-nothing", True, "the adapter is not applied"),
        ("serves-base", False, "the adapter is not applied"),
        ("stale", True, "other weights are served under the name"),
        ("evicts", True, "evicted now and then"),
        ("half", True, "not all replicas have the adapter"),
    ],
)
async def test_an_engine_that_lies_is_caught(lie: str, echoed: bool, why: str) -> None:
    """It lists the adapter and answers 200 under its name; the replies give it away."""
    name, lines = await recorded()
    async with Engine(lie=lie, loaded={name: "/adapters/a"}).listening() as settings:
        result = await probe(settings, name, BASE, lines)

    assert not result.proven
    assert result.name_echoed is echoed
    assert why in result.why


async def test_a_base_that_changed_under_the_adapter_is_caught() -> None:
    """The replies under the base's own name are compared too."""
    name, lines = await recorded()
    other = tuple(line.model_copy(update={"base": f"once {line.base}"}) for line in lines)
    async with Engine(loaded={name: "/adapters/a"}).listening() as settings:
        result = await probe(settings, name, BASE, other)

    assert not result.proven
    assert "another base, or another engine, is below the adapter" in result.why


async def test_a_reply_of_the_base_that_rounding_turned_is_no_other_base() -> None:
    """Two of eight may part otherwise than recorded, where others are decoded in one batch; a third is too many."""
    name, lines = await recorded()
    turned = [line.model_copy(update={"base": f"once {line.base}"}) for line in lines]
    async with Engine(loaded={name: "/adapters/a"}).listening() as settings:
        few = await probe(settings, name, BASE, [*turned[:2], *lines[2:]])
        many = await probe(settings, name, BASE, [*turned[:3], *lines[3:]])

    assert few.proven
    assert "otherwise than recorded to 3 of 8 prompts" in many.why


async def test_a_late_token_that_rounding_turned_is_no_lie() -> None:
    """Two of eight replies differ from the record, after the place at which it parts from the base's; a third is too
    many."""
    name, lines = await recorded()
    turned = [line.model_copy(update={"adapter": line.adapter + "!"}) for line in lines]
    async with Engine(loaded={name: "/adapters/a"}).listening() as settings:
        few = await probe(settings, name, BASE, [*turned[:2], *lines[2:]])
        many = await probe(settings, name, BASE, [*turned[:3], *lines[3:]])

    assert few.proven
    assert not many.proven
    assert "after their beginning: other weights" in many.why


async def test_a_record_that_tells_nothing_proves_nothing() -> None:
    """An adapter that changes no reply is refused when it is recorded, and when it is probed."""
    name, lines = await recorded()
    async with Engine(lie="applies-nothing", loaded={name: "/adapters/a"}).listening() as settings:
        with pytest.raises(ServingError, match="the engine does not apply the adapter, or the adapter changes nothing"):
            await record_probe(settings, name, BASE, PROMPTS)
        result = await probe(settings, name, BASE, [line.model_copy(update={"adapter": line.base}) for line in lines])

    assert not result.proven
    assert "no prompt on which base and adapter differ" in result.why


async def test_a_name_that_the_engine_does_not_know_is_an_error() -> None:
    """404 is raised with the engine's words: there was no reply to compare."""
    name, lines = await recorded()
    async with Engine().listening() as settings:
        with pytest.raises(
            ServingError, match=f"answered 404 to a probe as {name}: The model `{name}` does not exist"
        ) as unknown:
            await probe(settings, name, BASE, lines)
    assert unknown.value.status == 404


async def test_an_engine_that_does_not_reply_may_be_probed_again() -> None:
    """Hanging or away: the error is passing."""
    name, lines = await recorded()
    async with Engine(hangs=True).listening() as settings:
        with pytest.raises(ServingError, match=r"did not answer within 0\.2 s") as slow:
            await probe(settings.model_copy(update={"timeout": 0.2}), name, BASE, lines)
    assert slow.value.passing
    with pytest.raises(ServingError, match="cannot be reached") as away:
        await probe(settings, name, BASE, lines)
    assert away.value.passing


async def test_the_first_replies_of_an_engine_are_held_against_those_of_the_training() -> None:
    """One of other numerics may part late, or on some prompts; other weights and another base are told by name."""
    name, trained = await recorded()

    def told(base: int = 0, late: int = 0, early: int = 0, *, same: bool = False) -> str:
        """What is said where so many replies are others: of the base, at the adapter's end, at its beginning."""
        made = [
            line.model_copy(
                update={
                    "base": f"once {line.base}" if at < base else line.base,
                    "adapter": f"once {line.adapter}" if at < early else line.adapter + "!" * (at < early + late),
                }
            )
            for at, line in enumerate(trained)
        ]
        return unlike_training(made, trained, name, BASE, same_numerics=same)

    assert (told(late=8), told(early=4), told(base=4), told(late=2, same=True)) == ("", "", "", "")
    assert "to 3 of 8 prompts: other weights are served" in told(early=5)
    assert "to 5 of 8 prompts: other weights are served" in told(late=3, same=True)
    assert "to 3 of 8 prompts: another base is served" in told(base=5)
    assert "no prompt on which" in unlike_training((), (), name, BASE, same_numerics=True)
