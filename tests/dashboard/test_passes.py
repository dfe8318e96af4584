"""Links, sessions and tokens of a home: once, in time, signed, kept to oneself."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch import auth as passes_module
from conch.auth import LINK_SECONDS, SESSION_SECONDS, LoginTokens, admits, called, signed_session
from conch.config import UiSettings
from conch.errors import HomeError
from conch.home import Home

NOW = 1_790_000_000.0
KEY = bytes(range(32))
NAME = "conch_session_26624"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def passes(home: Home) -> LoginTokens:
    return LoginTokens(home)


def test_a_link_lets_in_once_also_after_a_restart(home: Home) -> None:
    """What one process gave out another one takes, and no third one again."""
    token = LoginTokens(home).link(NOW)

    assert LoginTokens(home).redeem(token, NOW + 1)
    assert not LoginTokens(home).redeem(token, NOW + 2)


def test_of_many_who_come_at_once_one_is_let_in(home: Home) -> None:
    """Sixteen with the same link at the same moment, again and again."""
    for _ in range(25):
        token, together = LoginTokens(home).link(NOW), threading.Barrier(16)

        def come(token: str = token, together: threading.Barrier = together) -> bool:
            passes = LoginTokens(home)
            together.wait()
            return passes.redeem(token, NOW)

        with ThreadPoolExecutor(16) as crowd:
            assert sum(one.result() for one in [crowd.submit(come) for _ in range(16)]) == 1


def test_of_two_processes_one_is_let_in(home: Home) -> None:
    """The same between processes, which share nothing but the home."""
    token = LoginTokens(home).link(NOW)
    code = (
        "import sys; from pathlib import Path; from conch.home import Home; from conch.auth import LoginTokens\n"
        "sys.stdin.readline(); print(LoginTokens(Home(Path(sys.argv[1]))).redeem(sys.argv[2], float(sys.argv[3])))"
    )
    command = [sys.executable, "-c", code, str(home.path), token, str(NOW)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]

    said = [one.communicate("go\n", timeout=60)[0].strip() for one in both]

    assert sorted(said) == ["False", "True"]


def test_a_link_of_yesterday_lets_nobody_in_and_is_removed(home: Home, passes: LoginTokens) -> None:
    """To the second; one that nobody ever uses goes when the next one is made."""
    last, late, never = (passes.link(NOW) for _ in range(3))

    assert passes.redeem(last, NOW + LINK_SECONDS)
    assert not passes.redeem(late, NOW + LINK_SECONDS + 1)
    assert not passes.redeem(late, NOW)
    fresh = passes.link(NOW + LINK_SECONDS + 1)
    assert not passes.redeem(never, NOW)
    assert [one.name for one in (home.path / "ui" / "links").iterdir()] == [hashlib.sha256(fresh.encode()).hexdigest()]


@pytest.mark.parametrize("token", ["", "x", "../key", "../../conch.yaml", "a" * 43 + "\n", "/etc/passwd", "ü" * 43])
def test_what_was_never_given_out_lets_nobody_in(home: Home, passes: LoginTokens, token: str) -> None:
    """Nor does it touch any file."""
    key = passes.key()
    passes.link(NOW)

    assert not passes.redeem(token, NOW)
    assert not passes.redeem("A" * 43, NOW)
    assert passes.key() == key
    assert len(list((home.path / "ui" / "links").iterdir())) == 1


def test_secrets_are_the_owners_alone(home: Home, passes: LoginTokens) -> None:
    """Directories 0700, files 0600; a link's file tells nobody its token."""
    passes.key(), passes.token()
    token = passes.link(NOW)

    modes = {one: stat.S_IMODE(one.stat().st_mode) for one in [home.path / "ui", *(home.path / "ui").rglob("*")]}
    assert {mode for one, mode in modes.items() if one.is_dir()} == {0o700}
    assert {mode for one, mode in modes.items() if one.is_file()} == {0o600}
    assert not any(token in one.name or token in one.read_text() for one in modes if one.is_file())


def test_key_and_token_are_drawn_once(home: Home) -> None:
    """However many processes ask first, all get the same; another home has its own."""
    with ThreadPoolExecutor(16) as crowd:
        keys = {one.result() for one in [crowd.submit(lambda: LoginTokens(home).key()) for _ in range(16)]}
        tokens = {one.result() for one in [crowd.submit(lambda: LoginTokens(home).token()) for _ in range(16)]}

    assert len(keys) == len(tokens) == 1
    assert {len(key) for key in keys} == {32}
    assert keys.isdisjoint({LoginTokens(Home(home.path / "other")).key()})
    assert sorted(one.name for one in (home.path / "ui").iterdir()) == ["key", "token"]


def test_a_key_that_is_none_is_said(home: Home, passes: LoginTokens) -> None:
    """Cut short, or something else: sessions are not signed with it."""
    passes.key()
    for said in ("", "abcd", "no key at all"):
        (home.path / "ui" / "key").write_text(said)
        with pytest.raises(HomeError, match="holds no key: remove it"):
            passes.key()
    passes.token()
    (home.path / "ui" / "token").write_text("\n")
    with pytest.raises(HomeError, match="is empty"):
        passes.token()
    (home.path / "ui" / "token").write_text("short\n")
    with pytest.raises(HomeError, match="less than 16 characters"):
        passes.token()


def test_what_others_could_read_or_change_lets_nobody_in(home: Home, passes: LoginTokens) -> None:
    """Key, token, and their directory: a sentence with what to do, nothing given out; mended, all is as it was."""
    room, said = home.path / "ui", (passes.key(), passes.token(), passes.link(NOW))
    ways: dict[Path, Callable[[], object]] = {
        room: passes.key,
        room / "links": lambda: passes.link(NOW),
        room / "key": passes.key,
        room / "token": passes.token,
    }
    for path, ask in ways.items():
        own = stat.S_IMODE(path.stat().st_mode)
        for bit in (0o020, 0o002) if path.is_dir() else (0o040, 0o004, 0o020, 0o002):
            path.chmod(own | bit)
            with pytest.raises(
                HomeError, match=rf"{path} is open to others \(mode {own | bit:o}\): chmod go-rwx {path}$"
            ):
                ask()
            path.chmod(own)
    room.chmod(0o755)

    assert (passes.key(), passes.token()) == said[:2]


def test_what_leads_elsewhere_or_is_anothers_lets_nobody_in(
    home: Home, passes: LoginTokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A symbolic link, of the directory or of a file in it, and a directory that another user has put there."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    home.path.mkdir()
    room = home.path / "ui"
    room.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HomeError, match=f"{room} is a symbolic link: remove it"):
        passes.key()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    room.unlink()
    passes.key(), passes.token()
    (room / "token").rename(tmp_path / "token")
    (room / "token").symlink_to(tmp_path / "token")
    with pytest.raises(HomeError, match="token is a symbolic link"):
        passes.token()
    monkeypatch.setattr(os, "geteuid", lambda: home.path.stat().st_uid + 1)
    with pytest.raises(HomeError, match=f"{room} belongs to another user"):
        passes.key()


def test_a_full_disk_is_one_sentence(passes: LoginTokens, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing half written stays behind, and what was there goes on to hold."""
    token = passes.link(NOW)

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        for ask in (passes.key, passes.token, lambda: passes.link(NOW)):
            with pytest.raises(HomeError, match=r"cannot be used \(No space left on device\).*make room"):
                ask()
        with passes.shown_at("http://127.0.0.1:1"):
            assert LoginTokens(home).shown() is None
    assert [one.name for one in (home.path / "ui").iterdir()] == ["links"]
    assert passes.redeem(token, NOW)


def test_where_the_page_is_is_known_while_it_is_there(home: Home, passes: LoginTokens) -> None:
    """Of two the first; the word of one that was killed is no word."""
    assert passes.shown() is None
    with passes.shown_at("http://127.0.0.1:1"):
        assert LoginTokens(home).shown() == "http://127.0.0.1:1"
        with LoginTokens(home).shown_at("http://127.0.0.1:2"):
            assert LoginTokens(home).shown() == "http://127.0.0.1:1"
    assert (home.path / "ui" / "address").exists()
    assert passes.shown() is None


@given(st.floats(0, 2e9))
def test_a_session_holds_for_seven_days(now: float) -> None:
    """For its audience and key alone, not a second longer."""
    session = signed_session(KEY, NAME, now)

    assert admits(KEY, NAME, session, now)
    assert admits(KEY, NAME, session, now + SESSION_SECONDS - 1)
    assert not admits(KEY, NAME, session, now + SESSION_SECONDS)
    assert not admits(KEY, "conch_session_26625", session, now)
    assert not admits(bytes(32), NAME, session, now)


@given(st.data())
def test_a_session_that_was_touched_is_none(data: st.DataObject) -> None:
    """Any character changed, taken out, or put in."""
    session = signed_session(KEY, NAME, NOW)
    at = data.draw(st.integers(0, len(session) - 1))
    put = data.draw(st.text(max_size=2).filter(lambda text: text != session[at]))
    touched = data.draw(st.sampled_from([session[:at] + put + session[at + 1 :], session[:at], session + (put or "0")]))

    assert not admits(KEY, NAME, touched, NOW)


@given(st.text())
def test_any_text_is_no_session(text: str) -> None:
    """And none makes it stumble."""
    assert not admits(KEY, NAME, text, NOW)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (UiSettings(), "http://127.0.0.1:26624"),
        (UiSettings(origins=("https://conch.example.org",)), "http://127.0.0.1:26624"),
        (
            UiSettings(host="0.0.0.0", token="a-token-of-the-tests", origins=("https://conch.example.org",)),
            "https://conch.example.org",
        ),
    ],
)
def test_what_browsers_call_the_page(settings: UiSettings, named: str) -> None:
    """Here its own address; open to other machines, the name that they know."""
    assert called(settings, f"http://{settings.host}:26624") == named


def test_open_to_all_it_is_called_by_this_machines_own_number() -> None:
    """0.0.0.0 is no address that a browser can open."""
    settings = UiSettings(host="0.0.0.0", unsafe_allow_unauthenticated=True)

    assert called(settings, "http://0.0.0.0:26624") == "http://127.0.0.1:26624"


# -- sessions that were ended ------------------------------------------------------------------------------------------


def test_an_ended_session_is_ended_in_every_process_and_no_other_is(home: Home) -> None:
    """Twice is once; what is written down lets nobody in."""
    one, other = signed_session(KEY, NAME, NOW), signed_session(KEY, NAME, NOW)
    assert not LoginTokens(home).is_ended(one)

    for _ in range(2):
        LoginTokens(home).end(one, NOW + 1)

    assert LoginTokens(home).is_ended(one)
    assert not LoginTokens(home).is_ended(other)
    [kept] = (home.path / "ui" / "ended").iterdir()
    assert kept.name not in one
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_an_ended_session_is_remembered_until_its_time_is_over(home: Home, passes: LoginTokens) -> None:
    """To the second: for so long its signature would let in."""
    first, second, third = (signed_session(KEY, NAME, NOW + number) for number in range(3))
    passes.end(first, NOW)

    passes.end(second, NOW + SESSION_SECONDS - 1)
    assert passes.is_ended(first)
    assert admits(KEY, NAME, first, NOW + SESSION_SECONDS - 1)
    passes.end(third, NOW + SESSION_SECONDS)

    assert not admits(KEY, NAME, first, NOW + SESSION_SECONDS)
    assert len(list((home.path / "ui" / "ended").iterdir())) == 2


def test_so_many_ended_sessions_are_remembered(passes: LoginTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more goes on, and that is said with what to do; none that was ended comes back."""
    monkeypatch.setattr(passes_module, "MOST_ENDED", 3)
    sessions = [signed_session(KEY, NAME, NOW) for _ in range(4)]
    for one in sessions[:3]:
        passes.end(one, NOW)

    with pytest.raises(HomeError, match="remove key and ended in"):
        passes.end(sessions[3], NOW)

    assert [passes.is_ended(one) for one in sessions] == [True, True, True, False]


def test_where_nobody_can_see_what_was_ended_nobody_is_let_in(home: Home, passes: LoginTokens) -> None:
    """A sentence, not a guess."""
    passes.key()
    (home.path / "ui" / "ended").write_text("in the way")

    with pytest.raises(HomeError, match="cannot be used"):
        passes.is_ended(signed_session(KEY, NAME, NOW))
