"""Experiences as training reads them: the fields of whole experiences, prompts, corrections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conch.consumer import follow
from conch.experience import ExperienceStore
from conch.experience.queries import examples
from conch_schemas import AnswerRated, Decoding, PolicySet, consequence_id

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts

DECODING = Decoding(engine="openai", model="m", prompt_sha256="ab" * 32, state_key="s1", constraint="grammar")


def test_an_example_says_what_the_experience_says(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Walked and asked for by number, with or without its prompt; its mark says where it belongs."""
    act = facts.act(1, decoding=DECODING)
    shared_events(store, facts.weights(), *facts.judged(1)[1:], facts.decided(1), act)
    (whole,) = store.cycles.last(None, 10)

    (example,) = store.examples.walk()
    (bare,) = store.examples.walk(prompts=False)
    (mark,) = store.examples.marks()

    assert (example.act.action_id, example.act.agent, example.act.cycle) == (whole.action_id, "echo", 1)
    assert (example.verdict.total, example.revision, example.seq) == (whole.total, whole.revision, whole.seq)
    assert [score.component for score in example.verdict.scores] == [score.component for score in whole.scores]
    assert [message.content for message in example.messages] == ["what now?"]
    assert example.act.data.decoding is not None
    assert example.act.data.decoding.constraint == "grammar"
    assert (bare.messages, bare.act) == ((), example.act)
    assert store.examples.numbered([example.number, 99]) == [example]
    assert (mark.number, mark.agent, mark.total) == (example.number, "echo", whole.total)
    assert (mark.state_key, mark.prompt_hash) == ("s1", "ab" * 32)


def test_the_halves_of_the_examples_are_all_of_them(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """The middle parts them, of an odd number the first half has one more; an empty store has none."""
    assert store.examples.halves() == (0, 0, 0)
    shared_events(store, facts.weights(), *(fact for cycle in range(5) for fact in facts.judged(cycle)))

    acts, middle, last = store.examples.halves()
    first, second = list(store.examples.walk(upto=middle)), list(store.examples.walk(after=middle, upto=last))

    assert (acts, [one.act.cycle for one in first], [one.act.cycle for one in second]) == (5, [0, 1, 2], [3, 4])
    assert first + second == list(store.examples.walk())


def test_pages_are_the_examples_without_prompts(
    store: ExperienceStore, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is on one page, in the order of the walk, between the bounds; a store without acts has no page."""
    assert list(store.examples.pages()) == []
    shared_events(store, facts.weights(), *(one for n in range(5) for one in (facts.decided(n), *facts.judged(n))))
    monkeypatch.setattr(examples, "_PAGE", 2)
    bare = list(store.examples.walk(prompts=False))

    assert list(store.examples.pages()) == [bare[:2], bare[2:4], bare[4:]]
    assert list(store.examples.pages(after=bare[0].seq, upto=bare[3].seq)) == [bare[1:3], bare[3:4]]
    assert [one.messages for one in bare] == [()] * 5 != [one.messages for one in store.examples.walk()]


def test_an_act_of_an_older_version_has_no_decoding(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """It is walked all the same; its mark belongs to no state."""
    shared_events(store, facts.weights(), *facts.judged(1))

    (example,), (mark,) = store.examples.walk(), store.examples.marks()

    assert (example.act.data.decoding, mark.state_key) == (None, "")


def test_system_prompts_are_kept_by_policy(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Each policy has one, the first that was said of it; twice is once."""
    first = _policy(facts, "p1", "You are echo.")
    shared_events(store, first, _policy(facts, "p2", "You are another."), first, _policy(facts, "p1", "late"))

    assert store.examples.systems() == {"p1": "You are echo.", "p2": "You are another."}


def test_the_last_correction_of_an_answer_is_kept(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Also where it came before the act; other ratings are none; an experience stays as it is."""
    act = facts.act(1)
    shared_events(store, _rating(act, "corrected", "green"), facts.weights(), *facts.judged(1))
    recorded = store.cycles.get("echo", 1)
    shared_events(store, _rating(act, "corrected", "red"), _rating(act, "satisfied", "good"), facts.reflected(1))

    assert store.examples.corrections() == {act.action_id: "red"}
    assert recorded is not None
    assert store.cycles.get("echo", 1) == recorded.model_copy(
        update={"reflection": "reflection 1", "ms": recorded.ms | {"reflect": 5.0}}
    )


def _policy(facts: Facts, digest: str, system: str) -> PolicySet:
    envelope: dict[str, Any] = facts.envelope(PolicySet, 0) | {"cycle": None, "action_id": None, "subject": None}
    identity = consequence_id(digest, "run", system, PolicySet)
    return PolicySet(**envelope | {"id": identity, "policy": digest}, mind="openai", model="m", system_prompt=system)


def _rating(act: Any, rating: Any, text: str) -> AnswerRated:
    return follow(act, AnswerRated, consumer="human", version=text, message="m1", rating=rating, text=text)
