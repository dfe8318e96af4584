"""Settings of the agent: mind, cycle, tools, values."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, SecretStr, field_validator, model_validator

from conch.config.model.section import SettingsSection
from conch.config.model.tools.http import HttpToolSettings
from conch.config.model.tools.mcp import McpServers
from conch.config.model.tools.policy import ToolPolicyRules
from conch.installed import entry_points_of

LEAST_WINDOW = 512
"""Tokens of the smallest context window: the smallest prompt has 256, and a reply is to fit in beside it."""
MINDS = ("reflex", "openai", "local", "transformers", "scripted")
"""The kinds of minds that Conch brings."""
SERVED = ("local", "transformers")
"""The kinds whose model an engine of Conch serves."""
MIND_GROUP = "conch.minds"
"""Entry points by which installed packages register minds."""
MOST_FALLBACKS = 8
"""Minds that can be named to be asked while the first one fails."""


class ReflexSettings(SettingsSection):
    """The embedded mind."""

    writes: bool = False
    """Whether it may change files in a workspace that Conch did not make; in one that Conch made it may."""
    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Share of decisions drawn evenly from all candidates, 0..1; above 0, policies can be compared on its log."""


class PriceSettings(SettingsSection):
    """What an endpoint charges for a million tokens, in `mind.currency`."""

    input: Annotated[float, Field(ge=0)]
    """Price of a million tokens of prompts."""
    output: Annotated[float, Field(ge=0)]
    """Price of a million tokens of replies."""
    cached_input: Annotated[float, Field(ge=0)] | None = None
    """Price of a million tokens of prompts that the endpoint had in its cache; none: as input."""

    def of(self, tokens_in: int, tokens_out: int, cached: int = 0) -> float:
        """The price of so many tokens; `cached` of those of the prompt were in the endpoint's cache."""
        cached = min(cached, tokens_in)
        less = self.input if self.cached_input is None else self.cached_input
        return ((tokens_in - cached) * self.input + cached * less + tokens_out * self.output) / 1_000_000


class OneMindSettings(SettingsSection):
    """One mind: an endpoint and its model, the embedded mind, or a script."""

    kind: Annotated[str, Field(json_schema_extra={"examples": list(MINDS)})] = "reflex"
    """reflex; openai: a compatible endpoint; local or transformers: an engine of Conch; scripted; or a package's."""
    base_url: str = "http://127.0.0.1:8000/v1"
    """Address of the OpenAI-compatible endpoint, up to and with /v1."""
    model: str = "default"
    """Name of the model at the endpoint. For the reflex mind, random chooses at random: a baseline for learning."""
    api_key: SecretStr | None = None
    """Bearer key of the endpoint."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.7
    """Sampling temperature, 0 to 2; local and transformers, where it is not set: 0.3."""
    max_tokens: Annotated[int, Field(gt=0)] = 8192
    """Most tokens of one reply, at most half of context_window; local and transformers, where it is not set: 1024."""
    context_window: Annotated[int, Field(ge=LEAST_WINDOW)] | None = None
    """Tokens of the model's context window; none: not known; of Conch's engines, what the model has, at most 8192."""
    prompt_tokens: Annotated[int, Field(ge=256)] | None = None
    """Most tokens of a prompt; none: as context_window allows, else 8000 (512 but for openai). Below 1500: one task."""
    prompt_share: Annotated[float, Field(gt=0, le=0.9)] = 0.6
    """Share of context_window that a prompt may use where prompt_tokens is not set, 0..0.9."""
    timeout: Annotated[float, Field(gt=0)] = 120.0
    """Seconds for one reply, including all its retries."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields of your own in each request to the endpoint, such as top_p: 0.9; a field of "null" is left out."""
    constrain: Literal["auto", "off", "grammar", "schema", "tools"] = "auto"
    """What decisions are held to: grammar, JSON schema, calls of tools; auto: the first that the endpoint takes."""
    free_share: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of cycles, 0..1, whose decision is decoded without a constraint where there is one."""
    adapters: Literal["auto", "vllm", "sglang", "named"] = "auto"
    """How the endpoint loads adapters: as vLLM, as SGLang, or by an operator (named); auto: as it says of itself."""
    script: str | None = None
    """File of replies for the scripted mind, one per line."""
    reflex: ReflexSettings = ReflexSettings()
    """The embedded mind."""
    price: PriceSettings | None = None
    """What the endpoint charges for a million tokens; none: unknown."""

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind in MINDS:
            return kind
        registered = sorted({point.name for point in entry_points_of([MIND_GROUP])[0]} - set(MINDS))
        if kind not in registered:
            known = f"{', '.join(map(repr, MINDS[:-1]))} or {MINDS[-1]!r}"
            more = f", or of an installed package: {', '.join(map(repr, registered))}" if registered else ""
            raise ValueError(f"must be {known}{more}")
        return kind

    @field_validator("extra")
    @classmethod
    def _leaves_the_question(cls, extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted({"model", "messages", "stream"} & extra.keys()):
            raise ValueError(f"{taken[0]} is set by Conch itself")
        return extra

    @property
    def reply_tokens(self) -> int:
        """Most tokens of one reply: `max_tokens`, and at most half of the context window."""
        window = self.context_window
        return self.max_tokens if window is None else min(self.max_tokens, window - window // 2)


class MindSettings(OneMindSettings):
    """The mind, which thinks and decides; for each step another one, and fallbacks, where they are named."""

    max_tokens_per_hour: Annotated[int, Field(gt=0)] | None = None
    """Tokens, in and out, that the agent may use in an hour; then it pauses. None: no limit."""
    think: OneMindSettings | None = None
    """The mind that thinks and reflects, by the keys that differ from mind; none: the same as decides."""
    decide: OneMindSettings | None = None
    """The mind that decides, by the keys that differ from mind; none: mind itself."""
    fallbacks: Annotated[tuple[OneMindSettings, ...], Field(max_length=MOST_FALLBACKS)] = ()
    """Minds that are asked, in this order, while the first one fails; each by the keys that differ from mind."""
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] | None = None
    """Currency of all prices, three capital letters such as EUR; none: no cost is known."""

    @model_validator(mode="before")
    @classmethod
    def _completes_its_parts(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        own = {name: value for name, value in given.items() if name in OneMindSettings.model_fields}
        complete = {name: _complete(own, given[name]) for name in ("think", "decide") if name in given}
        if isinstance(fallbacks := given.get("fallbacks"), list | tuple):
            complete["fallbacks"] = [_complete(own, one) for one in fallbacks]
        return {**given, **complete}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.thinking.kind == "scripted" != self.deciding.kind:
            raise ValueError("a script thinks only where it decides: give mind.decide the kind scripted as well")
        for number, one in enumerate(self.fallbacks):
            if one.kind == "scripted":
                raise ValueError(
                    f"mind.fallbacks[{number}] is a script, whose replies belong to cycles: name another kind"
                )
            if one == self.thinking == self.deciding or one in self.fallbacks[:number]:
                raise ValueError(
                    f"mind.fallbacks[{number}] is asked already: name a key that differs, such as kind: reflex"
                )
        blocks = self.blocks()
        if len({(one.kind, one.model) for one in blocks.values() if one.kind in SERVED}) > 1:
            raise ValueError(
                "a run serves one local model: give all minds of the kinds local and transformers one kind and model"
            )
        if len({(one.model, one.reflex) for one in blocks.values() if one.kind == "reflex"}) > 1:
            raise ValueError("an agent has one reflex mind: give all of the kind reflex the same model and reflex")
        if self.currency is None and (priced := [name for name, one in blocks.items() if one.price is not None]):
            raise ValueError(f"{priced[0]}.price needs mind.currency, the currency of the prices, such as EUR")
        return self

    @property
    def itself(self) -> OneMindSettings:
        """What `mind` says of one mind."""
        return OneMindSettings.model_construct(**{name: getattr(self, name) for name in OneMindSettings.model_fields})

    @property
    def thinking(self) -> OneMindSettings:
        """The mind that thinks and reflects."""
        return self.think or self.itself

    @property
    def deciding(self) -> OneMindSettings:
        """The mind that decides."""
        return self.decide or self.itself

    def blocks(self) -> dict[str, OneMindSettings]:
        """The minds that are asked, by their key: that which decides first, then that which thinks where it is another
        one, then the fallbacks."""
        found = {"mind" if self.decide is None else "mind.decide": self.deciding}
        if self.thinking != self.deciding:
            found["mind" if self.think is None else "mind.think"] = self.thinking
        return found | {f"mind.fallbacks[{number}]": one for number, one in enumerate(self.fallbacks)}

    def of_kind(self, kind: str) -> OneMindSettings | None:
        """The first of the minds that are asked that is of this kind; None: there is none."""
        return next((one for one in self.blocks().values() if one.kind == kind), None)

    @property
    def served(self) -> OneMindSettings | None:
        """The first of the minds that are asked whose model an engine of Conch serves; None: there is none."""
        return next((one for one in self.blocks().values() if one.kind in SERVED), None)

    def alone(self) -> Self:
        """These settings without minds for single steps, and without fallbacks."""
        return self.model_copy(update={"think": None, "decide": None, "fallbacks": ()})

    def each(self, change: Callable[[OneMindSettings], Mapping[str, object]]) -> Self:
        """These settings with the changes that `change` names of each mind."""
        changed: dict[str, object] = dict(change(self))
        for name in ("think", "decide"):
            if (one := getattr(self, name)) is not None:
                changed[name] = one.model_copy(update=change(one))
        changed["fallbacks"] = tuple(one.model_copy(update=change(one)) for one in self.fallbacks)
        return self.model_copy(update=changed)

    @property
    def words(self) -> str:
        """The kinds of its minds for a person, such as `openai, else reflex`."""
        said: str = self.deciding.kind
        if self.thinking != self.deciding:
            said = f"{self.thinking.kind} to think, {said} to decide"
        return ", else ".join([said, *(one.kind for one in self.fallbacks)])


def _complete(own: Mapping[str, object], part: object) -> object:
    """A part with what it takes from `mind`: all that it does not name. Of another kind, it takes the address and the
    key alone. At another address it does not take the key, and price and context window only of the same model there.
    """
    if not isinstance(part, Mapping):
        return part
    kind = own.get("kind", "reflex")
    other_kind = part.get("kind", kind) != kind
    taken = {name: value for name, value in own.items() if not other_kind or name in ("base_url", "api_key")}
    moved = any(part.get(name, own.get(name)) != own.get(name) for name in ("base_url", "model"))
    if part.get("base_url", own.get("base_url")) != own.get("base_url"):
        taken.pop("api_key", None)
    if moved:
        taken.pop("price", None)
        taken.pop("context_window", None)
    return {**taken, **part}


class SleepSettings(SettingsSection):
    """When an agent that has nothing to do sleeps, and how long. A run of a set number of cycles, or of a script, does
    not sleep."""

    first: Annotated[float, Field(ge=0)] = 10.0
    """Seconds of the first sleep; each further one in a row is twice as long. 0: it never sleeps."""
    longest: Annotated[float, Field(gt=0, le=86_400)] = 3600.0
    """Most seconds of a sleep, at least `first`."""
    after: Annotated[int, Field(ge=1)] = 10
    """Acts in a row without an effect, after which an open goal keeps the agent awake no longer."""

    @model_validator(mode="after")
    def _longest_is_longest(self) -> Self:
        if self.longest < self.first:
            raise ValueError("cycle.sleep.longest is shorter than cycle.sleep.first: make it at least as long")
        return self


class CycleSettings(SettingsSection):
    """The cycle: its timing, and the processes that run it."""

    interval: Annotated[float, Field(ge=0)] = 1.0
    """Seconds from one cycle to the next."""
    reflect_every: Annotated[int, Field(ge=0)] = 10
    """Cycles from one reflection to the next; 0: never."""
    sleep: SleepSettings = SleepSettings()
    """Sleep while there is nothing to do: no cycle, and no question to the mind."""
    processes: Annotated[int, Field(ge=1, le=256)] = 1
    """Processes over which the agents of a run are spread; with fewer agents, one process for each agent."""
    material: bool = True
    """Whether new files and goals come, as goals are reached, to a workspace that Conch filled; to no other."""


class ToolSettings(SettingsSection):
    """The tools' sandbox and its limits."""

    sandbox: Literal["bwrap", "off"] = "bwrap"
    """bwrap: shell and git run in bubblewrap, refused where it cannot run; off: they run unconfined."""
    timeout: Annotated[float, Field(gt=0)] = 10.0
    """Seconds that one tool call may take."""
    memory_mib: Annotated[int, Field(gt=0)] = 512
    """MiB of memory for each process in the sandbox, and for all of them together."""
    processes: Annotated[int, Field(gt=0)] = 64
    """Processes in the sandbox at once."""
    output_kib: Annotated[int, Field(gt=0)] = 1024
    """KiB of output that are read from a program that checks or searches; one that writes more is killed."""
    file_mib: Annotated[int, Field(gt=0)] = 64
    """Largest file that a tool may write, in MiB."""
    files: tuple[str, ...] = ()
    """Python files of @tool functions, relative to conch.yaml; each file runs in a process of its own."""
    http: HttpToolSettings = HttpToolSettings()
    """The tool `http`, which fetches pages of the hosts that are named; it is off where none is."""
    mcp: McpServers = Field(default_factory=dict)
    """MCP servers by name, whose tools the agent gets: {files: {command: [npx, …]}}; needs the extra mcp."""
    policy: ToolPolicyRules = ()
    """Rules, the first that fits decides: {tool: shell, do: ask}; by tool, operation and path. None fits: allowed."""
    approval_timeout: Annotated[float, Field(gt=0, le=604_800)] = 600.0
    """Seconds that an act waits for a person's approval until it is denied."""


class ValuesSettings(SettingsSection):
    """Values and guardrails: principles of the agent, and calls that are forbidden."""

    file: str | None = None
    """File of the values and guardrails, relative to conch.yaml, signed; none: the built-in ones."""
    key: str | None = None
    """Public key for the file's signature, base64: conch values sign prints it."""

    @field_validator("key")
    @classmethod
    def _is_a_key(cls, key: str | None) -> str | None:
        try:
            fits = key is None or len(base64.b64decode(key, validate=True)) == 32
        except ValueError:
            fits = False
        if not fits:
            raise ValueError("a public key is 32 bytes in base64, 44 characters: conch values sign prints it")
        return key

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.file is None) != (self.key is None):
            raise ValueError("values.file and values.key go together: conch values sign FILE prints both")
        return self
