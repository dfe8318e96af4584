"""Advice that the product and its documentation give can be followed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from conch.cli.main import make_app
from tests.house.product import modules

ROOT = Path(__file__).parents[2]
NAMED = (
    re.compile(r"conch(?:-agent)?\[([a-z, ]+)\]"),
    re.compile(r"to_install\([\"']([a-z]+)[\"']\)"),
    re.compile(r"\bextra `([a-z]+)`"),
    re.compile(r"\b(?:needs|where) the extra ([a-z]+)"),
    re.compile(r"^_NEEDS = .*, \"([a-z]+)\", \"", re.MULTILINE),
)
"""How the extras of the package are named; each expression matches somewhere."""
NOT_ON_A_HOME = {
    "completion install": "the shell's",
    "completion show": "the shell's",
    "model install": "the models of all homes",
    "model remove": "the models of all homes",
    "report verify": "a file that somebody sent",
}
"""Commands that take no --home, and what they are about instead."""


def _texts() -> list[str]:
    pages = [ROOT / "README.md", ROOT / "ops" / "README.md", *sorted((ROOT / "docs" / "pages").rglob("*.md"))]
    return [module.text for module in modules()] + [page.read_text() for page in pages]


def test_every_extra_that_is_named_exists() -> None:
    """In a command, a sentence or a docstring: what it asks to install can be had."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = _texts()
    named = {
        pattern: {name.strip() for text in texts for found in pattern.findall(text) for name in found.split(",")}
        for pattern in NAMED
    }

    assert set().union(*named.values()) - extras.keys() == set()
    assert [pattern.pattern for pattern, names in named.items() if not names] == []


def _options() -> dict[str, set[str]]:
    """The options of each command, by its words."""
    found: dict[str, set[str]] = {}
    waiting = [((), make_app())]
    while waiting:
        words, app = waiting.pop()
        below = [name for name in app if not name.startswith("-")]
        waiting += [((*words, name), app[name]) for name in below]
        if app.default_command is not None and words:
            arguments = app.assemble_argument_collection()
            found[" ".join(words)] = {name for argument in arguments for name in argument.names}
    return found


def test_commands_on_a_home_take_the_same_options() -> None:
    """As the README and the first page say; the others are few, and each says what it is about."""
    options = _options()
    without = {command for command, names in options.items() if "--home" not in names}

    assert without == NOT_ON_A_HOME.keys()
    for command in options.keys() - without:
        assert {"--home", "--config", "--json"} <= options[command], command
    assert "Commands on a home take `--home` and `--json`." in (ROOT / "README.md").read_text()
    page = (ROOT / "docs" / "pages" / "start.md").read_text()
    assert "Every command on a home takes `--home`, `--config` and `--json`" in page
