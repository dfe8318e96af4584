"""Whether words stand in bytes, and JSON without them."""

from __future__ import annotations

import json

from hypothesis import assume, given
from hypothesis import strategies as st

from conch.forgetting import Needle

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=3, max_size=20)
LETTERS = st.text(st.characters(categories=("L",)), min_size=3, max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | LETTERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(LETTERS, inner, max_size=4),
    max_leaves=12,
)


@given(TEXTS, st.text(max_size=10), st.text(max_size=10), st.booleans())
def test_words_are_found_however_json_writes_them(text: str, before: str, behind: str, ascii_: bool) -> None:
    """Plain, in a JSON text, and in a JSON text that stands within JSON; by both searches."""
    needle = Needle(texts=(text,))
    plain = before + text + behind
    once = json.dumps({"text": plain}, ensure_ascii=ascii_)

    for written in (plain, once, json.dumps({"raw": once}, ensure_ascii=ascii_)):
        assert needle.held(written.encode())
        assert needle.text_in(written.encode())


def test_words_are_found_in_any_case() -> None:
    """An umlaut has another escape in each case."""
    needle = Needle(texts=("Roswitha Käsebier",))

    for written in ("ROSWITHA KÄSEBIER", "roswitha käsebier", '"Roswitha K\\u00c4SEBIER"', "xRoswitha Käsebierx"):
        assert needle.held(written.encode()) or written.startswith('"')
    assert needle.held(json.dumps("ROSWITHA KÄSEBIER").encode())
    assert not needle.held(b"Roswitha Kaesebier")


@given(VALUES, LETTERS)
def test_json_without_words_holds_none(value: object, text: str) -> None:
    """Neither in a value nor in a name, wherever they stood; other values stay."""
    needle = Needle(texts=(text,))
    assume(not needle.held(b"removed at a person's request person list said other number true false null NaN"))
    held = {"person": f"it is {text}!", text: 1, "list": [text, {"said": text}], "other": value}

    for drops in (False, True):
        left = needle.without(json.loads(json.dumps(held)), drops=drops)
        assert not needle.held(json.dumps(left, ensure_ascii=False).encode())
    assert needle.without({"number": 3, "list": [1, None]}) == {"number": 3, "list": [1, None]}


def test_an_entry_of_a_list_is_left_out_with_its_words() -> None:
    """The innermost object that holds them, where lists may be shortened; else a string stands in their place."""
    needle = Needle(texts=("Roswitha",), ids=("m-1",))
    memory = {
        "recent": [{"cycle": 1, "act": {"text": "hi Roswitha"}}, {"cycle": 2, "act": {"text": "hi"}}],
        "on": "m-1",
    }

    assert needle.without(memory, drops=True) == {
        "recent": [{"cycle": 2, "act": {"text": "hi"}}],
        "on": "removed at a person's request",
    }
    kept = needle.without(memory)
    assert isinstance(kept, dict)
    assert len(json.dumps(kept["recent"])) > len(json.dumps(memory["recent"])) - 20


def test_an_id_is_looked_for_but_is_no_text() -> None:
    """A record of what was removed holds ids: they do not count as what is left of a person."""
    needle = Needle(texts=(), ids=("0190-abc",))

    assert needle.held(b'{"answers":"0190-abc"}')
    assert not needle.text_in(b'{"answers":"0190-abc"}')
