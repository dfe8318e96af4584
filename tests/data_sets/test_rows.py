"""Rows out of a store: which acts go in, what a row says, and why the others are left out."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from conch.actions import parse
from conch.data import FORMATS, Format, LeftOut, Row, Selection, rows_of, write_snapshot
from conch.data.row import read_row
from conch.data.survey import survey_of
from conch.errors import CheckError, UsageError
from conch.experience import ExampleMark, SqliteStore
from conch.testing import make_reward_assigned
from conch.text import cut
from conch_schemas import ActionTaken, Cut, Decoding, ForkScored, Outcome, Part, Score, TeamTurn, WeightsSet
from tests.data_sets.conftest import REGISTRY

if TYPE_CHECKING:
    from tests.data_sets.conftest import Append, Correct, Put

READ = 'TOOL: filesystem(operation="read", path="a.txt")'
PROSE = 'I would say:\nTOOL: shell(command="ls -l")\nand look.'


def answers(store: SqliteStore, format: Format, **bounds: Any) -> tuple[list[Row], Counter[str]]:
    """(the rows, how often each reason was given)."""
    found = list(rows_of(store, format, Selection(**bounds)))
    rows = [one for one in found if isinstance(one, Row)]
    return rows, Counter(one.reason for one in found if isinstance(one, LeftOut))


def test_a_row_has_the_whole_prompt_and_the_reply(store: SqliteStore, put: Put) -> None:
    """The system prompt of the policy comes first, then the recorded messages; the completion is the reply."""
    act = put(1, prompt="what now?")

    (row,), left = answers(store, "sft", eval_share=0.0)

    assert row.columns == {
        "prompt": [{"role": "system", "content": "You are echo."}, {"role": "user", "content": "what now?"}],
        "completion": [{"role": "assistant", "content": act.raw}],
    }
    assert (row.action_ids, row.agent, row.policy, row.weights) == ((act.action_id,), "echo", "p1", "w1")
    assert (row.reward, row.revision, row.state_key, row.skill, row.status) == (0.5, 1, "s1", "shell", "success")
    assert not left


def test_every_act_is_a_row_or_has_a_reason(store: SqliteStore, put: Put) -> None:
    """SFT takes valid replies with a positive reward, of a known outcome, to a whole prompt, whole and not blocked."""
    nothing = Cut(text="", length=0, sha256="0" * 64)
    put(1)
    put(2, total=0.1)
    put(3, raw="prose")
    put(4, outcome=Outcome(status="blocked", output=nothing))
    put(5, outcome=Outcome(status="unknown", output=nothing))
    put(6, raw_length=100_000)
    put(7, decoding=None)
    put(8, policy="p9")
    put(9, prompt=cut("> a line of a long prompt\n" * 4000).text)
    put(10, prompt="> [… 12 characters left out …]\nDecide.")

    rows, left = answers(store, "sft")

    assert len(rows) == 2
    assert left == {
        "prompt shortened": 1,
        "reward below the threshold": 1,
        "invalid reply": 1,
        "blocked": 1,
        "outcome unknown": 1,
        "reply shortened": 1,
        "state not recorded": 1,
        "system prompt not recorded": 1,
    }


@pytest.mark.parametrize("format", FORMATS)
def test_replies_that_could_not_be_read_are_counted(store: SqliteStore, put: Put, format: Format) -> None:
    """Each is left out with its reason, beside the act that followed; those of acts outside of the bounds are not
    looked at."""
    for cycle, unread in ((1, 2), (2, None), (3, 1), (4, 5)):
        decoding = Decoding(engine="openai", model="m", prompt_sha256="0" * 64, state_key="s1", unread=unread)
        put(cycle, policy="p1" if cycle < 4 else "q1", decoding=decoding)

    _, left = answers(store, format, policy="p1")
    _, before = answers(store, format)

    assert left["reply not readable"] == 3
    assert before["reply not readable"] == 8


@pytest.mark.parametrize("format", FORMATS)
def test_an_act_with_ten_million_letters_is_left_out(store: SqliteStore, put: Put, format: Format) -> None:
    """No trainer's context holds it; it is counted as too long, before any of it is looked through."""
    put(1)
    put(2, raw="see 1.2.3.4 " * 833_334)
    put(3)

    _, left = answers(store, format)

    assert left["too long"] == 1


def test_bounds_of_agent_policy_and_time_are_counted(store: SqliteStore, put: Put) -> None:
    """What is outside of a bound is left out with the bound as its reason."""
    first = put(1)
    put(2, policy="p2")
    put(3, agent="other")
    put(4)
    put(5)

    bounds = {"agent": "echo", "policy": "p1", "since": first.time + timedelta(seconds=1)}
    rows, left = answers(store, "cycles", **bounds, until=first.time + timedelta(seconds=4))

    assert len(rows) == 1
    assert left["another agent"] + left["another policy"] == 2
    assert (left["before the time asked for"], left["after the time asked for"]) == (1, 1)


def test_the_acts_of_one_role_of_a_team_are_a_data_set_of_its_own(store: SqliteStore, put: Put) -> None:
    """Those of another role, and of an agent that is no team, are left out with that reason."""
    turn = TeamTurn(team="echo", role="coder", step=0, epoch=0, topology="star")
    mine = put(1, team=turn)
    put(2, team=turn.model_copy(update={"role": "planner", "step": 1}))
    put(3)

    rows, left = answers(store, "cycles", role="coder")

    assert [row.action_ids for row in rows] == [(mine.action_id,)]
    assert left == {"another role": 2}


def test_a_row_of_a_team_names_its_role_and_one_of_none_is_as_before(
    store: SqliteStore, put: Put, tmp_path: Path
) -> None:
    """A column to filter by, in Parquet and in JSON Lines, read back under the same id; without a role there is no key
    of it in a line, and an episode of several roles has none."""
    turn = TeamTurn(team="echo", role="coder", step=0, epoch=0, topology="star")
    put(1, team=turn)
    put(2)
    for jsonl in (True, False):
        rows = list(rows_of(store, "sft", Selection(eval_share=0.0, near=1.0)))
        place, _ = write_snapshot(rows, tmp_path / str(jsonl), "sft", Selection(), jsonl=jsonl)
        found = [row for row in rows if isinstance(row, Row)]

        assert sorted(str(row.role) for row in found) == ["None", "coder"]
        assert [read_row("sft", row.document() | {"role": row.role}) for row in found] == found
        read = _lines(place) if jsonl else pq.read_table(*place.glob("train*")).to_pylist()
        assert {row["row_id"]: row.get("role") for row in read} == {row.row_id: row.role for row in found}
        assert sum("role" in row for row in read) == (1 if jsonl else 2)
    put(3, team=turn.model_copy(update={"role": "critic"}))
    (episode,), _ = answers(store, "minari")
    assert episode.role is None


def _lines(place: Path) -> list[dict[str, Any]]:
    [file] = place.glob("train*")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_row_of_kto_is_the_same_until_its_label_changes(store: SqliteStore, put: Put) -> None:
    """A new act of the state moves the margin: what was decided of the row holds. Another label is another row. A row
    of a version that took the margin into the hash is read under the hash that it has."""
    good = put(1, total=0.6)
    put(2, total=0.0)

    def row() -> Row:
        return next(one for one in answers(store, "kto", near=1.0)[0] if one.action_ids == (good.action_id,))

    first = row()
    put(3, total=0.1)
    second = row()
    put(4, total=1.0)
    put(5, total=1.0)
    put(6, total=1.0)
    third = row()

    assert second.margin != first.margin
    assert second.row_id == first.row_id
    assert third.columns["label"] is False
    assert third.row_id != first.row_id
    before = hashlib.sha256(b"kto\n" + first.content).hexdigest()
    assert read_row("kto", first.document() | {"row_id": before}).row_id == before
    with pytest.raises(CheckError, match="was edited"):
        read_row("kto", first.document() | {"reward": 0.7})


def test_a_second_reading_ends_where_the_first_did(store: SqliteStore, put: Put) -> None:
    """With the survey of the first one, acts that come in between change no row of the second."""
    put(1, total=0.6)
    put(2, total=0.0)
    survey = survey_of(store.examples.marks(), 0.1)
    first = list(rows_of(store, "kto", survey=survey))

    put(3, total=0.9)

    assert list(rows_of(store, "kto", survey=survey)) == first
    assert list(rows_of(store, "kto")) != first


def test_the_label_of_kto_is_the_advantage_over_the_state(store: SqliteStore, put: Put) -> None:
    """In an easy state a good total can be a bad label; an invalid reply stays, as a negative."""
    for cycle in range(1, 41):
        put(cycle, total=0.8 if cycle % 2 else 0.9, state="easy")
        put(cycle + 100, total=-0.9 if cycle % 2 else -0.8, state="hard")
    put(300, raw="prose", total=-1.0, state="hard")

    rows, _ = answers(store, "kto", near=1.0)

    labels = {(row.state_key, row.reward): row.columns["label"] for row in rows}
    assert labels == {
        ("easy", 0.8): False,
        ("easy", 0.9): True,
        ("hard", -0.9): False,
        ("hard", -0.8): True,
        ("hard", -1.0): False,
    }


def test_pairs_come_from_one_state_with_a_margin(store: SqliteStore, put: Put) -> None:
    """The better reply is chosen; the tier says whether the prompt was the same; other states are never paired."""
    put(1, READ, 0.9, state="a", prompt="p")
    put(2, total=0.1, state="a", prompt="p")
    put(3, 'TOOL: git(operation="status")', 0.2, state="a")
    put(4, total=-0.9, state="b")

    rows, left = answers(store, "dpo")

    assert {(row.tier, row.reward, round(row.margin or 0, 3)) for row in rows} == {("A", 0.9, 0.8), ("D", 0.9, 0.7)}
    assert all(row.columns["chosen"] == [{"role": "assistant", "content": READ}] for row in rows)
    assert left == {"margin too small": 1, "no other act in its state": 1}


def test_totals_of_different_cohorts_are_not_compared(store: SqliteStore, put: Put) -> None:
    """A reply that was held to a grammar is not paired with a free one."""
    free = put(1, READ, 0.9)
    assert free.decoding is not None
    held = free.decoding.model_copy(update={"constraint": "grammar"})
    put(2, total=0.1, decoding=held)

    rows, left = answers(store, "dpo")

    assert (rows, left) == ([], {"totals of different cohorts": 1})


def test_an_invalid_reply_is_repaired_by_the_call_in_it(store: SqliteStore, put: Put) -> None:
    """Tier C: the one valid call among the lines is chosen, the whole reply rejected; the chosen one has no reward."""
    put(1, PROSE, -0.5)
    put(2, "prose without a call", -0.5)

    rows, left = answers(store, "dpo")

    (row,) = rows
    assert row.columns["chosen"] == [{"role": "assistant", "content": 'TOOL: shell(command="ls -l")'}]
    assert (row.tier, row.origin, row.reward, row.margin) == ("C", "repaired", None, None)
    assert left == {"invalid reply": 1}


def test_a_corrected_answer_is_a_row_and_a_pair(store: SqliteStore, put: Put, correct: Correct) -> None:
    """The person's last correction is the right answer to the same prompt, and is preferred to the agent's own."""
    act = put(1, 'TOOL: reply(text="blue")', total=-0.5)
    correct(act, "green")
    correct(act, "red")

    rows, _ = answers(store, "sft")
    pairs, _ = answers(store, "dpo")

    (row,), (pair,) = rows, pairs
    assert row.columns["completion"] == [{"role": "assistant", "content": 'TOOL: reply(text="red")'}]
    assert (row.origin, row.reward, row.action_ids) == ("corrected", None, (act.action_id,))
    assert pair.columns["rejected"] == [{"role": "assistant", "content": 'TOOL: reply(text="blue")'}]
    assert (pair.origin, pair.tier) == ("corrected", "A")


def test_nearly_the_same_rows_are_left_out(store: SqliteStore, put: Put) -> None:
    """A row that repeats another in reply and state, with a prompt that is nearly the same, is counted and not kept."""
    words = " ".join(f"word{number}" for number in range(300))
    put(1, prompt=f"{words} once")
    put(2, prompt=f"{words} twice")
    put(3, READ, prompt=f"{words} twice")
    put(4, prompt=f"{words} twice", state="s2")

    rows, left = answers(store, "sft")

    assert (len(rows), left) == (3, {"nearly the same row is there": 1})


def test_synthetic_rows_are_marked(store: SqliteStore, put: Put) -> None:
    """Each tool has a valid call; the rows belong to no act and no state, and say that they are synthetic."""
    put(1)

    found = [one for one in rows_of(store, "sft", synthetic=True) if isinstance(one, Row) and one.origin == "synthetic"]

    assert {row.skill.partition(".")[0] for row in found} == {"shell", "filesystem", "git", "notes", "reply", "goal"}
    assert all(not row.action_ids and row.reward is None and row.split == "train" for row in found)
    assert len({row.row_id for row in found}) == len(found)


def test_episodes_have_one_observation_more_than_actions(store: SqliteStore, put: Put) -> None:
    """The last act of an agent waits for its next state; the others are steps in Minari's names."""
    for cycle in range(1, 5):
        put(cycle, total=cycle / 10, prompt=f"p{cycle}")

    (row,), left = answers(store, "minari")

    assert row.columns["observations"] == ["p1", "p2", "p3", "p4"]
    assert row.columns["rewards"] == [0.1, 0.2, 0.3]
    assert row.columns["truncations"] == [False, False, True]
    assert left == {"next state not known yet": 1}


def test_a_state_is_in_one_split_in_every_format(store: SqliteStore, put: Put) -> None:
    """What is held out of one data set is held out of all, whatever the format."""
    for cycle in range(1, 81):
        put(
            cycle,
            READ if cycle % 2 else 'TOOL: git(operation="log")',
            0.9 if cycle % 2 else 0.4,
            state=f"s{cycle % 20}",
        )

    splits: dict[str, set[str]] = {}
    for format in FORMATS:
        for row in answers(store, format, eval_share=0.3)[0]:
            if row.state_key:
                splits.setdefault(row.state_key, set()).add(row.split)

    assert all(len(found) == 1 for found in splits.values())
    assert {next(iter(found)) for found in splits.values()} == {"train", "eval"}


def test_states_of_the_newest_acts_are_in_eval(store: SqliteStore, put: Put) -> None:
    """Beside those by their key, states that were first met in the newest acts are held out."""
    for cycle in range(1, 101):
        put(cycle, state="old" if cycle <= 90 else "fresh", total=cycle / 100)

    rows, _ = answers(store, "cycles", eval_share=0.1)

    assert {(row.state_key, row.split) for row in rows} == {("old", "train"), ("fresh", "eval")}


def test_scores_of_held_out_rules_are_in_no_row(store: SqliteStore, append: Append, put: Put) -> None:
    """A table of cycles has the other scores, and the total has none of them by its own rule."""
    held = Part(component="secret", weight=0.0, range=(-1, 1), scorer="test", role="held_out")
    paid = Part(component="joy", weight=1.0, range=(-1, 1), scorer="test")
    append(WeightsSet(id="w2", source="conch/echo/x", agent="echo", version="w2", parts=(paid, held)))
    act = put(1)
    append(make_reward_assigned(act, {"secret": 0.5}, version="2"))

    (row,), _ = answers(store, "cycles")

    assert [score["component"] for score in row.columns["scores"]] == ["joy"]  # type: ignore[union-attr,index,call-overload]


def test_texts_are_redacted_before_the_row_gets_its_id(store: SqliteStore, put: Put) -> None:
    """Two redactions give two ids; no text passes unredacted."""
    put(1, READ, 0.9, prompt="hunter2 asks")
    put(2, 'TOOL: shell(command="echo hunter2")', 0.1, thought="hunter2")

    for format in FORMATS:
        plain = [one for one in rows_of(store, format) if isinstance(one, Row)]
        clean = [
            one
            for one in rows_of(store, format, redact=lambda text: text.replace("hunter2", "*"))
            if isinstance(one, Row)
        ]
        assert plain, format
        assert "hunter2" not in str([row.document() for row in clean]), format
        assert {row.row_id for row in plain} != {row.row_id for row in clean}, format


@pytest.mark.parametrize(
    "bounds",
    [
        {"coverage": 1.5},
        {"eval_share": 0.6},
        {"margin": 0.0},
        {"per_state": 0},
        {"positive": float("nan")},
        {"positive": float("inf")},
        {"near": float("nan")},
    ],
)
def test_a_bound_outside_of_its_range_is_refused(bounds: dict[str, Any]) -> None:
    """The sentence names the bound."""
    with pytest.raises(UsageError, match=r"coverage|eval_share|margin|pairs|positive|near"):
        Selection(**bounds)


def candidate(act: ActionTaken, seed: int, raw: str, total: float, version: str = "2") -> ForkScored:
    """A candidate for the act's decision, scored by *format* of this version."""
    scored = Score(
        component="format", value=0.5, range=(-1, 1), status="scored", explanation="", scorer="reward", version=version
    )
    return ForkScored(
        id=f"00000000-0000-4000-8000-{act.cycle:06}{seed:06}",
        source=act.source,
        agent=act.agent,
        cycle=act.cycle,
        action_id=act.action_id,
        fork="f",
        seed=seed,
        mind="scripted",
        raw=raw,
        raw_length=len(raw),
        raw_sha256="0" * 64,
        action=parse(raw, REGISTRY),
        model="m",
        finish_reason="stop",
        workspace="0" * 64,
        executed=True,
        outcome=Outcome(status="success", output=Cut(text="", length=0, sha256="0" * 64)),
        scores=(scored,),
        weights="w1",
        total=total,
        coverage=0.5,
        ms={},
    )


def test_candidates_of_a_fork_are_pairs_of_the_same_prompt(store: SqliteStore, put: Put, append: Append) -> None:
    """Tier B: the better candidate is chosen, against each other one whose total can be compared with its own."""
    act = put(1, prompt="what now?")
    other = 'TOOL: shell(command="make a mess of it")'
    append(
        candidate(act, 0, READ, 0.6),
        candidate(act, 1, other, 0.1),
        candidate(act, 2, 'TOOL: git(operation="status")', -0.3, version="1"),
    )

    rows, left = answers(store, "dpo", eval_share=0.0)

    [row] = rows
    assert (row.tier, row.origin, row.reward, round(row.margin or 0, 3)) == ("B", "fork", 0.6, 0.5)
    assert row.columns["chosen"] == [{"role": "assistant", "content": READ}]
    assert row.columns["rejected"] == [{"role": "assistant", "content": other}]
    assert row.columns["prompt"][1] == {"role": "user", "content": "what now?"}  # type: ignore[index,call-overload]
    assert row.action_ids == (act.action_id,)
    assert left["totals of different cohorts"] == 2


def test_equal_candidates_of_a_fork_are_one(store: SqliteStore, put: Put, append: Append) -> None:
    """Also where they differ before they are redacted, or their pair comes from two cohorts; each is counted."""
    act = put(1)
    bad = 'TOOL: shell(command="make a mess of it for {}")'
    append(
        candidate(act, 0, READ, 0.6),
        candidate(act, 1, READ, 0.6),
        candidate(act, 2, bad.format("anna"), 0.1),
        candidate(act, 3, bad.format("bert"), 0.1),
        candidate(act, 4, READ, 0.6, version="1"),
        candidate(act, 5, bad.format("anna"), 0.1, version="1"),
    )

    found = list(rows_of(store, "dpo", redact=lambda text: text.replace("anna", "*").replace("bert", "*")))

    [row] = [one for one in found if isinstance(one, Row)]
    assert (row.tier, row.reward) == ("B", 0.6)
    assert Counter(one.reason for one in found if isinstance(one, LeftOut)) == {
        "the same candidate is there": 2,
        "the same pair is there": 1,
        "totals of different cohorts": 2,
        "margin too small": 2,
        "no other act in its state": 1,
    }


def test_an_act_that_comes_during_the_walk_waits_for_the_next_one(store: SqliteStore, put: Put) -> None:
    """The rows are those of the acts that were surveyed; one in a new state has no other to be compared with."""
    put(1, total=0.9)
    put(2, READ, -0.9)
    for format in FORMATS:
        before, found = list(rows_of(store, format)), rows_of(store, format)
        put(100 + FORMATS.index(format), total=0.1, state=f"new in {format}")

        assert list(found) == before, format


def test_a_state_that_was_not_surveyed_has_nothing_to_compare_with() -> None:
    """An act whose scores came late may stand before the last one of the survey."""
    survey = survey_of([ExampleMark(n, "echo", n, 0.5, "s1", "", n) for n in (1, 2)], 0.0)

    assert survey.advantage("echo", "s1", 0.5) is not None
    assert survey.advantage("echo", "s2", 0.5) is None
    assert survey.advantage("other", "s1", 0.5) is None
