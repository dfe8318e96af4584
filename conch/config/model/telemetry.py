"""Settings of metrics, traces and logs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator

from conch.config.model.section import SettingsSection

METRICS_PORT = 9464
"""The usual port of OpenTelemetry's Prometheus exporters: used unless another is configured."""


class MetricsSettings(SettingsSection):
    """Prometheus metrics."""

    host: str = "127.0.0.1"
    """Address that /metrics is served at; its figures need no password. 0.0.0.0 in a container."""
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """TCP port of /metrics; none: 9464, or a free one when that is taken."""
    max_agents: Annotated[int, Field(gt=0)] = 100
    """Agents with labels of their own; the others are counted as `other`."""


class OtelSettings(SettingsSection):
    """OpenTelemetry: traces of the cycles, with their scores."""

    endpoint: (
        Annotated[str, Field(pattern=r"^https?://([^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+)(:\d{1,5})?(/\S*)?$")]
        | None
    ) = None
    """OTLP/HTTP endpoint for traces, without /v1/traces; none: that of OTEL_EXPORTER_OTLP_ENDPOINT, if any."""
    headers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], SecretStr] = Field(default_factory=dict)
    """Headers of every request to the endpoint, {Authorization: …}."""
    content: bool = False
    """Whether traces hold prompts, replies, arguments and outputs of tools, and the scorers' explanations."""

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            text = value.get_secret_value()
            if not (text.isascii() and text.isprintable() and text == text.strip()):
                raise ValueError(f"the value of {name} must be printable ASCII, without blanks around it")
        return headers


class LogSettings(SettingsSection):
    """Log lines."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is written."""
    format: Literal["json", "console"] = "json"
    """json: one object per line; console: for reading."""
    megabytes: Annotated[float, Field(gt=0)] = 20.0
    """MB of a log file before it is rotated; three old ones are kept."""
