"""What somebody learns who has no session and no token: nothing of the agent, whatever is asked, in whatever way."""

from __future__ import annotations

from importlib.metadata import version

import httpx2
import pytest

from conch.auth import LoginTokens
from conch_services.dashboard.security.guard import MOST_BODY, MOST_HEAD
from tests.dashboard.conftest import Dashboard
from tests.dashboard.guard.conftest import get, raw

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND")
PATHS = (
    "/", "/cycles", "/cycles/1", "/nothing", "/nothing/", "/login", "/login/", "/logout", "/live", "/live/", "/goals",
    "/settings/doctor", "/api", "/api/v1", "/api/v1/cycles", "/api/v1/openapi.json", "/api/v1/nothing", "/healthz",
    "/healthz/", "/readyz", "/static", "/static/", "/static/x", "/static/vendor", "/static/app.css/x", "/static//etc",
    "/static/%00", "/static/..%2fapp.py", "/~", "/~/", "/~AAAAAAAAAAAAAAAAAAAAAA/cycles", "//", "/?agent=x",
)  # fmt: skip
HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"accept": "application/json"},
    {"hx-request": "true"},
    {"host": "evil.example"},
    {"origin": "http://evil.example"},
    {"authorization": "Basic eDp4"},
    {"cookie": "conch_session_1=x"},
    {"range": "bytes=9999999-"},
    {"if-none-match": "*"},
)


def assert_tells_nothing(dashboard: Dashboard, answer: str) -> None:
    """No name or state of the agent, no version, no place of the home, no page's menu."""
    home = dashboard.seeded.home.path
    secrets = ("echo", version("conch-agent"), dashboard.world.hub.state + "<", str(home), home.parent.name, "Witness",
               dashboard.prefix, dashboard.life.uid, "Traceback")  # fmt: skip
    assert [one for one in secrets if one in answer] == []


async def test_no_path_and_no_method_tells_anything(dashboard: Dashboard, stranger: httpx2.AsyncClient) -> None:
    """Neither in the body nor in a header; also where a file is not there, or the method is another."""
    seen = set()
    for method in METHODS:
        for path in PATHS:
            answer = await stranger.request(method, path)
            seen.add(answer.status_code)
            assert_tells_nothing(dashboard, f"{answer.headers}{answer.text}")

    assert {200, 401, 404, 405} <= seen


@pytest.mark.parametrize("headers", HEADERS, ids=str)
async def test_no_header_makes_it_tell_anything(
    dashboard: Dashboard, stranger: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    """Of pages, files, the API and the forms."""
    for method in ("GET", "POST"):
        for path in ("/", "/static/x", "/static/app.css", "/api/v1/cycles", "/login", "/healthz", "/live"):
            answer = await stranger.request(method, path, headers=headers)
            assert_tells_nothing(dashboard, f"{answer.headers}{answer.text}")


async def test_no_refusal_tells_anything(dashboard: Dashboard, stranger: httpx2.AsyncClient) -> None:
    """What is too large, too long, wrong too often, meant for another, no request at all."""
    said = [await raw(dashboard, request) for request in (
        b"\x16\x03\x01\r\n\r\n",
        get("/", dashboard).replace(b"HTTP/1.1", b"HTTP/9.9"),
        get(f"/{'a' * MOST_HEAD}", dashboard),
        get("http://evil.example/", dashboard),
        get("/static/x", dashboard).replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: nonsense\r\n\r\n"),
        b"GET / HTTP/1.0\r\n\r\n",
    )]  # fmt: skip
    answers = [await stranger.post("/login", content=b"x" * (MOST_BODY + 1))]
    answers += [await stranger.post("/login", data={"token": "x", "next": "/cycles"}) for _ in range(12)]
    answers += [await stranger.get("/", params={"token": "x"}), await stranger.post("/static/x", content=b"x")]

    assert {413, 401, 429, 405} <= {answer.status_code for answer in answers}
    assert all(one.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) for one in said)
    for text in [one.decode("latin-1") for one in said] + [f"{one.headers}{one.text}" for one in answers]:
        assert_tells_nothing(dashboard, text)


async def test_no_error_of_ours_tells_anything(
    dashboard: Dashboard, stranger: httpx2.AsyncClient, passes: LoginTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that cannot be used, of which who is in is told where it lies; a bug."""
    links = dashboard.seeded.home.path / "ui" / "links"
    links.write_text("in the way")
    asked = {"token": "A" * 43}
    unusable = await stranger.get("/", params=asked)
    monkeypatch.setattr(LoginTokens, "redeem", broken)
    bug = await stranger.get("/", params=asked)

    assert (unusable.status_code, bug.status_code) == (503, 500)
    assert "the log of the dashboard says why" in unusable.text
    for answer in (unusable, bug):
        assert_tells_nothing(dashboard, f"{answer.headers}{answer.text}")


def broken(*_: object) -> bool:
    raise RuntimeError("echo: a bug")


async def test_an_error_of_a_file_is_no_page_of_the_agent_either(dashboard: Dashboard) -> None:
    """Not even for who is in: what all may fetch is answered alike to all."""
    missing = await dashboard.client.get("/static/x")
    forbidden = await dashboard.client.post("/static/app.css")

    assert (missing.status_code, forbidden.status_code) == (404, 405)
    for answer in (missing, forbidden):
        assert_tells_nothing(dashboard, answer.text)
