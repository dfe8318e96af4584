"""Reads a shell command: its program, its file, whether it runs a test program or a goal's check. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from functools import lru_cache

_SEPARATORS = frozenset("();<>|&\n")
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_FILE = re.compile(r"(?!\d+(?:\.\d+)*$)\S*(?:/|\.\w)\S*")
"""A word that names a file: with a slash, or with a dot before a letter that makes no number."""
MOST_READ = 10_000
"""Characters of a command that are read."""
_ASKS = re.compile(
    r"--(?:version|help|collect-?only|co|fixtures|markers|setup-plan|list|listTests|dry-run|just-print|recon|no-run)\b.*"
    r"|-[qvsx]*[hV]"
)
"""An option with which a test program tells of itself or lists tests, and runs none."""
_MAKE_ASKS = re.compile(r"-[a-zA-Z]*[nqt][a-zA-Z]*|--(?:question|touch)")
"""The same of `make` alone."""
_PYTHON = re.compile(r"python[\d.]*")


def command_target(command: str) -> str | None:
    """The program and the first file that a command names, the program alone where it names none."""
    commands = _simple_commands(command)
    words = [word for one in commands for word in one]
    if not words:
        return None
    own = next((one for one in commands if one[0] != "cd"), commands[0])
    rest = words[words.index(own[0]) + 1 :]
    file = next((word for word in rest if not word.startswith("-") and _FILE.fullmatch(word)), None)
    program = own[0].rsplit("/", 1)[-1]
    return f"{program} {file}" if file is not None else program


def same_command(one: str, other: str) -> bool:
    """Whether two commands have the same words."""
    return one.split() == other.split()


def program_tested(command: str, programs: Iterable[str]) -> str | None:
    """The first of `programs` (as in `rewards.test_programs`) that the command begins with, after any `cd`.

    Options before and between the words do not matter, nor do the interpreter's version and a program's directory, but
    for those with which it runs no test, such as `--version` and `--collect-only`.
    """
    for words in _simple_commands(command):
        if words[0] == "cd":
            continue
        for program in programs:
            wanted = _named(program.split())
            given = [word for word in _named(words) if word in wanted or not word.startswith("-")]
            if wanted and given[: len(wanted)] == wanted:
                asks = any(_ASKS.fullmatch(word) for word in words)
                asks = asks or (wanted[0] == "make" and any(_MAKE_ASKS.fullmatch(word) for word in words))
                return program if not asks else None
        return None
    return None


def program_words(program: str) -> tuple[str, ...]:
    """The words of a test program, as in `rewards.test_programs`, by which it is compared."""
    return tuple(_named(program.split()))


def sole_command(command: str) -> bool:
    """Whether the line runs one program, after any `cd`, so that its exit status is the program's."""
    return sum(words[0] != "cd" for words in _simple_commands(command)) == 1


def _named(words: list[str]) -> list[str]:
    """The words with the program's bare name: `/usr/bin/python3.11` is `python`."""
    if not words:
        return []
    name = words[0].rsplit("/", 1)[-1]
    return ["python" if _PYTHON.fullmatch(name) else name, *words[1:]]


@lru_cache(maxsize=16)
def _simple_commands(command: str) -> tuple[list[str], ...]:
    """The words of each program that the line runs, without assignments before it; a redirection's file is a word."""
    reader = shlex.shlex(command[:MOST_READ], posix=True, punctuation_chars="();<>|&\n")
    reader.whitespace, reader.commenters, reader.whitespace_split = " \t\r", "", True
    try:
        words = list(reader)
    except ValueError:
        words = command[:MOST_READ].split()
    found: list[list[str]] = [[]]
    for word in words:
        if not word or set(word) <= _SEPARATORS:
            if not set(word) & {"<", ">"}:
                found.append([])
        elif found[-1] or not _ASSIGNMENT.fullmatch(word):
            found[-1].append(word)
    return tuple(words for words in found if words)
