"""Pages of the reference, generated from the code when the documentation is built: a hook of MkDocs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel

import conch
import conch.metrics
import conch.rewards.compose
import conch.testing
import conch.trl
import conch.verifiers
from conch.cli.main import make_app
from conch.config import Settings
from conch_schemas import EVENTS
from conch_schemas.generate import event_schema
from conch_services.dashboard.api import openapi
from conch_services.metrics.instruments import Instruments

Schema = Mapping[str, Any]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those that are written by hand."""
    for make in (commands, configuration, events, http, metrics, python):
        files.append(File.generated(config, f"reference/{make.__name__}.md", content=make()))
    return files


def commands() -> str:
    """Every command with its options."""
    return make_app().generate_docs().replace("# conch\n", "# Commands\n", 1)


def configuration() -> str:
    """Every setting: its key, type, default and meaning."""
    page = [
        "# Configuration",
        "Settings come from `conch.yaml` in the home directory, then from the environment (`CONCH_MIND__MODEL` sets "
        "`mind.model`), then from the command line; the last one counts. `conch config show` prints each value with "
        "its source. An unknown key is refused with the nearest known one named.",
    ]
    whole = Settings.model_json_schema()
    page += ["## General", *_table("Key", _settings(whole, "", whole["properties"], nested=False))]
    for name, schema in whole["properties"].items():
        if "$ref" in schema:
            section = _resolved(whole, schema)
            page += [f"## {name}", schema.get("description") or section.get("description", "")]
            page += _table("Key", _settings(whole, f"{name}.", section["properties"], nested=True))
    return "\n\n".join(page)


def events() -> str:
    """Every event: its type, subject and fields."""
    page = [
        "# Events",
        "An event travels as a CloudEvent 1.0 in structured JSON on the subject `conch.v1.<agent>.<noun>.<verb>`. The "
        "fields below stand under `data`. The JSON Schemas and an AsyncAPI 3 document are in `schemas/`. Readers "
        "ignore fields that they do not know.",
    ]
    for kind in EVENTS:
        schema = event_schema(kind)
        data = schema["properties"]["data"]
        rows = (
            (name, _type(one), _default(one, name in data["required"]), "") for name, one in data["properties"].items()
        )
        page += [f"## {kind.TYPE}", f"`{kind.__name__}`: {inspect.getdoc(kind)}", *_table("Field", rows)]
    return "\n\n".join(page)


def http() -> str:
    """Every operation of the HTTP API."""
    document = openapi()
    page = [
        "# HTTP API",
        "Served under `/api/v1` by the dashboard. A program authenticates with `Authorization: Bearer` and the token "
        "in `HOME/ui/token`. The complete OpenAPI document is at `/api/v1/openapi.json`.",
        "| method | path | what it does |\n|---|---|---|\n"
        + "\n".join(
            f"| {method.upper()} | `{path}` | {_cell(operation.get('description') or operation['summary'])} |"
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        ),
    ]
    return "\n\n".join(page)


def metrics() -> str:
    """Every metric of `/metrics`."""
    families = text_string_to_metric_families(Instruments().text(openmetrics=False).decode())
    rows = "\n".join(f"| `{family.name}` | {family.type} | {_cell(family.documentation)} |" for family in families)
    page = [
        "# Metrics",
        "Served at `/metrics` in the formats of Prometheus and OpenMetrics. A plug-in consumer may "
        "[publish metrics of its own](../guides/consumers.md#metrics-of-your-own), `conch_plugin_…`.",
        f"| metric | type | meaning |\n|---|---|---|\n{rows}",
    ]
    return "\n\n".join(page)


def python() -> str:
    """The public names of the packages that programs import."""
    page = ["# Python API"]
    for module in (
        conch,
        conch.metrics,
        conch.testing,
        conch.rewards.compose,
        conch.trl,
        conch.verifiers,
    ):
        page += [f"## {module.__name__}", inspect.getdoc(module) or ""]
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            page += [f"### {name}", *_signature(name, thing), inspect.getdoc(thing) or "", *_members(thing)]
    return "\n\n".join(page)


def _members(thing: object) -> Iterator[str]:
    """The documented public methods and properties of a class."""
    if not inspect.isclass(thing) or issubclass(thing, BaseModel):
        return
    for name, member in vars(thing).items():
        found = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and inspect.isfunction(found) and (doc := inspect.getdoc(found)):
            yield f"#### {thing.__name__}.{name}"
            yield from _signature(name, member)
            yield doc


def _signature(name: str, thing: object) -> list[str]:
    if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, BaseModel)):
        return []
    try:
        return [f"```python\n{name}{inspect.signature(thing)}\n```"]
    except ValueError:
        return []


def _settings(whole: Schema, prefix: str, properties: Schema, *, nested: bool) -> Iterator[tuple[str, str, str, str]]:
    """(key, type, default, meaning) of each setting; with `nested`, those of inner sections too."""
    for name, schema in properties.items():
        if "$ref" in schema and "properties" in _resolved(whole, schema):
            if nested:
                yield from _settings(whole, f"{prefix}{name}.", _resolved(whole, schema)["properties"], nested=True)
        else:
            yield (
                f"{prefix}{name}",
                _type(schema),
                _default(schema, "default" not in schema),
                schema.get("description", ""),
            )


def _resolved(whole: Schema, schema: Schema) -> Schema:
    found: Schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    return found


def _type(schema: Schema) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(json.dumps(one) for one in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    return str(schema.get("type", "any"))


def _default(schema: Schema, required: bool) -> str:
    default = schema.get("default")
    text = "required" if required else json.dumps(default.model_dump() if isinstance(default, BaseModel) else default)
    return text if len(text) <= 60 else "see `conch init`"


def _table(first: str, rows: Iterator[tuple[str, str, str, str]]) -> list[str]:
    lines = [f"| {first.lower()} | type | default | meaning |\n|---|---|---|---|"]
    lines += [f"| `{name}` | {_cell(kind)} | {_cell(default)} | {_cell(text)} |" for name, kind, default, text in rows]
    return ["\n".join(lines)]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
