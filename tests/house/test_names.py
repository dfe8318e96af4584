"""Names and sizes: what a reader relies on to find the way."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict

from tests.house.product import ROOT, modules

LONG_CLASSES = {"Agent", "Connection", "JetStreamBus", "Publisher", "PullReader"}
"""One connection, one stream, one agent: state whose parts change together. No sixth."""
MOST_LINES = 250
MOST_MODULES = 15
ONE_NOUN_A_FILE = {"conch/cli", "conch/views", "schemas/conch_schemas"}
INDEFINITE = {
    *("who", "whoever", "whom", "whose", "whatever", "whichever", "nobody", "somebody", "anybody", "everybody"),
}
MOST_INDEFINITE = 2.0
"""Per 1,000 words of docstrings and comments."""


def test_a_class_name_has_one_meaning() -> None:
    """No two classes of the product have one name."""
    classes = defaultdict(set)
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].add(module.name)

    assert {name: sorted(places) for name, places in classes.items() if len(places) > 1} == {}


def test_a_class_has_at_most_250_lines() -> None:
    """All but the five that are named above."""
    long = {
        node.name
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno >= MOST_LINES
    }

    assert long <= LONG_CLASSES
    assert len(LONG_CLASSES) <= 5


def test_a_folder_has_at_most_15_modules() -> None:
    """All but the folders that hold one noun a file."""
    folders = Counter(
        str(module.path.parent.relative_to(ROOT))
        for module in modules()
        if module.path.name not in ("__init__.py", "__main__.py")
    )

    wide = {folder: number for folder, number in folders.items() if number > MOST_MODULES}
    assert wide.keys() <= ONE_NOUN_A_FILE, wide


def test_no_banner_divides_a_file() -> None:
    """A file that wants headings wants to be a folder."""
    banners = [
        f"{module.path.relative_to(ROOT)}:{number}"
        for module in modules()
        for number, line in enumerate(module.text.splitlines(), 1)
        if re.match(r"\s*#\s*([-=#*~_])\1{3}", line)
    ]

    assert banners == []


def test_who_and_nobody_are_people() -> None:
    """Docstrings and comments name their subject: at most 2 indefinite pronouns in 1,000 words."""
    words: Counter[str] = Counter()
    for module in modules():
        texts = [
            node.value.value
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ]
        tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
        texts += [token.string for token in tokens if token.type == tokenize.COMMENT]
        for text in texts:
            words.update(re.findall(r"[a-z]+", text.lower()))

    share = 1000 * sum(words[word] for word in INDEFINITE) / words.total()
    assert share <= MOST_INDEFINITE, f"{share:.1f} in 1,000 words"
