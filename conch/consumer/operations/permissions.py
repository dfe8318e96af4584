"""NATS permissions for a shared bus: one user for each consumer, one for the agents, one for the command line.

A NATS server grants by subject. So a user may publish its own types of events, write its own keys of the bucket and
answer its own requests. Reading cannot be restricted: a user that may read the stream may read all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conch.bus import STORE_OWNER, TRAINER, memory_key, patterns_of, patterns_of_commands
from conch.bus.jetstream import BUCKET_STREAM, OBJECT_STREAM, OBJECT_SUBJECTS, STREAM, key_subject
from conch.consumer.plugins.builtin import PAGE
from conch_schemas import (
    ActApproved,
    ActAsked,
    ActDenied,
    ActionDecided,
    ActionTaken,
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterShadowed,
    AgentPaused,
    AgentResumed,
    AgentSlept,
    AgentWoke,
    AnswerRated,
    BudgetReached,
    BudgetReserved,
    ConsumerFailed,
    CycleReflected,
    Event,
    ForkScored,
    GoalAccepted,
    GoalDropped,
    GoalReached,
    GoalSet,
    MemoryConsolidated,
    MessageReceived,
    MessageSent,
    PersonForgotten,
    PolicySet,
    ReviewDecided,
    RewardAssigned,
    TaskProgressed,
    TeamDecided,
    TeamFormed,
    TeamMessage,
    TeamPassed,
    TeamRewarded,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
    ThoughtFormed,
    ThoughtGrounded,
    TrainingFinished,
    TrainingStarted,
    WeightsSet,
    control_subject,
    role_subject,
    subject_filter,
    type_filter,
)

AGENT, COMMANDS, RUN, PROGRAM, ROLE = "agent", "cli", "run", "program", "role"
"""The users that are no consumer's; of PROGRAM, one for each agent that is named, `program-NAME`."""
OF_PROGRAMS = (
    PolicySet,
    ThoughtFormed,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    WeightsSet,
    MessageReceived,
    GoalSet,
    GoalDropped,
    AgentPaused,
    AgentResumed,
)
"""The events that a program publishes by `conch.agent`: its acts, the weight set that it begins with, and what people
ask of it."""
OF_AGENTS = (
    PolicySet,
    ThoughtFormed,
    ThoughtGrounded,
    ActAsked,
    ActApproved,
    ActDenied,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    WeightsSet,
    MessageReceived,
    MessageSent,
    AnswerRated,
    GoalSet,
    GoalAccepted,
    GoalReached,
    GoalDropped,
    AgentPaused,
    AgentResumed,
    AgentSlept,
    AgentWoke,
    BudgetReserved,
    BudgetReached,
    TaskProgressed,
    TeamDecided,
    TeamFormed,
    TeamMessage,
    TeamPassed,
    TeamRewarded,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
    MemoryConsolidated,
    TrainingStarted,
    TrainingFinished,
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterShadowed,
    ReviewDecided,
    PersonForgotten,
)
"""The events that `conch run` publishes where all consumers run elsewhere: those of its agents, and people's messages
to them, ratings, reviews, moves of a pointer that people ask for, and records of what was forgotten."""
OF_PEOPLE = (
    MessageReceived,
    AnswerRated,
    GoalSet,
    GoalAccepted,
    GoalDropped,
    ActApproved,
    ActDenied,
    WeightsSet,
    RewardAssigned,
    ForkScored,
    ReviewDecided,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    PersonForgotten,
)
"""The events that the command line publishes: weights, scores by people and of the past, candidates of forks, reviews,
adapters that people promote, refuse and roll back, records of what was forgotten,
and messages to agents and decisions on their acts while no run is in progress."""
_READ = (
    "INFO",
    f"STREAM.INFO.{STREAM}",
    f"STREAM.INFO.{BUCKET_STREAM}",
    f"STREAM.INFO.{OBJECT_STREAM}",
    f"STREAM.MSG.GET.{STREAM}",
    f"STREAM.MSG.GET.{BUCKET_STREAM}",
    f"STREAM.MSG.GET.{OBJECT_STREAM}",
    f"CONSUMER.CREATE.{STREAM}",
    f"CONSUMER.MSG.NEXT.{STREAM}.*",
    f"CONSUMER.DELETE.{STREAM}.*",
)
_LIST = (f"CONSUMER.LIST.{STREAM}",)
_KEEP = (
    *(
        f"STREAM.{call}.{name}"
        for call in ("CREATE", "UPDATE", "PURGE", "SNAPSHOT", "RESTORE")
        for name in (STREAM, BUCKET_STREAM)
    ),
    f"STREAM.MSG.DELETE.{STREAM}",
)

_OBJECTS = (OBJECT_SUBJECTS, f"$JS.API.STREAM.CREATE.{OBJECT_STREAM}", f"$JS.API.STREAM.PURGE.{OBJECT_STREAM}")
"""To store adapters for agents of other machines, and to remove them."""


@dataclass(frozen=True)
class PublishedKinds:
    """The subjects that a consumer publishes and answers on."""

    emits: tuple[str, ...] = ()
    """Last tokens of the subjects of its events, `reward.assigned`; its dead letters are always included."""
    serves: tuple[str, ...] = ()
    """Subjects on which it answers, beside the retry of its dead letters."""


@dataclass(frozen=True)
class BusUser:
    """One NATS user and its permissions."""

    name: str
    command: str
    """The command that the user is for."""
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    """Subjects, beside the inbox under its own name."""


def users(
    consumers: Mapping[str, PublishedKinds],
    builtin: Sequence[str],
    agents: Sequence[str] = (),
    outside: Sequence[str] = (),
) -> list[BusUser]:
    """One for a whole run, one for a run with the `builtin` consumers elsewhere, one for each consumer, one for the
    command line, one for workers of teams' roles, one for each program that acts as an agent, and one for each program
    `outside` that scores. `agents`: their names, where facts may be of these alone."""
    named = tuple(agents) or ("*",)
    agent = _agent(named, ",".join(builtin))
    facts = [_facts(said, named) for said in consumers.values()]
    answered = [_answered(name, said) for name, said in consumers.items()]
    run = BusUser(RUN, "conch run", _once(agent.publish, *facts), _once(agent.subscribe, *answered))
    inside = [_consumer(name, said, named) for name, said in consumers.items()]
    acting = [_program(name) for name in named]
    return [run, agent, *inside, _commands(named), _role(named), *acting, *(_outside(name, named) for name in outside)]


def _consumer(name: str, said: PublishedKinds, agents: Sequence[str]) -> BusUser:
    patterns = patterns_of(name) + ([STORE_OWNER] if name == "store" else [])
    keys = [key_subject(pattern) for pattern in patterns]
    calls = _calls(_READ + (_LIST if name == "metrics" else ()))
    told = _commands(agents).publish if name == PAGE else ()  # messages to agents are sent from the dashboard, too
    objects = _OBJECTS if name == TRAINER else ()
    publish = _once(_facts(said, agents), keys, calls, told, objects)
    return BusUser(name, f"conch consume {name}", publish, _answered(name, said))


def _outside(name: str, agents: Sequence[str]) -> BusUser:
    """A program that keeps its position in a durable consumer of its own name, made by a client of the server."""
    own = f"{STREAM}.{name}"
    durable = (f"CONSUMER.{call}.{own}" for call in ("DURABLE.CREATE", "INFO", "MSG.NEXT"))
    calls = ("INFO", f"STREAM.INFO.{STREAM}", f"CONSUMER.CREATE.{own}.>", *durable)
    return BusUser(
        name,
        f"a program of yours that scores as {name}",
        _once(_of((RewardAssigned,), agents), _calls(calls), (f"$JS.ACK.{own}.>",)),
        (),
    )


def _facts(said: PublishedKinds, agents: Sequence[str]) -> list[str]:
    return [type_filter(type, agent) for type in (*said.emits, ConsumerFailed.TYPE) for agent in agents]


def _answered(name: str, said: PublishedKinds) -> tuple[str, ...]:
    return (f"conch.ctl._consumer.{name}.>", *said.serves)


def _agent(agents: Sequence[str], without: str) -> BusUser:
    # It owns the home: after a restored backup it resets all positions, and it trims what all consumers have read.
    kept = (key_subject(">"), "$JS.SNAPSHOT.>", *_calls((*_READ, *_LIST, *_KEEP)))
    asked = tuple(control_subject(agent, "*") for agent in agents)
    roles = tuple(role_subject(agent, "*") for agent in agents)
    return BusUser(
        AGENT,
        f"conch agent run, conch run --without {without}",
        _once(_of(OF_AGENTS, agents), (control_subject("_edge", "*"),), asked, roles, kept, _OBJECTS),
        asked,
    )


def _commands(agents: Sequence[str]) -> BusUser:
    keys = [key_subject(pattern) for pattern in patterns_of_commands()]
    calls = _calls((*_READ, *_LIST))
    return BusUser(
        COMMANDS,
        "conch status, tell, goal, dlq …",
        _once(_of(OF_PEOPLE, agents), ("conch.ctl.>",), keys, calls, _OBJECTS),
        (),
    )


def program_user(agent: str) -> str:
    """The name of the user for a program that acts as this agent; `*`: as any."""
    return PROGRAM if agent == "*" else f"{PROGRAM}-{agent}"


def _program(agent: str) -> BusUser:
    """A program that acts by `conch.agent`. It asks whether another one acts under its name, and answers as the agent;
    its memory is its only key."""
    own = (control_subject(agent, "status"), key_subject(memory_key(agent)))
    return BusUser(
        program_user(agent),
        "a program of yours that acts by conch.agent",
        _once(_of(OF_PROGRAMS, (agent,)), own, _calls(_READ)),
        (control_subject(agent, "*"),),
    )


def _role(agents: Sequence[str]) -> BusUser:
    """A worker of a team's role: it publishes nothing but its answers."""
    roles = tuple(role_subject(agent, "*") for agent in agents)
    return BusUser(ROLE, "conch team role", tuple(_calls(_READ)), roles)


def _of(kinds: Sequence[type[Event]], agents: Sequence[str]) -> list[str]:
    return [subject_filter(kind, agent) for kind in kinds for agent in agents]


def _calls(names: Sequence[str]) -> list[str]:
    return [f"$JS.API.{name}" for name in names]


def _once(*subjects: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(subject for some in subjects for subject in some))
