"""Who comes in: each test tries to, in another way."""

from __future__ import annotations

import time

import httpx2
import pytest

from conch.auth import SESSION_SECONDS, LoginTokens, session_audience, signed_session
from conch_services.dashboard.security.rate_limit import MOST_WRONG
from tests.dashboard.conftest import Dashboard
from tests.dashboard.guard.conftest import get, raw


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


async def test_a_link_lets_in_once(stranger: httpx2.AsyncClient, passes: LoginTokens, dashboard: Dashboard) -> None:
    """A 303 to the page without the token, and a cookie that scripts and other pages do not get; then it is spent."""
    token = passes.link(time.time())
    port = dashboard.address.rpartition(":")[2]

    came = await stranger.get("/cycles", params={"agent": "echo", "token": token, "limit": "5"})

    assert (came.status_code, came.headers["location"]) == (303, f"{dashboard.prefix}/cycles?agent=echo&limit=5")
    cookie = came.headers["set-cookie"]
    name, _, rest = cookie.partition("=")
    assert name == f"conch_session_{port}"
    assert {part.strip().lower() for part in rest.split(";")[1:]} == {
        "httponly", "samesite=strict", f"path={dashboard.prefix}".lower(), f"max-age={int(SESSION_SECONDS)}"
    }  # fmt: skip
    assert (await stranger.get(f"{dashboard.prefix}/")).status_code == 200
    async with httpx2.AsyncClient(base_url=dashboard.address) as other:
        spent = await other.get("/", params={"token": token})
        assert spent.status_code == 401
        assert "used already" in spent.text
        assert "conch ui --link" in spent.text
        assert "set-cookie" not in spent.headers
        assert (await other.get("/")).status_code == 401


async def test_who_is_in_and_shows_a_spent_link_again_goes_on(
    stranger: httpx2.AsyncClient, passes: LoginTokens, dashboard: Dashboard
) -> None:
    """To the page without the token, with the session as it was; who is not in is refused as before."""
    token = passes.link(time.time())
    await stranger.get("/", params={"token": token})

    for _ in range(30):  # as often as one likes: it is no wrong try
        again = await stranger.get(f"{dashboard.prefix}/needs", params={"agent": "echo", "token": token})

    assert (again.status_code, again.headers["location"]) == (303, f"{dashboard.prefix}/needs?agent=echo")
    assert "set-cookie" not in again.headers
    async with httpx2.AsyncClient(base_url=dashboard.address) as other:
        assert (await other.get("/needs", params={"token": token})).status_code == 401


async def test_a_browser_that_guesses_does_not_use_a_link_up(stranger: httpx2.AsyncClient, passes: LoginTokens) -> None:
    """What is fetched ahead of a click is refused, and the click lets in."""
    token = passes.link(time.time())

    ahead = await stranger.get("/", params={"token": token}, headers={"sec-purpose": "prefetch;prerender"})

    assert ahead.status_code == 503
    assert (await stranger.get("/", params={"token": token})).status_code == 303


async def test_only_a_look_at_a_page_uses_a_link(stranger: httpx2.AsyncClient, passes: LoginTokens) -> None:
    """Neither a HEAD, nor the API, nor a file."""
    token = passes.link(time.time())

    assert (await stranger.head("/", params={"token": token})).status_code == 401
    assert (await stranger.get("/api/v1/cycles", params={"token": token})).status_code == 401
    assert (await stranger.get("/static/app.css", params={"token": token})).status_code == 200
    assert (await stranger.get("/", params={"token": token})).status_code == 303


async def test_a_link_leads_nowhere_else(dashboard: Dashboard, passes: LoginTokens) -> None:
    """Whatever path it was sent with, the browser stays."""
    for path in ("//evil.example/x", "/\\evil.example", "/%5C%5Cevil.example", "/%2F%2Fevil.example", "/%0d%0aX:%20y"):
        said = await raw(dashboard, get(f"{path}?token={passes.link(time.time())}", dashboard))
        [location] = [line[10:] for line in said.decode().split("\r\n") if line.startswith("location: ")]
        assert location.startswith("/")
        assert not location.startswith(("//", "/\\"))


async def test_forged_expired_cut_and_foreign_sessions_are_none(dashboard: Dashboard) -> None:
    """Nor does one of another page on this machine, nor one that was signed for the cookie alone, as they were once."""
    name, good = next(iter(dashboard.cookies.items()))
    port = int(dashboard.address.rpartition(":")[2])
    key, now = LoginTokens(dashboard.seeded.home).key(), time.time()
    audience, another = session_audience(key, port), session_audience(key, 1)
    other = signed_session(key, another, now)
    until, nonce, signature = good.split(".")
    bad = {
        "forged": signed_session(bytes(32), audience, now),
        "expired": signed_session(key, audience, now - SESSION_SECONDS - 1),
        "prolonged": f"{int(until) + 1}.{nonce}.{signature}",
        "cut": good[:-1],
        "empty": "",
        "another port's": other,
        "the cookie's alone": signed_session(key, name, now),
    }
    async with httpx2.AsyncClient(base_url=f"{dashboard.address}{dashboard.prefix}") as client:
        for what, value in bad.items():
            answer = await client.get("/", headers={"cookie": f"{name}={value}"})
            assert answer.status_code == 401, what
        elsewhere = await client.get("/", headers={"cookie": f"conch_session_1={other}"})
        assert elsewhere.status_code == 401
        shadowed = await client.get("/", headers={"cookie": f"{name}=put-there; {name}={good}"})
        assert shadowed.status_code == 200


async def test_a_program_shows_the_token(stranger: httpx2.AsyncClient, passes: LoginTokens) -> None:
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


async def test_a_person_types_the_token(
    stranger: httpx2.AsyncClient, dashboard: Dashboard, passes: LoginTokens
) -> None:
    """And goes on to where he wanted to go, never elsewhere; a wrong one brings the form again."""
    wrong = await stranger.post("/login", data={"token": "wrong", "next": "/needs?agent=echo"})
    right = await stranger.post("/login", data={"token": passes.token(), "next": "/needs?agent=echo"})
    away = await stranger.post("/login", data={"token": passes.token(), "next": "https://evil.example"})

    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    assert 'value="/needs?agent=echo"' in wrong.text
    assert (right.status_code, right.headers["location"]) == (303, f"{dashboard.prefix}/needs?agent=echo")
    assert away.headers["location"] == f"{dashboard.prefix}/"
    assert (await stranger.get(f"{dashboard.prefix}/")).status_code == 200


async def test_guessing_is_over_after_ten(
    stranger: httpx2.AsyncClient, dashboard: Dashboard, passes: LoginTokens
) -> None:
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


async def test_pictures_of_another_page_try_nothing(stranger: httpx2.AsyncClient, passes: LoginTokens) -> None:
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
