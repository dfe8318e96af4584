"""`python -m conch_schemas.generate [DIR]`: JSON Schema of every event and the AsyncAPI document, from the models."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from conch_schemas.envelope import ENVELOPE, Event, event_type
from conch_schemas.json_object import JsonObject
from conch_schemas.registry import EVENTS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REQUIRED = ("specversion", "id", "source", "type", "agent", "data")


def event_schema(kind: type[Event]) -> JsonObject:
    """The JSON Schema of one event on the wire: the envelope, with the data under `data`.

    Unknown properties are allowed, as every reader ignores them: contracts grow by optional fields.
    """
    flat = kind.model_json_schema(by_alias=False)
    properties = flat["properties"]
    names = {theirs: properties[ours] for ours, theirs in ENVELOPE.items()}
    data = {name: schema for name, schema in properties.items() if name not in ENVELOPE}
    required = [name for name in flat.get("required", ()) if name not in ENVELOPE]
    schema: JsonObject = {
        "$schema": DIALECT,
        "$id": f"{event_type(kind)}.json",
        "title": kind.__name__,
        "description": (kind.__doc__ or "").strip().partition("\n")[0],
        "type": "object",
        "properties": names | {"data": {"type": "object", "properties": data, "required": required}},
        "required": list(_REQUIRED),
    }
    if "$defs" in flat:
        schema["$defs"] = flat["$defs"]
    opened: JsonObject = _opened(schema)
    return opened


def _opened(node: Any) -> Any:
    """The schema without `additionalProperties: false`, which applies to writers only."""
    if isinstance(node, dict):
        return {
            key: _opened(value) for key, value in node.items() if not (key == "additionalProperties" and value is False)
        }
    return [_opened(value) for value in node] if isinstance(node, list) else node


def asyncapi() -> JsonObject:
    """The AsyncAPI 3 document: a channel per event, on NATS subjects."""
    channels, operations, messages = {}, {}, {}
    for kind in EVENTS:
        name = kind.__name__
        address = f"conch.v1.{{agent}}.{kind.TYPE}"
        messages[name] = {
            "name": event_type(kind),
            "title": name,
            "summary": (kind.__doc__ or "").strip().partition("\n")[0],
            "contentType": "application/cloudevents+json",
            "payload": {"schemaFormat": f"application/schema+json;version={DIALECT}", "schema": {"$ref": _file(kind)}},
        }
        channels[name] = {
            "address": address,
            "parameters": {"agent": {"description": "The agent's name: one token of small letters, digits, hyphens."}},
            "messages": {name: {"$ref": f"#/components/messages/{name}"}},
        }
        operations[f"receive{name}"] = {
            "action": "receive",
            "channel": {"$ref": f"#/channels/{name}"},
            "messages": [{"$ref": f"#/channels/{name}/messages/{name}"}],
        }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Conch",
            "version": "1.0.0",
            "description": "Facts on the bus, as CloudEvents 1.0 in structured JSON. Order is the stream sequence.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/cloudevents+json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages},
    }


def _file(kind: type[Event]) -> str:
    return f"json/{event_type(kind)}.json"


def files() -> dict[str, str]:
    """Every generated file, relative to the folder `schemas`, with its content."""
    found = {_file(kind): _text(event_schema(kind)) for kind in EVENTS}
    found["asyncapi.json"] = _text(asyncapi())
    return found


def _text(document: JsonObject) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the generated files."""
    parser = argparse.ArgumentParser(prog="python -m conch_schemas.generate", description=main.__doc__)
    parser.add_argument("target", type=Path, nargs="?", default=Path("schemas"), help="the directory to write them to")
    target: Path = parser.parse_args().target
    for name, text in files().items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
