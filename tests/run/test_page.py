"""The page of a run and of `conch ui`: where it is said to be, who gets in, and what it follows."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

from conch.cli.run.output import RunOutput
from conch.cli.run.page import report_page
from conch.config import Settings, UiSettings
from conch.consumer.plugins.builtin import wanted_builtin
from conch.home import Home

if TYPE_CHECKING:
    from tests.run.conftest import House, Live, MakeHouse


LINK = re.compile(r"page (http://127\.0\.0\.1:\d+)/\?token=[\w-]{43}")


@dataclass(frozen=True)
class PagedHouse:
    """A home with a run that goes on."""

    house: House
    live: Live
    """The run, written into a pipe."""
    link: str
    """The link that it printed."""
    page: str
    """Address of the page."""


@pytest.fixture(scope="module")
def going(make_house: MakeHouse) -> PagedHouse:
    """A run that goes on, written into a pipe for a person; `going.link` is what it printed."""
    house = make_house()
    live = house.start(
        *(
            "run",
            "--workspace",
            str(house.workspace),
            "--script",
            house.endless(),
            "--interval",
            "0.2",
            "--ui-port",
            "0",
        )
    )
    live.until(lambda: any(LINK.fullmatch(line) for line in live.lines), "its page")
    live.recorded(3)
    link = next(line for line in live.lines if LINK.fullmatch(line)).removeprefix("page ")
    page = link.partition("/?")[0]
    return PagedHouse(house, live, link, page)


@pytest.fixture(scope="module")
def came(going: PagedHouse) -> httpx2.Response:
    """The answer to the link that was printed."""
    return httpx2.get(going.link)


@pytest.fixture(scope="module")
def client(going: PagedHouse, came: httpx2.Response) -> Iterator[httpx2.Client]:
    """Who has opened the link that was printed."""
    inside = f"{going.page}{came.headers['location']}"
    with httpx2.Client(base_url=inside, cookies=came.cookies, timeout=30) as client:
        yield client


def test_the_printed_link_lets_in(going: PagedHouse, came: httpx2.Response, client: httpx2.Client) -> None:
    """On one line, unwrapped, in a pipe: a 303 to the page, a cookie, and with it the cycles; nothing without it."""
    answer = client.get("/api/v1/cycles", params={"limit": 2})

    assert came.status_code == 303
    assert re.fullmatch(r"/~[\w-]{22}/", came.headers["location"])
    assert client.get("/").status_code == 200
    assert answer.status_code == 200
    assert answer.json()["schema"] == json.loads(going.house.conch("cycle", "list", "--json"))["schema"]
    assert [row["agent"] for row in answer.json()["cycles"]] == ["echo", "echo"]
    with httpx2.Client(base_url=going.page) as stranger:
        assert stranger.get("/api/v1/cycles").status_code == 401
        assert stranger.get(going.link.removeprefix(going.page)).status_code == 401


def test_another_page_cannot_pause_the_agent(client: httpx2.Client) -> None:
    """Not with the cookie of somebody who is in."""
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}, {"origin": "null"}):
        assert client.post("/api/v1/agents/echo/pause", headers=headers).status_code == 403


def test_a_fresh_link_is_printed_for_the_page_that_runs(going: PagedHouse) -> None:
    """By itself on a line, each time another one; as JSON with the address."""
    links = [going.house.conch("ui", "--link"), json.loads(going.house.conch("ui", "--link", "--json"))["link"]]

    assert len({going.link, *links}) == 3
    for link in links:
        assert link.startswith(f"{going.page}/?token=")
        assert httpx2.get(link).status_code == 303
        assert httpx2.get(link).status_code == 401


def test_status_says_where_the_page_is(going: PagedHouse) -> None:
    """Without a token: its output is passed around."""
    assert json.loads(going.house.conch("status", "--json"))["ui"] == going.page
    assert f"page         {going.page} (conch ui --link prints a way in)" in going.house.conch("status")


def test_a_page_that_was_killed_comes_back_where_it_was(
    going: PagedHouse, client: httpx2.Client, until_answered: Callable[..., None]
) -> None:
    """Who was in is in, and no second line is printed; no token stands in the run's files."""
    os.kill(going.house.process("dashboard")["pid"], signal.SIGKILL)
    going.live.until(lambda: going.house.process("dashboard")["restarts"] == 1, "a restart of the dashboard")
    until_answered(going.live, going.page, 200)

    assert client.get("/").status_code == 200
    assert len([line for line in going.live.lines if line.startswith("page ")]) == 1
    token = going.link.partition("token=")[2]
    files = [file for file in [going.house.home / "run.json", *(going.house.home / "logs").iterdir()] if file.is_file()]
    assert not any(token in file.read_text() for file in files)


@pytest.fixture(scope="session")
def until_answered() -> Callable[..., None]:
    """`until_answered(live, page, status)`: /readyz of the page answers so."""

    def ready(page: str) -> int:
        try:
            return httpx2.get(f"{page}/readyz").status_code
        except httpx2.TransportError:
            return 0

    return lambda live, page, status: live.until(lambda: ready(page) == status, f"{status} of {page}/readyz")


def test_the_page_alone_follows_one_run_after_the_other(house: House, until_answered: Callable[..., None]) -> None:
    """Without a run the history; then live whatever run begins. It hinders none, and ends on Ctrl-C in order."""
    house.conch("init")
    alone = house.start("ui", "--port", "0")
    alone.until(lambda: alone.lines, "its page")
    [line] = alone.lines
    link = line.removeprefix("page ")
    page = link.partition("/?")[0]
    with httpx2.Client(base_url=page, follow_redirects=True) as client:
        overview = client.get(link.removeprefix(page))
        assert "no run is in progress" in overview.text
        assert httpx2.get(house.conch("ui", "--link")).status_code == 303
        for _ in range(2):
            run = house.begin("--without", "dashboard", "--script", house.endless(), interval=0.2)
            until_answered(run, page, 200)
            assert "page " not in run.said
            run.signal(signal.SIGINT)
            assert run.ended() == 0, run.told()
            until_answered(alone, page, 503)
        alone.until(lambda: "no run is in progress" in client.get(overview.url).text, "the page to say so")
    alone.signal(signal.SIGINT)
    assert alone.ended() == 0, alone.told()
    sentence = house.refused("ui", "--link", status=3)
    assert sentence.startswith(f"there is no page of {house.home}: conch run serves it, and conch ui does alone")


def test_what_cannot_be_is_one_sentence(house: House) -> None:
    """No home, a port in use, an address that is open to others, a way in to two pages at once."""
    assert "there is no home at" in house.refused("ui", status=2)
    house.conch("init")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert house.refused("ui", "--port", str(port), status=1).startswith(f"port {port} of 127.0.0.1 cannot be had")
    assert "set ui.token, and in ui.origins" in house.refused("ui", "--host", "0.0.0.0", status=2)
    assert "--link is to the page that runs" in house.refused("ui", "--link", "--port", "1", status=2)


def test_a_page_that_nobody_wants_is_not_served() -> None:
    """By name for one run, or by the settings."""
    assert "dashboard" in wanted_builtin(Settings(), frozenset())
    assert "dashboard" not in wanted_builtin(Settings(), frozenset({"dashboard"}))
    assert "dashboard" not in wanted_builtin(Settings(ui=UiSettings(enabled=False)), frozenset())


class Said(RunOutput):
    """What would have been printed."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.tell = self.warn = self.lines.append  # type: ignore[method-assign]


def test_another_port_than_the_usual_one_is_explained(tmp_path: Path) -> None:
    """A note on a line of its own; none where the port was named, and no token where nobody is asked for one."""
    voice, home = Said(), Home(tmp_path)
    report_page(voice, UiSettings(), home, "http://127.0.0.1:40000")
    report_page(voice, UiSettings(port=40000, unsafe_allow_unauthenticated=True), home, "http://127.0.0.1:40000")

    note, page, open_to_all = voice.lines
    assert note.startswith("port 26624 is taken")
    assert LINK.fullmatch(page)
    assert open_to_all == "page http://127.0.0.1:40000/"


def test_a_home_that_takes_no_link_is_said_and_the_page_named(tmp_path: Path) -> None:
    """The run goes on: who has the token, or a session, gets in."""
    (tmp_path / "ui").write_text("no directory")
    voice = Said()

    report_page(voice, UiSettings(port=26624), Home(tmp_path), "http://127.0.0.1:26624")

    page, why = voice.lines
    assert page == "page http://127.0.0.1:26624/"
    assert "nobody can be let in" in why


def test_a_page_that_cannot_be_shown_does_not_end_the_run(make_house: MakeHouse) -> None:
    """Nobody could be let in: that is said in a sentence, and the agent goes on."""
    house = make_house()
    room = house.home / "ui"
    room.mkdir(parents=True)
    room.chmod(0o777)
    live = house.begin("--script", house.endless(), interval=0.1, page=True)

    live.until(lambda: "dashboard stays down" in live.said, "why there is no page")
    assert f"{room} is open to others (mode 777): chmod go-rwx {room}" in live.said
    assert list(room.iterdir()) == []
    live.recorded(5)
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
