"""Settings of the agent: mind, cycle, tools, values."""

from __future__ import annotations

import base64
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, SecretStr, field_validator, model_validator

from conch.config.model.section import SettingsSection


class ReflexSettings(SettingsSection):
    """The embedded mind."""

    writes: bool = False
    """Whether it may change files in a workspace that Conch did not make; in one that Conch made it may."""
    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Share of decisions drawn evenly from all candidates, 0..1; above 0, policies can be compared on its log."""


class MindSettings(SettingsSection):
    """The mind, which thinks and decides."""

    kind: Literal["reflex", "openai", "local", "scripted"] = "reflex"
    """reflex: a bandit; openai: any OpenAI-compatible endpoint; local: a model that Conch serves; scripted: a file."""
    base_url: str = "http://127.0.0.1:8000/v1"
    """Address of the OpenAI-compatible endpoint, up to and with /v1."""
    model: str = "default"
    """Name of the model at the endpoint. For the reflex mind, random chooses at random: a baseline for learning."""
    api_key: SecretStr | None = None
    """Bearer key of the endpoint."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.7
    """Sampling temperature, 0 to 2."""
    max_tokens: Annotated[int, Field(gt=0)] = 1024
    """Most tokens of one reply."""
    context_window: Annotated[int, Field(gt=0)] | None = None
    """Tokens of the model's context window; none: not known, and the share of it that a prompt uses is not judged."""
    prompt_tokens: Annotated[int, Field(ge=256)] | None = None
    """Most tokens of a prompt, 3 bytes each; none: as context_window allows, else 8000 (512 but for openai)."""
    timeout: Annotated[float, Field(gt=0)] = 120.0
    """Seconds for one reply, including all its retries."""
    max_tokens_per_hour: Annotated[int, Field(gt=0)] | None = None
    """Tokens, in and out, that the agent may use in an hour; then it pauses. None: no limit."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields of your own in each request to the endpoint, such as top_p: 0.9; a field of "null" is left out."""
    constrain: Literal["auto", "off", "grammar"] = "auto"
    """grammar: decisions are held to a GBNF grammar of the tools (llama.cpp); auto: so for local, not for openai."""
    free_share: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of cycles, 0..1, whose decision is decoded without a constraint where there is one."""
    script: str | None = None
    """File of replies for the scripted mind, one per line."""
    reflex: ReflexSettings = ReflexSettings()
    """The embedded mind."""

    @field_validator("extra")
    @classmethod
    def _leaves_the_question(cls, extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted({"model", "messages", "stream"} & extra.keys()):
            raise ValueError(f"{taken[0]} is set by Conch itself")
        return extra


class CycleSettings(SettingsSection):
    """The cycle: its timing, and the processes that run it."""

    interval: Annotated[float, Field(ge=0)] = 1.0
    """Seconds from one cycle to the next."""
    reflect_every: Annotated[int, Field(ge=0)] = 10
    """Cycles from one reflection to the next; 0: never."""
    processes: Annotated[int, Field(ge=1, le=256)] = 1
    """Processes over which the agents of a run are spread; with fewer agents, one process for each agent."""
    material: bool = True
    """Whether new files and goals come, every 20 cycles, to a workspace that Conch made and filled; to no other."""


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
    """KiB of output that are read from a program; a program that writes more is killed."""
    file_mib: Annotated[int, Field(gt=0)] = 64
    """Largest file that a tool may write, in MiB."""


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
