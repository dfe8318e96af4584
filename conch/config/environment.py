"""`CONCH_*` variables as settings: `CONCH_MIND__MODEL` is mind.model."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from conch.config.keys import inside, nearest, takes_parts
from conch.config.model import Settings
from conch.config.source import KeyPath, SettingsLayer, dotted, leaves, merged
from conch.config.yaml_file import read_text
from conch.errors import ConfigError

PREFIX = "CONCH_"
NOT_KEYS = frozenset({"CONCH_HOME", "CONCH_CONFIG"})
"""The paths of the home and the file; the command line reads them."""

OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""OpenTelemetry's own variable for `otel.endpoint`."""
OPENAI_BASE_URL, OPENAI_API_KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
"""The variables of OpenAI's clients for `mind.base_url` and `mind.api_key`."""
OTLP_EXPORTER = "opentelemetry.exporter.otlp.proto.http"
"""The package that the extra `otel` installs; other parts of `opentelemetry` may be there for other programs."""

_KUBERNETES = re.compile(
    r"(_SERVICE_HOST|_SERVICE_PORT(_[A-Z0-9_]+)?|_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)=|_PORT=\w+://"
)
"""Kubernetes sets variables of these names in every pod beside a service named `conch…`."""


def read_environment(environ: Mapping[str, str]) -> SettingsLayer:
    """The settings in the variables; an empty variable is ignored. Names of keys are case-insensitive.

    A section, a table or a list is written as in the file: `CONCH_REWARDS__WEIGHTS='{format: 0.5, …}'`.
    Raises ConfigError for a variable that is not a setting, with the nearest one.
    """
    values: dict[str, object] = {}
    places: dict[KeyPath, str] = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or name in NOT_KEYS or not text or _of_kubernetes(name, text):
            continue
        path = tuple(name.removeprefix(PREFIX).lower().split("__"))
        said = _nested(path, _value(name, path, text))
        values = merged(values, said)
        places.update((leaf, f"environment {name}") for leaf, _ in leaves(said))
    return SettingsLayer(values, places)


def read_standard(environ: Mapping[str, str], base_url: str | None = None) -> SettingsLayer:
    """The settings in variables that are set for many programs: OpenTelemetry's, where its extra is installed (none of
    them is an error when this one cannot export), and OPENAI_BASE_URL and OPENAI_API_KEY.

    `base_url`: the mind's address in the other layers. At the address of another host the key is not taken.
    """
    found: dict[KeyPath, tuple[str, str]] = {}
    endpoint = environ.get(OTLP_ENDPOINT, "")
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if endpoint and not off and is_installed(OTLP_EXPORTER):
        found["otel", "endpoint"] = (OTLP_ENDPOINT, endpoint)
    own = environ.get(OPENAI_BASE_URL, "")
    if own:
        found["mind", "base_url"] = (OPENAI_BASE_URL, own)
    key = environ.get(OPENAI_API_KEY, "")
    if key and (base_url is None or _may_have_key(base_url, own)):
        found["mind", "api_key"] = (OPENAI_API_KEY, key)
    values: dict[str, object] = {}
    for path, (_, text) in found.items():
        values = merged(values, _nested(tuple(map(str, path)), text))
    return SettingsLayer(values, {path: f"environment {name}" for path, (name, _) in found.items()})


def _may_have_key(base_url: str, own: str) -> bool:
    """Whether the environment's key may go to the address that the settings name: its own, OpenAI's, this machine."""
    try:
        host, own_host = urlsplit(base_url).hostname, urlsplit(own).hostname
    except ValueError:
        return False
    return host in {own_host, "api.openai.com", "localhost", "127.0.0.1", "::1"} - {None}


def is_installed(module: str) -> bool:
    """Whether a module can be imported, as far as that is known without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing too
        return False


def to_install(extra: str) -> str:
    """The command that installs an extra into this environment, also where that runs from a clone of the project."""
    try:
        origin = json.loads(distribution("conch-agent").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # it runs from its source folder
        origin = {}
    if not origin.get("dir_info", {}).get("editable"):
        return f"pip install 'conch-agent[{extra}]'"
    own = Path(sys.executable).with_name("pip")
    pip = [str(own)] if own.exists() else ["pip", "--python", sys.executable]  # the system's pip installed into it
    return shlex.join([*pip, "install", "-e", f"{unquote(urlsplit(origin['url']).path)}[{extra}]"])


def variable(path: KeyPath) -> str:
    """The variable for a key."""
    return PREFIX + "__".join(str(part).upper() for part in path)


def _value(name: str, path: tuple[str, ...], text: str) -> Any:
    annotation: Any = Settings
    for part in path:
        annotation = inside(annotation, part)
        if annotation is None:
            raise ConfigError(f"environment {name}: {dotted(path)} is no setting{_advice(path)}")
    return read_text(text, f"environment {name}") if takes_parts(annotation) else text


def _advice(path: KeyPath) -> str:
    meant = " or ".join(variable(key) for key in nearest(path))
    return f"; did you mean {meant}?" if meant else " (conch config show lists all)"


def _nested(path: tuple[str, ...], value: Any) -> dict[str, object]:
    for part in reversed(path):
        value = {part: value}
    return dict(value)


def _of_kubernetes(name: str, value: str) -> bool:
    return "__" not in name and _KUBERNETES.search(f"{name}={value}") is not None
