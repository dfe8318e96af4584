"""From facts to metrics."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from conch.consumer.group.lag import ReaderLag
from conch.consumer.operations.retention import RetentionBlocker
from conch.text import cut
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    ConsumerFailed,
    CycleReflected,
    GoalReached,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    TeamMessage,
    TeamPassed,
    TeamSwitched,
    ThoughtFormed,
    ThoughtGrounded,
    TrainingFailed,
)
from conch_services.metrics import counting
from conch_services.metrics.training import OUTCOMES
from tests.metrics.conftest import TRACE, Board, make, make_act, make_experience, part
from tests.training.lives import LineageLife, digest_of

MIDNIGHT = 1_767_225_600.0


def _thought(**data: object) -> ThoughtFormed:
    given = {"thought": cut("hm"), "need": "curiosity", "pressing": {}, "model": "m", "ms": 20.0}
    event: ThoughtFormed = make(ThoughtFormed, **given | data)
    return event


def _decided(**data: object) -> ActionDecided:
    action = {"kind": "REFLECT", "valid": True}
    given = {"messages": (), "raw": "", "raw_length": 0, "raw_sha256": "", "action": action, "model": "m", "ms": 30.0}
    event: ActionDecided = make(ActionDecided, **given | {"finish_reason": "stop"} | data)
    return event


def _reader(name: str, lag: int) -> ReaderLag:
    return ReaderLag(name, 0, lag)


def test_a_cycle_is_counted_by_what_was_replied_and_how_it_came_out(board: Board) -> None:
    """One act, one cycle, under its own labels."""
    board.count(make_act(), make_act(kind="DO_NOTHING", status="none"), make_act(kind="DO_NOTHING", status="none"))

    assert board.value("conch_cycles_total", agent="echo", kind="TOOL", outcome="success") == 1
    assert board.value("conch_cycles_total", agent="echo", kind="DO_NOTHING", outcome="none") == 2


def test_the_steps_of_a_cycle_are_one_cycle(board: Board) -> None:
    """A second act within a cycle is a reply more and no cycle more."""
    board.count(make_act(step=0), make_act(step=1))

    assert board.value("conch_cycles_total", agent="echo", kind="TOOL", outcome="success") == 1
    assert board.value("conch_replies_total", agent="echo", valid="true") == 2


def test_neither_an_experience_nor_its_revision_is_a_cycle_more(board: Board) -> None:
    """Cycles are counted where they act; experiences once, in their first revision."""
    board.count(make_act(), make_experience(complete=False), make_experience(revision=2))

    assert board.value("conch_cycles_total", agent="echo", kind="TOOL", outcome="success") == 1
    assert board.value("conch_experiences_total", agent="echo", complete="false") == 1
    assert board.value("conch_experiences_total", agent="echo", complete="true") == 0


def test_invalid_replies_are_told_from_valid_ones(board: Board) -> None:
    """Format compliance is valid ÷ all; an invalid call is no tool call."""
    board.count(make_act(), make_act(valid=False, status="none"))

    assert board.value("conch_replies_total", agent="echo", valid="false") == 1
    assert board.value("conch_replies_total", agent="echo", valid="true") == 1
    assert board.value("conch_tool_calls_total", tool="shell", outcome="success") == 1
    assert board.value("conch_tool_calls_total", tool="shell", outcome="none") is None


def test_a_tool_that_is_not_in_the_registry_is_other(board: Board) -> None:
    """Only names of the agent's own tools become labels."""
    board.count(make_act(tool="git", status="error"), make_act(tool="rm_rf"))

    assert board.value("conch_tool_calls_total", tool="git", outcome="error") == 1
    assert board.value("conch_tool_calls_total", tool="other", outcome="success") == 1


def test_every_phase_has_its_time_in_seconds(board: Board) -> None:
    """Milliseconds of the facts, seconds in the metric; a cycle without a reflection has no time of one."""
    board.count(
        _thought(),
        make(ThoughtGrounded, claims=(), memory=(), ms=2.0),
        _decided(),
        make_act(),
        make(CycleReflected, reflection="", sleep=1, ms=0),
        make(CycleReflected, reflection="good", sleep=1, ms=50),
    )

    sums = {phase: board.value("conch_phase_duration_seconds_sum", phase=phase) for phase in _PHASES}
    assert sums == pytest.approx({"think": 0.02, "ground": 0.002, "decide": 0.03, "act": 0.04, "reflect": 0.05})
    assert board.value("conch_phase_duration_seconds_count", phase="reflect") == 1


_PHASES = ("think", "ground", "decide", "act", "reflect")


def test_an_act_that_a_crash_cut_short_has_no_time(board: Board) -> None:
    """Nobody knows how long it took."""
    board.count(make_act(status="unknown"))

    assert board.value("conch_phase_duration_seconds_count", phase="act") is None


def test_costs_are_summed_per_agent_and_model_once(board: Board) -> None:
    """Of thoughts, decisions and reflections, and not again from the act; a reply without a price is counted apart."""
    tokens = {"input_tokens": 100, "output_tokens": 10}
    board.count(
        _thought(model="qwen", usage=tokens, cost={"amount": 0.25, "currency": "EUR"}),
        _decided(model="qwen", usage=tokens, cost={"amount": 0.5, "currency": "EUR"}),
        make_act(model="qwen", usage=tokens, cost={"amount": 0.75, "currency": "EUR"}),
        make(CycleReflected, reflection="hm", sleep=0, ms=1.0, model="qwen", cost={"amount": 1, "currency": "EUR"}),
        _thought(model="other", usage=tokens),
        _thought(model="reflex"),
    )

    assert board.value("conch_llm_cost_total", agent="echo", model="qwen", currency="EUR") == 1.75
    assert board.labels("conch_llm_cost_total", "model") == {"qwen"}
    assert board.value("conch_llm_unpriced_replies_total", agent="echo", model="other") == 1
    assert board.value("conch_llm_unpriced_replies_total", agent="echo", model="qwen") == 0
    assert board.labels("conch_llm_unpriced_replies_total", "model") == {"qwen", "other"}


def test_tokens_are_counted_per_model_and_direction_once(board: Board) -> None:
    """Of the thought and of the decision, and not again from the act, which repeats their sum."""
    board.count(
        _thought(model="qwen", usage={"input_tokens": 100, "output_tokens": 10}),
        _decided(model="qwen", usage={"input_tokens": 200, "output_tokens": 20}),
        make_act(model="qwen", usage={"input_tokens": 300, "output_tokens": 30}),
        _thought(model="reflex"),
    )

    assert board.value("conch_llm_tokens_total", model="qwen", type="input") == 300
    assert board.value("conch_llm_tokens_total", model="qwen", type="output") == 30
    assert board.labels("conch_llm_tokens_total", "model") == {"qwen"}


def test_the_last_cycle_is_timed_by_the_stream(board: Board) -> None:
    """An agent whose clock is wrong is not taken for silent."""
    board.count(make_act(time="1999-01-01T00:00:00Z"), at=MIDNIGHT + 3)

    assert board.value("conch_last_cycle_timestamp_seconds", agent="echo") == MIDNIGHT + 3


def test_scores_make_a_histogram_whose_sum_is_gained_minus_lost(board: Board) -> None:
    """Negative scores are losses; what was not scored is no value at all."""
    board.count(
        make_experience(part("format", 0.5), part("goal", status="not_applicable"), seq=1, cycle=1),
        make_experience(part("format", -1.0), part("goal", 2.0), seq=2, cycle=2),
    )

    assert board.value("conch_reward_score_bucket", component="format", le="+Inf") == 2
    assert board.value("conch_reward_score_bucket", component="format", le="-1.0") == 1
    assert board.value("conch_reward_gained_total", component="format") == 0.5
    assert board.value("conch_reward_lost_total", component="format") == 1.0
    assert board.value("conch_reward_score_bucket", component="goal", le="+Inf") == 1
    assert board.value("conch_scores_total", component="goal", status="not_applicable") == 1


def test_a_revision_counts_only_what_came_late(board: Board) -> None:
    """The part that was scored before is not scored again."""
    board.count(
        make_experience(part("format", 0.5), part("joy", status="timeout"), part("goal", status="timeout")),
        make_experience(part("format", 0.5), part("joy", 0.25), part("goal", status="timeout"), revision=2),
        make_experience(part("format", 0.5), part("joy", 0.25), part("goal", status="timeout"), revision=3),
    )

    assert board.value("conch_reward_score_bucket", component="format", le="+Inf") == 1
    assert board.value("conch_reward_score_bucket", component="joy", le="+Inf") == 1
    assert board.value("conch_reward_gained_total", component="joy") == 0.25
    assert board.value("conch_scores_total", component="joy", status="timeout") == 1
    assert board.value("conch_scores_total", component="joy", status="scored") == 1
    assert board.value("conch_scores_total", component="goal", status="timeout") == 1


def test_a_revision_of_what_was_recorded_before_counts_no_score(board: Board) -> None:
    """Its first revision was counted by the process before."""
    board.count(make_experience(part("format", 0.5), revision=2))

    assert board.value("conch_reward_score_bucket", component="format", le="+Inf") is None
    assert board.value("conch_reward_last", agent="echo") == 0.4


def test_somebody_elses_claim_on_a_part_is_not_its_score(board: Board) -> None:
    """The weight set's parts stand first in an experience; a namesake beside them counts for nothing."""
    board.count(make_experience(part("format", -1.0), part("format", 0.5, scorer="stranger")))

    assert board.value("conch_reward_gained_total", component="format") == 0
    assert board.value("conch_reward_lost_total", component="format") == 1.0


def test_the_last_total_is_the_newest_acts(board: Board) -> None:
    """An older act whose scores came late does not pass for the newest; its own revision does."""
    board.count(
        make_experience(seq=20, cycle=2, total=0.2, coverage=0.5),
        make_experience(seq=10, cycle=1, total=0.9),
    )
    assert board.value("conch_reward_last", agent="echo") == 0.2
    assert board.value("conch_reward_coverage_ratio", agent="echo") == 0.5

    board.count(make_experience(seq=20, cycle=2, total=0.3, revision=2))

    assert board.value("conch_reward_last", agent="echo") == 0.3
    assert board.value("conch_reward_coverage_ratio", agent="echo") == 1.0


def test_act_to_reward_runs_from_the_act_to_its_first_record(board: Board) -> None:
    """A revision, however late, does not lengthen it, a stream whose clock is set back does not make it negative; of
    an act that was not met nothing is said."""
    board.count(make_act(cycle=1), make_act(cycle=2), at=MIDNIGHT)

    board.count(make_experience(cycle=1), at=MIDNIGHT + 0.5)
    board.count(make_experience(cycle=1, revision=2), at=MIDNIGHT + 900)
    board.count(make_experience(cycle=2), at=MIDNIGHT - 5)
    board.count(make_experience(cycle=3), at=MIDNIGHT + 1)

    assert board.value("conch_act_to_reward_seconds_count") == 2
    assert board.value("conch_act_to_reward_seconds_sum") == 0.5


@pytest.mark.parametrize("hours", [-1, 1])
def test_an_agents_clock_that_is_an_hour_off_changes_no_figure(board: Board, hours: int) -> None:
    """What it says of the time of its acts is not asked: the stream's clock tells both ends."""
    off = datetime.fromtimestamp(MIDNIGHT + 3600 * hours, UTC)
    board.count(make_act(cycle=1, time=off), at=MIDNIGHT)
    board.count(make_experience(cycle=1, acted_at=off, time=off), at=MIDNIGHT + 0.25)

    assert board.value("conch_act_to_reward_seconds_sum") == 0.25
    assert board.value("conch_last_cycle_timestamp_seconds", agent="echo") == MIDNIGHT


def test_acts_that_are_never_recorded_are_forgotten(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of them, beyond so many."""
    monkeypatch.setattr(counting, "UNPAID_ACTS", 2)
    board.count(*(make_act(cycle=cycle) for cycle in range(3)), at=MIDNIGHT)

    board.count(*(make_experience(cycle=cycle) for cycle in range(3)), at=MIDNIGHT + 1)

    assert board.value("conch_act_to_reward_seconds_count") == 2


def test_what_is_counted_of_an_agent_is_there_from_its_first_fact(board: Board) -> None:
    """At 0: a rate misses a first one that comes with its series."""
    board.count(make(NeedsChanged, before={}, after={}, most_pressing="x"))

    for name in ("conch_goals_reached_total", "conch_marks_total"):
        assert board.value(name, agent="echo") == 0
    assert board.value("conch_replies_total", agent="echo", valid="false") == 0


def test_needs_and_drives_show_where_they_are(board: Board) -> None:
    """The last word of the needs and the curiosity consumer, per agent."""
    score = {"component": "exploration", "range": (0, 1), "status": "not_applicable", "scorer": "c", "version": "1"}
    drives = {"curiosity": 0.1, "competence": 0.2, "autonomy": 0.3, "social": 0.4, "intrinsic": 0.25}
    measure = {"fingerprint": "", "skill": "shell", "novelty": 0.7, "new_information": True, "success_rate": 0.5}
    board.count(
        make(NeedsChanged, before={"curiosity": 0.5}, after={"curiosity": 0.6}, most_pressing="curiosity"),
        make(NeedsChanged, agent="two", before={}, after={"curiosity": 0.1}, most_pressing="curiosity"),
        make(
            NoveltyMeasured,
            **measure,
            learning_progress=0.05,
            exploration_bonus=0.5,
            drives=drives,
            entropy=0.9,
            score=score,
        ),
    )

    assert board.value("conch_need_satisfaction_ratio", agent="echo", need="curiosity") == 0.6
    assert board.value("conch_need_satisfaction_ratio", agent="two", need="curiosity") == 0.1
    assert {drive: board.value("conch_drive_ratio", agent="echo", drive=drive) for drive in drives} == drives
    assert board.value("conch_novelty_ratio", agent="echo") == 0.7
    assert board.value("conch_learning_progress_ratio", agent="echo") == 0.05
    assert board.value("conch_action_entropy_ratio", agent="echo") == 0.9


def test_goals_marks_and_dead_letters_are_counted(board: Board) -> None:
    """Each by whose it is."""
    mark = {"id": "m", "agent": "echo", "action_id": None, "origin": "", "domain": "", "stimulus": "", "response": ""}
    zeros = "0" * 64
    mark |= {"reasoning": "", "event": "", "content": "", "sequence": 0, "previous": zeros, "hash": zeros}
    letter = {"version": "1", "letter_subject": "", "letter_seq": 1, "letter": "", "reason": "", "tries": 5}
    board.count(
        make(GoalReached, goal="g", statement="s"),
        make(MarkWitnessed, mark=mark),
        make(ConsumerFailed, consumer="joy", **letter),
    )

    assert board.value("conch_goals_reached_total", agent="echo") == 1
    assert board.value("conch_marks_total", agent="echo") == 1
    assert board.value("conch_dead_letters_total", consumer="joy") == 1
    assert board.value("conch_events_total", type="goal.reached") == 1


def test_readers_show_what_waits_for_them_and_go_when_they_are_gone(board: Board) -> None:
    """Also the counter of dead letters begins at 0 with the reader, so that a rate sees the first one."""
    board.counting.set_standings([_reader("joy", 7), _reader("store", 0)])
    assert board.value("conch_consumer_pending_messages", consumer="joy") == 7
    assert board.value("conch_dead_letters_total", consumer="joy") == 0

    board.counting.set_standings([_reader("store", 1)])

    assert board.value("conch_consumer_pending_messages", consumer="joy") is None
    assert board.value("conch_consumer_pending_messages", consumer="store") == 1


def test_who_holds_up_the_trimming_is_shown_as_long_as_it_does(board: Board) -> None:
    """With the events that stay for it; before it is in the way with 0."""
    board.counting.set_held([RetentionBlocker("joy", 3, 9, 5), RetentionBlocker("agent/echo", 4, 9, 0)], 1234)
    assert board.value("conch_bus_keep_blocked_events", consumer="joy") == 5
    assert board.value("conch_bus_keep_blocked_events", consumer="agent/echo") == 0
    assert board.value("conch_bus_stream_bytes") == 1234

    board.counting.set_held([], 12)

    assert board.value("conch_bus_keep_blocked_events", consumer="joy") is None
    assert board.value("conch_bus_stream_bytes") == 12


def test_agents_beyond_the_bound_share_a_label() -> None:
    """As many agents as `metrics.max_agents`, the own one always among them; the rest is `other`."""
    board = Board(agent="own", metrics={"max_agents": 3})

    board.count(*(make_act(agent=f"agent-{number}") for number in range(10)), make_act(agent="own"))

    assert board.labels("conch_cycles_total", "agent") == {"agent-0", "agent-1", "own", "other"}
    assert board.value("conch_cycles_total", agent="other", kind="TOOL", outcome="success") == 8


def test_components_needs_models_and_consumers_cannot_grow_without_end(board: Board) -> None:
    """However many names strangers think of, with whatever in them, the series stay few and the built-in ones there."""
    names = [f"\x1b[31m{number}\n\x00" + "x" * 300 for number in range(300)]
    board.count(
        make_experience(*(part(name, 0.1) for name in names), part("format", 0.5)),
        make(NeedsChanged, before={}, after=dict.fromkeys(names, 0.5), most_pressing="x"),
        *(_thought(model=name, usage={"input_tokens": 1}) for name in names),
    )
    board.counting.set_standings([_reader(name, 1) for name in names])

    assert len(board.labels("conch_reward_score_bucket", "component")) == 47
    assert board.value("conch_reward_gained_total", component="format") == 0.5
    assert board.value("conch_reward_gained_total", component="other") == pytest.approx(25.5)
    assert len(board.labels("conch_need_satisfaction_ratio", "need")) == 21
    assert len(board.labels("conch_llm_tokens_total", "model")) == 21
    assert board.value("conch_consumer_pending_messages", consumer="other") == 200
    assert b"\x1b" not in board.scrape()


def test_absurd_numbers_and_times_raise_nothing(board: Board) -> None:
    """Facts of other programs may say anything that is well-formed."""
    board.count(
        _thought(usage={"input_tokens": 10**400, "output_tokens": 0}, cycle=10**400),
        make_act(ms={"act": -5.0, "nap": 1e308}),
        make_experience(part("format", 1e308), part("goal", -1e308), acted_at="0001-01-01T00:00:00+14:00"),
        make_experience(part("format", 1e308), acted_at="0001-01-01T00:00:00", cycle=1),
        make_experience(acted_at="9999-12-31T23:59:59-14:00", cycle=2),
    )

    assert board.value("conch_phase_duration_seconds_sum", phase="act") == 0
    assert b"# EOF" in board.scrape()


def test_scrapers_of_openmetrics_get_the_act_behind_a_bucket(board: Board) -> None:
    """Exemplars name cycle, action and trace; no label does."""
    act = make_act(cycle=7)

    board.count(act, make_experience(part("format", 0.5), cycle=7))

    text = board.scrape().decode()
    lines = [line for line in text.splitlines() if f'action_id="{act.action_id}"' in line]
    assert {line.partition("{")[0] for line in lines} == {
        "conch_cycles_total",
        "conch_tool_calls_total",
        "conch_phase_duration_seconds_bucket",
        "conch_reward_score_bucket",
        "conch_act_to_reward_seconds_bucket",
    }
    assert all('cycle="7"' in line and f'trace_id="{TRACE}"' in line for line in lines)


def test_counting_takes_microseconds(board: Board) -> None:
    """A fact is counted in far less time than it takes to decode it (here: 0.5 ms at the worst, on a busy machine)."""
    act: ActionTaken = make_act()
    experience = make_experience(*(part(name, 0.5) for name in ("format", "execution", "needs", "goal", "exploration")))

    best = min(_seconds_of(board, act, experience) for _ in range(5))

    assert best / 200 < 0.0005


def _seconds_of(board: Board, *events: ActionTaken) -> float:
    began = time.perf_counter()
    for _ in range(100):
        board.count(*events)
    return time.perf_counter() - began


def test_a_lineage_is_counted_by_how_its_rounds_gates_and_moves_came_out(board: Board) -> None:
    """Each once; the counters of an agent begin at 0 with its first event of training."""
    board.count(*LineageLife().whole(running=True))

    assert {one: board.value("conch_training_rounds_total", agent="echo", outcome=one) for one in OUTCOMES} == {
        "promoted": 2,
        "refused": 2,
        "failed": 1,
    }
    verdicts = ("passed", "refused", "inconclusive")
    found = [board.value("conch_training_gates_total", agent="echo", verdict=one) for one in verdicts]
    assert found == [3, 1, 0]
    assert board.value("conch_training_rollbacks_total", agent="echo", trigger="worse") == 1
    assert board.value("conch_training_rollbacks_total", agent="echo", trigger="person") == 0


def test_what_a_lineage_is_at_is_shown_as_of_its_last_event(board: Board) -> None:
    """One phase is 1; the loss is there while a round trains."""
    life = LineageLife(step=1.0)
    board.count(*life.whole(running=True))
    loss = board.value("conch_training_loss", agent="echo")
    at = {phase: board.value("conch_training_phase", agent="echo", phase=phase) for phase in ("training", "refused")}
    board.count(life.said(TrainingFailed, 6, round=digest_of("round 6"), attempt=1, why="no space is left"))

    assert loss == pytest.approx(0.825)
    assert at == {"training": 1, "refused": 0}
    assert board.value("conch_training_phase", agent="echo", phase="failed") == 1
    assert board.value("conch_training_loss", agent="echo") is None
    assert board.value("conch_training_generation", agent="echo") == 1
    assert board.value("conch_training_refusals", agent="echo") == 0


def test_refusals_in_a_row_are_counted_up_to_the_newest_round(board: Board) -> None:
    """The alert counts them: a round that is promoted ends the row."""
    life = LineageLife()
    board.count(*life.promoted(1, "sft", 1, None, move=1), *life.refused(2), *life.unproven(5))
    refused = board.value("conch_training_refusals", agent="echo")
    board.count(*life.promoted(6, "dpo", 2, 1, move=2))

    assert refused == 2
    assert board.value("conch_training_refusals", agent="echo") == 0


def test_what_was_before_sets_gauges_and_counts_nothing(board: Board) -> None:
    """A metrics service that begins later knows the generation; its counters begin at 0."""
    for event in LineageLife().whole():
        board.counting.remember(event)

    assert board.value("conch_training_generation", agent="echo") == 1
    assert board.value("conch_training_rounds_total", agent="echo", outcome="promoted") == 0


def test_the_age_of_a_policy_begins_where_another_one_acts(board: Board) -> None:
    """The same policy again leaves it."""
    board.count(make_act(policy="p1"), at=MIDNIGHT)
    board.count(make_act(policy="p1"), at=MIDNIGHT + 60)
    first = board.value("conch_policy_changed_timestamp_seconds", agent="echo")
    board.count(make_act(policy="p2"), at=MIDNIGHT + 120)

    assert first == MIDNIGHT
    assert board.value("conch_policy_changed_timestamp_seconds", agent="echo") == MIDNIGHT + 120


def test_the_acts_of_a_team_are_counted_by_role_and_topology(board: Board) -> None:
    """Turns, tokens, totals, passed turns, messages of its roles, and switches; an agent alone has no such series."""
    turn = {"team": "echo", "role": "coder", "step": 0, "epoch": 0, "topology": "flat"}
    told = {"team": "echo", "sender": "coder", "to": ("critic",), "step": 0, "epoch": 0, "text": "done"}
    labels = {"agent": "echo", "role": "coder", "topology": "flat"}

    board.count(
        make_act(),
        make_act(team=turn, usage={"input_tokens": 9, "output_tokens": 7}),
        make_experience(team=turn),
        make(TeamPassed, team="echo", role="critic", step=1, epoch=0, why="no worker answered"),
        make(TeamMessage, **told),
        make(TeamSwitched, team="echo", epoch=1, topology="star"),
    )

    assert board.value("conch_team_turns_total", **labels) == 1
    assert board.value("conch_team_tokens_total", **labels) == 7
    assert board.value("conch_team_reward_gained_total", **labels) > 0
    assert board.value("conch_team_passed_turns_total", agent="echo", role="critic") == 1
    assert board.value("conch_team_messages_total", agent="echo", role="coder") == 1
    assert board.value("conch_team_switches_total", agent="echo", outcome="committed") == 1
