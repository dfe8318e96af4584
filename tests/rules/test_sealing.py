"""What one mark seals: an act, all scores of it, a message, a goal, a pause; and what links say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.folds import json_of
from conch.witness import (
    SEALED_KINDS,
    ChainState,
    StoredAct,
    Witnessed,
    differences,
    is_event,
    mark_hash,
    score_id,
    seal,
    verify,
)
from conch.witness.chain import PENDING
from conch.witness.facts import verdict_fact
from conch_schemas import (
    ActApproved,
    ActDenied,
    ActionTaken,
    AgentPaused,
    AgentResumed,
    AnsweredMessage,
    AnswerRated,
    Event,
    ExperienceRecorded,
    Goal,
    GoalAccepted,
    GoalDropped,
    GoalReached,
    GoalSet,
    Mark,
    MessageReceived,
    MessageSent,
    Part,
    ReviewDecided,
    RewardAssigned,
    Score,
    wire_form,
)
from tests.witnessed import recorded

Act = Callable[..., ActionTaken]
GOAL = Goal.model_validate({"id": "g", "statement": "All tests pass.", "check": {"kind": "tests"}})
PARTS = tuple(Part(component=name, weight=0.5, range=(-1, 1), scorer="reward") for name in ("format", "execution"))


def score(component: str, value: float = 0.5, scorer: str = "reward", version: str = "1") -> Score:
    fields = {"component": component, "value": value, "range": (-1, 1), "status": "scored", "explanation": "why"}
    return Score.model_validate(fields | {"scorer": scorer, "version": version})


def said(act: ActionTaken, *scores: Score, name: str = "a") -> RewardAssigned:
    """The scores as one scorer's event."""
    data = {"scorer": scores[0].scorer, "version": scores[0].version, "scores": scores}
    identity = f"{act.id}/{name}"
    return RewardAssigned(
        id=identity, source=act.source, agent=act.agent, cycle=act.cycle, action_id=act.action_id, **data
    )  # fmt: skip


def outside(kind: type[Event], name: str, **data: Any) -> Any:
    return kind(id=name, source="conch/echo/e", agent="echo", **data)


def sealed(*facts: Event, state: ChainState | None = None) -> tuple[ChainState, list[Mark]]:
    chain, marks = state or ChainState(), []
    for fact in facts:
        assert isinstance(fact, Witnessed)
        chain, mark = seal(chain, fact)
        marks += [mark] if mark else []
    return chain, marks


def rows(act: ActionTaken, scores: Sequence[Score], experience: ExperienceRecorded) -> dict[str, Any]:
    """The rows that a store has of the act, as fields of a StoredAct."""
    verdict = {name: getattr(experience, name) for name in ("scores", "total", "breakdown", "coverage", "complete")}
    return {
        "act": wire_form(act),
        "columns": (act.action_id, act.agent, act.cycle),
        "scores": {
            score_id(one.scorer, one.version, one.component): (
                one.component, one.value, *one.range, one.status, one.explanation, one.scorer, one.version
            )
            for one in scores
        },
        "verdict": json_of(verdict | {"weights": experience.weights}),
        "revision": experience.revision,
        "seq": experience.seq,
        "recorded": experience.time.isoformat(),
        "figures": (experience.total, experience.coverage, experience.complete),
    }  # fmt: skip


def wrong(marks: Sequence[Mark], stored: StoredAct | None) -> list[tuple[str, bool]]:
    return [(one.kind, one.gone) for mark in marks for one in differences(mark, stored)]


def test_the_scores_of_an_act_wait_for_one_mark(act: Act) -> None:
    """Score sets make no mark until the experience is recorded; then one seals each score, the events and the total."""
    action = act(0)
    first, second = said(action, score("format")), said(action, score("execution", -0.25), name="b")
    experience = recorded(action, [*first.scores, *second.scores], PARTS)

    chain, marks = sealed(action, first, second, experience)

    assert [mark.domain for mark in marks] == ["action", "score"]
    assert sorted(marks[1].facts) == sorted(
        [
            f"reward.assigned {first.id}",
            f"reward.assigned {second.id}",
            "recorded 1",
            "score reward/1/execution",
            "score reward/1/format",
            "verdict 1",
        ]
    )
    assert chain.pending == {}
    assert wrong(marks, StoredAct(**rows(action, [*first.scores, *second.scores], experience))) == []


def test_a_score_that_comes_late_has_a_mark_of_its_own_and_so_has_its_revision(act: Act) -> None:
    """A person's score after the experience was recorded is sealed at once, the new total behind it."""
    action = act(0)
    late = said(action, score("kind", 1.0, "human"), name="late")
    chain, before = sealed(action, recorded(action))

    _, marks = sealed(late, recorded(action, late.scores, revision=2), state=chain)

    assert [(mark.origin, list(mark.facts)) for mark in marks] == [
        ("human", ["score human/1/kind"]),
        ("store", ["verdict 2", "recorded 2"]),
    ]
    identity = str(action.action_id)
    assert verify([*before, *marks], [identity], [(identity, "human")], recorded=[(identity, 2)]) == []


def test_a_total_without_a_mark_of_its_last_revision_is_found(act: Act) -> None:
    """A revision beyond the last one that was sealed is no store's own work."""
    action = act(0)
    _, marks = sealed(action, recorded(action))

    assert [one.kind for one in verify(marks, [], recorded=[(str(action.action_id), 2)])] == ["unwitnessed"]


def test_no_more_acts_wait_than_the_bound(act: Act) -> None:
    """The scores of an act beyond it are sealed at once, so that the state stays small and nothing is left out."""
    acts = [act(number) for number in range(PENDING + 1)]
    chain, _ = sealed(*acts)

    chain, marks = sealed(*(said(action, score("format")) for action in acts), state=chain)

    assert len(chain.pending) == PENDING
    assert [mark.action_id for mark in marks] == [acts[-1].action_id]


OTHER_VALUE = ("format", 0.75, -1, 1, "scored", "why", "reward", "1")
OTHER_WORD = ("format", 0.5, -1, 1, "scored", "Why", "reward", "1")
CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "action.taken": lambda fields: fields.update(act=fields["act"].replace(b'"model":"', b'"model":"x')),
    "columns": lambda fields: fields.update(columns=(*fields["columns"][:2], 7)),
    "score": lambda fields: fields["scores"].update({"reward/1/format": OTHER_VALUE}),
    "why": lambda fields: fields["scores"].update({"reward/1/format": OTHER_WORD}),
    "verdict": lambda fields: fields.update(verdict=fields["verdict"].replace(b'"total":', b'"total":1')),
    "breakdown": lambda fields: fields.update(verdict=fields["verdict"].replace(b'"amount":', b'"amount":1')),
    "words": lambda fields: fields.update(verdict=fields["verdict"].replace(b'"explanation":"w', b'"explanation":"W')),
    "figures": lambda fields: fields.update(figures=(9.0, *fields["figures"][1:])),
    "revision": lambda fields: fields.update(revision=0),
    "no JSON": lambda fields: fields.update(verdict=b"{"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_row_that_is_not_what_was_sealed_is_found(act: Act, what: str) -> None:
    """One value changed in the act, a score, the total or what adds up to it: exactly that fact is named."""
    action, scores = act(0), [score("format"), score("execution")]
    experience = recorded(action, scores, PARTS)
    _, marks = sealed(action, said(action, *scores), experience)
    fields = rows(action, scores, experience)
    CHANGES[what](fields)

    [(kind, gone)] = wrong(marks, StoredAct(**fields))

    assert not gone
    assert kind == (
        what if what in ("action.taken", "score") else {"columns": "action.taken", "why": "score"}.get(what, "verdict")
    )


@pytest.mark.parametrize(
    ("row", "empty", "kind"), [("act", None, "action.taken"), ("scores", {}, "score"), ("verdict", None, "verdict")]
)
def test_a_row_that_is_gone_is_found(act: Act, row: str, empty: Any, kind: str) -> None:
    """A deleted act, score or total is told from a changed one."""
    action, scores = act(0), [score("format")]
    experience = recorded(action, scores, PARTS)
    _, marks = sealed(action, said(action, *scores), experience)

    assert wrong(marks, StoredAct(**rows(action, scores, experience) | {row: empty})) == [(kind, True)]


def test_a_verdict_that_was_too_large_to_publish_is_sealed_by_its_figures(act: Act) -> None:
    """Total, coverage and completeness are compared where nothing else was published."""
    action, scores = act(0), [score("format")]
    whole = recorded(action, scores, PARTS)
    bare = whole.model_copy(update={"scores": (), "breakdown": ()})
    _, marks = sealed(action, said(action, *scores), bare)
    fields = rows(action, scores, whole)

    assert list(verdict_fact(bare)) == ["figures 1"]
    assert wrong(marks, StoredAct(**fields)) == []
    assert wrong(marks, StoredAct(**fields | {"figures": (9.0, 1.0, True)})) == [("figures", False)]


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(-1, 1), min_size=1, max_size=4),
    words=st.text(st.characters(blacklist_categories=["Cs"])),
)
def test_any_scores_are_found_as_they_were_sealed(act: Act, values: list[float], words: str) -> None:
    """Whatever numbers and words a score has, the rows of a store hash to what was sealed."""
    action = act(0)
    scores = [score(f"c{index}", value).model_copy(update={"explanation": words}) for index, value in enumerate(values)]
    experience = recorded(action, scores, PARTS)

    _, marks = sealed(action, said(action, *scores), experience)

    assert wrong(marks, StoredAct(**rows(action, scores, experience))) == []
    assert all(mark_hash(Mark.model_validate_json(mark.model_dump_json())) == mark.hash for mark in marks)


def test_messages_goals_pauses_and_approvals_have_marks() -> None:
    """Each says who and what in words, and seals its event; a repeated one, and a denial of no person, make none."""
    facts = [
        outside(MessageReceived, "m1", text="Hello", sender="ada"),
        outside(MessageSent, "m2", text="Hello, ada", answers="m1"),
        outside(GoalSet, "g1", goal=GOAL, by="user"),
        outside(GoalAccepted, "g4", goal="g", why="It is wanted."),
        outside(GoalReached, "g2", goal="g", statement="All tests pass."),
        outside(GoalDropped, "g3", goal="h", why="too hard"),
        outside(GoalDropped, "g5", goal="i", vetoed=True),
        outside(AgentPaused, "p1"),
        outside(AgentResumed, "p2"),
        outside(ActApproved, "a1", action_id="act-1", why="It is safe."),
        outside(ActDenied, "a2", action_id="act-2"),
    ]
    late = outside(ActDenied, "a3", action_id="act-3", by="timeout", why="no person approved it within 600 s")

    _, marks = sealed(*facts, late, *facts)

    assert [(mark.domain, mark.origin, mark.response) for mark in marks] == [
        ("message", "ada", "Hello"),
        ("message", "echo", "Hello, ada"),
        ("goal", "user", "set: All tests pass."),
        ("goal", "user", "accepted"),
        ("goal", "echo", "reached: All tests pass."),
        ("goal", "echo", "dropped"),
        ("goal", "user", "vetoed"),
        ("pause", "user", "The agent was paused."),
        ("pause", "user", "The agent was resumed."),
        ("approval", "user", "The act was approved."),
        ("approval", "user", "The act was denied."),
    ]
    assert [(mark.action_id, mark.reasoning) for mark in marks[-2:]] == [
        ("act-1", "It is safe."), ("act-2", "No reason was given.")
    ]  # fmt: skip
    assert [mark.event for mark in marks] == [fact.id for fact in facts]
    assert all(is_event(wire_form(fact), mark.content) for fact, mark in zip(facts, marks, strict=True))
    assert verify(marks, []) == []


def test_a_goal_that_is_reached_fulfils_the_mark_of_its_being_set(act: Act) -> None:
    """The link names that mark; a goal that was dropped, or set before the first mark, has none."""
    reached = outside(GoalReached, "r", goal="g", statement="s")

    _, marks = sealed(outside(GoalSet, "s", goal=GOAL), reached)
    _, dropped = sealed(outside(GoalSet, "s", goal=GOAL), outside(GoalDropped, "d", goal="g"), reached)

    assert [(link.source, link.relation) for link in marks[1].links] == [(marks[0].id, "FULFILLS")]
    assert dropped[2].links == ()
    assert verify(marks, []) == []


def test_an_answer_is_caused_by_the_mark_of_the_message_that_it_answers(act: Act) -> None:
    """The link names that mark, and the answer's own mark quotes the words; a second answer has none, and so has that
    to a message from before the first mark. A rating is a judgement of a person, caused by the act."""
    said = AnsweredMessage(id="m", text="How is the tide?", sender="ada")
    answers = [act(number).model_copy(update={"message": said}) for number in (1, 2)]
    rated = outside(AnswerRated, "r", message="m", rating="corrected", text="high").model_copy(
        update={"action_id": answers[0].action_id, "cycle": 1}
    )

    state, marks = sealed(outside(MessageReceived, "m", text=said.text, sender="ada"), *answers, rated)
    _, late = sealed(answers[0])

    assert [[(link.source, link.relation) for link in mark.links] for mark in marks] == [
        [], [(marks[0].id, "CAUSES")], [], [(marks[1].id, "CAUSES")],
    ]  # fmt: skip
    assert marks[1].stimulus == said.text
    assert "It answers the message of ada." in marks[1].reasoning
    assert (marks[3].response, marks[3].evidence) == ("corrected: high", "judgement")
    assert late[0].links == ()
    assert state.messages == {}
    assert verify(marks, []) == []


def test_the_mark_of_a_review_names_the_row_and_the_decision(act: Act) -> None:
    """It is a judgement of the reviewer, caused by the act of the row; the whole event is sealed."""
    action = act(0)
    decided = outside(
        ReviewDecided, "r", row="a" * 64, format="dpo", reviewer="ada", number=1, decision="rejected",
        reason="too long", preferred="rejected",
    ).model_copy(update={"action_id": action.action_id, "cycle": 0})  # fmt: skip

    _, marks = sealed(action, decided, decided)

    assert len(marks) == 2
    assert (marks[1].origin, marks[1].domain, marks[1].evidence) == ("ada", "review", "judgement")
    assert (marks[1].stimulus, marks[1].reasoning) == (f"row {'a' * 64}", "too long")
    assert marks[1].response == "rejected as row of dpo, the rejected reply preferred without knowing which it is"
    assert [(link.source, link.relation) for link in marks[1].links] == [(marks[0].id, "CAUSES")]
    assert is_event(wire_form(decided), marks[1].content)
    assert verify(marks, []) == []


def test_an_act_continues_the_last_one_of_its_episode(act: Act) -> None:
    """Also where another act lies between; the act behind the end of the episode continues nothing."""
    episodes = [("e", False), (None, False), ("e", False), ("e", True), ("e", False)]
    acts = [
        act(number).model_copy(update={"episode": name, "terminal": ends})
        for number, (name, ends) in enumerate(episodes)
    ]

    _, marks = sealed(*acts)

    assert [[link.source for link in mark.links if link.relation == "CONTINUES"] for mark in marks] == [
        [], [], [marks[0].id], [marks[2].id], [],
    ]  # fmt: skip
    assert verify(marks, []) == []


def test_every_sealed_kind_is_compared_with_the_stream() -> None:
    """The kinds that the witness seals whole are those that verification reads from the stream."""
    kinds = set(get_args(Witnessed)) - {ExperienceRecorded}

    assert set(SEALED_KINDS) == kinds
