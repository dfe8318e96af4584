"""Lists of tools as MCP servers send them: each tool is judged by itself, and each lack is said with its reason."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.config import McpServerSettings, ToolSettings
from conch.errors import UsageError
from conch.secrets import HIDDEN
from conch.tools import Notes, Sandbox, Toolbox, ToolContext, open_servers
from conch_schemas import Action, Outcome

if TYPE_CHECKING:
    from tests.conftest import Until

SERVER = Path(__file__).with_name("listing_server.py")
OBJECT = {"type": "object"}


class Taken:
    """The tools that were taken of a server, what was told, and a call."""

    def __init__(self, toolbox: Toolbox, context: ToolContext, told: list[str]) -> None:
        self.toolbox, self._context, self.told = toolbox, context, told

    async def __call__(self, name: str, **args: Any) -> Outcome:
        return await self.toolbox.run(Action(kind="TOOL", valid=True, tool=name, args=args), self._context)

    def signatures(self) -> list[str]:
        """`name(arguments)` of each tool."""
        return [
            f"{spec.name}({', '.join(argument.describe() for argument in spec.arguments)})"
            for spec in self.toolbox.registry
        ]


Take = Callable[..., Awaitable[Taken]]


@pytest.fixture
async def take(tmp_path: Path) -> AsyncIterator[Take]:
    """`await take({"name": "a", …}, …)`: the tools of a server `raw` with these entries in its list."""
    opened: list[Any] = []
    notes, own = Notes(tmp_path / "notes.db"), ToolSettings(sandbox="off", timeout=20)

    async def taken(*entries: Any, settings: dict[str, Any] | None = None, **told_to: Any) -> Taken:
        file = tmp_path / "told.json"
        file.write_text(json.dumps({"pages": [{"tools": list(entries)}], **told_to}))
        command = [sys.executable, str(SERVER), str(file)]
        told: list[str] = []
        server = McpServerSettings.model_validate({"command": command, **(settings or {})})
        servers, tools = await open_servers({"raw": server}, told.append)
        opened.extend(servers)
        toolbox = Toolbox(())
        for tool in tools:
            toolbox.add(tool)
        return Taken(toolbox, ToolContext(tmp_path, Sandbox(own), notes, own), told)

    yield taken
    for server in opened:
        await server.close()
    notes.close()


def tool(properties: Any, *required: str, name: str = "a", defs: Any = None) -> dict[str, Any]:
    """An entry of a list with these arguments."""
    schema = {"type": "object", "properties": properties, "required": [*required], "$defs": defs or {}}
    return {"name": name, "inputSchema": schema}


GOOD = tool({"q": {"type": "string"}}, "q", name="good")


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (
            {"name": "a", "inputSchema": False},
            "the tool a of the MCP server raw is left out: its input schema admits no",
        ),
        ({"name": "a", "inputSchema": "text"}, "'text', no object"),
        ({"name": "a", "inputSchema": {"type": "array"}}, "of the type 'array', not object"),
        ({"name": "a", "inputSchema": {"properties": 7}}, "the properties of its input schema are no object"),
        ({"name": 7, "inputSchema": {}}, "the tool number 1 of the MCP server raw is left out: it has no name"),
        ({"inputSchema": OBJECT}, "it has no name"),
        ("a", "it is no object"),
        (None, "it is no object"),
        (tool({}, "x"), "it needs the argument 'x', which a reply cannot hold: it is required and not described"),
        (tool({"x": {"type": "zz"}}, "x"), "its type 'zz' is none of JSON's"),
        (tool({"x": {"$ref": "#/$defs/No"}}, "x"), "it refers to '#/$defs/No', which its schema does not hold"),
        (tool({"x": {"$ref": "https://example.org/a.json"}}, "x"), "it refers to 'https://example.org/a.json'"),
        (tool({"x": {"$ref": "#/$defs/A"}}, "x", defs={"A": {"$ref": "#/$defs/A"}}), "leads back to itself"),
        (tool({"x": {"type": ["string", "integer"]}}, "x"), "it may be of the types integer and string"),
        (tool({"x": {"enum": ["a", 1]}}, "x"), "it may be of the types integer and string"),
        (tool({"x": {}}, "x"), "it may be of any type"),
        (tool({"x": True}, "x"), "it may be of any type"),
        (tool({"x": False}, "x"), "no value fits its schema"),
        (tool({"x": {"type": "null"}}, "x"), "no value fits its schema"),
        (tool({"x-y": {"type": "string"}, "x_y": {"type": "string"}}, "x_y", "x-y"), "another has its name"),
        (tool({str(n): {"type": "string"} for n in range(99)}, *map(str, range(99))), "there are over 32"),
    ],
)
async def test_a_broken_tool_leaves_the_others(broken: Any, says: str, take: Take) -> None:
    """It alone is left out, in one sentence with the reason."""
    taken = await take(broken, GOOD)

    assert taken.toolbox.registry.names == ("raw_good",)
    assert len(taken.told) == 1
    assert says in taken.told[0]
    assert (await taken("raw_good", q="hello")).output.text == '{"q": "hello"}'


DEFS = {
    "Category": {"enum": ["food", "transport"], "title": "Category", "type": "string"},
    "Query": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "limit": {"type": "integer"},
            "of": {"$ref": "#/$defs/Category"},
            "inner": {"$ref": "#/$defs/Query"},
        },
        "required": ["text"],
    },
    "Again": {"$ref": "#/$defs/Category"},
    "a/b~c": {"type": "integer"},
    "Anchored": {"$anchor": "here", "type": "boolean"},
}


@pytest.mark.parametrize(
    ("described", "signature"),
    [
        ({"$ref": "#/$defs/Category"}, "food|transport"),
        ({"$ref": "#/$defs/Again"}, "food|transport"),
        ({"$ref": "#/$defs/Query"}, "object"),
        ({"type": "array", "items": {"$ref": "#/$defs/Query"}}, "array"),
        ({"$ref": "#/$defs/a~1b~0c"}, "integer"),
        ({"$ref": "#/%24defs/Category"}, "food|transport"),
        ({"$ref": "#here"}, "boolean"),
        ({"$ref": "#/properties/other"}, "number"),
        ({"$ref": "#/$defs/Category", "default": "food"}, "food|transport"),
        ({"allOf": [{"$ref": "#/$defs/Category"}]}, "food|transport"),
        ({"allOf": [{"type": "string"}, {"enum": ["a", "b", 3]}, {"enum": ["b", "c"]}]}, "b"),
        ({"anyOf": [{"$ref": "#/$defs/Category"}, {"type": "null"}]}, "food|transport"),
        ({"oneOf": [{"const": "a", "type": "string"}, {"const": "b", "type": "string"}]}, "a|b"),
        ({"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "string"}]}, "string"),
        ({"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/No"}]}, "integer"),
        ({"type": ["integer", "number", "null"]}, "number"),
        ({"type": ["string", "null"], "enum": ["a", None]}, "a"),
        ({"enum": ["fast", "slow"]}, "fast|slow"),
        ({"const": "fast"}, "fast"),
        ({"enum": [1, 2]}, "integer"),
        ({"enum": [0.5, 1]}, "number"),
        ({"enum": [True]}, "boolean"),
        ({"type": "string", "enum": [1, 2]}, "string"),
        ({"type": "string", "enum": [str(n) for n in range(51)]}, "string"),
        ({"enum": ["a\x1b[31m"]}, "string"),
        ({"properties": {"a": True}}, "object"),
        ({"items": {"type": "string"}}, "array"),
        ({"minLength": 1, "pattern": "^a"}, "string"),
        ({"type": "STRING"}, "string"),
        ({"type": "float"}, "number"),
        ({"type": "string", "description": {"en": "no text"}}, "string"),
    ],
)
async def test_an_argument_of_one_meaning_is_taken(described: Any, signature: str, take: Take) -> None:
    """References within the schema, combinations of one, and enumerations without a type."""
    taken = await take(tool({"x": described, "other": {"type": "number"}}, "x", "other", defs=DEFS))

    assert taken.told == []
    assert taken.signatures() == [f"raw_a(x: {signature}, other: number)"]


async def test_the_fields_of_a_model_and_the_values_of_a_number_are_told(take: Take) -> None:
    """In the argument's line: the mind sees no schema."""
    query = {"description": "What to look for.", "$ref": "#/$defs/Query"}
    many = {"type": "array", "items": {"$ref": "#/$defs/Query"}}
    taken = await take(tool({"one": query, "many": many, "level": {"enum": [1, 2]}}, "one", defs=DEFS))

    assert taken.toolbox.registry["raw_a"].describe().splitlines()[1:] == [
        "    one: What to look for. Fields: text: string, limit?: integer, of?: food|transport, inner?: object.",
        "    many: Fields: text: string, limit?: integer, of?: food|transport, inner?: object.",
        "    level: One of 1, 2.",
    ]


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "a"},
        {"name": "a", "inputSchema": None},
        {"name": "a", "inputSchema": {}},
        {"name": "a", "inputSchema": True},
        {"name": "a", "inputSchema": []},
        {"name": "a", "inputSchema": OBJECT},
        {"name": "a", "inputSchema": {"type": "object", "properties": None, "required": None}},
        {"name": "a", "inputSchema": {"type": "object", "properties": []}},
        {"name": "a", "inputSchema": OBJECT, "description": 7, "title": None, "annotations": "odd", "icons": 1},
        {"name": "a", "inputSchema": OBJECT, "outputSchema": {"type": 7}, "execution": []},
    ],
)
async def test_a_tool_that_describes_no_argument_takes_none(entry: Any, take: Take) -> None:
    """However it says so; what else is odd about the entry does not count."""
    taken = await take(entry)

    assert (taken.told, taken.signatures()) == ([], ["raw_a()"])
    assert (await taken("raw_a")).output.text == "{}"


@pytest.mark.parametrize(
    ("schema", "signature"),
    [
        ({"$ref": "#/$defs/Args", "$defs": {"Args": {"properties": {"x": {"type": "string"}}}}}, "x?: string"),
        ({"allOf": [{"properties": {"x": {"type": "string"}}, "required": ["x"]}, {"type": "object"}]}, "x: string"),
        (
            {
                "anyOf": [
                    {"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
                    {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
                    {"type": "null"},
                ]
            },
            "kind: a|b, x?: string",
        ),
        (
            {"properties": {"x": {"type": "string"}}, "anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
            "x?: string",
        ),
        ({"properties": {"x": {"type": "string", "required": True}}}, "x: string"),
    ],
)
async def test_arguments_that_the_schema_combines_are_found(schema: Any, signature: str, take: Take) -> None:
    """A reference for the whole, all of several, one of several."""
    taken = await take({"name": "a", "inputSchema": schema})

    assert (taken.told, taken.signatures()) == ([], [f"raw_a({signature})"])


async def test_an_optional_argument_that_a_reply_cannot_hold_is_said(take: Take) -> None:
    """One sentence for a tool, with each argument and its reason; the tool is taken."""
    taken = await take(tool({"q": {"type": "string"}, "x": {}, "y": {"$ref": "#/$defs/No"}}, "q"))

    assert taken.signatures() == ["raw_a(q: string)"]
    assert taken.told == [
        "the tool a of the MCP server raw is taken without its optional x (it may be of any type), "
        "y (it refers to '#/$defs/No', which its schema does not hold)"
    ]


async def test_names_that_a_reply_cannot_hold_are_changed_and_the_server_gets_its_own(take: Take) -> None:
    """Of arguments and of tools; a second tool of one name is left out."""
    odd = tool({"user-id": {"type": "string"}, "from": {"type": "string"}}, "user-id", name="get.Status/v2")
    taken = await take(odd, {"name": "get_status-v2"})

    assert taken.signatures() == ["raw_get_status_v2(user_id: string, from?: string)"]
    assert taken.told == ["the tool get_status-v2 of the MCP server raw is left out: two have its name"]
    said = (await taken("raw_get_status_v2", user_id="7", **{"from": "here"})).output.text
    assert json.loads(said) == {"user-id": "7", "from": "here"}


async def test_references_that_multiply_are_given_up(take: Take) -> None:
    """The tool that needs such an argument is left out at once, the others are there."""
    bomb = {f"B{n}": {"allOf": [{"$ref": f"#/$defs/B{n + 1}"}] * 2} for n in range(60)} | {"B60": {"type": "string"}}
    chain = {f"A{n}": {"$ref": f"#/$defs/A{n + 1}"} for n in range(2000)} | {"A2000": {"type": "string"}}
    taken = await take(
        tool({"x": {"$ref": "#/$defs/B0"}}, "x", defs=bomb),
        tool({"x": {"$ref": "#/$defs/A0"}}, "x", name="b", defs=chain),
        GOOD,
    )

    assert taken.toolbox.registry.names == ("raw_good",)
    assert "more than 1000 parts" in taken.told[0]
    assert "the tool b of the MCP server raw is left out: it needs the argument 'x'" in taken.told[1]


async def test_a_page_that_is_broken_leaves_those_before_it(take: Take) -> None:
    """Whether it is an error, or holds no list."""
    error = await take(pages=[{"tools": [GOOD], "nextCursor": "1"}])
    no_list = await take(pages=[{"tools": [GOOD], "nextCursor": "1"}, {"tools": {}}])

    assert error.toolbox.registry.names == no_list.toolbox.registry.names == ("raw_good",)
    assert error.told == ["the rest of the list of the MCP server raw is left out: Method not found"]
    assert no_list.told == ["the rest of the list of the MCP server raw is left out: a page of it has no list of tools"]


async def test_pages_are_read_one_after_the_other_and_a_long_list_is_cut(take: Take) -> None:
    """64 tools are taken; of the others 20 are named, and the rest is counted."""
    pages = [{"tools": [tool({}, name=f"t{n}_{m}") for m in range(30)], "nextCursor": str(n + 1)} for n in range(4)]
    del pages[-1]["nextCursor"]
    taken = await take(pages=pages)

    assert taken.toolbox.registry.names[::63] == ("raw_t0_0", "raw_t2_3")
    assert len(taken.toolbox.registry.names) == 64
    assert len(taken.told) == 21
    assert taken.told[0] == "the tool t2_4 of the MCP server raw is left out: there are over 64"
    assert taken.told[-1].startswith("36 more tools of the MCP server raw are left out: tools.mcp.raw.tools names")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [], "structuredContent": {"a": 1}}, '{"a": 1}'),
        ({"structuredContent": [1, "é"]}, '[1, "é"]'),
        ({"content": [{"type": "text", "text": "said"}], "structuredContent": {"a": 1}}, "said"),
        ({"content": "said"}, "said"),
        ({"content": {"type": "text", "text": "said"}}, "said"),
        ({"content": [{"type": "text", "text": {"a": 1}}, {"type": "text", "text": None}]}, '{"a": 1}\nnull'),
        (
            {"content": [{"type": "video"}, {"type": "text", "text": "said"}]},
            "[content of an unknown kind is left out]\nsaid",
        ),
        ({"content": None}, ""),
        ({}, ""),
    ],
)
async def test_a_result_of_another_form_is_shown(result: Any, text: str, take: Take) -> None:
    """A part that cannot be read is named in its place; without content the structured content is shown. What the tool
    declared of its output does not count."""
    entry = {"name": "a", "inputSchema": OBJECT, "outputSchema": {"type": "object", "required": ["never"]}}
    outcome = await (await take(entry, results={"a": result}))("raw_a")

    assert (outcome.status, outcome.output.text) == ("success", text)


LAST = "Traceback:\n  File x\nValueError: GITHUB_TOKEN is not set\x1b[31m\n\n"


async def test_a_server_that_dies_at_its_start_shows_its_last_line(take: Take) -> None:
    """Of stderr, bounded, as safe text."""
    with pytest.raises(UsageError) as raised:
        await take(at="start", stderr=LAST, status=3)
    with pytest.raises(UsageError) as long:
        await take(at="start", stderr="x" * 9999)

    assert str(raised.value) == (
        "the MCP server raw cannot be used: it ended its process (status 3), "
        "its last line: ValueError: GITHUB_TOKEN is not set�[31m (tools.mcp.raw)"
    )
    assert len(str(long.value)) < 450


async def test_a_server_that_does_not_answer_shows_its_last_line(take: Take) -> None:
    """Which may say what it waits for."""
    with pytest.raises(UsageError, match=r"does not answer within 3 s, its last line: open the browser to log in \("):
        await take(at="hang", stderr="open the browser to log in\n", settings={"timeout": 3})


async def test_a_server_that_dies_in_a_call_shows_its_last_line(take: Take, until: Until) -> None:
    """In the outcome and in what is told; a value of its settings is masked."""
    taken = await take(GOOD, at="call", stderr="bad token tok-123456789\n", settings={"env": {"T": "tok-123456789"}})
    outcome = await taken("raw_good", q="x")

    words = f"it ended its process (status 1), its last line: bad token {HIDDEN}"
    assert outcome.error == f"the MCP server raw is gone: {words}"
    await until(lambda: taken.told)
    assert taken.told[0].startswith(f"the MCP server raw is gone ({words}); it is started again in")


async def test_a_reply_that_is_none_of_the_protocol_is_one_short_sentence(take: Take) -> None:
    """With the place of the fault."""
    with pytest.raises(UsageError, match=r"its reply is not one of MCP's, .*serverInfo: Field required \(tools"):
        await take(GOOD, initialize={"protocolVersion": "2024-11-05", "capabilities": {}})
