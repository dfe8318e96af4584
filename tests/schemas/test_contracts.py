"""The contracts: written strictly, read tolerantly, generated files current."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from conch_schemas import (
    EVENTS,
    MAX_EVENT_BYTES,
    Action,
    ActionTaken,
    ContractViolationError,
    Cut,
    MessageReceived,
    Outcome,
    Score,
    action_id,
    agent_of,
    consequence_id,
    cycle_event_id,
    decode,
    encode,
    source_of,
    subject_filter,
    subject_of,
)
from conch_schemas.generate import asyncapi, event_schema, files

SCHEMAS = Path(__file__).parents[2] / "schemas"
AGENTUID = "5b1c8a2e-0d8f-4d0a-9a55-0c6a3b7f1e21"


def an_act(**changes: Any) -> ActionTaken:
    """An act of cycle 7."""
    own = action_id(AGENTUID, 7)
    fields: dict[str, Any] = {
        "id": cycle_event_id(own, ActionTaken),
        "source": source_of("echo", AGENTUID),
        "agent": "echo",
        "cycle": 7,
        "action_id": own,
        "subject": own,
        "action": Action(kind="TOOL", valid=True, tool="shell", args={"command": "ls"}),
        "raw": 'TOOL: shell(command="ls")',
        "raw_length": 25,
        "raw_sha256": "0" * 64,
        "outcome": Outcome(status="success", output=Cut(text="a\n", length=2, sha256="0" * 64)),
        "needs": {"curiosity": 0.5},
        "model": "none",
        "ms": {"think": 1.0},
    }
    return ActionTaken(**(fields | changes))


def test_an_event_travels_as_a_cloudevent_with_its_data_apart() -> None:
    """The envelope's names are the wire's; everything else stands under `data`."""
    wire = json.loads(encode(an_act()))

    assert wire["specversion"] == "1.0"
    assert wire["type"] == "conch.v1.action.taken"
    assert wire["source"] == f"conch/echo/{AGENTUID}"
    assert wire["actionid"] == wire["subject"] == action_id(AGENTUID, 7)
    assert wire["data"]["action"]["tool"] == "shell"
    assert "action" not in wire
    assert all(name.isalnum() and name == name.lower() for name in wire)


def test_what_is_written_is_read_back_the_same() -> None:
    """Decoding gives the event that was encoded, of its own class."""
    event = an_act()

    assert decode(encode(event)) == event


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    args=st.dictionaries(st.text(), _JSON, max_size=3),
    text=st.text(),
    ms=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    time=st.datetimes(timezones=st.none() | st.just(UTC)),
)
def test_the_encoder_says_what_pydantic_would_say(args: Any, text: str, ms: dict[str, float], time: datetime) -> None:
    """Whatever an event holds, its wire form and the serializer of its model are the same JSON, and it is read back."""
    event = an_act(action=Action(kind="TOOL", valid=True, tool=text, args=args), raw=text, ms=ms, time=time)

    assert json.loads(encode(event)) == json.loads(event.model_dump_json())
    assert decode(encode(event)) == event


def test_a_copy_with_changes_is_encoded_anew() -> None:
    """What was encoded once is not said of another event."""
    event = an_act()

    before, after = encode(event), encode(event.model_copy(update={"raw": "DO_NOTHING: rest"}))

    assert encode(event) is before
    assert json.loads(after)["data"]["raw"] == "DO_NOTHING: rest"


@pytest.mark.parametrize("place", [(), ("data",), ("data", "action"), ("data", "outcome", "output")])
def test_a_reader_of_this_version_ignores_fields_of_a_later_one(place: tuple[str, ...]) -> None:
    """An unknown field at any depth changes nothing."""
    event = an_act()
    wire = json.loads(encode(event))
    node = wire
    for key in place:
        node = node[key]
    node["of_the_future"] = {"x": 1}

    assert decode(json.dumps(wire).encode()) == event


def test_a_writer_is_refused_an_unknown_field() -> None:
    """A misspelt field is an error where the event is made."""
    with pytest.raises(ValidationError, match="outcom"):
        an_act(outcom=1)


@pytest.mark.parametrize(
    "garbage", [b"", b"\x00\xff", b"[]", b"{}", b'"x"', b'{"type":"conch.v2.action.taken"}', b"[" * 100_000, b"1e999"]
)
def test_garbage_is_a_contract_violation_and_nothing_else(garbage: bytes) -> None:
    """Whatever the bytes are, the one error says what is wrong."""
    with pytest.raises(ContractViolationError, match="not an event"):
        decode(garbage)


@given(st.binary(max_size=300))
def test_no_bytes_make_the_decoder_raise_anything_else(data: bytes) -> None:
    """Random bytes are refused in the one way."""
    with pytest.raises(ContractViolationError):
        decode(data)


def test_an_event_that_is_too_large_is_not_encoded() -> None:
    """512 KiB is the most that travels."""
    with pytest.raises(ContractViolationError, match="more than"):
        encode(an_act(thought="x" * MAX_EVENT_BYTES))


def test_a_score_has_a_value_exactly_when_it_was_scored() -> None:
    """What could not be scored is never 0."""
    common: dict[str, Any] = {"component": "c", "range": (0.0, 1.0), "scorer": "s", "version": "1"}

    with pytest.raises(ValidationError):
        Score(**common, status="error", value=0.0)
    with pytest.raises(ValidationError):
        Score(**common, status="scored")
    with pytest.raises(ValidationError):
        Score(**common, status="scored", value=1.5)
    assert Score(**common, status="timeout").value is None


def test_ids_are_derived_as_is_written() -> None:
    """uuid5 over the agent's UUID, the action's id, the cause's id: anybody can work them out."""
    own = str(uuid5(UUID(AGENTUID), "7.0"))

    assert action_id(AGENTUID, 7) == own
    assert cycle_event_id(own, ActionTaken) == str(uuid5(UUID(own), "conch.v1.action.taken"))
    assert consequence_id(own, "joy", "1", ActionTaken, 2) == str(uuid5(UUID(own), "joy/1/conch.v1.action.taken/2"))


@given(
    st.uuids().map(str) | st.uuids().map(lambda own: own.hex.upper()) | st.uuids().map("urn:uuid:{}".format) | st.text()
)
def test_any_text_is_a_cause(cause: str) -> None:
    """However a cause's id is written, its consequence is uuid5 of the UUID it is, or of the one it folds to."""
    try:
        namespace = UUID(cause)
    except ValueError:
        namespace = uuid5(UUID(int=0), cause)

    assert consequence_id(cause, "joy", "1", ActionTaken) == str(uuid5(namespace, "joy/1/conch.v1.action.taken/0"))


def test_a_cause_whose_id_is_no_uuid_has_consequences_too() -> None:
    """Consumers in other languages may name their events as they like."""
    assert consequence_id("any text", "joy", "1", ActionTaken) == consequence_id("any text", "joy", "1", ActionTaken)
    assert consequence_id("any text", "joy", "1", ActionTaken) != consequence_id("other", "joy", "1", ActionTaken)


def test_subjects_say_agent_and_event() -> None:
    """A subject names whose fact it is and what happened, and the agent is read back from it."""
    assert subject_of(an_act()) == "conch.v1.echo.action.taken"
    assert subject_filter(ActionTaken) == "conch.v1.*.action.taken"
    assert agent_of("conch.v1.echo.action.taken") == "echo"
    assert agent_of("conch.ctl.echo.pause") is None


@pytest.mark.parametrize("agent", ["", "Echo", "a.b", "*", "a b", "-a", "ä"])
def test_an_agents_name_is_one_token(agent: str) -> None:
    """What could break a subject is refused where the event is made."""
    with pytest.raises(ValidationError):
        MessageReceived(id="1", source="s", agent=agent, text="hi")


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.TYPE)
def test_every_event_is_named_by_the_same_words(kind: Any) -> None:
    """Class, type and subject: ActionTaken, conch.v1.action.taken."""
    noun, verb = kind.TYPE.split(".")

    assert kind.__name__ == "".join(word.capitalize() for word in (noun, *verb.split("_")))
    assert kind.model_fields["type"].default == f"conch.v1.{kind.TYPE}"
    assert kind.__doc__


def test_the_generated_contracts_are_current() -> None:
    """`python -m conch_schemas.generate schemas` would change nothing, and no file is left from before."""
    there = {str(path.relative_to(SCHEMAS)): path.read_text() for path in SCHEMAS.rglob("*.json")}

    assert there == files()


def test_another_reader_of_json_schema_accepts_what_is_written() -> None:
    """The schema that is shipped describes the wire form, and refuses what is not it."""
    schema = event_schema(ActionTaken)
    wire = json.loads(encode(an_act()))

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(wire, schema)
    del wire["data"]["outcome"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wire, schema)


def test_the_asyncapi_document_has_a_channel_for_every_event() -> None:
    """Each reference leads somewhere."""
    document = asyncapi()

    assert {channel["address"] for channel in document["channels"].values()} == {
        f"conch.v1.{{agent}}.{kind.TYPE}" for kind in EVENTS
    }
    for operation in document["operations"].values():
        assert operation["channel"]["$ref"].rsplit("/", 1)[-1] in document["channels"]
    for message in document["components"]["messages"].values():
        assert (SCHEMAS / message["payload"]["schema"]["$ref"]).is_file()
