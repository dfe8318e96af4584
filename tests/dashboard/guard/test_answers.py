"""What every answer says, and what none does."""

from __future__ import annotations

import hmac
import logging
import time

import httpx2
import pytest
import structlog
from starlette.routing import Route

from conch import auth as passes_module
from conch.auth import LoginTokens, signed_session
from conch_services.dashboard.pages import ROUTES
from conch_services.dashboard.security.guard import CONTENT_POLICY, HEADERS, MOST_BODY, OF_DATA
from tests.dashboard.conftest import Dashboard
from tests.dashboard.guard.conftest import get, raw

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


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
        static = answer.url.path.removeprefix(dashboard.prefix).startswith("/static/")
        assert answer.headers["cache-control"] == ("no-cache" if static else "no-store"), answer.url
        assert "server" not in answer.headers
        assert not {"access-control-allow-origin", "x-powered-by"} & set(answer.headers)
    assert HEADERS["Content-Security-Policy"] == POLICY
    assert (HEADERS["X-Content-Type-Options"], HEADERS["Referrer-Policy"]) == ("nosniff", "no-referrer")


async def test_what_a_script_asks_for_is_under_what_is_meant_for_data(dashboard: Dashboard) -> None:
    """A document's policies say nothing of it: its type is kept, and other sites may not read it."""
    answer = await dashboard.client.get("/overview/rows", headers={"Sec-Fetch-Dest": "empty"})

    assert set(HEADERS) & {name.title() for name in answer.headers} == set(OF_DATA)
    assert {answer.headers[name] for name in OF_DATA} == {"nosniff", "same-origin"}
    assert answer.headers["cache-control"] == "no-store"


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
    assert f'href="{dashboard.prefix}/cycles"' in page.text
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
    dashboard: Dashboard, stranger: httpx2.AsyncClient, passes: LoginTokens, caplog: pytest.LogCaptureFixture
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

    inside = f"{dashboard.prefix}/"
    assert (await stranger.get(inside, headers={"cookie": f"{name}={forged}"})).status_code == 200
    assert (await stranger.get("/", headers={"authorization": "Bearer wrong"})).status_code == 200
    assert compared == [dashboard.prefix.encode(), forged.rpartition(".")[2].encode(), b"/", b"wrong"]
