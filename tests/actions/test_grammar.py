"""The grammar: what is valid, what is not and why, and that nothing breaks the parser."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import MAX_REPLY_BYTES, Argument, Registry, ToolSpec, parse, render
from conch.errors import ContractError
from conch_schemas import Action

REGISTRY = Registry(
    [
        ToolSpec("shell", "Runs a command.", (Argument("command"),)),
        ToolSpec(
            "filesystem",
            "Files.",
            (
                Argument("operation", choices=("read", "write", "list")),
                Argument("path"),
                Argument("content", required=False),
            ),
        ),
        ToolSpec(
            "mix",
            "Every type.",
            (
                Argument("i", "integer", required=False),
                Argument("n", "number", required=False),
                Argument("b", "boolean", required=False),
                Argument("a", "array", required=False),
                Argument("o", "object", required=False),
                Argument("s", required=False),
            ),
        ),
        ToolSpec("ping", "Nothing."),
    ]
)


@pytest.mark.parametrize(
    ("text", "tool", "args"),
    [
        ('TOOL: shell(command="ls")', "shell", {"command": "ls"}),
        ('\n tool:\tSHELL ( command\n=\r"ls" )  ', "shell", {"command": "ls"}),
        ("TOOL: ping()", "ping", {}),
        ("TOOL: ping( )", "ping", {}),
        (r'TOOL: shell(command="a\"b\\c\nd\te")', "shell", {"command": 'a"b\\c\nd\te'}),
        (r'TOOL: shell(command="grep \d+ \'x\'")', "shell", {"command": r"grep \d+ \'x\'"}),
        (r"""TOOL: shell(command='it\'s "so"')""", "shell", {"command": 'it\'s "so"'}),
        ('TOOL: shell(command="""say "a\\n" (b=1)\nok""")', "shell", {"command": 'say "a\\n" (b=1)\nok'}),
        ('TOOL: shell(command="")', "shell", {"command": ""}),
        ('TOOL: shell(command="two\nlines")', "shell", {"command": "two\nlines"}),
        ('TOOL: shell(command="echo x=\\"1\\", path=\\"2\\")")', "shell", {"command": 'echo x="1", path="2")'}),
        ("TOOL: mix(i=-12, n=1.5e3, b=true)", "mix", {"i": -12, "n": 1500.0, "b": True}),
        ("TOOL: mix(n=3)", "mix", {"n": 3}),
        (r'TOOL: mix(a=[1, "x\u00e9\/", [], {"k": null}], o={})', "mix", {"a": [1, "xé/", [], {"k": None}], "o": {}}),
        (r'TOOL: mix(a=["\ud800"])', "mix", {"a": ["�"]}),
        ('TOOL: shell(command="\ud800")', "shell", {"command": "�"}),
    ],
)
def test_a_call_is_read(text: str, tool: str, args: dict[str, object]) -> None:
    """Every spelling that the grammar allows is read as the call it means."""
    action = parse(text, REGISTRY)

    assert (action.kind, action.valid, action.reason, action.tool, action.args) == ("TOOL", True, None, tool, args)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("REFLECT: what I learnt", "REFLECT", "what I learnt"),
        ("do_nothing:", "DO_NOTHING", ""),
        ('  Reflect:TOOL: shell(command="ls")\nmore ', "REFLECT", 'TOOL: shell(command="ls")\nmore'),
    ],
)
def test_words_alone_are_valid(text: str, kind: str, said: str) -> None:
    """DO_NOTHING and REFLECT take any text, also none, also what looks like a call."""
    action = parse(text, REGISTRY)

    assert (action.kind, action.valid, action.text, action.tool) == (kind, True, said, None)


@pytest.mark.parametrize(
    ("text", "tool", "args", "reason"),
    [
        ("TOOL:", None, {}, "the tool's name is missing"),
        ("TOOL: shell", "shell", {}, "( is missing after the tool's name"),
        ('TOOL: shell{command="ls"}', "shell", {}, "( is missing"),
        ('TOOL: shell("ls")', "shell", {}, "an argument's name is missing"),
        ('TOOL: shell(command "ls")', "shell", {}, "= is missing after command"),
        ('TOOL: shell(command="ls)', "shell", {}, 'a " is not closed'),
        ('TOOL: shell(command="ls\\")', "shell", {}, 'a " is not closed'),
        ("TOOL: shell(command='ls)", "shell", {}, "a ' is not closed"),
        ('TOOL: shell(command="""ls")', "shell", {}, 'a """ is not closed'),
        ('TOOL: shell(command="ls"', "shell", {"command": "ls"}, ") is missing"),
        ('TOOL: shell(command="ls",)', "shell", {"command": "ls"}, "an argument's name is missing"),
        ('TOOL: shell(command="ls") now', "shell", {"command": "ls"}, "text after the closing parenthesis"),
        ('TOOL: shell(command="ls")\nTOOL: ping()', "shell", {"command": "ls"}, "text after"),
        ("TOOL: shell(command='a', command='b')", "shell", {"command": "a"}, "command is there twice"),
        ("TOOL: shell(command=ls)", "shell", {}, "a value is missing or is not quoted"),
        ("TOOL: shell(command=)", "shell", {}, "a value is missing"),
        ("TOOL: shell(command=5)", "shell", {"command": 5}, "must be a string, not an integer"),
        ("TOOL: shell(command=null)", "shell", {"command": None}, "must be a string, not null"),
        ("TOOL: shell()", "shell", {}, "shell needs the argument command"),
        ('TOOL: shell(command="ls", cwd="/")', "shell", {"command": "ls", "cwd": "/"}, "no argument cwd"),
        ("TOOL: rocket(x=1)", "rocket", {"x": 1}, "there is no tool rocket"),
        (
            'TOOL: filesystem(operation="burn", path="a")',
            "filesystem",
            {"operation": "burn", "path": "a"},
            "must be one of read, write, list",
        ),
        ("TOOL: mix(b=1)", "mix", {"b": 1}, "must be a boolean"),
        ("TOOL: mix(i=true)", "mix", {"i": True}, "must be an integer, not a boolean"),
        ("TOOL: mix(i=1.0)", "mix", {"i": 1.0}, "must be an integer, not a number"),
        ("TOOL: mix(i=007)", "mix", {"i": 0}, ") is missing"),
        ("TOOL: mix(i=+1)", "mix", {}, "a value is missing or is not quoted"),
        ("TOOL: mix(n=NaN)", "mix", {}, "a value is missing or is not quoted"),
        ("TOOL: mix(a=[-Infinity])", "mix", {}, "not written as in JSON"),
        ("TOOL: mix(n=1e999)", "mix", {}, "a number is too large"),
        ("TOOL: mix(i=9007199254740992)", "mix", {}, "an integer is beyond"),
        ("TOOL: mix(i=" + "9" * 5000 + ")", "mix", {}, "too long"),
        ("TOOL: mix(a=[1,])", "mix", {}, "a value is missing"),
        ('TOOL: mix(o={"a": 1, "a": 2})', "mix", {}, "a key twice"),
        ("TOOL: mix(o={a: 1})", "mix", {}, "double quotes"),
        ("TOOL: mix(a=['x'])", "mix", {}, "a value is missing or is not quoted"),
        ('TOOL: mix(a=["x)', "mix", {}, "is not JSON"),
        ("TOOL: mix(a=" + "[" * 60 + "]" * 60 + ")", "mix", {}, "more than 32 deep"),
        ("TOOL: mix(a=" + '{"a":' * 10000 + ")", "mix", {}, "more than 32 deep"),
    ],
)
def test_a_call_that_is_not_valid_says_why(text: str, tool: str | None, args: dict[str, object], reason: str) -> None:
    """A wrong call keeps its kind, its tool and the arguments read so far, and names what is wrong."""
    action = parse(text, REGISTRY)

    assert (action.kind, action.valid, action.tool, action.args) == ("TOOL", False, tool, args)
    assert reason in str(action.reason)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "I think I should list the files.",
        '```\nTOOL: shell(command="ls")\n```',
        "TOOL : ping()",
        "**TOOL:** ping()",
        "DO NOTHING: x",
        "do_noth\u0131ng: x",
        "\x00TOOL: ping()",
        "\x1b[31mTOOL: ping()",
    ],
)
def test_anything_else_is_invalid(text: str) -> None:
    """Prose, Markdown, code fences and near misses are INVALID, without a tool."""
    action = parse(text, REGISTRY)

    assert (action.kind, action.valid, action.tool, action.args) == ("INVALID", False, None, {})
    assert action.reason


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[" * 2**20, "INVALID"),
        ("TOOL: mix(a=" + "[" * 2**20, "TOOL"),
        ("REFLECT: " + "x" * 2**20, "REFLECT"),
        (" " * 2**20, "INVALID"),
        ("TOOL: shell(command=" + '\\"' * 2**19, "TOOL"),
        ("REFLECT:" + "é" * (MAX_REPLY_BYTES // 2), "REFLECT"),
    ],
)
def test_a_megabyte_is_refused_quickly(text: str, kind: str) -> None:
    """A reply over 64 KiB is refused unread, in milliseconds, with the kind that it began with."""
    began = time.perf_counter()
    action = parse(text, REGISTRY)
    seconds = time.perf_counter() - began

    assert (action.kind, action.valid, action.reason) == (kind, False, "the reply is longer than 64 KiB")
    assert seconds < 0.1


@pytest.mark.parametrize(
    "text",
    [
        "TOOL: mix(a=" + '["\\"' * 10000,
        "TOOL: mix(a=[" + '"\\"", ' * 8000,
        "TOOL: shell(command='" + "\\'" * 30000,
        "TOOL: shell(command=" + '"' * 60000,
        "TOOL: mix(" + "a" * 60000,
        "TOOL: mix(" + " " * 60000,
        "TOOL: mix(n=" + "1" * 60000,
        "TOOL: mix(" + ", ".join(f"x{n}=1" for n in range(6000)) + ")",
    ],
)
def test_time_is_linear(text: str) -> None:
    """Text made to go over and over itself takes no longer than any other."""
    began = time.perf_counter()
    action = parse(text, REGISTRY)
    seconds = time.perf_counter() - began

    assert not action.valid
    assert seconds < 0.5


def test_control_characters_cannot_swell_an_event() -> None:
    """A reply that would take far more room as JSON than it has characters is refused."""
    action = parse("REFLECT: " + "\x00" * 60000, REGISTRY)

    assert (action.valid, action.reason) == (False, "the reply has too many control characters")


WORDS = (
    """TOOL: shell mix ( ) command = , " ' \\ [ ] { } : a 1 true null - 1e9 REFLECT: é command="x" s='y' o={"a":1}"""
)
PIECES = st.sampled_from([*WORDS.split(), '""' + '"', " ", "\n", "\ud800", "\x00"])
REPLIES = st.text() | st.lists(PIECES).map("".join) | st.lists(PIECES).map(lambda pieces: "TOOL: " + "".join(pieces))


@given(REPLIES)
def test_rendering_is_a_fixed_point(text: str) -> None:
    """No reply breaks the parser; rendered and read again an action is the same, and what was invalid stays so."""
    action = parse(text, REGISTRY)
    rendered = render(action)
    again = parse(rendered, REGISTRY)

    assert render(again) == rendered
    assert again.valid == action.valid
    assert not action.valid or again == action
    assert action.valid == (action.reason is None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.text(), st.lists(JSON, max_size=4), st.dictionaries(st.text(), JSON, max_size=4), st.integers(-9999, 9999))
def test_every_value_survives_writing(s: str, a: list[object], o: dict[str, object], i: int) -> None:
    """Whatever the arguments hold, the rendering holds."""
    action = Action.model_validate(
        {"kind": "TOOL", "valid": True, "tool": "mix", "args": {"s": s, "a": a, "o": o, "i": i}}
    )

    assert parse(render(action), REGISTRY) == action


def test_names_that_cannot_be_written_are_refused() -> None:
    """A registry refuses a tool or an argument that no reply could name, and two of one name."""
    for specs in (
        [ToolSpec("two words", "")],
        [ToolSpec("Upper", "")],
        [ToolSpec("", "")],
        [ToolSpec("a", ""), ToolSpec("a", "")],
        [ToolSpec("a", "", (Argument("b"), Argument("b")))],
        [ToolSpec("a", "", (Argument("é"),))],
        [ToolSpec("a", "", (Argument("b", "integer", choices=("1",)),))],
    ):
        with pytest.raises(ContractError):
            Registry(specs)


def test_the_prompt_lists_every_tool() -> None:
    """The list says each tool's name, its arguments, which may be left out, and what there is to choose from."""
    listed = REGISTRY.describe()

    assert "- shell(command: string): Runs a command." in listed
    assert "- filesystem(operation: read|write|list, path: string, content?: string): Files." in listed
    assert listed.count("\n- ") == 3
