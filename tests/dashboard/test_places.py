"""What the page is called, and by whom it may be changed: the rules alone."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import UiSettings
from conch_services.dashboard.security.guard import _local
from conch_services.dashboard.security.places import PageNames
from conch_services.dashboard.security.rate_limit import MOST_PLACES, MOST_WRONG, WINDOW_SECONDS, LoginRateLimit

OWN = PageNames.of(UiSettings(), 26624)
PUBLIC = PageNames.of(
    UiSettings(host="0.0.0.0", token="a-token-of-the-tests", origins=("https://conch.example.org", "http://box:8080")),
    26624,
)


@pytest.mark.parametrize("host", ["127.0.0.1:26624", "localhost:26624", "LOCALHOST:26624", "[::1]:26624"])
def test_this_machines_own_names_are_known(host: str) -> None:
    """With the port, in letters of any size, in IPv6 too."""
    assert OWN.knows(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:26624", "localhost", "localhost:80", "127.0.0.1", "127.0.0.1:26625",
        "127.0.0.2:26624", "localhost.evil.example:26624", "localhost:26624.evil.example",
        "localhost:26624@evil.example", "localhost:26624,evil.example", " localhost:26624", "",
        "192.168.1.5:26624", "0.0.0.0:26624", "[::]:26624", "[::1",
    ],
)  # fmt: skip
def test_any_other_name_is_not(host: str) -> None:
    """Not even one that begins or ends like ours."""
    assert not OWN.knows(host)


def test_named_origins_are_known_with_and_without_the_usual_port() -> None:
    """As proxies pass them on."""
    known = ("conch.example.org", "conch.example.org:443", "box:8080", "localhost:26624")

    assert all(PUBLIC.knows(host) for host in known)
    assert not any(PUBLIC.knows(host) for host in ("conch.example.org:80", "box", "example.org", "10.0.0.1:26624"))
    assert [PUBLIC.is_secure(host) for host in known] == [True, False, False, False]


def test_who_asks_for_health_may_know_it_by_number() -> None:
    """A container's own address is in no list; a foreign name is still refused."""
    assert OWN.knows("10.1.2.3:26624", harmless=True)
    assert OWN.knows("[fd00::1]:26624", harmless=True)
    for host in ("evil.example:26624", "10.1.2.3:26624, evil", "user@10.1.2.3:26624", "10.1.2.3:26624/x", "10.1.2.3:x"):
        assert not OWN.knows(host, harmless=True)


def test_where_everybody_is_let_in_a_name_still_has_to_be_ours() -> None:
    """A number is no name that somebody else could lead here."""
    everybody = PageNames.of(UiSettings(host="0.0.0.0", unsafe_allow_unauthenticated=True), 26624)

    assert everybody.knows("192.168.1.5:26624")
    assert not everybody.knows("evil.example:26624")
    assert not PageNames.of(UiSettings(unsafe_allow_unauthenticated=True), 26624).knows("192.168.1.5:26624")


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({}, True),
        ({"origin": "http://localhost:26624"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-origin", "origin": "http://localhost:26624"}, True),
        ({"sec-fetch-site": "same-site", "origin": "http://localhost:26624"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "SAME-ORIGIN"}, False),
        ({"sec-fetch-site": ""}, False),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, True),
        ({"sec-fetch-site": "none", "origin": "null"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "null"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "https://localhost:26624"}, False),
        ({"origin": "http://localhost:3000"}, False),
        ({"origin": "http://localhost:26624.evil.example"}, False),
        ({"sec-fetch-site": "same-origin", "origin": "http://evil.example"}, False),
        ({"origin": "https://conch.example.org"}, True),
    ],
)
def test_who_may_change_something(headers: dict[str, str], ours: bool) -> None:
    """Our own page, one of a named origin, a program; whatever else a browser says of where it comes from, is not."""
    assert PUBLIC.comes_from_us("localhost:26624", headers) is ours


@given(
    st.text()
    | st.builds("".join, st.lists(st.sampled_from(["/", "\\", "//evil.example", ".", "%2f", "@", "a", "?", "#"])))
)
def test_nobody_is_sent_elsewhere_after_logging_in(place: str) -> None:
    """Whatever is asked for, a browser goes on to a place of ours."""
    gone = urlsplit(urljoin("http://127.0.0.1:26624/login", _local(place)))

    assert (gone.scheme, gone.netloc) == ("http", "127.0.0.1:26624")
    assert "\\" not in _local(place)
    assert _local("/cycles/3?agent=echo") == "/cycles/3?agent=echo"


def test_wrong_tokens_are_counted_for_a_minute() -> None:
    """Ten, then a further one is told to wait; whoever comes from elsewhere does not pay for it."""
    tries = LoginRateLimit()
    for second in range(MOST_WRONG):
        assert tries.wait("10.0.0.1", second) == 0
        tries.note("10.0.0.1", second)

    assert tries.wait("10.0.0.1", 10.0) == WINDOW_SECONDS - 10
    assert tries.wait("10.0.0.2", 10.0) == 0
    assert tries.wait("10.0.0.1", WINDOW_SECONDS) == 0
    tries.note("10.0.0.1", WINDOW_SECONDS)
    assert tries.wait("10.0.0.1", WINDOW_SECONDS + 1) == 0


def test_one_machine_has_a_whole_network_of_addresses() -> None:
    """Of IPv6 64 bits count as one place."""
    tries = LoginRateLimit()
    for number in range(MOST_WRONG):
        tries.note(f"fd00::{number:x}", 0.0)

    assert tries.wait("fd00::ffff", 1.0) > 0
    assert tries.wait("fd00:0:0:1::1", 1.0) == 0


def test_as_many_places_as_there_are_take_no_more_room() -> None:
    """The one that was wrong longest ago is forgotten."""
    tries = LoginRateLimit()
    for number in range(3 * MOST_PLACES):
        tries.note(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", float(number))

    assert len(tries._wrong) == MOST_PLACES
