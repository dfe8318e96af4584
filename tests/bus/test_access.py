"""How a bus is reached, as a value: the ways in, the files that open it, and no secret where it is shown."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nkeys
import pytest

from conch.bus.access import Access, inbox_of
from conch.bus.jetstream import Connection
from conch.config import Settings
from conch.errors import BusUnreachableError, ConchError, ConfigError

if TYPE_CHECKING:
    from tests.bus.conftest import Authority, Key, Papers


def of(**bus: Any) -> Access:
    """What these settings of the bus say."""
    return Access.of(Settings.model_validate({"bus": {"url": "nats://host"} | bus}).bus)


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {"token": None, "user": None, "password": None}),
        ({"token": "t"}, {"token": "t"}),
        ({"user": "me", "password": "p"}, {"user": "me", "password": "p"}),
        ({"url": "nats://me:p%2Fq@host"}, {"user": "me", "password": "p/q"}),
        ({"url": "nats://me:p/q@r@host"}, {"user": "me", "password": "p/q@r"}),
        ({"url": "nats://t@host"}, {"token": "t"}),
        ({"url": "nats://me:p@host,nats://me:p@other"}, {"user": "me", "password": "p"}),
        ({"url": "nats://host,nats://me:p@other"}, {"user": "me", "password": "p"}),
    ],
)
def test_every_way_in_becomes_what_the_client_is_told(settings: dict[str, Any], options: dict[str, Any]) -> None:
    """A user in the address counts for all its servers, those that the server tells of later too."""
    given = of(**settings).options()

    assert {name: given.get(name) for name in options} == options


def test_the_addresses_are_given_without_their_user() -> None:
    """Several, each as it was."""
    assert of(url="nats://me:p@host:4222,tls://[::1]:1").servers == ["nats://host:4222", "tls://[::1]:1"]


def test_addresses_of_several_users_are_refused() -> None:
    """Which of them a server would be shown could not be told."""
    with pytest.raises(ConfigError, match=r"bus\.url names several users"):
        of(url="nats://me:p@host,nats://you:p@other").options()


@pytest.mark.parametrize("url", ["", "nats://", "nats://[", "nats://127.0.0.1:99999", "nats://h:x", "nats://h:1\r\nX"])
async def test_what_is_no_address_is_one_sentence(url: str) -> None:
    """It is named, and nothing is left open: nothing was begun."""
    with pytest.raises(BusUnreachableError, match=rf"^no bus at {re.escape(url)}: nats: invalid"):
        await Connection(Access(url)).__aenter__()


def test_nothing_that_is_shown_holds_a_secret() -> None:
    """As text, and as an address."""
    access = of(url="nats://me:hu/s@hush@host,nats://me:hu/s@hush@other")
    shown = [repr(access), access.shown, access.address, repr(of(token="hush")), repr(of(user="me", password="hush"))]

    assert "hush" not in " ".join(shown)
    assert access.shown == "nats://***@host,nats://***@other"


@pytest.mark.parametrize(
    ("user", "inbox"), [(None, "_INBOX"), ("me", "_INBOX.me"), ("me.>", "_INBOX"), ("*", "_INBOX"), ("a b", "_INBOX")]
)
def test_answers_come_under_the_users_own_name(user: str | None, inbox: str) -> None:
    """So that others can be forbidden to listen; a name that is no word of a subject has no place of its own."""
    assert inbox_of(user) == inbox


def test_a_key_signs_and_names_its_inbox(tmp_path: Path, new_key: type[Key]) -> None:
    """The server knows the user by the public key, and so does whoever forbids others to listen."""
    key = new_key()
    (tmp_path / "me.nk").write_text(key.seed + "\n")

    options = of(nkey=str(tmp_path / "me.nk")).options()

    assert options["nkeys_seed_str"] == key.seed
    assert options["inbox_prefix"] == f"_INBOX.{key.public}"


def test_credentials_are_read_anew_for_each_connection(tmp_path: Path, authority: Authority) -> None:
    """Whoever renews a JWT that expires puts it into the same file."""
    file = tmp_path / "me.creds"
    file.write_text(authority.credentials())
    options = of(credentials=str(file)).options()
    first = options["user_jwt_cb"]()

    file.write_text(authority.credentials())

    assert options["user_jwt_cb"]() != first


def test_credentials_that_have_expired_are_told_before_anybody_is_asked(tmp_path: Path, authority: Authority) -> None:
    """With the time, and the file."""
    (tmp_path / "me.creds").write_text(authority.credentials(expires=time.time() - 60))

    with pytest.raises(BusUnreachableError, match=r"bus\.credentials: \S+me\.creds: its JWT has expired \(20"):
        of(credentials=str(tmp_path / "me.creds")).options()


def test_a_file_that_does_not_open_anything_is_one_sentence(
    tmp_path: Path, papers: Papers, authority: Authority, new_key: type[Key]
) -> None:
    """Which setting, which file, what is wrong with it; and nothing of what stands in it."""
    key, account = new_key(), new_key(nkeys.PREFIX_BYTE_ACCOUNT)
    typo = key.seed[:20] + ("A" if key.seed[20] != "A" else "B") + key.seed[21:]
    whole = authority.credentials(key=key)
    cases: list[tuple[str, str, str]] = [
        ("nkey", "", "holds no user's seed"),
        ("nkey", "hello", "holds no user's seed"),
        ("nkey", "SUé", "holds no user's seed"),
        ("nkey", typo, "holds no user's seed"),
        ("nkey", account.seed, "holds no user's seed"),
        ("credentials", "", "holds no user JWT"),
        ("credentials", whole.split("\n\n")[0], "holds no user seed"),
        ("credentials", authority.credentials(seed=typo), "holds no user's seed"),
        ("credentials", authority.credentials(seed=key.seed), "the seed in it is not that of its JWT"),
        ("credentials", whole.replace("JWT-----\ney", "JWT-----\nxx.yy"), "the JWT in it cannot be read"),
    ]
    for setting, text, why in cases:
        (tmp_path / "file").write_text(text)

        sentence = _complaint(**{setting: str(tmp_path / "file")})

        assert sentence.startswith(f"bus.{setting}: {tmp_path / 'file'}"), sentence
        assert why in sentence
        assert key.seed not in sentence
        assert typo not in sentence


def test_a_tls_file_that_is_of_no_use_is_one_sentence(tmp_path: Path, papers: Papers) -> None:
    """A key of another certificate, one with a passphrase, one that is none; a certificate that is none."""
    me, key = str(papers.path("me")), str(papers.key("me"))
    (tmp_path / "junk").write_text("hello")
    locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE6TAbBgkqhkiG9w0B\n-----END ENCRYPTED PRIVATE KEY-----\n"
    (tmp_path / "locked").write_text(locked)
    junk = str(tmp_path / "junk")

    for tls, said in (
        ({"ca": junk}, "bus.tls.ca: .* holds no certificate"),
        ({"certificate": junk, "key": key}, "bus.tls.certificate: .* holds no certificate"),
        ({"certificate": me, "key": junk}, "bus.tls.key: .* holds no key"),
        ({"certificate": me, "key": str(tmp_path / "locked")}, "bus.tls.key: .* holds no key .* without a passphrase"),
        ({"certificate": me, "key": str(papers.key("server"))}, "bus.tls.key: .* the key of another certificate"),
        ({"certificate": me}, "bus.tls.certificate: .* holds no key"),
    ):
        with pytest.raises(ConfigError, match=said):
            of(tls=tls).options()


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, papers: Papers) -> None:
    """It names the setting and the reason."""
    for setting in ("nkey", "credentials"):
        assert "cannot be read (No such file" in _complaint(**{setting: str(tmp_path / "none")})
        assert "cannot be read (Is a directory)" in _complaint(**{setting: str(tmp_path)})
    for setting in ("ca", "certificate", "key"):
        tls = {"certificate": str(papers.path("me")), setting: str(tmp_path / "none")}
        assert _complaint(tls=tls).startswith(f"bus.tls.{setting}: {tmp_path / 'none'} cannot be read")


def _complaint(**bus: Any) -> str:
    with pytest.raises(ConchError) as complaint:
        of(**bus).options()
    return str(complaint.value)
