"""What the environment says about connections counts for other machines alone, and an error names the variable."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import trustme

from conch.clients import check_environment, http_client, is_own_machine, proxy_of, tls_context
from conch.errors import ClientEnvironmentError
from tests.clients.conftest import VARIABLES, SetVariables

AWAY = "https://model.example/v1"
OWN = [
    *("127.0.0.1", "127.8.9.1", "127.1", "0x7f.1", "2130706433", "0.0.0.0", "::1", "[::1]", "::", "::ffff:127.0.0.1"),
    *("localhost", "LocalHost", "localhost.", "ip6-localhost", "localhost.localdomain", "engine.localhost"),
]
BROKEN_PROXIES = [
    "socks4://127.0.0.1:9",
    "ftp://127.0.0.1:9",
    "http://127.0.0.1:99999",
    "http://127.0.0.1:port",
    "http://[::1",
    "http://",
    "://",
    "http://a b:1",
    "http://a\x01b:1",
    "http://me:hush@127.0.0.1:port",
]


@pytest.mark.parametrize("host", OWN)
def test_an_address_of_this_machine_is_known_in_every_spelling(host: str) -> None:
    """Names of the loopback, and all that the resolver reads as one of its addresses."""
    assert is_own_machine(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "128.0.0.1", "::2", "localhost.example", "notlocalhost", "fe80::1", ""])
def test_another_machine_is_no_address_of_this_one(host: str) -> None:
    """Not by a name that looks alike."""
    assert not is_own_machine(host)


@pytest.mark.parametrize("variable", ["ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY"])
@pytest.mark.parametrize("value", ["socks5://127.0.0.1:9", "socks5h://127.0.0.1:9", *BROKEN_PROXIES])
def test_no_proxy_counts_for_this_machine(setting: SetVariables, variable: str, value: str) -> None:
    """Whatever the environment names, also what no client can be made with."""
    setting(**{variable: value})

    for host in ("127.0.0.1", "localhost", "[::1]"):
        for scheme in ("http", "https"):
            assert proxy_of(f"{scheme}://{host}:8000/v1") is None
            http_client(f"{scheme}://{host}:8000/v1")


@pytest.mark.parametrize("value", BROKEN_PROXIES)
@pytest.mark.parametrize("variable", ["ALL_PROXY", "https_proxy"])
def test_a_proxy_that_is_none_is_named_without_its_password(setting: SetVariables, variable: str, value: str) -> None:
    """One sentence with the variable, and exit code 3."""
    setting(**{variable: value})

    with pytest.raises(ClientEnvironmentError, match=f"^{variable} (names|holds)") as raised:
        http_client(AWAY)

    assert raised.value.exit_code == 3
    assert "hush" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_socks_proxy_needs_its_package(setting: SetVariables) -> None:
    """It is named, with the variable, where it is not installed."""
    setting(ALL_PROXY="socks5://127.0.0.1:9")

    with pytest.raises(ClientEnvironmentError, match=r"^ALL_PROXY names a SOCKS proxy.*package no_such_package"):
        proxy_of(AWAY, "no_such_package")


def test_only_the_proxy_that_counts_is_looked_at(setting: SetVariables) -> None:
    """One for the scheme comes before ALL_PROXY, which may name what cannot be used here."""
    setting(ALL_PROXY="socks5://127.0.0.1:9", HTTPS_PROXY="http://127.0.0.1:9")

    assert proxy_of(AWAY, "no_such_package") == ("HTTPS_PROXY", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "entry",
    [
        "*",
        "example",
        ".example",
        "*.example",
        "model.example",
        "model.example:443",
        "https://model.example",
        "x, example",
    ],
)
def test_an_entry_of_no_proxy_excepts_a_host(setting: SetVariables, entry: str) -> None:
    """A name stands for those below it, too; with a port or a scheme for these alone."""
    setting(ALL_PROXY="socks4://broken", NO_PROXY=entry)

    assert proxy_of(AWAY) is None


@pytest.mark.parametrize(
    "entry", ["ample", "model.example:8443", "http://model.example", "[:::", "://", ",,", "10.0.0.0/8"]
)
def test_an_entry_of_no_proxy_excepts_no_other_host(setting: SetVariables, entry: str) -> None:
    """What is no entry is passed over."""
    setting(ALL_PROXY="http://127.0.0.1:9", NO_PROXY=entry)

    assert proxy_of(AWAY) is not None


def test_a_network_of_no_proxy_excepts_its_addresses(setting: SetVariables) -> None:
    """In the notation with a prefix, of both versions."""
    setting(ALL_PROXY="http://127.0.0.1:9", NO_PROXY="10.0.0.0/8,fd00::/8")

    found = [proxy_of(f"http://{host}/") is None for host in ("10.1.2.3", "[fd00::1]", "11.0.0.1", "[fe00::1]")]

    assert found == [True, True, False, False]


@pytest.mark.parametrize(
    ("variable", "what"),
    [
        *[(name, what) for name in VARIABLES[:2] for what in ("gone", "folder", "garbage", "fifo")],
        *[("SSLKEYLOGFILE", what) for what in ("gone", "folder", "fifo")],
    ],
)
def test_a_file_that_cannot_be_used_is_named(setting: SetVariables, tmp_path: Path, variable: str, what: str) -> None:
    """For another machine, with the variable and the path; for this one it is not looked at."""
    path = tmp_path / what
    {
        "gone": lambda: None,
        "folder": path.mkdir,
        "garbage": lambda: path.write_bytes(b"-----BEGIN CERTIFICATE-----\n\xff\n"),
        "fifo": lambda: subprocess.run(["mkfifo", path], check=True),
    }[what]()
    path = path / "log" if (variable, what) == ("SSLKEYLOGFILE", "gone") else path
    setting(**{variable: str(path)})

    http_client("https://localhost:8000/v1")
    for make in (http_client, check_environment):
        with pytest.raises(ClientEnvironmentError, match=rf"^{variable}: {path} (cannot be used|holds no certificate)"):
            make(AWAY)


def test_an_empty_variable_counts_as_none(setting: SetVariables) -> None:
    """As a shell sets it for a command."""
    setting(SSL_CERT_FILE="", SSL_CERT_DIR="", SSLKEYLOGFILE="", ALL_PROXY="")

    http_client(AWAY)

    assert proxy_of(AWAY) is None


def test_the_certificates_of_the_environment_are_trusted_for_other_machines_alone(
    setting: SetVariables, tmp_path: Path
) -> None:
    """They come in place of the system's."""
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(authority))
    setting(SSL_CERT_FILE=str(authority))

    def names(own: bool) -> list[str]:
        return [str(one["subject"]) for one in tls_context(own_machine=own).get_ca_certs()]

    assert ["trustme" in name for name in names(False)] == [True]
    assert not any("trustme" in name for name in names(True))
