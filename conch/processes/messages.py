"""Messages between the supervisor and its children over pipes: one JSON object a line, told apart by its `kind`.

The supervisor writes to a child's stdin: first its start spec (`ChildStart`), then commands (`Command`). The child
writes reports (`Report`) to its stdout. Both ends are of one version, so the messages may change with it. `run.json`,
which other commands read, is in `conch.run_info`, a lower layer, as the home reads it.

A plug-in is described by a type of a higher layer: `PluginT`.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field, SecretStr, TypeAdapter, field_serializer

from conch.bus import Access
from conch.config import Settings
from conch.processes.line import LocalPath, PipeMessage, decode
from conch.values import Values
from conch_schemas import JsonObject

PluginT = TypeVar("PluginT")
_ANY: TypeAdapter[Any] = TypeAdapter(Any)


class ChildStart(PipeMessage):
    """The first message to every child."""

    settings: Settings
    """With their secrets: the pipe is read by the child alone."""
    home: LocalPath
    """The home directory."""
    access: Access
    """How the bus is reached."""
    process: str | None = None
    """Its name in log lines, and of its log file; None: its module's."""

    @field_serializer("settings")
    def _with_secrets(self, settings: Settings) -> JsonObject:
        told: JsonObject = json.loads(json.dumps(settings.model_dump(), default=_revealed))
        return told


class AgentBegun(PipeMessage):
    """An agent's position when it began in this run: a process that is started again goes on to the same end."""

    kind: Literal["agent_begun"] = "agent_begun"
    agent: str
    until: int | None
    """The cycle to end before; None: none."""
    decisions: int
    """How many decisions there were already."""


class AgentStart(PipeMessage):
    """One agent of an agent process."""

    name: str
    agentuid: str
    place: float = 0.0
    """Its place among the agents of the run, 0..1: their cycles begin spread over the interval."""
    beyond: int = 0
    """All cycles that the store has joined are below this one."""
    born: int | None = None
    """No event up to this sequence is its own; None: that is not known."""
    begun: AgentBegun | None = None
    """The agent's earlier start in this run; None: this is the first."""


class OtherAgents(PipeMessage):
    """The agents of another agent process of the run."""

    first: str
    """Name of one of them: a request for all agents is passed on to it."""
    number: int


class AgentsSpec(PipeMessage):
    """The agents that a process makes, and what they share."""

    cycles: int | None
    """How many more cycles each agent does; None: until it is stopped."""
    agents: tuple[AgentStart, ...]
    resting: dict[str, str]
    """UUID by name of the home's agents that do not act in this run."""
    workspace: LocalPath
    """The directory of the only agent; with several, the directory that holds theirs."""
    alone: bool
    """Whether the run has one agent."""
    values: Values
    others: tuple[OtherAgents, ...] = ()
    """The other agent processes of the run."""
    tools: tuple[str, ...] = ()
    """Entry points of installed packages whose tools the agents have."""


class AgentsStart(ChildStart, AgentsSpec):
    """The start of an agent process."""


class EngineStart(ChildStart):
    """The start of the engine's process, which serves a model to the agents."""

    model: LocalPath
    """The GGUF file, or of the kind transformers the directory of a model."""
    port: int
    """TCP port on loopback; 0: a free one."""
    key: str
    """Bearer key that a request must have."""
    slots: int
    """Replies that are decoded side by side."""
    adapters: tuple[LocalPath, ...] = ()
    """GGUF files of the adapters that it loads, none of which is applied unless a request says so."""


class ConsumersStart(ChildStart, Generic[PluginT]):
    """The start of a process that hosts consumers: the run's own, the dashboard, or one plug-in."""

    name: str
    """Under which it connects to the bus."""
    agents: tuple[str, ...]
    """Names of the run's agents, the first one first."""
    builtin: tuple[str, ...] = ()
    """Names of the consumers that come with Conch."""
    plugins: tuple[PluginT, ...] = ()
    keeps: bool = False
    """Whether it trims the stream."""
    reloads: bool = False
    """Whether its rules may change while it runs: `ChangeRules`."""
    since: int | None = None
    """The end of the stream when the run began; None: a later start, which goes on from the end."""


class StopCommand(PipeMessage):
    """End in order."""

    kind: Literal["stop"] = "stop"


class FinishCommand(PipeMessage):
    """End once everything is handled."""

    kind: Literal["finish"] = "finish"


class ChangeRules(PipeMessage, Generic[PluginT]):
    """Run these plug-in rules from now on, and no others."""

    kind: Literal["change_rules"] = "change_rules"
    rules: tuple[PluginT, ...]


class ShowPluginMetrics(PipeMessage):
    """Show these metrics on `/metrics`, replacing the process's earlier report."""

    kind: Literal["show_plugin_metrics"] = "show_plugin_metrics"
    process: str
    """The child that reported them."""
    metrics: Any
    """As `PluginMetricsReported` has them; checked by the process that shows them."""


Command = StopCommand | FinishCommand | ShowPluginMetrics | ChangeRules[Any]
"""The messages that the supervisor writes to a child's stdin after its start spec."""


class Heartbeat(PipeMessage):
    """The child's event loop runs."""

    kind: Literal["heartbeat"] = "heartbeat"


class WorkDone(PipeMessage):
    """The child ends, its work done; without this, exit status 0 is a death."""

    kind: Literal["work_done"] = "work_done"


class ChildFailed(PipeMessage):
    """The child cannot go on, and it would be no use to start it again."""

    kind: Literal["child_failed"] = "child_failed"
    error: str
    """One sentence for a person."""
    exit_code: int = 1
    """The run's exit status for that."""


class AgentFailed(PipeMessage):
    """An agent of the child failed; the others go on."""

    kind: Literal["agent_failed"] = "agent_failed"
    agent: str
    error: str
    exit_code: int = 1


class AgentsEnded(PipeMessage):
    """All agents of the process have ended; it answers requests until it is told to stop."""

    kind: Literal["agents_ended"] = "agents_ended"


class AgentsSetAside(PipeMessage):
    """All agents of the process are set aside after failures; each goes on when it is resumed."""

    kind: Literal["agents_set_aside"] = "agents_set_aside"
    error: str
    """Of the last one; empty: one of them goes on again."""
    exit_code: int = 1


class AgentWaits(PipeMessage):
    """The state of an agent, where it has a reason that a person should know."""

    kind: Literal["agent_waits"] = "agent_waits"
    agent: str
    state: str
    why: str
    asks: bool = False
    """Whether the agent has an open question to its mind, which `MindAsked` reports as well."""


class MindAsked(PipeMessage):
    """Agents of the process wait for their minds: the one that has waited longest, at most once a second."""

    kind: Literal["mind_asked"] = "mind_asked"
    agent: str
    phase: str
    """think, decide or reflect."""
    seconds: float
    """Since the question was asked."""
    tokens: int
    """Tokens of the reply so far, by an estimate."""
    agents: int
    """Agents of the process that wait; 0: none waits any longer, and the other fields are empty."""


class MetricsServed(PipeMessage):
    """The address at which an exporter listens."""

    kind: Literal["metrics_served"] = "metrics_served"
    url: str
    """The URL of `/metrics`."""


class PluginMetricsReported(PipeMessage):
    """The metrics that the plug-ins of a process publish, as they are now."""

    kind: Literal["plugin_metrics_reported"] = "plugin_metrics_reported"
    metrics: Any
    """JSON of `conch.metrics.plugins`: plug-ins write it, and the process that shows it checks it."""


class PageServed(PipeMessage):
    """The address at which the dashboard listens."""

    kind: Literal["page_served"] = "page_served"
    url: str


class ConsumerWaits(PipeMessage):
    """A consumer waits for something outside of Conch."""

    kind: Literal["consumer_waits"] = "consumer_waits"
    consumer: str
    why: str
    """Empty: it waits no longer."""


class ConsumerNote(PipeMessage):
    """A note about a consumer for a person to read."""

    kind: Literal["consumer_note"] = "consumer_note"
    consumer: str
    note: str


class ConsumerBroke(PipeMessage):
    """A consumer failed; it is started again."""

    kind: Literal["consumer_broke"] = "consumer_broke"
    consumer: str
    why: str


class ConsumerFailing(PipeMessage):
    """A consumer fails at every event: its events go to the dead letters at once, and one is tried now and then."""

    kind: Literal["consumer_failing"] = "consumer_failing"
    consumer: str
    why: str
    """Empty: it handles events again."""


class ConsumerDown(PipeMessage):
    """A consumer stays stopped."""

    kind: Literal["consumer_down"] = "consumer_down"
    consumer: str
    why: str


class EngineServed(PipeMessage):
    """The engine has loaded its model and listens."""

    kind: Literal["engine_served"] = "engine_served"
    url: str
    seconds: float
    """How long loading took."""
    context: int
    """Tokens of context of each slot."""


ConsumerReport = (
    MetricsServed
    | PluginMetricsReported
    | PageServed
    | ConsumerWaits
    | ConsumerNote
    | ConsumerBroke
    | ConsumerFailing
    | ConsumerDown
)
"""The reports of a process's consumers, by `ServiceContext.report`."""
AgentReports = AgentBegun | AgentFailed | AgentsEnded | AgentsSetAside | AgentWaits | MindAsked
"""The reports of an agents' process."""
Report = Heartbeat | WorkDone | ChildFailed | AgentReports | EngineServed | ConsumerReport
"""The messages that a child writes to its stdout."""
_REPORTS: TypeAdapter[Report] = TypeAdapter(
    Annotated[Report, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)


def decode_report(line: bytes) -> Report:
    """The report in a child's line. Raises ContractError, in one sentence, for anything else: what a plug-in prints."""
    return decode(_REPORTS, line, "a report")


def _revealed(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, SecretStr) else _ANY.dump_python(value, mode="json")
