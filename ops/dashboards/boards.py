"""The dashboards: an agent, rewards, training, bus and consumers, a fleet of agents."""

from __future__ import annotations

from typing import Final

from panels import RATE, Board, Panel, Query, Variable, graph, increase, quantile, rate, stat

from conch.metrics.recording import mean_score

HERE = 'instance=~"$instance"'
AGENT = f'{HERE},agent=~"$agent"'
COMPONENT = f'{HERE},component=~"$component"'
ONE = f'{HERE},component="COMPONENT"'
"""One component; its name is put in where the dashboards are written."""
CONSUMER = f'{HERE},consumer=~"$consumer"'
WORST = 20
"""Agents that a panel of the fleet shows."""
FULL = (0.0, 1.0)

_HOME = Variable("instance", "label_values(conch_build_info, instance)", "Home")
_AGENT = Variable("agent", f"label_values(conch_replies_total{{{HERE}}}, agent)", "Agent")
_COMPONENT = Variable("component", f"label_values(conch_scores_total{{{HERE}}}, component)", "Component")
_CONSUMER = Variable("consumer", f"label_values(conch_consumer_pending_messages{{{HERE}}}, consumer)", "Consumer")

_TOTAL = f"conch_reward_last{{{AGENT}}}"
_SILENT = "clamp_min(time() - max by (agent) (conch_last_cycle_timestamp_seconds{{{}}}), 0)"
_VALID = f'{AGENT},valid="true"'
_CALLS = rate("conch_tool_calls_total", HERE, "tool", "outcome")
_PHASES = "conch_phase_duration_seconds"

AN_AGENT: Final = Board(
    "conch-agent",
    "Conch · Agent",
    "What an agent does, what it earns and what it needs.",
    (_HOME, _AGENT),
    (
        stat("Total of the last act", "What the newest recorded act earned.", _TOTAL),
        stat(
            "Coverage", "Share of its weight that was scored.", f"conch_reward_coverage_ratio{{{AGENT}}}", "percentunit"
        ),
        stat("Cycles a minute", "Cycles that acted.", f"60 * {rate('conch_cycles_total', AGENT, 'agent')}"),
        stat("Since the last act", "Grows while an agent is silent.", _SILENT.format(AGENT), "s"),
        stat(
            "Valid replies",
            "Share of the replies that keep to the grammar and the tools.",
            f"{rate('conch_replies_total', _VALID, 'agent')} / {rate('conch_replies_total', AGENT, 'agent')}",
            "percentunit",
        ),
        stat("Alarms", "Of the watchers, that go on.", f"sum by (agent) (conch_alarms_active{{{AGENT}}})"),
        graph(
            "Reward",
            "The total of the newest act, and its mean over ten minutes.",
            (_TOTAL, "{{agent}}"),
            (f"avg_over_time({_TOTAL}[10m])", "{{agent}}, mean"),
        ),
        graph(
            "Needs",
            "0 starved, 1 satisfied.",
            (f"conch_need_satisfaction_ratio{{{AGENT}}}", "{{agent}} {{need}}"),
            unit="percentunit",
            limits=FULL,
        ),
        graph(
            "Actions",
            "Cycles a second by what was replied.",
            (rate("conch_cycles_total", AGENT, "kind"), "{{kind}}"),
            unit="ops",
            is_stacked=True,
        ),
        graph(
            "Outcomes",
            "Cycles a second by how the act came out; a point leads to the trace of one.",
            (rate("conch_cycles_total", AGENT, "outcome"), "{{outcome}}"),
            unit="ops",
            is_stacked=True,
            exemplars=True,
        ),
        graph("Tool calls", "Valid ones, by outcome; of all agents.", (_CALLS, "{{tool}} {{outcome}}"), unit="ops"),
        graph(
            "Time of the phases",
            "Seconds that 95 of 100 keep below; of all agents.",
            (quantile(0.95, _PHASES, HERE, "phase"), "{{phase}}"),
            unit="s",
            exemplars=True,
        ),
        graph(
            "Drives",
            "0 to 1, and their mix.",
            (f"conch_drive_ratio{{{AGENT}}}", "{{agent}} {{drive}}"),
            unit="percentunit",
            limits=FULL,
        ),
        graph(
            "Curiosity",
            "Novelty of the last act, learning progress of its skill, evenness of what is done.",
            (f"conch_novelty_ratio{{{AGENT}}}", "{{agent}} novelty"),
            (f"conch_learning_progress_ratio{{{AGENT}}}", "{{agent}} progress"),
            (f"conch_action_entropy_ratio{{{AGENT}}}", "{{agent}} entropy"),
        ),
        graph(
            "Tokens",
            "A second, of thoughts and decisions, as the endpoint counts; none with a mind that has no model.",
            (rate("conch_llm_tokens_total", HERE, "model", "type"), "{{model}} {{type}}"),
        ),
        graph(
            "Goals and marks",
            "Goals whose check held, and marks of the witness, in the time that is shown.",
            (increase("conch_goals_reached_total", AGENT, "agent"), "{{agent}} goals"),
            (increase("conch_marks_total", AGENT, "agent"), "{{agent}} marks"),
        ),
        graph(
            "Cost",
            "By the prices of the settings, in the time that is shown; none without them.",
            (increase("conch_llm_cost_total", AGENT, "agent", "model", "currency"), "{{agent}} {{model}} {{currency}}"),
        ),
        graph(
            "Replies without a price",
            "Thoughts and decisions that used tokens, in the time that is shown: their cost is in no sum.",
            (increase("conch_llm_unpriced_replies_total", AGENT, "agent", "model"), "{{agent}} {{model}}"),
        ),
        graph(
            "Turns of a team",
            "Acts by role and topology, in the time that is shown; none of an agent that is no team.",
            (increase("conch_team_turns_total", AGENT, "agent", "role", "topology"), "{{agent}} {{role}} {{topology}}"),
        ),
        graph(
            "Passed turns of a team",
            "Turns whose role was silent, in the time that is shown: its worker does not run, or does not answer.",
            (increase("conch_team_passed_turns_total", AGENT, "agent", "role"), "{{agent}} {{role}}"),
        ),
        graph(
            "Reward of a team",
            "Totals above and below 0 by role, in the time that is shown.",
            (increase("conch_team_reward_gained_total", AGENT, "agent", "role"), "{{agent}} {{role}} gained"),
            (increase("conch_team_reward_lost_total", AGENT, "agent", "role"), "{{agent}} {{role}} lost"),
        ),
        graph(
            "Tokens of a team",
            "Output tokens of thoughts and decisions by role, a second.",
            (rate("conch_team_tokens_total", AGENT, "agent", "role"), "{{agent}} {{role}}"),
        ),
        graph(
            "Messages and switches of a team",
            "Messages by the role that sent them, switches of the topology by outcome, in the time that is shown.",
            (increase("conch_team_messages_total", AGENT, "agent", "role"), "{{agent}} {{role}} messages"),
            (increase("conch_team_switches_total", AGENT, "agent", "outcome"), "{{agent}} {{outcome}} switches"),
        ),
    ),
)

_JUDGED = f'{COMPONENT},status!="not_applicable"'
_SCORED = f'{COMPONENT},status="scored"'
_LATENCY = "conch_act_to_reward_seconds"

REWARDS: Final = Board(
    "conch-rewards",
    "Conch · Rewards",
    "What each component pays, how sure it is, and whether it is gamed.",
    (_HOME, _COMPONENT),
    (
        graph("Mean score", "Before weights.", (mean_score(RATE, COMPONENT), "{{component}}")),
        graph(
            "Median and 95th percentile",
            "Of the scores, as exactly as their buckets are fine; a point leads to the trace of one.",
            (quantile(0.5, "conch_reward_score", COMPONENT, "component"), "{{component}} p50"),
            (quantile(0.95, "conch_reward_score", COMPONENT, "component"), "{{component}} p95"),
            exemplars=True,
        ),
        graph(
            "Gained and lost",
            "A second, before weights.",
            (rate("conch_reward_gained_total", COMPONENT, "component"), "{{component}}"),
            (f"-{rate('conch_reward_lost_total', COMPONENT, 'component')}", "{{component}}, lost"),
        ),
        graph(
            "Coverage",
            "Share of the scores that came, and in time; what was not applicable left out.",
            (
                f"{rate('conch_scores_total', _SCORED, 'component')}"
                f" / ({rate('conch_scores_total', _JUDGED, 'component')} > 0)",
                "{{component}}",
            ),
            unit="percentunit",
            limits=FULL,
        ),
        graph(
            "Verdicts",
            "A second, by status.",
            (rate("conch_scores_total", COMPONENT, "status"), "{{status}}"),
            unit="ops",
            is_stacked=True,
        ),
        graph(
            "From act to reward",
            "Seconds by the stream's clock; a point leads to the trace of one.",
            *((quantile(share, _LATENCY, HERE), f"p{share * 100:g}") for share in (0.5, 0.95, 0.99)),
            unit="s",
            exemplars=True,
        ),
        graph(
            "Acts recorded",
            "A second, by whether every part had come.",
            (rate("conch_experiences_total", HERE, "complete"), "complete: {{complete}}"),
            unit="ops",
            is_stacked=True,
        ),
        graph(
            "Share of the variance",
            "Of the total, over the newest acts: one beyond 0.8 dominates.",
            (f"conch_reward_variance_share_ratio{{{COMPONENT}}}", "{{agent}} {{component}}"),
            unit="percentunit",
        ),
        graph(
            "Alarms that go on",
            "Of the watchers against reward hacking.",
            (f"sum by (alarm) (conch_alarms_active{{{HERE}}})", "{{alarm}}"),
        ),
        graph(
            "Alarms that began",
            "In the time that is shown.",
            (increase("conch_alarms_total", HERE, "alarm"), "{{alarm}}"),
        ),
        graph(
            "Against before",
            "Variance of the total and length of a reply, of the newest acts ÷ those before.",
            (f"conch_reward_variance_change{{{HERE}}}", "{{agent}} variance"),
            (f"conch_reply_length_change{{{HERE}}}", "{{agent}} length"),
        ),
        graph(
            "Held-out gap",
            "Standard deviations by which the total rose beyond a held-out score; none without such a rule.",
            (f"conch_held_out_gap{{{COMPONENT}}}", "{{agent}} {{component}}"),
        ),
    ),
)

A_COMPONENT: Final = graph(
    "Scores of COMPONENT",
    "Before weights: mean, and quantiles as exactly as the buckets are fine; a point leads to the trace of one.",
    (mean_score(RATE, ONE), "mean"),
    (quantile(0.5, "conch_reward_score", ONE, "component"), "p50"),
    (quantile(0.95, "conch_reward_score", ONE, "component"), "p95"),
    exemplars=True,
)
"""What `conch metrics dashboards` adds to the rewards for each component that does not come with Conch."""

TRAINING: Final = Board(
    "conch-training",
    "Conch · Training",
    "What is made of the experiences: rounds, gates, and which generation acts; empty where nothing is trained.",
    (_HOME, _AGENT),
    (
        stat("Generation", "That acts; 0: the base alone.", f"conch_training_generation{{{AGENT}}}"),
        stat(
            "Phase",
            "What the lineage is at.",
            f"conch_training_phase{{{AGENT}}} == 1",
            legend="{{agent}} {{phase}}",
        ),
        stat("Loss", "Of the round that trains.", f"conch_training_loss{{{AGENT}}}"),
        stat(
            "Since the last move",
            "A promotion or a rollback.",
            f"time() - conch_training_last_move_timestamp_seconds{{{AGENT}}}",
            "s",
        ),
        stat(
            "Since the last round",
            "Since it began.",
            f"time() - conch_training_last_round_timestamp_seconds{{{AGENT}}}",
            "s",
        ),
        stat("Refused in a row", "Rounds up to the newest one.", f"conch_training_refusals{{{AGENT}}}"),
        graph(
            "Rounds",
            "That ended in the time that is shown, by how.",
            (increase("conch_training_rounds_total", AGENT, "agent", "outcome"), "{{agent}} {{outcome}}"),
        ),
        graph(
            "Gates",
            "Adapters that were judged in the time that is shown.",
            (increase("conch_training_gates_total", AGENT, "agent", "verdict"), "{{agent}} {{verdict}}"),
        ),
        graph("Loss by time", "Of the rounds that train.", (f"conch_training_loss{{{AGENT}}}", "{{agent}}")),
        graph(
            "Rollbacks",
            "In the time that is shown, by what called for them.",
            (increase("conch_training_rollbacks_total", AGENT, "agent", "trigger"), "{{agent}} {{trigger}}"),
        ),
        graph(
            "Reward and generation",
            "Mean total of ten minutes, and which generation acts.",
            (f"avg_over_time(conch_reward_last{{{AGENT}}}[10m])", "{{agent}}, mean"),
            (f"conch_training_generation{{{AGENT}}}", "{{agent}}, generation"),
        ),
        graph(
            "Age of the policy",
            "Since another policy began to act, or the metrics began.",
            (f"time() - conch_policy_changed_timestamp_seconds{{{AGENT}}}", "{{agent}}"),
            unit="s",
        ),
    ),
)

BUS: Final = Board(
    "conch-bus",
    "Conch · Bus and consumers",
    "How far everybody is who reads the stream, and what could not be handled.",
    (_HOME, _CONSUMER),
    (
        stat("Events a second", "Facts on the bus.", rate("conch_events_total", HERE), "ops", ""),
        stat("The stream", "Bytes that it takes.", f"sum (conch_bus_stream_bytes{{{HERE}}})", "bytes", ""),
        stat("Furthest behind", "Events.", f"max (conch_consumer_pending_messages{{{CONSUMER}}})", legend=""),
        stat("Dead letters", "In the time that is shown.", increase("conch_dead_letters_total", CONSUMER), legend=""),
        stat(
            "Time of a scrape",
            "Seconds, as Prometheus measures it.",
            f"max (scrape_duration_seconds{{{HERE}}} and on (instance) conch_build_info)",
            "s",
            "",
        ),
        stat("Version", "That runs.", f"conch_build_info{{{HERE}}}", legend="{{version}}"),
        graph(
            "Lag",
            "Events that wait for a consumer.",
            (f"sum by (consumer) (conch_consumer_pending_messages{{{CONSUMER}}})", "{{consumer}}"),
        ),
        graph(
            "Dead letters",
            "Events that a consumer could not handle, in the time that is shown.",
            (increase("conch_dead_letters_total", CONSUMER, "consumer"), "{{consumer}}"),
        ),
        graph("Events", "A second, by kind.", (rate("conch_events_total", HERE, "type"), "{{type}}"), unit="ops"),
        graph(
            "Met again",
            "Events and consequences a second that came a second time, and were not applied again.",
            (rate("conch_duplicates_total", CONSUMER, "consumer"), "{{consumer}}"),
            unit="ops",
        ),
        graph(
            "Holding up the stream",
            "Events that would be dropped and stay for who has not read them; empty where nobody is far behind.",
            (f"sum by (consumer) (conch_bus_keep_blocked_events{{{CONSUMER}}})", "{{consumer}}"),
        ),
        graph("Size of the stream", "Bytes.", (f"conch_bus_stream_bytes{{{HERE}}}", "{{instance}}"), unit="bytes"),
    ),
)

_ACTING = "changes(conch_last_cycle_timestamp_seconds{{{}}}[5m]) > 0"

_BAD = f'{HERE},outcome=~"error|timeout|blocked"'

FLEET: Final = Board(
    "conch-fleet",
    "Conch · Fleet of agents",
    "All agents at once, the worst first; those beyond metrics.max_agents count together as other.",
    (_HOME,),
    (
        stat(
            "Agents", "Met since the exporter began.", f"count(conch_last_cycle_timestamp_seconds{{{HERE}}})", legend=""
        ),
        stat("Acting", "Within five minutes.", f"count({_ACTING.format(HERE)}) or vector(0)", legend=""),
        stat("Cycles a minute", "Of all.", f"60 * {rate('conch_cycles_total', HERE)}", legend=""),
        stat("Mean total", "Of the last acts.", f"avg(conch_reward_last{{{HERE}}})", legend=""),
        stat(
            "Least satisfied need", "Of all agents.", f"min(conch_need_satisfaction_ratio{{{HERE}}})", "percentunit", ""
        ),
        stat(
            "Agents with an alarm",
            "Of the watchers.",
            f"count(max by (agent) (conch_alarms_active{{{HERE}}}) > 0) or vector(0)",
            legend="",
        ),
        graph(
            "Least reward",
            "Mean total of ten minutes.",
            (f"bottomk({WORST}, avg_over_time(conch_reward_last{{{HERE}}}[10m]))", "{{agent}}"),
        ),
        graph(
            "Longest silent",
            "Since the last act.",
            (f"topk({WORST}, {_SILENT.format(HERE)})", "{{agent}}"),
            unit="s",
        ),
        graph(
            "Slowest",
            "Cycles a second.",
            (f"bottomk({WORST}, {rate('conch_cycles_total', HERE, 'agent')})", "{{agent}}"),
            unit="ops",
        ),
        graph(
            "Most starved",
            "Needs, 0 starved, 1 satisfied.",
            (f"bottomk({WORST}, conch_need_satisfaction_ratio{{{HERE}}})", "{{agent}} {{need}}"),
            unit="percentunit",
            limits=FULL,
        ),
        graph(
            "Least coverage",
            "Share of the weight that was scored.",
            (f"bottomk({WORST}, conch_reward_coverage_ratio{{{HERE}}})", "{{agent}}"),
            unit="percentunit",
            limits=FULL,
        ),
        graph(
            "Failed acts",
            "Share of the cycles whose tool failed.",
            (
                f"topk({WORST}, {rate('conch_cycles_total', _BAD, 'agent')}"
                f" / ({rate('conch_cycles_total', HERE, 'agent')} > 0))",
                "{{agent}}",
            ),
            unit="percentunit",
        ),
        Panel(
            "Alarms that go on",
            "Who, and which.",
            (Query(f"conch_alarms_active{{{HERE}}} > 0", "{{agent}} {{alarm}}"),),
            kind="table",
            width=24,
        ),
    ),
)

BOARDS: Final = (AN_AGENT, REWARDS, TRAINING, BUS, FLEET)
