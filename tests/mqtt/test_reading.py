"""What a payload says, and all the ways in which it says nothing."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch_services.mqtt.parse import NoReadingError, read


@pytest.mark.parametrize(
    ("payload", "path", "value"),
    [
        (b"21.5", None, 21.5),
        (b" -3\n", None, -3.0),
        (b"1e3", None, 1000.0),
        (b"ON", None, "ON"),
        (b'"ON"', None, "ON"),
        (b"true", None, True),
        ("grün".encode(), None, "grün"),
        (b'{"t": 21}', "t", 21.0),
        (b'{"t": "21.5"}', "t", 21.5),
        (b'{"a": {"b": [0, {"c": false}]}}', "a.b.1.c", False),
        (b'{"temp.inside": 3}', "temp.inside", 3.0),
        (b'{"x": "\\ud800"}', "x", "\ufffd"),
        (b"\xef\xbb\xbf21.5", None, 21.5),
        (b'\xef\xbb\xbf{"t": 21}\r\n', "t", 21.0),
        (b'{"t": "\\ufeff 21.5 "}', "t", 21.5),
        (b"21.5\0", None, 21.5),
        (b"ON\0\0", None, "ON"),
        (b"21,5", None, "21,5"),
        (b"\xe2\x88\x9221.5", None, -21.5),
        (b"1,234.5", None, "1,234.5"),
        (b"21.5 \xc2\xb0C", None, "21.5 °C"),
        (b"False", None, "False"),
        (b"offline", None, "offline"),
        (b"nonesuch", None, "nonesuch"),
        (b"unknown visitor", None, "unknown visitor"),
        (b"[on", None, "[on"),
    ],
)
def test_a_number_a_truth_or_a_text_is_read(payload: bytes, path: str | None, value: Any) -> None:
    """JSON or plain, whole or at a path."""
    found = read(payload, path).value

    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("payload", "path", "reason"),
    [
        (b"", None, "empty"),
        (b" \n", "t", "empty"),
        (b"null", None, "empty"),
        (b'{"t": ""}', "t", "empty"),
        (b"\xff\xfe\x00", None, "not_text"),
        (b"21.5", "t", "missing"),
        (b"twenty", "t", "not_json"),
        (b"{", "t", "not_json"),
        (b"[" * 50_000, "t", "not_json"),
        (b'{"a": {"b": 1}}', "a.c", "missing"),
        (b'{"a": [1]}', "a.1", "missing"),
        (b'{"a": [1]}', "a.-1", "missing"),
        (b'{"a": [1]}', "a." + "9" * 100, "missing"),
        (b'{"a": {}}', "a", "not_a_value"),
        (b'{"a": 1}', None, "not_a_value"),
        (b"[1]", None, "not_a_value"),
        (b"NaN", None, "not_finite"),
        (b"-Infinity", None, "not_finite"),
        (b'{"t": NaN}', "t", "not_finite"),
        (b'{"t": "inf"}', "t", "not_finite"),
        (b"1e999", None, "not_finite"),
        (b"-nan", None, "not_finite"),
        (b"+NaN", None, "not_finite"),
        (b"-nan(ind)", None, "not_finite"),
        (b"1.#QNAN", None, "not_finite"),
        (b"+Inf\n", None, "not_finite"),
        (b'"-nan"', None, "not_finite"),
        (b'{"t": "-NaN"}', "t", "not_finite"),
        (b'{"t": -nan}', "t", "not_json"),
        (b'{"t": nan}', None, "not_json"),
        (b"{'t': None}", None, "not_json"),
        (b"[None]", None, "not_json"),
        (b"None", None, "no_value"),
        (b"NONE\r\n", None, "no_value"),
        (b'"None"', None, "no_value"),
        (b'{"t": "null"}', "t", "no_value"),
        (b"NULL", None, "no_value"),
        (b"unavailable", None, "no_value"),
        (b"UNDEF", None, "no_value"),
        (b"nodata", None, "no_value"),
        (b"not_available", None, "no_value"),
        (b"#N/A", None, "no_value"),
        (b"(null)", None, "no_value"),
        (b"--.-", None, "no_value"),
        (b"\xe2\x80\x94", None, "no_value"),
        (b"nan \xc2\xb0C", None, "not_finite"),
        (b" Unavailable ", None, "no_value"),
        (b'{"state": "unavailable"}', "state", "no_value"),
        (b"unknown", None, "no_value"),
        (b"undefined", None, "no_value"),
        (b"N/A", None, "no_value"),
        (b"--", None, "no_value"),
        (b"?", None, "no_value"),
        (b"\xef\xbb\xbfunavailable", None, "no_value"),
        (b"\xef\xbb\xbf", None, "empty"),
        (b"\xef\xbb\xbf \n", None, "empty"),
        (b"\0", None, "empty"),
        (b'"\\ufeff"', None, "empty"),
        (b'{"value": null}', "value", "empty"),
        (b"\xff\xfe2\x001\x00", None, "not_text"),
        (b"9" * 5000, None, "not_finite"),
        (b"x" * 1025, None, "too_long"),
        (b"x" * 1_000_000, None, "too_large"),
    ],
)
def test_what_is_no_reading_is_refused_by_name(payload: bytes, path: str | None, reason: str) -> None:
    """Each way has a word of its own to be counted by, and a sentence."""
    with pytest.raises(NoReadingError) as refused:
        read(payload, path)

    assert refused.value.reason == reason
    assert len(str(refused.value)) < 200


@given(
    st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)), st.sampled_from([None, "a", "0.a", "."])
)
def test_no_payload_is_anything_but_read_or_refused(payload: bytes, path: str | None) -> None:
    """Random bytes and texts never raise anything else."""
    with contextlib.suppress(NoReadingError):
        read(payload, path)


def test_only_a_cloudevent_says_which_message_it_is() -> None:
    """A plain `id` is as often the device's: taken for the message's, it would make every reading an old one."""
    event = b'{"specversion": "1.0", "source": "s", "id": "7", "data": {"t": 1}}'

    assert read(event, "data.t").id == "s 7"
    assert read(b'{"id": "7", "t": 1}', "t").id is None
