"""Secrets that are planted in files, replies, errors and messages are nowhere in what an agent leaves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conch.config import Masker
from conch.errors import ModelError
from conch.minds import Situation
from conch.secrets import HIDDEN
from conch_schemas import ActionTaken, GoalSet, ThoughtFormed, encode
from tests.secrets.planted import KINDS, leaks, planted

if TYPE_CHECKING:
    from tests.cycle.conftest import Life, Start

KEYS = [f"planted-{place}-4eC39HqLyjWDarjtT1zdp7dc" for place in ("file", "thought", "reply", "error", "said", "name")]
FILE, THOUGHT, REPLY, ERROR, SAID, NAME = KEYS


async def test_a_planted_secret_is_nowhere_in_stream_prompts_notes_and_reports(life: Life, start: Start) -> None:
    """File contents and names, thoughts, replies, errors and a person's words; and the mask is written to no file."""
    life.masker = Masker(KEYS)
    (life.workspace / "keys.env").write_text(f"API_KEY={FILE}\n")
    (life.workspace / f"{NAME}.txt").write_text("x")
    life.mind.thinks = lambda _: f"I remember {THOUGHT}."
    calls = [
        'TOOL: filesystem(operation="read", path="keys.env")',
        f'TOOL: notes(operation="remember", text="the key is {REPLY}")',
        f'TOOL: filesystem(operation="read", path="{ERROR}")',
        f'TOOL: filesystem(operation="write", path="out.txt", content="{REPLY}")',
    ]
    life.mind.decides = lambda situation: calls[situation.cycle % len(calls)]
    running = await start(4)
    await running.ask("say", {"text": f"my password is {SAID}"})
    await running.ask("goal", {"add": {"statement": f"use {SAID}", "check": {"kind": "file", "path": "never.txt"}}})
    life.mind.failures = [ModelError(f"no such key: {ERROR}", retry_after=0.01)]
    await running.task

    assert len(life.facts(ActionTaken)) == 4
    stream = b"".join(one.data for one in life.journal.events.values())
    bucket = b"".join(bytes(entry.value) for entry in life.journal.bucket.values())
    prompts = "".join(
        prompt.system + "".join(message.content for message in prompt.messages) for prompt in life.mind.asked
    )
    told = repr(life.said)
    for key in KEYS:
        assert key.encode() not in stream + bucket, key
        assert key not in prompts + told, key
        assert not any(key in note for note in life.notes.recall(key, 50))
    [goal] = life.facts(GoalSet)
    assert goal.goal.statement == f"use {HIDDEN}"
    assert HIDDEN in prompts
    assert HIDDEN in told
    assert not (life.workspace / "out.txt").exists()
    assert "API_KEY=" + HIDDEN in life.facts(ActionTaken)[0].outcome.output.text


async def test_a_secret_that_shows_by_itself_is_nowhere_either(life: Life, start: Start) -> None:
    """Of 60 kinds that no settings name: in files, thoughts, notes, a person's words, a goal, a tool's error."""
    files, thoughts, notes = (dict(planted(frozenset(KINDS), 1, seed=seed)) for seed in (21, 22, 23))
    said, stated = (planted(frozenset(("env file",)), 1, seed=seed)[0][1] for seed in (24, 25))
    kinds = sorted(KINDS)
    for at, kind in enumerate(kinds):
        (life.workspace / f"{at}.txt").write_text(files[kind].text)
    cycles = 2 * len(kinds)
    life.mind.thinks = lambda situation: thoughts[kinds[situation.cycle // 2 % len(kinds)]].text

    def decides(situation: Situation) -> str:
        at = situation.cycle // 2 % len(kinds)
        read = f'TOOL: filesystem(operation="read", path="{at}.txt")'
        return (
            read
            if situation.cycle % 2
            else f'TOOL: notes(operation="remember", text={json.dumps(notes[kinds[at]].text)})'
        )

    life.mind.decides = decides
    running = await start(cycles)
    await running.ask("say", {"text": said.text})
    await running.ask("goal", {"add": {"statement": stated.text, "check": {"kind": "file", "path": "never.txt"}}})
    await running.task

    acts = life.facts(ActionTaken)
    stream = "\n".join(json.dumps(json.loads(one.data), ensure_ascii=False) for one in life.journal.events.values())
    prompts = "".join(message.content for prompt in life.mind.asked for message in prompt.messages)
    kept = "".join(life.notes.recall("password token key secret", 100)) + repr(life.said)
    plants = [*files.values(), *thoughts.values(), *notes.values(), said, stated]
    assert len(acts) == cycles
    assert [plant.text for plant in plants if leaks(plant.secret, stream + prompts + kept)] == []
    assert stream.count(HIDDEN) > len(plants)


async def test_a_secret_at_the_edge_of_what_is_kept_leaves_no_piece(life: Life) -> None:
    """Outputs and replies are masked before they are cut: no half of a key stands at the cut."""
    life.masker = Masker(KEYS)
    (life.workspace / "big.txt").write_text(FILE * 4000)
    life.mind.thinks = lambda _: THOUGHT * 4000
    life.mind.decides = lambda _: 'TOOL: filesystem(operation="read", path="big.txt")'
    await life.run(1)

    assert not [fact for fact in life.facts() if b"planted" in encode(fact) or b"zdp7dc" in encode(fact)]
    assert life.facts(ThoughtFormed)
