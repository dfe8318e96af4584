"""The acts as they were, page by page, and who has scored which of them: in every store alike."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from conch.consumer import follow
from conch.experience import ExperienceStore, ScoredSince
from conch_schemas import ActionTaken, RewardAssigned, Score

if TYPE_CHECKING:
    from tests.store.conftest import Facts


def of_tone(act: ActionTaken, version: str = "1") -> RewardAssigned:
    """A score of the rule `tone`, which had nothing to say."""
    score = Score(
        component="tone", range=(0, 1), status="not_applicable", explanation="no", scorer="tone", version=version
    )
    return follow(act, RewardAssigned, consumer="rule-tone", version=version, scorer="tone", scores=(score,))


@pytest.fixture
def ten(store: ExperienceStore, facts: Facts) -> list[ActionTaken]:
    """Ten acts, the even ones of which `tone` has scored."""
    acts = [facts.act(cycle) for cycle in range(10)]
    said = [*acts, *(of_tone(act) for act in acts[::2])]
    store.apply(list(enumerate(said, 1)), upto=len(said), now=facts.now)
    return acts


def test_what_a_version_has_not_scored_comes_in_pages(store: ExperienceStore, ten: list[ActionTaken]) -> None:
    """In the order of the stream, whatever the size of a page; a status is a score, another version is none."""
    wanted = store.backfill.unscored("echo", "tone", "1", ScoredSince())

    assert (wanted.acts, wanted.missing) == (10, 5)
    for most in (1, 3, 100):
        pages = list(store.backfill.past(wanted, most))
        assert [row.act for page in pages for row in page] == ten[1::2]
        assert all(len(page) <= most for page in pages)
    assert store.backfill.unscored("echo", "tone", "2", ScoredSince()).missing == 10
    assert store.backfill.unscored("fox", "tone", "1", ScoredSince()).acts == 0


def test_all_acts_come_with_those_that_are_meant_among_them(store: ExperienceStore, ten: list[ActionTaken]) -> None:
    """For a rule that goes by what came before: from the first act on, whatever is asked for."""
    wanted = store.backfill.unscored("echo", "tone", "1", ScoredSince(cycle=6))

    rows = [row for page in store.backfill.past(wanted, 4, whole=True) for row in page]

    assert [row.act for row in rows] == ten
    assert [row.act.cycle for row in rows if row.wanted] == [7, 9]


def test_from_a_moment_on(store: ExperienceStore, ten: list[ActionTaken]) -> None:
    """By the acts' own time."""
    wanted = store.backfill.unscored("echo", "tone", "2", ScoredSince(time=ten[4].time))

    assert [row.act.cycle for page in store.backfill.past(wanted, 10) for row in page] == [4, 5, 6, 7, 8, 9]
    assert store.backfill.unscored("echo", "tone", "2", ScoredSince(time=ten[9].time + timedelta(seconds=1))).acts == 0


def test_what_is_scored_meanwhile_is_left_out_and_what_is_new_is_not_walked(
    store: ExperienceStore, facts: Facts, ten: list[ActionTaken]
) -> None:
    """The walk ends where the agent's acts ended when it was asked for."""
    wanted = store.backfill.unscored("echo", "tone", "1", ScoredSince())
    pages = store.backfill.past(wanted, 2)
    first = next(pages)
    more = [of_tone(ten[5]), facts.act(10), facts.act(11)]
    store.apply(list(enumerate(more, 100)), upto=102, now=facts.now)

    assert [row.act.cycle for row in first] == [1, 3]
    assert [row.act.cycle for page in pages for row in page] == [7, 9]


def test_who_said_what(store: ExperienceStore, ten: list[ActionTaken], facts: Facts) -> None:
    """Every scorer with its versions; what one of them said, with its words; in which versions of an act."""
    again = of_tone(ten[0], "2")
    store.apply([(200, again)], upto=200, now=facts.now)
    tones = [(one.version, one.count, one.range) for one in store.backfill.scorers() if one.component == "tone"]
    said = store.backfill.said("echo", "tone", "tone", "1", ScoredSince(cycle=3))

    assert tones == [("1", 5, (0.0, 1.0)), ("2", 1, (0.0, 1.0))]
    later = [(one.version, one.count) for one in store.backfill.scorers("echo", since=1) if one.component == "tone"]
    assert later == [("1", 4)]
    assert store.backfill.scorers("nobody") == []
    assert [(one.cycle, one.status, one.value) for one in said] == [
        (cycle, "not_applicable", None) for cycle in (4, 6, 8)
    ]
    assert store.backfill.explanation(said[0], "tone", "tone") == "no"
    assert len(store.backfill.said(None, "tone", "tone", None, ScoredSince())) == 6
    assert sorted(store.backfill.versions(str(ten[0].action_id), "tone", "tone")) == ["1", "2"]


def test_an_act_and_what_its_mind_was_given(store: ExperienceStore, ten: list[ActionTaken], facts: Facts) -> None:
    """By its cycle, recorded or not; nothing where there is none."""
    assert store.cycles.act("echo", 4) == ten[4]
    assert store.cycles.act("echo", 99) is None
    assert store.cycles.prompt(str(ten[4].action_id)) == ()
    decided = facts.decided(4)
    store.apply([(300, decided)], upto=300, now=facts.now)
    assert store.cycles.prompt(str(ten[4].action_id)) == decided.messages
