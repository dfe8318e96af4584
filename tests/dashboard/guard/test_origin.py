"""Where a request comes from: another name, another page, another page's form."""

from __future__ import annotations

import httpx2
import pytest

from conch.auth import LoginTokens
from tests.dashboard.conftest import Dashboard
from tests.dashboard.guard.conftest import get, raw


async def test_a_name_that_is_not_ours_is_refused(dashboard: Dashboard) -> None:
    """Also with a valid cookie: a page elsewhere has had its name lead here."""
    for host in ("evil.example", "localhost", "127.0.0.1:1", "169.254.169.254", "127.0.0.1.nip.io"):
        answer = await dashboard.client.get("/", headers={"host": host})
        assert answer.status_code == 421
        assert "echo" not in answer.text
        assert host not in answer.text


async def test_a_request_without_a_host_is_refused(dashboard: Dashboard) -> None:
    """HTTP/1.0 allows it, we do not."""
    assert (await raw(dashboard, b"GET / HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert (await raw(dashboard, b"GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Origin", ("http://{own}", "http://evil.example")),
        ("Sec-Fetch-Site", ("same-origin", "cross-site")),
        ("Sec-Fetch-Mode", ("navigate", "no-cors")),
        ("Sec-Purpose", ("none", "prefetch")),
        ("Authorization", ("Bearer {token}", "Bearer x")),
        ("Host", ("{own}", "evil.example")),
    ],
)
async def test_of_two_headers_that_let_in_neither_counts(
    dashboard: Dashboard, passes: LoginTokens, name: str, values: tuple[str, str]
) -> None:
    """Whichever stands first; a cookie may stand there twice."""
    own = dashboard.address[7:]
    session = "".join(f"Cookie: {key}={value}\r\n" for key, value in dashboard.cookies.items())
    inside = dashboard.prefix
    for order in (values, values[::-1]):
        twice = "".join(f"{name}: {value.format(own=own, token=passes.token())}\r\n" for value in order)
        host = "" if name == "Host" else f"Host: {own}\r\n"
        for line in (f"POST {inside}/nothing", f"GET {inside}/"):
            head = f"{line} HTTP/1.1\r\n{host}{session}{twice}Connection: close\r\n\r\n"
            assert (await raw(dashboard, head.encode())).startswith(b"HTTP/1.1 400 "), order
    cookies = get(f"{inside}/", dashboard).replace(b"\r\n\r\n", f"\r\nCookie: a=b\r\n{session}\r\n".encode())
    assert (await raw(dashboard, cookies)).startswith(b"HTTP/1.1 200 ")


async def test_a_whole_address_has_to_name_us_too(dashboard: Dashboard) -> None:
    """What stands in the request's line counts before Host; what names nobody there is for somebody else."""
    own = dashboard.address[7:]
    for target in ("http://evil.example/", "http://evil.example", f"http://{own}@evil.example/", f"http://me@{own}/",
                   "*", own, "http://evil.example/healthz", "http://[::1"):  # fmt: skip
        assert (await raw(dashboard, get(target, dashboard))).startswith(b"HTTP/1.1 421 "), target
    assert (await raw(dashboard, get(f"http://{own}/", dashboard))).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("host", ["{own}, evil.example", "me@{own}", "me:secret@{own}", "{own}/", "{own} x", "[{own}]"])
async def test_a_host_is_a_host_and_a_port(dashboard: Dashboard, host: str) -> None:
    """Also where only health is asked for."""
    for path in ("/healthz", "/readyz", "/"):
        told = await dashboard.client.get(path, headers={"host": host.format(own=dashboard.address[7:])})
        assert told.status_code == 421


FOREIGN = (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site", "origin": "http://evil.example"},
)


@pytest.mark.parametrize("path", ["/api/v1/agents/echo/pause", "/", "/login"])
async def test_another_page_has_nothing_done_also_with_our_cookie(dashboard: Dashboard, path: str) -> None:
    """Whatever it asks for, in whatever way, it is not even looked at; the API says so as a problem."""
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for headers in FOREIGN:
            answer = await dashboard.client.request(method, path, headers=headers)
            assert answer.status_code == 403
            assert ("problem+json" in answer.headers["content-type"]) is path.startswith("/api")


async def test_another_pages_form_does_not_log_anybody_in(stranger: httpx2.AsyncClient, passes: LoginTokens) -> None:
    """Not even with the right token."""
    answer = await stranger.post("/login", data={"token": passes.token()}, headers={"sec-fetch-site": "cross-site"})

    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


async def test_our_own_page_and_programs_are_heard(dashboard: Dashboard, passes: LoginTokens) -> None:
    """By cookie from our page or from a program that says nothing of where it is, by token from anywhere."""
    ours = {"sec-fetch-site": "same-origin", "origin": dashboard.address}
    bearer = {"authorization": f"Bearer {passes.token()}"}

    for headers in (ours, {}, {"origin": dashboard.address}):
        assert (await dashboard.client.post("/nothing", headers=headers)).status_code == 404
    async with httpx2.AsyncClient(base_url=dashboard.address) as program:
        assert (await program.post("/nothing", headers=bearer)).status_code == 404
