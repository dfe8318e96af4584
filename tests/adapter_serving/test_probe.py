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


@pytest.mark.parametrize("turned", [{3}, {12}, {3, 12, 17}, {12, 25, 26}])
async def test_a_reply_that_rounding_turned_is_asked_again(turned: set[int]) -> None:
    """The replies of the base are the first 8, the adapter's the next 16. One that is turned, and comes as recorded at
    one of three further tries, is no lie; nothing else is asked again."""
    name, lines = await recorded()
    engine = Engine(turned=turned, loaded={name: "/adapters/a"})
    async with engine.listening() as settings:
        result = await probe(settings, name, BASE, lines)

    assert (result.proven, result.why) == (True, "")
    assert engine.replies == 24 + len(turned)


async def test_one_reply_like_the_bases_has_all_questions_asked_once_more() -> None:
    """Rounding may turn the very token at which the two part. In the second pass none may be the base's."""
    name, lines = await recorded()
    once = Engine(turned={12}, turned_to=lines[3].base, loaded={name: "/adapters/a"})
    again = Engine(turned={12, 29}, turned_to=lines[3].base, loaded={name: "/adapters/a"})
    async with once.listening() as settings:
        turned = await probe(settings, name, BASE, lines)
    async with again.listening() as settings:
        evicted = await probe(settings, name, BASE, lines)

    assert (turned.proven, once.replies) == (True, 24 + 1 + 16)
    assert not evicted.proven
    assert f"{name} replied like {BASE} in 1 of 16 cases" in evicted.why


@pytest.mark.parametrize(
    ("field", "form", "why"),
    [
        ("base", "once {}", "replies otherwise than recorded to 1 of 8 prompts: another base"),
        ("adapter", "Question 0, once so", "neither like the adapter nor like tiny in 2 of 16 cases: other weights"),
        ("adapter", "{}!", "parts from the record in 2 of 16 replies after their beginning: other weights"),
    ],
)
async def test_a_reply_that_never_comes_as_recorded_is_a_lie(field: str, form: str, why: str) -> None:
    """One prompt of eight, asked four times, is enough: another base, or weights that differ from the adapter's at the
    end of one reply. The counts are of questions, not of the times that one was asked."""
    name, (first, *lines) = await recorded()
    other = first.model_copy(update={field: form.format(getattr(first, field))})
    async with Engine(loaded={name: "/adapters/a"}).listening() as settings:
        result = await probe(settings, name, BASE, [other, *lines])

    assert not result.proven
    assert why in result.why


async def test_replies_of_which_many_are_others_are_not_asked_again() -> None:
    """Replicas of which half serve other weights would give the record at a further try."""
    name, lines = await recorded()
    engine = Engine(turned={9, 11, 13, 15, 17}, loaded={name: "/adapters/a"})
    async with engine.listening() as settings:
        result = await probe(settings, name, BASE, lines)

    assert (result.proven, engine.replies) == (False, 24)
    assert "in 5 of 16 replies" in result.why


async def test_a_reply_that_rounding_turned_is_not_recorded() -> None:
    """Of three replies to a prompt the one that came twice is the record."""
    name, lines = await recorded()
    turned = Engine(turned={1, 9}, loaded={name: "/adapters/a"})
    async with turned.listening() as settings:
        found = await record_probe(settings, name, BASE, PROMPTS)

    assert found == lines


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
