"""The documents of a body: by what it holds, in whatever pieces it comes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.errors import ModelError
from conch.minds.replies.documents import MAX_DOCUMENT, ReplyDocument, ReplyDocuments
from conch.minds.replies.error_words import error_in

ONE, TWO = {"n": 1, "text": "a\u2028b"}, {"n": 2}
A, B = json.dumps(ONE, ensure_ascii=False), json.dumps(TWO)
PRETTY = json.dumps(ONE, indent=2)


def documents(body: str, label: str = "", sizes: int | None = None) -> tuple[list[ReplyDocument], ReplyDocuments]:
    reader, found = ReplyDocuments(label), []
    for at in range(0, len(body), sizes or len(body) or 1):
        found += reader.feed(body[at : at + (sizes or len(body))])
    return found + list(reader.end()), reader


@pytest.mark.parametrize(
    "label", ["text/event-stream", "application/json", "text/plain", "application/octet-stream", ""]
)
@pytest.mark.parametrize(
    "body",
    [
        f"data: {A}\n\ndata: {B}\n\ndata: [DONE]\n\n",
        f"data:{A}\r\n\r\ndata:{B}\r\n\r\ndata:[DONE]\r\n\r\n",
        f"data: {A}\r\rdata: {B}\r\rdata: [DONE]\r\r",
        f"\ufeffdata: {A}\n\n\ufeffdata: {B}\n\ndata: [DONE]",
        f": ping\n\nevent: message\nid: 7\nretry: 5\ndata: {A}\n\n:\n\ndata: {B}\n\ndata: [done]\n",
        f"data: {A}\ndata: {B}\ndata: [DONE]\n",
        f"  data: {A}\n\n\tDATA : {B}\n\n[DONE]\n\n",
        f"data: data: {A}\n\ndata: {B}\n\ndata: [DONE]\n\n",
        f"data: {A}\n\n{B}\n\ndata: [DONE]\n\n",
        f'data: {A}\n\ndata: {B}\n\ndata: "[DONE]"\n\n',
        f"data: {A}\n\ndata: {B}\n\ndata: DONE\n\n",
        "".join(f"data: {line}\n" for line in PRETTY.split("\n")) + f"\ndata: {B}\n\ndata: [DONE]\n\n",
        f"{A}\n{B}\n[DONE]\n",
        f"\n\n \ufeff{PRETTY}\n{B}[DONE]",
    ],
)  # fmt: skip
def test_a_body_is_read_by_what_it_holds(body: str, label: str) -> None:
    """Its label counts for nothing, nor do line ends, blanks, marks, comments and missing blank lines."""
    for sizes in (None, 1, 2, 7):
        found, reader = documents(body, label, sizes)
        assert [document.value for document in found] == [ONE, TWO]
        assert reader.is_ended


@pytest.mark.parametrize("body", [A, PRETTY, f"\ufeff{A}", f"\r\n\r\n  {A}\n", f"[{A}, {B}]"])
@pytest.mark.parametrize("label", ["text/event-stream", "application/json", ""])
def test_one_document_is_a_body_without_an_end(body: str, label: str) -> None:
    """A whole completion, though a stream was asked for, or a list of chunks as Gemini sends it."""
    found, reader = documents(body, label, 3)

    assert [document.value for document in found] == [[ONE, TWO] if body.startswith("[") else ONE]
    assert (reader.kind, reader.is_ended) == ("json", False)


@pytest.mark.parametrize("data", ["ping", "[heartbeat]", "keep-alive", "null", ": processing", ""])
def test_what_keeps_a_connection_alive_is_no_document(data: str) -> None:
    """As a comment, or as data by mistake."""
    found, _ = documents(f"data: {A}\n\ndata: {data}\n\ndata: {B}\n\n", "text/event-stream")

    assert [document.value for document in found] == [ONE, TWO]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"error": "busy"}, "busy"),
        ({"code": 1301, "message": "busy"}, "busy"),
        ({"code": "1301", "msg": "busy", "data": None}, "busy"),
        ({"base_resp": {"status_code": 1002, "status_msg": "busy"}}, "busy"),
        ({"choices": [{"delta": {}, "error": {"message": "busy"}}]}, "busy"),
        ({"choices": [{"delta": {"content": "x"}}], "base_resp": {"status_code": 0, "status_msg": "success"}}, None),
        ({"choices": [{"delta": {"content": "x"}}], "code": 200, "message": "success"}, None),
        ({"choices": [{"delta": {"content": "x"}}], "code": 7, "error": {}}, None),
        ({"code": 0, "message": "success"}, None),
    ],
)
def test_an_error_is_told_from_a_part_of_a_reply(document: dict[str, Any], words: str | None) -> None:
    """By the codes of gateways too, which no reply has."""
    assert error_in(ReplyDocument(document, "")) == words


def test_an_event_has_its_name() -> None:
    """An error's words need not be JSON."""
    [first, second], _ = documents(f"event: error\ndata: {A}\n\nevent: error\ndata: too busy\n\n")

    assert (first.event, first.value) == ("error", ONE)
    assert (second.event, second.value) == ("error", {"error": "too busy"})


@pytest.mark.parametrize("body", ["data: {oops\n\n", "data: x\n\n", "{", '{"a": 1} and more', f"data: {A[:-2]}"])
def test_data_that_is_no_json_is_not_passed_over(body: str) -> None:
    """A part of the reply may be lost in it: it cannot be read."""
    with pytest.raises(json.JSONDecodeError):
        documents(body, "text/event-stream")


@pytest.mark.parametrize(
    ("body", "kind"), [("<html>hello", "other"), ("pong", "other"), ("", "unknown"), (" \r\n", "unknown")]
)
def test_a_body_without_documents_says_so(body: str, kind: str) -> None:
    """A page, a word, nothing."""
    found, reader = documents(body, "application/json")

    assert (found, reader.kind) == ([], kind)


@pytest.mark.parametrize("begins", ["data: ", "data: {", "{", ""])
def test_a_document_is_bounded(begins: str) -> None:
    """In lines, without a line end, as one body."""
    reader = ReplyDocuments("text/event-stream")

    def feed() -> None:
        for text in (begins, *["x" * 65536] * 65):
            list(reader.feed(text))

    with pytest.raises(ModelError, match=f"goes on past {MAX_DOCUMENT}"):
        feed()


@given(
    st.lists(st.sampled_from(["data: ", "{", "}", "[DONE]", "\n", "\r", "\ufeff", ":", '"a": 1', "event: error", "x"]))
)
def test_no_body_breaks_the_reader(pieces: list[str]) -> None:
    """Whatever comes: documents, or the error that its caller knows; the same in one piece as in many."""
    results = []
    for parts in (pieces, ["".join(pieces)]):
        reader, found = ReplyDocuments("text/event-stream"), []
        try:
            for text in parts:
                found += reader.feed(text)
            found += reader.end()
        except ValueError:
            found.append(ReplyDocument("error", ""))
        results.append([document.value for document in found])
    assert results[0] == results[1]
