"""One trajectory judged, with a cache that is a value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from conch.errors import JudgeError
from conch.judge import JudgeConfig, JudgeQuestion, judge_key, judge_version, score_with_llm_judge
from conch.judge.score import MOST_WAIT
from conch.rewards.compose import Message, Trajectory, cache_key
from tests.judge.standin import answer

HELLO = Trajectory((Message("user", "Say hello"), Message("assistant", "hello")))
BYE = Trajectory((Message("user", "Say hello"), Message("assistant", "bye")))


@dataclass
class Model:
    """Gives these answers in turn, the last one for ever; errors it raises."""

    answers: list[str | JudgeError]
    asked: list[JudgeQuestion] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def __call__(self, question: JudgeQuestion) -> str:
        self.asked.append(question)
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(said, JudgeError):
            raise said
        return said

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def config(self, tries: int = 1) -> JudgeConfig:
        return JudgeConfig("Is it polite?", "tiny", self, tries, sleep=self.sleep)


async def test_a_miss_returns_a_new_mapping_and_a_hit_the_same_one() -> None:
    """What was given stays as it was; what was answered is asked once."""
    model, empty = Model([answer(0.7)]), dict[str, float]()

    score, first = await score_with_llm_judge(HELLO, model.config(), empty)
    again, second = await score_with_llm_judge(HELLO, model.config(), first)
    _, third = await score_with_llm_judge(BYE, model.config(), second)

    assert (score, again, empty) == (0.7, 0.7, {})
    assert second is first
    assert (len(first), len(third), len(model.asked)) == (1, 2, 2)


async def test_a_failure_is_no_zero_and_is_not_remembered() -> None:
    """It is raised; the next time the model is asked again."""
    model, cache = Model(["no JSON", answer(0.3)]), dict[str, float]()

    with pytest.raises(JudgeError):
        await score_with_llm_judge(HELLO, model.config(), cache)
    score, cache_after = await score_with_llm_judge(HELLO, model.config(), cache)

    assert (score, len(cache), len(cache_after)) == (0.3, 0, 1)


def test_the_key_holds_what_the_question_holds() -> None:
    """Another message, rubric, model or version is another key; what a message says beside its words is not."""
    config = Model([]).config()
    others = [replace(config, rubric="Is it short?"), replace(config, model="big"), replace(config, version="0")]

    keys = {judge_key(HELLO, one) for one in [config, *others]} | {judge_key(BYE, config)}

    assert len(keys) == 5
    assert judge_key(replace(HELLO, completion_tokens=(9,), facts={"at": "noon"}), config) == judge_key(HELLO, config)
    assert judge_key(HELLO, replace(config, tries=5)) == judge_key(HELLO, config)
    assert cache_key(HELLO.messages) not in keys


async def test_another_rubric_never_serves_an_old_score() -> None:
    """A cache that was filled under one rubric is no cache under another."""
    model = Model([answer(0.9), answer(0.1)])
    _, cache = await score_with_llm_judge(HELLO, model.config(), {})

    score, cache = await score_with_llm_judge(HELLO, replace(model.config(), rubric="Is it short?"), cache)

    assert (score, len(cache)) == (0.1, 2)


def test_a_version_names_words_rubric_and_model() -> None:
    """Each change is another version, the same ones the same."""
    versions = {judge_version("a", "m"), judge_version("b", "m"), judge_version("a", "n"), judge_version("a", "m", "2")}

    assert len(versions) == 4
    assert judge_version("a", "m") == judge_version("a", "m")
    assert judge_version("a", "m", "2").startswith("2+")


async def test_a_try_that_passes_is_followed_by_another() -> None:
    """What cannot be read and what may pass by itself is asked again, after waits that grow and differ."""
    model = Model([JudgeError("busy", passing=True), "prose", JudgeError("busy", passing=True), answer(0.6)])

    score, _ = await score_with_llm_judge(HELLO, model.config(tries=4), {})

    assert (score, len(model.asked)) == (0.6, 4)
    assert [0.25 <= model.waits[0] <= 0.5, 0.5 <= model.waits[1] <= 1.0, 1.0 <= model.waits[2] <= 2.0] == [True] * 3
    assert model.asked[0] == model.asked[-1]


async def test_the_tries_are_all_there_are() -> None:
    """Then the last reason is told, with their number."""
    model = Model(["prose"])

    with pytest.raises(JudgeError, match=r"not one JSON object.*\(asked 3 times\)"):
        await score_with_llm_judge(HELLO, model.config(tries=3), {})

    assert (len(model.asked), len(model.waits)) == (3, 2)


async def test_what_cannot_pass_is_not_tried_again() -> None:
    """A refused key is refused the next time, too."""
    model = Model([JudgeError("the key is not accepted")])

    with pytest.raises(JudgeError, match=r"the key is not accepted$"):
        await score_with_llm_judge(HELLO, model.config(tries=3), {})

    assert len(model.asked) == 1


async def test_a_wait_that_was_asked_for_is_waited_or_the_question_given_up() -> None:
    """As long as it is not too long."""
    soon = Model([JudgeError("busy", passing=True, after=7.0), answer(0.5)])
    late = Model([JudgeError("busy", passing=True, after=MOST_WAIT + 1), answer(0.5)])

    await score_with_llm_judge(HELLO, soon.config(tries=2), {})
    with pytest.raises(JudgeError, match="busy"):
        await score_with_llm_judge(HELLO, late.config(tries=2), {})

    assert (soon.waits, late.waits, len(late.asked)) == ([7.0], [], 1)
