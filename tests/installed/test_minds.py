"""Minds of installed packages: by the name of `mind.kind`, refused with a sentence where they do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conch.config import MindSettings, load
from conch.errors import ConfigError, ModelError
from conch.home import Home
from conch.minds import Mind, MindFactory, Prompt, Situation, refuse_minds, why_not
from conch.testing import make_action_taken, make_experience_recorded
from conch_schemas import ExperienceRecorded
from tests.packages import MIND, Install

POINT = "[conch.minds]\noracle = oracle_plugin:{}\n"
SITUATION = Situation(agent="echo", cycle=0, needs={}, pressing={}, need="curiosity")
PROMPT = Prompt("decide", "", (), SITUATION)


def made(tmp_path: Path, **settings: float) -> Mind:
    """The mind of `mind.kind: oracle`."""
    return MindFactory(MindSettings.model_validate({"kind": "oracle", **settings})).make(
        seed=3, memory=tmp_path / "reflex.npz"
    )


async def test_a_mind_of_a_package_is_one_of_the_agents(install: Install, tmp_path: Path) -> None:
    """It is given its settings, its seed and a path of its own, and replies."""
    install(POINT.format("Oracle"), MIND)
    settings = MindSettings.model_validate({"kind": "oracle", "extra": {"depth": 3}})
    refuse_minds(settings)

    mind = MindFactory(settings).make(seed=3, memory=tmp_path / "reflex.npz")

    assert (mind.kind, mind.learns, mind.model) == ("oracle", True, "oracle-1")
    assert (await mind.complete(PROMPT)).text == "TOOL: dice(sides=6)"
    start = mind.mind.start  # type: ignore[attr-defined]
    assert (start.settings.extra, start.section, start.seed) == ({"depth": 3}, "mind", 3)
    assert start.memory == tmp_path / "mind-oracle"


def test_a_kind_that_there_is_not_names_those_that_there_are(install: Install, tmp_path: Path) -> None:
    """Those of Conch, and those of the installed packages, none of which is imported for that."""
    install(POINT.format("Oracle"), "raise SystemExit(3)")

    with pytest.raises(ConfigError) as refused:
        load(None, Home(tmp_path), {"mind": {"kind": "orakle"}})

    there = "'reflex', 'openai', 'local', 'transformers' or 'scripted'"
    assert f"mind.kind must be {there}, or of an installed package: 'oracle'" in str(refused.value)
    assert load(None, Home(tmp_path), {"mind": {"kind": "oracle"}}).mind.kind == "oracle"


BROKEN = {
    "an import that raises": ("Oracle", "1 / 0", "ZeroDivisionError: division by zero"),
    "an import that exits": ("Oracle", "raise SystemExit(3)", "SystemExit: 3"),
    "an import that ends its process": ("Oracle", "import os; os._exit(7)", "ended its process with status 7"),
    "a name that is not there": ("Absent", MIND, "has no attribute 'Absent'"),
    "no class and no function": ("SIX", MIND + "SIX = 6\n", "neither a class nor a function that makes a mind"),
    "a class without complete": ("Half", "class Half:\n    def learn(self): ...\n", "is no mind: it has no complete"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_mind_is_refused_in_one_sentence_where_it_is_used(install: Install, case: str) -> None:
    """With the key, the name, and what is wrong; its import stops no other process. A run without it goes on."""
    name, module, sentence = BROKEN[case]
    install(POINT.format(name), module)

    refuse_minds(MindSettings())
    with pytest.raises(ConfigError) as refused:
        refuse_minds(MindSettings.model_validate({"fallbacks": [{"kind": "oracle"}]}))

    assert str(refused.value).startswith(
        "mind.fallbacks[0].kind oracle, which a package registers in conch.minds, cannot be used: "
    )
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_two_packages_of_one_kind_are_refused(install: Install) -> None:
    """Neither is taken by chance."""
    install(POINT.format("Oracle"), MIND)
    install("[conch.minds]\noracle = second_plugin:Oracle\n", MIND, "second_plugin")

    assert why_not("oracle") == (
        "2 installed packages register it (oracle_plugin:Oracle, second_plugin:Oracle): uninstall all but one"
    )


UNFIT = {
    "of another kind": (MIND.replace('"oracle", True', '"seer", True'), "its kind is 'seer', and must be 'oracle'"),
    "that replies at once": (MIND.replace("async def complete", "def complete"), "its complete must be an async"),
    "without a model": (MIND.replace('"oracle-1"', "None"), "its model a text"),
    "that cannot be made": (MIND.replace("self.start = start", "1 / 0"), "ZeroDivisionError"),
    "that is none": (MIND + "def Oracle(start): return 3\n", "it made a int, which is no mind: it has no kind"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_is_no_mind_is_refused_when_it_is_made(install: Install, tmp_path: Path, case: str) -> None:
    """Each part of the protocol that it lacks has a sentence."""
    module, sentence = UNFIT[case]
    install(POINT.format("Oracle"), module)

    with pytest.raises(ConfigError) as refused:
        made(tmp_path)

    assert sentence in str(refused.value)


FAULTS = {
    "raises": ("raise KeyError('lost')", "the mind oracle failed: KeyError: 'lost'"),
    "takes too long": ("await asyncio.Event().wait()", "the mind oracle took longer than 0.05 seconds"),
    "gives text": ("return 'TOOL: dice(sides=6)'", "the mind oracle gave a str, not a Completion"),
}


@pytest.mark.parametrize("case", FAULTS)
async def test_a_mind_that_fails_is_an_endpoint_that_fails(install: Install, tmp_path: Path, case: str) -> None:
    """ModelError, so that the agent waits and asks again, or a fallback."""
    line, sentence = FAULTS[case]
    install(POINT.format("Oracle"), "import asyncio\n" + MIND.replace("text = ", f"{line}\n        text = "))

    with pytest.raises(ModelError) as failed:
        await made(tmp_path, timeout=0.05).complete(PROMPT)

    assert str(failed.value).startswith(sentence)


@pytest.fixture
def experience() -> ExperienceRecorded:
    """One that cannot be learnt from, as the path of the mind's memory is a directory."""
    return make_experience_recorded(make_action_taken())


async def test_a_mind_that_fails_to_learn_goes_on(
    install: Install, tmp_path: Path, experience: ExperienceRecorded
) -> None:
    """What it raises there ends nothing."""
    install(POINT.format("Oracle"), MIND)
    mind = made(tmp_path)
    (tmp_path / "mind-oracle").mkdir()

    mind.learn(experience)

    assert (await mind.complete(replace(PROMPT, purpose="think"))).text == "I should throw the dice."
