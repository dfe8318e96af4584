"""A guard that is open to other machines."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from conch.auth import LoginTokens
from conch.config import Settings, UiSettings
from conch.home import Home
from conch_services.dashboard.security import guard


def make(home: Path, **settings: object) -> httpx2.AsyncClient:
    """The guard alone, before an application that lets everything be, as if it listened at 26624."""

    async def everything(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"in"})  # type: ignore[operator]

    stands = guard.RequestGuard(everything, UiSettings.model_validate(settings), LoginTokens(Home(home)), 26624)
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
    return LoginTokens(Home(home)).token()


async def test_a_session_outlives_the_process_but_not_its_home(tmp_path: Path) -> None:
    """The key lies in the home: who was in stays in; the dashboard of another home knows nothing of him."""
    async with make(tmp_path / "one") as client:
        came = await client.post("/login", data={"token": token_of(tmp_path / "one")})
        inside, cookies = came.headers["location"], client.cookies
    async with make(tmp_path / "one") as again:
        again.cookies = cookies
        assert (await again.get(inside)).status_code == 200
    async with make(tmp_path / "two") as other:
        other.cookies = cookies
        assert (await other.get(inside)).status_code == 401


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
