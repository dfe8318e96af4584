"""Witness: the chain of marks and what verifying it finds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.rewards import PRINCIPLES, principles_of
from conch.witness import (
    GENESIS,
    ChainState,
    MarkProblem,
    Witnessed,
    canonical,
    content_hash,
    mark_hash,
    seal,
    verify,
)
from conch.witness.canonical import said_hash
from conch.witness.words import Scored, score_sets
from conch_schemas import (
    ActionTaken,
    Event,
    GoalCheck,
    Mark,
    MarkLink,
    NeedsChanged,
    NoveltyMeasured,
    PolicySet,
    Principle,
    RewardAssigned,
    Score,
    decode,
    encode,
)
from conch_services.curiosity.consumer import curiosity as curiosity_consumer
from conch_services.needs.consumer import needs as needs_consumer
from conch_services.reward.consumer import reward as reward_consumer
from conch_services.witness.consumer import witness as witness_consumer
from tests.witnessed import recorded

Act = Callable[..., ActionTaken]


def _scores(*facts: Event) -> list[Score]:
    """The scores that these events bring."""
    return [score for fact in facts if isinstance(fact, Scored) for score in score_sets(fact)]


def _facts(*acts: ActionTaken) -> list[Event]:
    """The acts, each followed by what the three scorers say of it, and by its experience."""
    own = ServiceContext(Settings(), Path())
    reward, needs, curiosity = bind(reward_consumer, own), bind(needs_consumer, own), bind(curiosity_consumer, own)
    assert needs.initial is not None
    assert curiosity.initial is not None
    needy, curious = needs.initial(), curiosity.initial()
    facts: list[Event] = []
    for action in acts:
        needy, changed = needs.handle(needy, action)
        curious, measured = curiosity.handle(curious, action)
        sets = [reward.handle(action), changed, measured]
        facts += [action, *sets, recorded(action, _scores(*sets))]
    return facts


def _marks(facts: list[Event], state: ChainState | None = None) -> list[Mark]:
    chain, marks = state or ChainState(), []
    for fact in facts:
        assert isinstance(fact, Witnessed)
        chain, mark = seal(chain, fact)
        marks += [mark] if mark else []
    return marks


@pytest.fixture(scope="module")
def acts(act: Act, check: Callable[..., GoalCheck]) -> list[ActionTaken]:
    """Three acts."""
    return [act(0, output="news"), act(1, "INVALID"), act(2, goals=(check("partial"),))]


@pytest.fixture(scope="module")
def facts(acts: list[ActionTaken]) -> list[Event]:
    """The acts, their scores and experiences: fifteen events."""
    return _facts(*acts)


@pytest.fixture(scope="module")
def marks(facts: list[Event]) -> list[Mark]:
    """Their six marks."""
    return _marks(facts)


def _ids(acts: list[ActionTaken]) -> list[str]:
    return [action.action_id or "" for action in acts]


def _kinds(problems: list[MarkProblem]) -> set[str]:
    return {problem.kind for problem in problems}


def _forged(mark: Mark, **changes: object) -> Mark:
    """`mark` with changes and a hash made anew."""
    mark = mark.model_copy(update=changes)
    return mark.model_copy(update={"hash": mark_hash(mark)})


def test_every_act_and_its_scores_have_a_mark(acts: list[ActionTaken], marks: list[Mark]) -> None:
    """Two marks an act, in a chain from 64 zeros without a gap, and it verifies."""
    assert [mark.sequence for mark in marks] == list(range(6))
    assert marks[0].previous == GENESIS
    assert [mark.origin for mark in marks[:2]] == ["echo", "store"]
    assert verify(marks, _ids(acts)) == []


def test_a_mark_hashes_the_event_and_itself(acts: list[ActionTaken], marks: list[Mark]) -> None:
    """Content: SHA-256 of the event's canonical wire form. Hash: of the mark's canonical JSON without its own hash."""
    wire = json.loads(encode(acts[0]))
    plain = json.dumps(wire, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    body = {name: value for name, value in json.loads(marks[0].model_dump_json()).items() if name != "hash"}
    assert body.pop("facts") == {}

    assert marks[0].content == content_hash(acts[0]) == content_hash(decode(encode(acts[0])))
    assert marks[0].content == hashlib.sha256(canonical(plain)).hexdigest()
    assert marks[0].hash == hashlib.sha256(canonical(json.dumps(body))).hexdigest()


def test_a_mark_says_every_field_it_hashes(marks: list[Mark]) -> None:
    """What the wire carries is what the hash was taken over, so a mark read back still verifies."""
    read = [Mark.model_validate_json(mark.model_dump_json()) for mark in marks]

    assert all(mark.model_fields_set == set(Mark.model_fields) for mark in marks)
    assert [mark_hash(mark) for mark in read] == [mark.hash for mark in marks]


def test_a_field_that_marks_gain_later_leaves_earlier_hashes(marks: list[Mark]) -> None:
    """A newer reader, with an optional field more, still finds the old chain whole."""

    class NewerMark(Mark):
        walk: str | None = None

    assert verify([NewerMark.model_validate_json(mark.model_dump_json()) for mark in marks], []) == []


def test_the_mark_of_the_rewards_holds_the_principles(acts: list[ActionTaken], marks: list[Mark]) -> None:
    """The seven, as they were scored, in the mark of the scores and not in the act's; none of an invalid reply."""
    told = [dict(mark.principles) for mark in marks]

    assert told[1] == principles_of(acts[0]).to_dict()
    assert [act.action.valid for act in acts] == [True, False, True]
    assert [bool(principles) for principles in told] == [False, True, False, False, False, True]


@settings(deadline=None)
@given(scores=st.lists(st.tuples(st.sampled_from([*PRINCIPLES, "other", "\U0001f9ff"]), st.floats(0.0, 1.0))))
def test_any_principles_make_a_mark_that_verifies(act: Act, scores: list[tuple[str, float]]) -> None:
    """Whole numbers, the smallest numbers and names that are no principle's: what is hashed is what is read back."""
    reward = next(fact for fact in _facts(act(0)) if isinstance(fact, RewardAssigned))
    principles = tuple(Principle(name=name, score=score) for name, score in scores)

    [mark] = _marks([reward.model_copy(update={"principles": principles})])

    read = Mark.model_validate_json(mark.model_dump_json())
    body = {name: value for name, value in json.loads(mark.model_dump_json()).items() if name != "hash"}
    assert mark_hash(read) == mark.hash == hashlib.sha256(rfc8785.dumps(body)).hexdigest()
    assert dict(read.principles) == {name: score for name, score in scores if name in PRINCIPLES}


def test_a_mark_of_before_still_verifies(marks: list[Mark]) -> None:
    """One that was made when score sets had no principles keeps its hash."""
    said = marks[1].model_copy(update={"principles": {}}).model_dump(exclude={"hash"})

    assert mark_hash(Mark.model_validate(said | {"hash": "0" * 64})) == said_hash(said)


def test_marks_carry_the_values_that_held(act: Act) -> None:
    """From the mark of the policy that names them on, to the next one; marks before it have none."""
    chain, marks = ChainState(), []
    for number, digest in enumerate(["", "", "a" * 64, "", "b" * 64]):
        if digest:
            policy = {"mind": "reflex", "model": "m", "system_prompt": "s", "values": digest}
            chain, mark = seal(chain, PolicySet(id=str(number), source="/conch/echo/e", agent="echo", **policy))
            assert mark is not None
            marks.append(mark)
        chain, mark = seal(chain, act(number))
        assert mark is not None
        marks.append(mark)

    assert [(mark.domain, mark.values[:1]) for mark in marks] == [
        *(("action", ""), ("action", ""), ("policy", "a"), ("action", "a"), ("action", "a"), ("policy", "b")),
        ("action", "b"),
    ]
    assert verify(marks, [mark.action_id for mark in marks if mark.action_id is not None]) == []
    assert {one.kind for one in verify([marks[0], marks[1].model_copy(update={"values": "c"})], [])} == {"changed"}


def test_the_reasoning_is_made_of_facts(marks: list[Mark]) -> None:
    """Thought, verdict, outcome and goals for an act; each explanation for a score set."""
    assert "What is in the workspace?" in marks[0].reasoning
    assert "this is prose" in marks[2].reasoning
    assert "“tests pass”: partial" in marks[4].reasoning
    assert "The tool shell ended with status success." in marks[1].reasoning
    assert "format 0.5" in marks[1].response


def test_scores_link_to_the_mark_of_their_act(marks: list[Mark]) -> None:
    """The link's source is the act's mark, which comes earlier."""
    for index in (0, 2, 4):
        assert marks[index].links == ()
        assert marks[index + 1].links == (MarkLink(source=marks[index].id, relation="CAUSES"),)


def test_scores_of_an_act_before_the_first_witnessed_one_have_no_link(act: Act) -> None:
    """A witness that came late does not link to what it never saw."""
    early, late = act(0), act(1)

    marks = _marks([late, *_facts(early)[1:]])

    assert [mark.links for mark in marks] == [()] * 5
    assert verify(marks, [late.action_id or ""]) == []


@settings(max_examples=20)
@given(seed=st.lists(st.integers(0, 14), max_size=12))
def test_a_repeated_event_makes_no_second_mark(facts: list[Event], marks: list[Mark], seed: list[int]) -> None:
    """Events that come again, in any order, after they were witnessed leave the chain as it is."""
    assert _marks([*facts, *(facts[index] for index in seed)]) == marks


def test_a_very_late_repeat_leaves_the_chain_whole(act: Act) -> None:
    """A score set repeated after more than the memory holds has a mark of its own id; an act never has two."""
    first = _facts(act(0))
    others = [first[1].model_copy(update={"id": f"other {index}"}) for index in range(600)]

    marks = _marks([*first, *others, *first])

    assert len({mark.id for mark in marks}) == len(marks)
    assert [mark.domain for mark in marks].count("action") == 1
    assert verify(marks, [first[0].action_id or ""]) == []


def test_a_need_that_no_act_changed_has_a_mark_of_its_own(act: Act) -> None:
    """A store keeps it, so it is sealed, with why it changed."""
    changed = next(fact for fact in _facts(act(0)) if isinstance(fact, NeedsChanged))

    _, mark = seal(ChainState(), changed.model_copy(update={"score": None, "beside": (), "action_id": None}))

    assert mark is not None
    assert (mark.domain, mark.event) == ("needs", changed.id)


def test_a_changed_row_is_found(acts: list[ActionTaken], marks: list[Mark]) -> None:
    """A word changed in any row breaks that row's hash."""
    for index, mark in enumerate(marks):
        rows = [*marks[:index], mark.model_copy(update={"reasoning": "all was well"}), *marks[index + 1 :]]

        assert [(problem.kind, problem.sequence) for problem in verify(rows, _ids(acts))] == [("changed", index)]


def test_a_row_hashed_anew_is_found_by_its_successor(acts: list[ActionTaken], marks: list[Mark]) -> None:
    """A forger must make every later hash anew; the first that was not is named."""
    rows = [*marks[:3], _forged(marks[3], reasoning="all was well"), *marks[4:]]

    assert [(problem.kind, problem.sequence) for problem in verify(rows, _ids(acts))] == [("changed", 4)]


def test_a_chain_that_begins_elsewhere_is_found(marks: list[Mark]) -> None:
    """The first mark follows 64 zeros."""
    assert _kinds(verify([_forged(marks[0], previous="1" * 64)], [])) == {"changed"}


def test_a_missing_row_is_found(acts: list[ActionTaken], marks: list[Mark]) -> None:
    """A hole in the middle, or at the start, is named by its sequence."""
    problems = verify([*marks[:1], marks[2], *marks[4:]], _ids(acts))
    assert [(problem.kind, problem.sequence) for problem in problems] == [("missing", 1), ("missing", 3)]
    assert problems[0].what == "Mark 1 is missing."

    assert ("missing", 0) in [(problem.kind, problem.sequence) for problem in verify(marks[1:], [])]


def test_swapped_rows_are_found(acts: list[ActionTaken], marks: list[Mark]) -> None:
    """Rows that changed places, as they stand or with their sequence numbers, are named."""
    moved = [*marks[:3], marks[4], marks[3], *marks[5:]]
    renumbered = [
        *marks[:3],
        marks[4].model_copy(update={"sequence": 3}),
        marks[3].model_copy(update={"sequence": 4}),
        *marks[5:],
    ]

    assert _kinds(verify(moved, _ids(acts))) == {"swapped"}
    assert "changed" in _kinds(verify(renumbered, _ids(acts)))


def test_a_tail_cut_off_is_found(acts: list[ActionTaken], marks: list[Mark]) -> None:
    """The chain itself holds; the act without a mark gives it away."""
    assert verify(marks[:4], _ids(acts)) == [
        MarkProblem("unwitnessed", None, None, f"Action {acts[2].action_id} has no mark.")
    ]


def test_a_doubled_row_is_found(acts: list[ActionTaken], marks: list[Mark]) -> None:
    """No place in the chain is taken twice."""
    assert "duplicate" in _kinds(verify([*marks, marks[-1]], _ids(acts)))


def test_a_link_to_nothing_earlier_is_found(marks: list[Mark]) -> None:
    """A link's source must be an earlier mark; a plan's path is not looked up."""
    to_itself = _forged(marks[0], links=(MarkLink(source=marks[0].id, relation="CAUSES"),))
    to_a_plan = _forged(marks[0], links=(MarkLink(source="plans/today.md", relation="FULFILLS"),))

    assert _kinds(verify([to_itself], [])) == {"unlinked"}
    assert verify([to_a_plan], []) == []


def test_each_agent_has_a_chain_of_its_own(act: Act, marks: list[Mark], acts: list[ActionTaken]) -> None:
    """Marks of several agents may lie between each other."""
    other = _marks(_facts(act(0, agent="other")))

    assert verify([*marks[:3], *other, *marks[3:]], _ids(acts)) == []


def test_great_integers_are_hashed_as_their_digits(act: Act) -> None:
    """What RFC 8785 cannot carry stands as text, however long; the rest as numbers."""
    great, longest = 2**53, "9" * 5000
    text = f'{{"b": [{great}, -{great}, {great - 1}, 1.0], "a": {longest}}}'

    assert canonical(text).decode() == f'{{"a":"{longest}","b":["{great}","-{great}",{great - 1},1]}}'
    assert seal(ChainState(), act(0, args={"n": 2**70}))[1] is not None


_NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(-1e-4, 1e-4)
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.integers(-(2**53) + 1, 2**53 - 1).map(float)
)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(value=_JSON, escaped=st.booleans())
def test_the_canonical_form_is_the_librarys(value: object, escaped: bool) -> None:
    """Whatever a text holds and however it is written, its form is what another implementation of RFC 8785 makes."""
    text = json.dumps(value, ensure_ascii=escaped)

    assert canonical(text) == canonical(text.encode()) == rfc8785.dumps(json.loads(text))


@pytest.mark.parametrize("text", ["", "{", "[1,]", "{} {}", '{"a":1}\0', "[NaN]", "nul", '["\\ud800"]'])
def test_what_is_no_json_has_no_canonical_form(text: str) -> None:
    """Anything else is refused in one way."""
    with pytest.raises(ValueError):
        canonical(text)


def test_a_chain_from_before_goes_on() -> None:
    """A state that kept its digests as a list is read as the text that it is now."""
    before = {"sequence": 2, "previous": "1" * 64, "witnessed": ["0123456789ab", "ba9876543210"]}

    assert ChainState.model_validate(before).witnessed == "0123456789abba9876543210"


def test_the_consumer_publishes_the_mark_under_its_own_id(facts: list[Event], marks: list[Mark]) -> None:
    """The event's id is the mark's, derived from its cause; state and event survive the wire."""
    spec = bind(witness_consumer, ServiceContext(Settings(), Path()))
    assert spec.initial is not None
    assert spec.state is not None
    state = spec.initial()
    published = []
    for fact in facts:
        state, event = spec.handle(spec.state.model_validate_json(state.model_dump_json()), fact)
        published.append(event)

    said = [event for event in published if event is not None]
    assert [event.mark for event in said] == marks
    assert all(event.id == event.mark.id and decode(encode(event)) == event for event in said)
    assert spec.handle(state, facts[0]) == (state, None)


def test_a_person_judges_and_a_program_checks(act: Act) -> None:
    """The tier of evidence follows from the scorer."""
    reward = next(fact for fact in _facts(act(0)) if isinstance(fact, RewardAssigned))
    novel = next(fact for fact in _facts(act(0)) if isinstance(fact, NoveltyMeasured))
    facts: list[Event] = [
        reward.model_copy(update={"id": "a", "scorer": "human"}),
        reward.model_copy(update={"id": "b", "scorer": "brevity"}),
        novel,
    ]

    assert [mark.evidence for mark in _marks(facts)] == ["judgement", "check", "fact"]
