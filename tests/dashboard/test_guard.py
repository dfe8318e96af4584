"""The guard before the page: each test tries to come in, or to have something done, in another way."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
import structlog
from pydantic import SecretStr
from starlette.routing import Route

from conch import passes as passes_module
from conch.config import Settings, UiSettings
from conch.home import Home
from conch.passes import SESSION_SECONDS, Passes, signed_session
from conch_services.dashboard.pages import ROUTES
from conch_services.dashboard.security import connection, guard
from conch_services.dashboard.security.guard import CONTENT_POLICY, HEADERS, MOST_BODY, MOST_HEAD
from conch_services.dashboard.security.tries import MOST_WRONG
from tests.dashboard.conftest import Dashboard

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest_asyncio.fixture(loop_scope="session")
async def stranger(dashboard: Dashboard) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody without any pass."""
    async with httpx2.AsyncClient(base_url=dashboard.address, timeout=10) as client:
        yield client


@pytest.fixture
def passes(dashboard: Dashboard) -> Passes:
    return Passes(dashboard.seeded.home)


async def raw(dashboard: Dashboard, request: bytes) -> bytes:
    """What is answered to these very bytes, until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(dashboard.address.rpartition(":")[2]))
    writer.write(request)
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def get(target: str, dashboard: Dashboard) -> bytes:
    """A request for this target, to the letter."""
    return f"GET {target} HTTP/1.1\r\nHost: {dashboard.address[7:]}\r\nConnection: close\r\n\r\n".encode()


# -- who comes in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/cycles", "/nothing", "/live", "/api/v1/cycles", "/static", "/login", "/health"]
)
async def test_without_a_pass_there_is_nothing(stranger: httpx2.AsyncClient, path: str) -> None:
    """No page, no stream, no API, not even whether there is one; a browser is told what to do, a program as JSON."""
    answer = await stranger.get(path)

    assert answer.status_code == 401
    assert "conch ui --link" in answer.text
    assert "echo" not in answer.text
    if path.startswith("/api") or path == "/live":
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["status"] == 401
    else:
        assert '<form method="post" action="/login">' in answer.text


async def test_health_is_told_to_everybody_and_nothing_else_with_it(stranger: httpx2.AsyncClient) -> None:
    """A word each, also to whoever knows a container by its number alone."""
    assert [(await stranger.get(path)).text for path in ("/healthz", "/readyz")] == ["ok\n", "ready\n"]
    numbered = await stranger.get("/healthz", headers={"host": "10.1.2.3:26624"})
    assert (numbered.status_code, numbered.text) == (200, "ok\n")
    assert (await stranger.get("/healthz", headers={"host": "evil.example"})).status_code == 421


async def test_a_link_lets_in_once(stranger: httpx2.AsyncClient, passes: Passes, dashboard: Dashboard) -> None:
    """A 303 to the page without the token, and a cookie that scripts and other pages do not get; then it is spent."""
    token = passes.link(time.time())
    port = dashboard.address.rpartition(":")[2]

    came = await stranger.get("/cycles", params={"agent": "echo", "token": token, "limit": "5"})

    assert (came.status_code, came.headers["location"]) == (303, "/cycles?agent=echo&limit=5")
    cookie = came.headers["set-cookie"]
    name, _, rest = cookie.partition("=")
    assert name == f"conch_session_{port}"
    assert {part.strip().lower() for part in rest.split(";")[1:]} == {
        "httponly", "samesite=strict", "path=/", f"max-age={int(SESSION_SECONDS)}"
    }  # fmt: skip
    assert (await stranger.get("/")).status_code == 200
    async with httpx2.AsyncClient(base_url=dashboard.address) as other:
        spent = await other.get("/", params={"token": token})
        assert spent.status_code == 401
        assert "used already" in spent.text
        assert "conch ui --link" in spent.text
        assert "set-cookie" not in spent.headers
        assert (await other.get("/")).status_code == 401


async def test_who_is_in_and_shows_a_spent_link_again_goes_on(
    stranger: httpx2.AsyncClient, passes: Passes, dashboard: Dashboard
) -> None:
    """To the page without the token, with the session as it was; who is not in is refused as before."""
    token = passes.link(time.time())
    await stranger.get("/", params={"token": token})

    for _ in range(30):  # as often as one likes: it is no wrong try
        again = await stranger.get("/needs", params={"agent": "echo", "token": token})

    assert (again.status_code, again.headers["location"]) == (303, "/needs?agent=echo")
    assert "set-cookie" not in again.headers
    async with httpx2.AsyncClient(base_url=dashboard.address) as other:
        assert (await other.get("/needs", params={"token": token})).status_code == 401


async def test_a_browser_that_guesses_does_not_use_a_link_up(stranger: httpx2.AsyncClient, passes: Passes) -> None:
    """What is fetched ahead of a click is refused, and the click lets in."""
    token = passes.link(time.time())

    ahead = await stranger.get("/", params={"token": token}, headers={"sec-purpose": "prefetch;prerender"})

    assert ahead.status_code == 503
    assert (await stranger.get("/", params={"token": token})).status_code == 303


async def test_only_a_look_at_a_page_uses_a_link(stranger: httpx2.AsyncClient, passes: Passes) -> None:
    """Neither a HEAD, nor the API, nor a file."""
    token = passes.link(time.time())

    assert (await stranger.head("/", params={"token": token})).status_code == 401
    assert (await stranger.get("/api/v1/cycles", params={"token": token})).status_code == 401
    assert (await stranger.get("/static/app.css", params={"token": token})).status_code == 200
    assert (await stranger.get("/", params={"token": token})).status_code == 303


async def test_a_link_leads_nowhere_else(dashboard: Dashboard, passes: Passes) -> None:
    """Whatever path it was sent with, the browser stays."""
    for path in ("//evil.example/x", "/\\evil.example", "/%5C%5Cevil.example", "/%2F%2Fevil.example", "/%0d%0aX:%20y"):
        said = await raw(dashboard, get(f"{path}?token={passes.link(time.time())}", dashboard))
        [location] = [line[10:] for line in said.decode().split("\r\n") if line.startswith("location: ")]
        assert location.startswith("/")
        assert not location.startswith(("//", "/\\"))


async def test_forged_expired_cut_and_foreign_sessions_are_none(dashboard: Dashboard) -> None:
    """Nor does one of another page on this machine, whose cookies a browser sends here as well."""
    name, good = next(iter(dashboard.cookies.items()))
    key, now = Passes(dashboard.seeded.home).key(), time.time()
    other = signed_session(key, "conch_session_1", now)
    until, nonce, signature = good.split(".")
    bad = {
        "forged": signed_session(bytes(32), name, now),
        "expired": signed_session(key, name, now - SESSION_SECONDS - 1),
        "prolonged": f"{int(until) + 1}.{nonce}.{signature}",
        "cut": good[:-1],
        "empty": "",
        "another port's": other,
    }
    async with httpx2.AsyncClient(base_url=dashboard.address) as client:
        for what, value in bad.items():
            answer = await client.get("/", headers={"cookie": f"{name}={value}"})
            assert answer.status_code == 401, what
        elsewhere = await client.get("/", headers={"cookie": f"conch_session_1={other}"})
        assert elsewhere.status_code == 401
        shadowed = await client.get("/", headers={"cookie": f"{name}=put-there; {name}={good}"})
        assert shadowed.status_code == 200


async def test_a_program_shows_the_token(stranger: httpx2.AsyncClient, passes: Passes) -> None:
    """To pages and API; without it, or with another, it is told how."""
    bearer = {"authorization": f"Bearer {passes.token()}"}

    assert (await stranger.get("/", headers=bearer)).status_code == 200
    assert (await stranger.get("/api/v1/nothing", headers=bearer)).status_code == 404
    for wrong in ("Bearer wrong", "Bearer", f"Basic {passes.token()}", f"Bearer {passes.token()}x"):
        assert (await stranger.get("/api/v1/nothing", headers={"authorization": wrong})).status_code == 401


async def test_a_wrong_token_outweighs_a_session(dashboard: Dashboard) -> None:
    """Who shows a token is judged by it."""
    answer = await dashboard.client.get("/", headers={"authorization": "Bearer wrong"})

    assert answer.status_code == 401


async def test_a_person_types_the_token(stranger: httpx2.AsyncClient, passes: Passes) -> None:
    """And goes on to where he wanted to go, never elsewhere; a wrong one brings the form again."""
    wrong = await stranger.post("/login", data={"token": "wrong", "next": "/needs?agent=echo"})
    right = await stranger.post("/login", data={"token": passes.token(), "next": "/needs?agent=echo"})
    away = await stranger.post("/login", data={"token": passes.token(), "next": "https://evil.example"})

    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    assert 'value="/needs?agent=echo"' in wrong.text
    assert (right.status_code, right.headers["location"]) == (303, "/needs?agent=echo")
    assert away.headers["location"] == "/"
    assert (await stranger.get("/")).status_code == 200


async def test_guessing_is_over_after_ten(stranger: httpx2.AsyncClient, dashboard: Dashboard, passes: Passes) -> None:
    """In whatever way. Whoever has the right one is let in meanwhile: nobody can lock him out."""
    token, bearer = passes.link(time.time()), {"authorization": f"Bearer {passes.token()}"}
    ways = (
        stranger.post("/login", data={"token": "x"}),
        stranger.get("/", params={"token": "A" * 43}),
        stranger.get("/api/v1/cycles", headers={"authorization": "Bearer x"}),
    )
    for way in ways:
        assert (await way).status_code == 401
    for _ in range(MOST_WRONG - len(ways)):
        await stranger.post("/login", data={"token": "x"})

    late = await stranger.post("/login", data={"token": "x"})

    assert late.status_code == 429
    assert 0 < int(late.headers["retry-after"]) <= 61
    assert (await stranger.get("/", params={"token": "A" * 43})).status_code == 429
    assert (await stranger.get("/", headers={"authorization": "Bearer x"})).status_code == 429
    assert (await stranger.get("/", headers=bearer)).status_code == 200
    assert (await stranger.post("/login", data={"token": passes.token()})).status_code == 303
    stranger.cookies.clear()
    assert (await stranger.get("/", params={"token": token})).status_code == 303
    assert (await dashboard.client.get("/")).status_code == 200


async def test_pictures_of_another_page_try_nothing(stranger: httpx2.AsyncClient, passes: Passes) -> None:
    """What a page elsewhere has its browser fetch is refused, uses no link up, and is not counted; a click is."""
    token = passes.link(time.time())
    for site in ("cross-site", "same-site"):
        picture = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
        for _ in range(MOST_WRONG + 1):
            assert (await stranger.get("/", params={"token": "x"}, headers=picture)).status_code == 403
            wrong = await stranger.get("/live", headers={**picture, "authorization": "Bearer x"})
            assert wrong.status_code == 401
        assert (await stranger.get("/", params={"token": token}, headers=picture)).status_code == 403
    click = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    for status in [401] * MOST_WRONG + [429]:
        assert (await stranger.get("/", params={"token": "x"}, headers=click)).status_code == status
    assert (await stranger.get("/", params={"token": token}, headers=click)).status_code == 303


# -- where a request comes from ---------------------------------------------------------------------------------------


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
    dashboard: Dashboard, passes: Passes, name: str, values: tuple[str, str]
) -> None:
    """Whichever stands first; a cookie may stand there twice."""
    own = dashboard.address[7:]
    session = "".join(f"Cookie: {key}={value}\r\n" for key, value in dashboard.cookies.items())
    for order in (values, values[::-1]):
        twice = "".join(f"{name}: {value.format(own=own, token=passes.token())}\r\n" for value in order)
        host = "" if name == "Host" else f"Host: {own}\r\n"
        for line in ("POST /nothing", "GET /"):
            head = f"{line} HTTP/1.1\r\n{host}{session}{twice}Connection: close\r\n\r\n"
            assert (await raw(dashboard, head.encode())).startswith(b"HTTP/1.1 400 "), order
    cookies = get("/", dashboard).replace(b"\r\n\r\n", f"\r\nCookie: a=b\r\n{session}\r\n".encode())
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


async def test_another_pages_form_does_not_log_anybody_in(stranger: httpx2.AsyncClient, passes: Passes) -> None:
    """Not even with the right token."""
    answer = await stranger.post("/login", data={"token": passes.token()}, headers={"sec-fetch-site": "cross-site"})

    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


async def test_our_own_page_and_programs_are_heard(dashboard: Dashboard, passes: Passes) -> None:
    """By cookie from our page or from a program that says nothing of where it is, by token from anywhere."""
    ours = {"sec-fetch-site": "same-origin", "origin": dashboard.address}
    bearer = {"authorization": f"Bearer {passes.token()}"}

    for headers in (ours, {}, {"origin": dashboard.address}):
        assert (await dashboard.client.post("/nothing", headers=headers)).status_code == 404
    async with httpx2.AsyncClient(base_url=dashboard.address) as program:
        assert (await program.post("/nothing", headers=bearer)).status_code == 404


# -- what every answer says ------------------------------------------------------------------------------------------


async def test_every_answer_is_under_the_policy(
    dashboard: Dashboard, stranger: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages, files, redirects, refusals, errors, health: no frame around it, no script of others, no server's name."""
    assert CONTENT_POLICY == POLICY
    pages = [route.path.replace("{number:int}", "3") for route in ROUTES if isinstance(route, Route)]
    answers = [await dashboard.client.get(path) for path in [*pages, "/nothing", "/static/app.css", "/static/no.css"]]
    answers += [await dashboard.client.post("/"), await dashboard.client.get("/", headers={"host": "evil.example"})]
    answers += [await dashboard.client.post("/", headers={"origin": "null"})]
    answers += [await dashboard.client.post("/login", content=b"x" * (MOST_BODY + 1))]
    answers += [await stranger.get(path) for path in ("/", "/healthz", "/readyz", "/static/theme.js", "/api/v1/cycles")]
    async with dashboard.client.stream("GET", "/live") as live:
        answers.append(live)
    with monkeypatch.context() as patch:
        patch.setattr(dashboard.world, "read", broken)
        answers.append(await dashboard.client.get("/"))

    assert {200, 401, 403, 404, 405, 413, 421, 500} <= {answer.status_code for answer in answers}
    for answer in answers:
        told = {name: answer.headers.get(name) for name in HEADERS}
        assert told == HEADERS, answer.url
        static = answer.url.path.startswith("/static/")
        assert answer.headers["cache-control"] == ("no-cache" if static else "no-store"), answer.url
        assert "server" not in answer.headers
        assert not {"access-control-allow-origin", "x-powered-by"} & set(answer.headers)
    assert HEADERS["Content-Security-Policy"] == POLICY
    assert (HEADERS["X-Content-Type-Options"], HEADERS["Referrer-Policy"]) == ("nosniff", "no-referrer")


async def test_also_what_is_no_request_is_answered_under_the_policy(dashboard: Dashboard) -> None:
    """Garbage, a header of a megabyte, two hosts, a length that is none."""
    whole = get("/healthz", dashboard)
    for garbage in (
        b"\x16\x03\x01 garbage\r\n\r\n",
        whole.replace(b"\r\n\r\n", b"\r\nHost: evil.example\r\n\r\n"),
        whole.replace(b"\r\n\r\n", b"\r\nContent-Length: -1\r\n\r\n"),
        whole.replace(b"\r\n\r\n", b"\r\nno colon\r\n\r\n"),
    ):
        said = (await raw(dashboard, garbage)).decode()
        assert said.startswith("HTTP/1.1 400 Bad Request\r\n")
        assert all(f"\r\n{name}: {value}\r\n" in said for name, value in HEADERS.items())
        assert "This is no request of HTTP/1.1" in said
    assert (await dashboard.client.get("/")).status_code == 200


async def broken(_: object) -> object:
    raise RuntimeError("Traceback (most recent call last): secret words of the store")


async def test_an_error_of_ours_is_a_page_and_no_traceback(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one line in the log; the next request is served."""
    with monkeypatch.context() as patch, structlog.testing.capture_logs() as logged:
        patch.setattr(dashboard.world, "read", broken)
        answer = await dashboard.client.get("/")

    assert answer.status_code == 500
    assert "Something broke" in answer.text
    assert "Traceback" not in answer.text
    assert "secret" not in answer.text
    assert [line["event"] for line in logged] == ["dashboard.broke"]
    assert (await dashboard.client.get("/")).status_code == 200


async def test_what_is_not_there_is_said_in_words(dashboard: Dashboard) -> None:
    """A page with the menu; of the API a problem; with which method it would be."""
    page = await dashboard.client.get("/nothing<script>")
    api = await dashboard.client.get("/api/v1/nothing")
    method = await dashboard.client.post("/")

    assert (page.status_code, api.status_code, method.status_code) == (404, 404, 405)
    assert "There is nothing at this address" in page.text
    assert 'href="/cycles"' in page.text
    assert "nothing<script>" not in page.text
    assert api.json() | {"detail": ""} == {
        "schema": "conch.v1.problem",
        "status": 404,
        "title": "Not Found",
        "detail": "",
    }
    assert "GET" in method.text


async def test_files_lead_nowhere_else(dashboard: Dashboard) -> None:
    """Dots, doubled, encoded, absolute: nothing outside the folder of files is read."""
    for path in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "vendor/../../app.py", "/etc/passwd", "%2fetc%2fpasswd",
                 "..%5capp.py", "vendor", "", "%00"):  # fmt: skip
        said = await raw(dashboard, get(f"/static/{path}", dashboard))
        assert said.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 401 ")), path
        assert b"def make_app" not in said
        assert b"root:" not in said
    told = await dashboard.client.get("/static/app.css")
    again = await dashboard.client.get("/static/app.css", headers={"if-none-match": told.headers["etag"]})
    assert (told.status_code, again.status_code, again.content) == (200, 304, b"")


async def test_no_token_stands_in_a_log_an_answer_or_a_referer(
    dashboard: Dashboard, stranger: httpx2.AsyncClient, passes: Passes, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the ones that let in nor the ones that do not, in whatever way they are shown."""
    secrets = [passes.token(), passes.link(time.time()), "a-wrong-token-of-somebody", "B" * 43]
    answers = []
    with caplog.at_level(logging.DEBUG), structlog.testing.capture_logs() as logged:
        for token in secrets:
            answers += [
                await stranger.get("/", params={"token": token}),
                await stranger.get(f"/nothing?token={token}", headers=dict(dashboard.client.headers)),
                await stranger.get("/api/v1/cycles", headers={"authorization": f"Bearer {token}"}),
                await stranger.post("/login", data={"token": token, "next": "/"}),
            ]
            stranger.cookies.clear()

    ours = [line.getMessage() for line in caplog.records if not line.name.startswith(("httpx", "httpcore", "asyncio"))]
    told = "\n".join([*ours, *map(str, logged)])
    assert {303, 401} <= {answer.status_code for answer in answers}
    for token in secrets:
        assert token not in told
        for answer in answers:
            assert token not in answer.text
            assert token not in str(answer.headers)
            assert answer.headers["referrer-policy"] == "no-referrer"


async def test_secrets_are_compared_in_the_same_time(
    dashboard: Dashboard, stranger: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Session and token go through `hmac.compare_digest` and nothing else."""
    compared: list[object] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return True

    assert passes_module.hmac is hmac
    monkeypatch.setattr(hmac, "compare_digest", compare)
    name = next(iter(dashboard.cookies))
    forged = signed_session(bytes(32), name, time.time())

    assert (await stranger.get("/", headers={"cookie": f"{name}={forged}"})).status_code == 200
    assert (await stranger.get("/", headers={"authorization": "Bearer wrong"})).status_code == 200
    assert compared == [forged.rpartition(".")[2].encode(), b"wrong"]


# -- with how much ---------------------------------------------------------------------------------------------------


async def test_a_body_that_is_too_large_is_refused(dashboard: Dashboard) -> None:
    """By what it says of itself, and by what really comes; one that just fits is read."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * (MOST_BODY // 16)

    said = await dashboard.client.post("/login", content=b"x" * (MOST_BODY + 1))
    came = await dashboard.client.post("/login", content=pieces())
    fits = await dashboard.client.post("/login", content=b"x" * MOST_BODY)

    assert (said.status_code, came.status_code, fits.status_code) == (413, 413, 401)
    assert (await dashboard.client.get("/")).status_code == 200


async def test_a_head_that_is_too_large_is_refused(dashboard: Dashboard) -> None:
    """By its line, a cookie, or many headers; also before all of it has come."""
    long = "a" * MOST_HEAD
    for request in (
        get(f"/{long}", dashboard),
        get(f"/?{long}", dashboard),
        get("/", dashboard).replace(b"\r\n\r\n", f"\r\nCookie: {long}\r\n\r\n".encode()),
        get("/", dashboard).replace(b"\r\n\r\n", b"\r\nX-A: 123456" * 2000 + b"\r\n\r\n"),
        get("/", dashboard).replace(b"\r\n\r\n", f"\r\nCookie: {long}".encode()),
    ):
        assert (await raw(dashboard, request)).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))


async def test_who_says_half_a_request_holds_up_nobody(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served meanwhile; after a while he is hung up on, also in the middle of a second request or a body."""
    port = int(dashboard.address.rpartition(":")[2])
    host = f"Host: {dashboard.address[7:]}\r\n".encode()
    async with AsyncExitStack() as opened:

        async def say(words: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.callback(writer.close)
            writer.write(words)
            return reader, writer

        again = [await say(b"GET /healthz HTTP/1.1\r\n" + host + b"\r\n") for _ in range(20)]
        for reader, _ in again:
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr(connection, "HEAD_SECONDS", 1.0)
        monkeypatch.setattr(guard, "BODY_SECONDS", 1.0)
        half = [await say(b"GET / HTTP/1.1\r\nHos") for _ in range(20)]
        for _, writer in again:
            writer.write(b"GET / HTTP/1.1\r\nHos")
        body = b"POST /login HTTP/1.1\r\n" + host + b"Content-Length: 100\r\n\r\ntoken="
        slow = [await say(body) for _ in range(20)]

        assert (await dashboard.client.get("/")).status_code == 200
        async with asyncio.timeout(30):
            assert {await reader.read() for reader, _ in (*again, *half)} == {b""}
            assert {(await reader.read())[:13] for reader, _ in slow} == {b"HTTP/1.1 408 "}


# -- open to other machines ------------------------------------------------------------------------------------------


def make(home: Path, **settings: object) -> httpx2.AsyncClient:
    """The guard alone, before an application that lets everything be, as if it listened at 26624."""

    async def everything(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"in"})  # type: ignore[operator]

    stands = guard.Guard(everything, UiSettings.model_validate(settings), Passes(Home(home)), 26624)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(stands), base_url="http://localhost:26624")


async def test_behind_a_proxy_with_tls_the_cookie_travels_by_tls_alone(tmp_path: Path) -> None:
    """And the origin that is named may change things; the token that is set is the one that counts."""
    public = {"host": "0.0.0.0", "token": SecretStr("a-token-of-the-tests"), "origins": ("https://conch.example.org",)}
    async with make(tmp_path, **public) as client:
        there = {"host": "conch.example.org", "origin": "https://conch.example.org", "sec-fetch-site": "same-origin"}
        came = await client.post("/login", data={"token": "a-token-of-the-tests"}, headers=there)
        here = await client.post("/login", data={"token": "a-token-of-the-tests"})
        stolen = await client.post("/x", headers={"host": "conch.example.org", "origin": "http://conch.example.org"})
        assert (await client.get("/", headers={"authorization": f"Bearer {token_of(tmp_path)}"})).status_code == 401

    assert (came.status_code, here.status_code, stolen.status_code) == (303, 303, 403)
    assert "; Secure" in came.headers["set-cookie"]
    assert "; Secure" not in here.headers["set-cookie"]


def token_of(home: Path) -> str:
    return Passes(Home(home)).token()


async def test_a_session_outlives_the_process_but_not_its_home(tmp_path: Path) -> None:
    """The key lies in the home: who was in stays in; the dashboard of another home knows nothing of him."""
    async with make(tmp_path / "one") as client:
        await client.post("/login", data={"token": token_of(tmp_path / "one")})
        cookies = client.cookies
    async with make(tmp_path / "one") as again:
        again.cookies = cookies
        assert (await again.get("/")).status_code == 200
    async with make(tmp_path / "two") as other:
        other.cookies = cookies
        assert (await other.get("/")).status_code == 401


async def test_where_everybody_is_let_in_another_page_still_is_not(tmp_path: Path) -> None:
    """No token is asked for; a foreign name and a foreign form are refused all the same."""
    async with make(tmp_path, host="0.0.0.0", unsafe_allow_unauthenticated=True) as client:
        assert (await client.get("/")).text == "in"
        assert (await client.get("/", headers={"host": "192.168.1.5:26624"})).text == "in"
        assert (await client.get("/", headers={"host": "evil.example:26624"})).status_code == 421
        assert (await client.post("/", headers={"sec-fetch-site": "cross-site"})).status_code == 403


def test_a_token_that_can_be_guessed_is_refused() -> None:
    """In a sentence that says how to draw one."""
    with pytest.raises(ValueError, match="16 characters or more: openssl rand -hex 16 draws one"):
        Settings.model_validate({"ui": {"token": "hush-hush-hush-"}})
    Settings.model_validate({"ui": {"token": "hush-hush-hush-h"}})


def test_open_to_others_it_needs_a_token_and_a_name() -> None:
    """The settings say so, before anything listens."""
    for some in ({}, {"token": "a-token-of-the-tests"}, {"origins": ["https://conch.example.org"]}):
        with pytest.raises(
            ValueError, match=r"ui.host 0.0.0.0 is open to other machines: set ui.token, and in ui.origins"
        ):
            Settings.model_validate({"ui": {"host": "0.0.0.0", **some}})
    with pytest.raises(ValueError, match="write an origin as browsers name it"):
        Settings.model_validate({"ui": {"origins": ["https://conch.example.org/path"]}})
