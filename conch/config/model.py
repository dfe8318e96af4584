"""The settings: one frozen model, a unit in every field's sentence. Nothing is read here; `load` reads."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from conch_schemas import LARGEST_SCORE, Goal

BUILTIN_WEIGHTS = {"format": 0.30, "execution": 0.25, "needs": 0.20, "goal": 0.15, "exploration": 0.10}
"""Weight of each of the five parts that make a cycle's reward; they sum to 1."""

WATCHED_COMPONENTS = ("intrinsic", "alignment", "progress")
"""Built-in components that are a metric by default; `rewards.weights` may give them a weight."""
BUILTIN_COMPONENTS = (*BUILTIN_WEIGHTS, *WATCHED_COMPONENTS, "diversity", "repetition", "ethical")
"""Names that no rule of one's own can bear."""

WEIGHT_TOLERANCE = 1e-6

BROKER_URL = r"^mqtts?://([^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(:\d{1,5})?/?$"
"""Of an MQTT broker; a `/` or `@` in user or password is percent-encoded."""

METRICS_PORT = 9464
"""The port that OpenTelemetry's Prometheus exporters use: taken when none is named."""

UI_PORT = 26624
"""The dashboard's, taken when none is named: CONCH on the keys of a telephone."""

LEAST_TOKEN = 16
"""Characters of the dashboard's token: each drawn from 16 signs or more, none who guesses ever comes to it."""

ORIGIN = r"^[Hh][Tt][Tt][Pp][Ss]?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)(:\d{1,5})?$"
"""Of a page, as a browser names it."""

HOST_AND_PORT = r"^(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+):\d{1,5}$"
"""Where something listens; an IPv6 address stands in brackets."""

NATS_URL = re.compile(r"(nats|tls)://(.*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(:\d{1,5})?/?")
"""Of a NATS server; what stands before the last @ is a user and a password, or a token."""


def _is_word(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,47}", name):
        raise ValueError("the name is small letters, digits and `_`, at most 48, a letter first")
    return name


def _is_broker(url: str) -> str:
    if not re.fullmatch(BROKER_URL, url):
        raise ValueError(
            "write mqtt://[user[:password]@]host[:port], or mqtts://, and percent-encode / and @ before host"
        )
    return url


def host_and_port(address: str) -> tuple[str, int]:
    """Of `host:port`. Raises ValueError for a port beyond 65535."""
    parts = urlsplit(f"//{address}")
    return parts.hostname or "", parts.port or 0


def _is_origin(text: str) -> str:
    """As browsers write it: small letters, without the port that its scheme has anyway."""
    if not re.fullmatch(ORIGIN, text):
        raise ValueError("write an origin as browsers name it, https://host or http://host:port, without a path")
    parts = urlsplit(text.lower())
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{parts.netloc.removesuffix(f':{usual}') if parts.port == usual else parts.netloc}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


EdgeName = Annotated[str, AfterValidator(_is_word)]
"""Name of a sense or a device: a word that a thought can use."""


def _is_rule_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,47}", name):
        raise ValueError("the name is small letters, digits, `_` and `-`, at most 48, a letter first")
    if name in BUILTIN_COMPONENTS:
        raise ValueError(f"the name {name} is a built-in component's: choose another one")
    return name


RuleName = Annotated[str, AfterValidator(_is_rule_name)]
"""Name of a component that is not built in."""
MOST_SENSES = 64
"""Senses at once: the agent remembers the last word of each."""


class Section(BaseModel):
    """A frozen part of the settings; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class KeepSettings(Section):
    """What of the stream is kept after every consumer has read it."""

    days: Annotated[float, Field(gt=0)] = 30.0
    """Days that read events stay on the stream."""
    gib: Annotated[float, Field(gt=0)] = 4.0
    """GiB of read events that stay on the stream; whichever of days and GiB comes first."""


class BusTlsSettings(Section):
    """TLS towards a NATS server of your own."""

    ca: str | None = None
    """File (PEM) of who may sign the server's certificate; none: whom the system trusts."""
    certificate: str | None = None
    """File (PEM) of our own certificate, where the server asks for one."""
    key: str | None = None
    """File (PEM) of our own certificate's key, without a passphrase; none: it stands in the certificate's file."""
    hostname: str | None = None
    """Name that the server's certificate must hold; none: the one in bus.url."""

    @model_validator(mode="after")
    def _key_has_certificate(self) -> Self:
        if self.key is not None and self.certificate is None:
            raise ValueError("bus.tls.key needs bus.tls.certificate beside it")
        return self


class BusSettings(Section):
    """The message bus."""

    url: str | None = None
    """Address of your own NATS server (nats://…, tls://…; several: with commas); none: Conch starts one in the home."""
    token: SecretStr | None = None
    """Token for your own server, if it asks for one."""
    user: str | None = None
    """User at your own server, if it asks for one."""
    password: SecretStr | None = None
    """That user's password."""
    nkey: str | None = None
    """File that holds the seed of an nkey (SU…), if your own server asks for one."""
    credentials: str | None = None
    """File (.creds) that holds a user's JWT and seed, if your own server asks for them."""
    tls: BusTlsSettings = BusTlsSettings()
    """TLS towards your own server; also in force where that asks for it."""
    durability: Literal["strict", "fast"] = "strict"
    """strict: acknowledged is on disk (your own server: with sync_interval: always); fast: may lose the last second."""
    keep: KeepSettings = KeepSettings()
    """How much of what everybody has read is kept."""
    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """Copies of the stream in your own cluster."""

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str | None) -> str | None:
        if url is not None and not all(NATS_URL.fullmatch(part) for part in url.split(",")):
            raise ValueError("an address is nats://host:port or tls://host:port (several separated by commas)")
        return url

    @model_validator(mode="after")
    def _come_in_one_way(self) -> Self:
        ways = {
            "a user in bus.url": self.url is not None and "@" in self.url,
            "bus.token": self.token is not None,
            "bus.user": self.user is not None or self.password is not None,
            "bus.nkey": self.nkey is not None,
            "bus.credentials": self.credentials is not None,
        }
        given = [way for way, is_given in ways.items() if is_given]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are given: leave all but one of them out")
        if (self.user is None) != (self.password is None):
            raise ValueError("bus.user and bus.password belong together: give both")
        return self


class MindSettings(Section):
    """Who thinks and decides."""

    kind: Literal["reflex", "openai", "scripted"] = "reflex"
    """reflex: the embedded bandit, no model; openai: any OpenAI-compatible endpoint; scripted: replies from a file."""
    base_url: str = "http://127.0.0.1:8000/v1"
    """Address of the OpenAI-compatible endpoint, up to and with /v1."""
    model: str = "default"
    """Name of the model at the endpoint. Of the reflex mind: random chooses blindly, to compare its learning with."""
    api_key: SecretStr | None = None
    """Bearer key of the endpoint."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.7
    """Sampling temperature, 0 to 2."""
    max_tokens: Annotated[int, Field(gt=0)] = 1024
    """Most tokens of one reply."""
    timeout: Annotated[float, Field(gt=0)] = 120.0
    """Seconds for one reply, all its retries included."""
    max_tokens_per_hour: Annotated[int, Field(gt=0)] | None = None
    """Tokens, in and out, that the agent may use in an hour; then it pauses. None: no limit."""
    script: str | None = None
    """File of replies for the scripted mind, one a line."""


class CycleSettings(Section):
    """The rhythm of the cycle."""

    interval: Annotated[float, Field(ge=0)] = 1.0
    """Seconds from one cycle to the next."""
    reflect_every: Annotated[int, Field(ge=0)] = 10
    """Cycles from one reflection to the next; 0: never."""


class ToolSettings(Section):
    """What the agent may do, and how much of it."""

    sandbox: Literal["bwrap", "off"] = "bwrap"
    """bwrap: shell and git run in bubblewrap, refused where it cannot run; off: they run unconfined."""
    timeout: Annotated[float, Field(gt=0)] = 10.0
    """Seconds that one tool call may take."""
    memory_mib: Annotated[int, Field(gt=0)] = 512
    """MiB of memory that a process in the sandbox may take, and all of them together."""
    processes: Annotated[int, Field(gt=0)] = 64
    """Processes in the sandbox at once."""
    output_kib: Annotated[int, Field(gt=0)] = 1024
    """KiB of output that are read from a program; more of it ends the program."""
    file_mib: Annotated[int, Field(gt=0)] = 64
    """MiB that one file may have, written by a tool."""


class OutsidePartSettings(Section):
    """A component that is scored outside of Conch."""

    weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the total, 0..1; 0: watched, not paid."""
    range: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest value it can take."""
    scorer: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,47}$")] | None = None
    """Who scores it, as its events say; none: a scorer of the component's own name. `human`: `conch reward score`."""
    deadline: Annotated[float, Field(gt=0)] | None = None
    """Seconds from the act after which it is recorded as timeout; none: rewards.deadline."""
    held_out: bool = False
    """Whether it is never paid and never trained on: watchers compare it with the total."""

    @model_validator(mode="after")
    def _from_least_to_greatest(self) -> Self:
        low, high = self.range
        if not -LARGEST_SCORE <= low < high <= LARGEST_SCORE:
            raise ValueError(f"the range {self.range} is not two numbers within ±{LARGEST_SCORE:g}, the lesser first")
        return self


class JudgeSettings(Section):
    """A model that scores acts by a rubric."""

    rubric: str
    """File of the rubric (text), relative to conch.yaml."""
    weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the total, 0..1; 0: watched, not paid."""
    held_out: bool = False
    """Whether it is never paid and never trained on: watchers compare it with the total."""
    base_url: str | None = None
    """OpenAI-compatible endpoint; none: mind.base_url."""
    model: str | None = None
    """The model's name; none: mind.model."""
    api_key: SecretStr | None = None
    """Key for the endpoint; none: mind.api_key, where the endpoint is the mind's too."""
    timeout: Annotated[float, Field(gt=0)] = 30.0
    """Seconds for one answer, from when it is asked for."""
    deadline: Annotated[float, Field(gt=0)] = 300.0
    """Seconds from the act after which the part is recorded as timeout."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """Questions asked at once."""
    tries: Annotated[int, Field(ge=1, le=10)] = 3
    """Times a question is asked in all before its score is an error."""
    calls_per_hour: Annotated[int, Field(ge=0)] = 600
    """Requests an hour, each try one; beyond, a score is an error that says so. 0: none."""
    cache_entries: Annotated[int, Field(ge=0)] = 100_000
    """Answers that are remembered; beyond, the one used longest ago is forgotten."""

    def asks(self, mind: MindSettings) -> tuple[str, str]:
        """(base_url, model) that its questions go to: what its own settings leave open is the mind's."""
        return self.base_url or mind.base_url, self.model or mind.model


class ConstitutionSettings(Section):
    """The seven principles."""

    gate: bool = True
    """Whether an act whose *ethical* is below the floor earns at most 0, whatever its other parts say."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.6
    """The least *ethical* that does not close the gate, 0..1."""


class RewardSettings(Section):
    """How scores become a total."""

    weights: dict[str, Annotated[float, Field(ge=0, le=1)]] | None = None
    """Weight per component; names all that are paid and sums to 1. None: built-in ones, plug-ins taking a share."""
    parts: dict[RuleName, OutsidePartSettings] = Field(default_factory=dict)
    """Components that programs or people of yours score, by name: they publish reward.assigned themselves."""
    judges: dict[RuleName, JudgeSettings] = Field(default_factory=dict)
    """Components that a model judges, by name."""
    deadline: Annotated[float, Field(gt=0)] = 30.0
    """Seconds from the act after which a missing part is recorded as timeout."""
    rule_timeout: Annotated[float, Field(gt=0)] = 2.0
    """Seconds that a plug-in rule may take for one action, where it names no other."""
    rule_memory_mib: Annotated[int, Field(gt=0)] = 1024
    """MiB of memory that a plug-in rule's process may take."""
    abstain_when_constrained: bool = True
    """Whether *format* is not applicable when a grammar constrained the reply (it would be constant)."""
    exploration_cap: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Most that *exploration* counts in the live total, 0..1."""
    diversity: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Normalised entropy of the last 50 actions below which exploration pays double, 0..1; 0: never."""
    repetition: Annotated[float, Field(ge=0, le=1)] = 0.1
    """What the total loses for each time that the same was done with the same result in the last 20 cycles, 0..1."""
    repetition_most: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Most that it loses for that, 0..1."""

    @property
    def longest_deadline(self) -> float:
        """Seconds from the act after which nothing is waited for."""
        outside = (part.deadline or self.deadline for part in self.parts.values())
        return max([self.deadline, *(judge.deadline for judge in self.judges.values()), *outside])

    @model_validator(mode="after")
    def _sum_to_one(self) -> Self:
        if self.weights is not None and abs(sum(self.weights.values()) - 1.0) > WEIGHT_TOLERANCE:
            raise ValueError(f"the weights sum to {sum(self.weights.values()):.9g}, they must sum to 1")
        return self


class WatchSettings(Section):
    """What the watchers of the reward look at, and when they speak."""

    recent: Annotated[int, Field(ge=20, le=500)] = 50
    """Newest acts that each figure is taken over."""
    earlier: Annotated[int, Field(ge=20, le=1000)] = 150
    """Acts before those, at most, that they are compared with, once there are as many as `recent`."""
    dominance: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the total's variance beyond which one component dominates it, 0..1."""
    collapse: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of its earlier variance below which the total's has collapsed, 0..1."""
    length: Annotated[float, Field(gt=1)] = 3.0
    """Times as long, or as short, as earlier that replies are once their length has drifted."""
    gap: Annotated[float, Field(gt=0)] = 1.0
    """Standard deviations that the total may rise beyond a held-out score."""


class NeedSettings(Section):
    """One need."""

    priority: Annotated[float, Field(ge=0, le=1)]
    """Share of attention, 0..1; all needs' sum to 1."""
    start: Annotated[float, Field(ge=0, le=1)]
    """Satisfaction at birth, 0..1."""
    drift: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """Change of satisfaction a cycle by time alone, −1..1."""
    events: dict[str, Annotated[float, Field(ge=-1, le=1)]] = Field(default_factory=dict)
    """Change of satisfaction per event's name, −1..1."""


class NeedsSettings(Section):
    """What the agent needs."""

    preset: Literal["balanced", "learning", "production", "creative"] = "balanced"
    """Priorities of the four needs there are by default."""
    mode: Literal["counted", "delta"] = "counted"
    """counted: priority × (+0.5 improved, −0.3 worsened); delta: priority × change."""
    own: dict[str, NeedSettings] | None = None
    """Needs of your own in place of the four, by name; their priorities sum to 1."""

    @model_validator(mode="after")
    def _sum_to_one(self) -> Self:
        if self.own is not None and abs(sum(need.priority for need in self.own.values()) - 1.0) > WEIGHT_TOLERANCE:
            raise ValueError("the priorities of needs.own must sum to 1")
        return self


class StoreSettings(Section):
    """The experience store."""

    url: str | None = None
    """sqlite:///path; none: store.db in the home directory."""


class EdgeTlsSettings(Section):
    """TLS towards the broker."""

    ca: str | None = None
    """File (PEM) of who may sign the broker's certificate; none: whom the system trusts. Of mqtts:// only."""
    certificate: str | None = None
    """File (PEM) of our own certificate, where the broker asks for one."""
    key: str | None = None
    """File (PEM) of our own certificate's key, without a passphrase; none: it stands in the certificate's file."""


class SenseSettings(Section):
    """A sensor that the agent hears."""

    topic: Annotated[str, Field(min_length=1, max_length=1000)]
    """MQTT topic that it speaks on; `+` stands for one level, `#` at the end for all that follow."""
    unit: Annotated[str, Field(max_length=32)] = ""
    """Unit of its numbers, as people write it."""
    path: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Where the value stands in a JSON payload: keys, or places in a list, with dots between; none: it is all of it."""
    agent: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] | None = None
    """Name of the agent that hears it; none: every agent of this home."""
    every: Annotated[float, Field(ge=0.1, le=86400)] = 1.0
    """Seconds from one fact about it to the next at least; of what it says in between the newest counts."""
    max_age: Annotated[float, Field(gt=0)] = 600.0
    """Seconds after which what it said is no evidence any more."""

    @field_validator("topic")
    @classmethod
    def _filters(cls, topic: str) -> str:
        levels = topic.split("/")
        if "\x00" in topic or any(len(level) > 1 and set("+#") & set(level) for level in levels):
            raise ValueError("a wildcard is a whole level of a topic: home/+/temperature, home/#")
        if "#" in levels[:-1]:
            raise ValueError("# can only be the last level of a topic")
        return topic


class ActuatorSettings(Section):
    """A device that the agent may command, and all that it may be told."""

    topic: Annotated[str, Field(min_length=1, max_length=1000)]
    """MQTT topic that it listens on; no wildcards."""
    payloads: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """The payloads that it may be sent; none: a number in `range`."""
    range: tuple[float, float] | None = None
    """The least and the greatest number that it may be sent, where it has no `payloads`."""
    retain: bool = False
    """Whether the broker keeps the last command for a device that connects later."""

    @field_validator("topic")
    @classmethod
    def _names(cls, topic: str) -> str:
        if set("+#\x00") & set(topic) or topic.startswith("$"):
            raise ValueError("a command goes to one topic: + and # cannot be part of it, nor $ its beginning")
        return topic

    @model_validator(mode="after")
    def _allows(self) -> Self:
        if bool(self.payloads) == (self.range is not None):
            raise ValueError("a device takes either some payloads or a range of numbers: give one of the two")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError("a range has its least number first")
        return self


class EdgeSettings(Section):
    """MQTT: devices and smart homes."""

    bridge: Annotated[str, Field(json_schema_extra={"pattern": BROKER_URL}), AfterValidator(_is_broker)] | None = None
    """Address of the MQTT broker that every fact goes to: mqtt://[user[:password]@]host[:port], mqtts:// with TLS."""
    user: str | None = None
    """User at the broker, where the address names none."""
    password: SecretStr | None = None
    """Password at the broker, where the address has none."""
    tls: EdgeTlsSettings = EdgeTlsSettings()
    """TLS towards the broker."""
    discovery: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$")] | None = "homeassistant"
    """Topic that Home Assistant looks under for what there is; none: nothing is announced to it."""
    senses: Annotated[dict[EdgeName, SenseSettings], Field(max_length=MOST_SENSES)] = Field(default_factory=dict)
    """Sensors by name, at the broker of `bridge`: {name: {topic: …, unit: …}}."""
    actuators: Annotated[dict[EdgeName, ActuatorSettings], Field(max_length=64)] = Field(default_factory=dict)
    """Devices by name that the agent may command with its tool `device`; nothing else is ever sent for it."""
    listen: Annotated[str, Field(pattern=HOST_AND_PORT)] | None = None
    """host:port (0: a free one) where the embedded server lets MQTT clients hear conch/v1/<agent>/…, at best effort."""
    listen_password: SecretStr | None = None
    """Password of the user `edge` at `listen`; none: anybody on this machine comes in, and nobody from outside."""

    @model_validator(mode="after")
    def _address(self) -> Self:
        if self.bridge is not None:
            _ = urlsplit(self.bridge).port  # raises for one that there cannot be
            if "@" in self.bridge and (self.user or self.password):
                raise ValueError("edge.bridge names a user, and so do edge.user or edge.password: leave one of them")
        elif self.senses or self.actuators:
            raise ValueError("senses and actuators are at a broker: say in edge.bridge at which")
        return self

    @model_validator(mode="after")
    def _listens(self) -> Self:
        if self.listen is not None:
            host, _ = host_and_port(self.listen)  # raises for a port that there cannot be
            if self.listen_password is None and not is_loopback(host):
                raise ValueError(
                    "edge.listen is open to other machines: set edge.listen_password, or listen on 127.0.0.1"
                )
        return self


class MetricsSettings(Section):
    """Prometheus metrics."""

    host: str = "127.0.0.1"
    """Address that /metrics is served at: who reaches it reads the figures; 0.0.0.0 in a container."""
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """TCP port of /metrics; none: 9464, or a free one when that is taken."""
    max_agents: Annotated[int, Field(gt=0)] = 100
    """Agents with labels of their own; the rest count as `other`."""


class UiSettings(Section):
    """The dashboard."""

    enabled: bool = True
    """Whether `conch run` serves the dashboard; it needs the extra `ui`."""
    host: str = "127.0.0.1"
    """Address that it listens on; any other than this machine's own needs `token` and `origins`."""
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """TCP port of the dashboard; none: 26624, or a free one when that is taken."""
    token: SecretStr | None = None
    """What programs show as Bearer and people type once, 16 characters or more; none: the home makes one (ui/token)."""
    origins: tuple[Annotated[str, Field(json_schema_extra={"pattern": ORIGIN}), AfterValidator(_is_origin)], ...] = ()
    """Addresses that browsers know the dashboard by beside its own, such as https://conch.example.org."""
    unsafe_allow_unauthenticated: bool = False
    """Whether everybody who reaches it may see and do everything, without a token."""

    @field_validator("token")
    @classmethod
    def _token_travels(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not re.fullmatch(r"[!-~]+", token.get_secret_value()):
            raise ValueError("a token travels in a header: letters, digits and signs of ASCII, no blanks, at least one")
        if token is not None and len(token.get_secret_value()) < LEAST_TOKEN:
            raise ValueError(
                f"a token that nobody guesses has {LEAST_TOKEN} characters or more: openssl rand -hex 16 draws one"
            )
        return token

    @model_validator(mode="after")
    def _lets_in_whom_it_knows(self) -> Self:
        known = self.token is not None and self.origins
        if not (is_loopback(self.host) or known or self.unsafe_allow_unauthenticated):
            raise ValueError(
                f"ui.host {self.host} is open to other machines: set ui.token, and in ui.origins what browsers call "
                "the page (https://conch.example.org), or let everybody in with ui.unsafe_allow_unauthenticated"
            )
        return self


class OtelSettings(Section):
    """OpenTelemetry: traces of the cycles, with their scores."""

    endpoint: (
        Annotated[str, Field(pattern=r"^https?://([^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(:\d{1,5})?(/\S*)?$")]
        | None
    ) = None
    """OTLP/HTTP endpoint that traces go to, without /v1/traces; none: that of OTEL_EXPORTER_OTLP_ENDPOINT, if any."""
    headers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], SecretStr] = Field(default_factory=dict)
    """Headers of every request to the endpoint, {Authorization: …}."""
    content: bool = False
    """Whether prompts, replies, arguments and outputs of tools, and the scorers' words about them go there too."""

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            text = value.get_secret_value()
            if not (text.isascii() and text.isprintable() and text == text.strip()):
                raise ValueError(f"the value of {name} must be printable ASCII, without blanks around it")
        return headers


class LogSettings(Section):
    """Log lines."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is written."""
    format: Literal["json", "console"] = "json"
    """json: one object a line; console: for reading."""
    megabytes: Annotated[float, Field(gt=0)] = 20.0
    """MB of one log file before it is rotated; three old ones are kept."""


class Settings(Section):
    """Everything that can be set."""

    agent: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] = "echo"
    """The agent's name: small letters, digits, hyphens."""
    workspace: str | None = None
    """Directory that the agent works in; none: workspace/ in the home directory."""
    bus: BusSettings = BusSettings()
    """The message bus."""
    mind: MindSettings = MindSettings()
    """Who thinks and decides."""
    cycle: CycleSettings = CycleSettings()
    """The rhythm of the cycle."""
    tools: ToolSettings = ToolSettings()
    """What the agent may do."""
    rewards: RewardSettings = RewardSettings()
    """How scores become a total."""
    constitution: ConstitutionSettings = ConstitutionSettings()
    """The principles that acts are held to."""
    watch: WatchSettings = WatchSettings()
    """What the watchers of the reward look at."""
    needs: NeedsSettings = NeedsSettings()
    """What the agent needs."""
    goals: tuple[Goal, ...] = ()
    """Goals that are set when the agent starts, unless they were set before."""
    store: StoreSettings = StoreSettings()
    """The experience store."""
    metrics: MetricsSettings = MetricsSettings()
    """Prometheus metrics."""
    ui: UiSettings = UiSettings()
    """The dashboard."""
    edge: EdgeSettings = EdgeSettings()
    """MQTT: devices and smart homes."""
    otel: OtelSettings = OtelSettings()
    """OpenTelemetry: traces of the cycles, with their scores."""
    log: LogSettings = LogSettings()
    """Log lines."""
    seed: int = 0
    """Seed of everything that is drawn: the same seed, the same draws."""

    @model_validator(mode="after")
    def _listens_itself(self) -> Self:
        if self.edge.listen is not None and self.bus.url is not None:
            raise ValueError("edge.listen is the embedded server's: with bus.url, let your own server listen for MQTT")
        return self
