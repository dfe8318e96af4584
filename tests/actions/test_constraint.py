"""Constraints for decoding: whatever they admit, the parser finds valid."""

from __future__ import annotations

import random
import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import Argument, Registry, ToolSpec, gbnf, parse, regex
from conch.actions.registry import ArgumentType

REGISTRY = Registry(
    [
        ToolSpec("shell", "", (Argument("command"),)),
        ToolSpec("file_system", "", (Argument("operation", choices=("read", 'q"x')), Argument("path", required=False))),
        ToolSpec(
            "mix",
            "",
            (
                Argument("s", required=False),
                Argument("i", "integer", required=False),
                Argument("n", "number", required=False),
                Argument("b", "boolean", required=False),
                Argument("a", "array", required=False),
                Argument("o", "object", required=False),
            ),
        ),
        ToolSpec("late", "", (Argument("maybe", required=False), Argument("must"))),
        ToolSpec("ping", ""),
    ]
)

ADMITTED = [
    'TOOL: shell(command="ls -l \\"x\\"\\n")',
    'TOOL: file_system(operation="q\\"x")',
    'TOOL: file_system(operation="read", path="a")',
    "TOOL: mix()",
    "TOOL: mix(i=12)",
    'TOOL: mix(s="x", n=-1.5, a=[1, [true, null], "y"], o={"k": [1]})',
    'TOOL: late(must="x", maybe="y")',
    "TOOL: ping()",
    "DO_NOTHING: all is well",
    "REFLECT: ",
]
REFUSED = [
    "TOOL: shell()",
    'TOOL: file_system(operation="burn")',
    "TOOL: mix(, i=1)",
    "TOOL: mix(i=1.5)",
    'TOOL: shell(command="a" )',
    "prose",
    "REFLECT: two\nlines",
    'TOOL: ping()\nTOOL: shell(command="a")',
]


class Writer:
    """Writes random sentences of a GBNF grammar: literals, classes, groups, alternatives, `*`, `?`,
    `{0,n}`, names."""

    TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{\d+,\d+\}|[()|*?]|[a-z][a-z0-9-]*')

    def __init__(self, grammar: str, seed: int) -> None:
        lines = [line.split(" ::= ", 1) for line in grammar.split("\n") if line]
        self.rules = {name: self.TOKEN.findall(body) for name, body in lines}
        self.random = random.Random(seed)

    def write(self, rule: str = "root") -> str:
        sentence, end = self.alternatives(self.rules[rule], 0)
        assert end == len(self.rules[rule]), f"{rule} ends early"
        return sentence()

    def alternatives(self, tokens: list[str], at: int):
        choices, parts = [], []
        while at < len(tokens) and tokens[at] != ")":
            if tokens[at] == "|":
                choices.append(parts)
                parts, at = [], at + 1
                continue
            part, at = self.atom(tokens, at)
            if at < len(tokens) and tokens[at] in "*?":
                part, at = self.repeated(part, 3 if tokens[at] == "*" else 1), at + 1
            elif at < len(tokens) and tokens[at][0] == "{":
                most = int(tokens[at][1:-1].split(",")[1])
                part, at = self.repeated(part, self.random.choice((min(most, 3), most))), at + 1
            parts.append(part)
        choices.append(parts)
        return (lambda: "".join(part() for part in self.random.choice(choices))), at

    def repeated(self, part, most: int):
        return lambda: "".join(part() for _ in range(self.random.randint(0, most)))

    def atom(self, tokens: list[str], at: int):
        token = tokens[at]
        if token == "(":
            inner, end = self.alternatives(tokens, at + 1)
            assert tokens[end] == ")"
            return inner, end + 1
        if token[0] == '"':
            return (lambda: re.sub(r"\\(.)", r"\1", token[1:-1])), at + 1
        if token[0] == "[":
            pool = [chr(code) for code in range(256) if re.fullmatch(token, chr(code))] + ["漢"]
            fits = [letter for letter in pool if re.fullmatch(token, letter)]
            return (lambda: self.random.choice(fits)), at + 1
        return (lambda: self.write(token)), at + 1


@pytest.mark.parametrize("seed", range(300))
def test_every_sentence_of_the_grammar_is_valid(seed: int) -> None:
    """What the GBNF derives, the parser reads as valid."""
    sentence = Writer(gbnf(REGISTRY), seed).write()

    action = parse(sentence, REGISTRY)

    assert action.valid, (sentence, action.reason)


NAMES = st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True)
ARGUMENTS = st.one_of(
    st.builds(Argument, NAMES, st.sampled_from(get_args(ArgumentType)), st.booleans()),
    st.builds(
        lambda name, required, choices: Argument(name, required=required, choices=tuple(choices)),
        NAMES,
        st.booleans(),
        st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=5), min_size=1),
    ),
)
SPECS = st.builds(
    lambda name, arguments: ToolSpec(name, "", tuple(arguments)),
    NAMES,
    st.lists(ARGUMENTS, max_size=4, unique_by=lambda argument: argument.name),
)


@given(st.lists(SPECS, max_size=4, unique_by=lambda spec: spec.name), st.integers(0, 2**32), st.integers(0, 500))
def test_every_sentence_of_any_tools_grammar_is_valid(specs: list[ToolSpec], seed: int, longest: int) -> None:
    """Whatever tools are registered and however long a text may be: what the GBNF derives, the parser finds valid."""
    registry = Registry(specs)
    sentence = Writer(gbnf(registry, longest=longest), seed).write()

    action = parse(sentence, registry)

    assert action.valid, (sentence, action.reason)


def test_the_expression_admits_what_is_valid() -> None:
    """Replies in the plain spelling match the regular expression, and are valid."""
    pattern = re.compile(regex(REGISTRY))

    for text in ADMITTED:
        assert pattern.fullmatch(text), text
        assert parse(text, REGISTRY).valid, text


def test_the_expression_admits_nothing_else() -> None:
    """Wrong calls, other spellings and second calls do not match."""
    pattern = re.compile(regex(REGISTRY))

    assert [text for text in REFUSED if pattern.fullmatch(text)] == []


def test_without_tools_only_words_are_left() -> None:
    """An empty registry still has its two words."""
    empty = Registry()

    assert parse(Writer(gbnf(empty), 0).write(), empty).valid
    assert re.fullmatch(regex(empty), "REFLECT: x")
    assert not re.fullmatch(regex(empty), "TOOL: ping()")
