"""What the environment says about connections to other machines: proxies, certificates, a log of TLS keys.

Libraries read these variables as their clients are made, and raise then whatever comes: here a variable that cannot
be used is a ClientEnvironmentError with its name.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
import ssl
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from conch.clients.own_machine import is_own_machine
from conch.errors import ClientEnvironmentError
from conch.files import open_plain

OPENSSL_CAS = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables that name certificates of authorities, the first that is set counts: those of OpenSSL."""
REQUESTS_CAS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", *OPENSSL_CAS)
"""The same where the library `requests` is the client."""
KEY_LOG = "SSLKEYLOGFILE"
SOCKS = ("socks5", "socks5h")
"""Schemes of proxies that need a package."""
_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")
"""Names of the files that OpenSSL reads in a directory of certificates."""
_PORTS = {"http": 80, "https": 443}


class EnvironmentProxy(NamedTuple):
    """The proxy that the environment names for an address."""

    variable: str
    url: str
    """May hold a user and a password."""


def proxy_of(url: str, socks_package: str = "socksio") -> EnvironmentProxy | None:
    """The proxy for an http:// or https:// address; None: it is reached without one, as every address of this machine
    is, and those that NO_PROXY names.

    Raises ClientEnvironmentError where the variable names none that can be used: a SOCKS proxy needs `socks_package`.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".").lower()
    if is_own_machine(host):
        return None
    named = urllib.request.getproxies()
    if _is_excepted(host, parts.port or _PORTS.get(parts.scheme, 0), parts.scheme, named.get("no", "")):
        return None
    for scheme in (parts.scheme, "all"):
        if value := named.get(scheme):
            return _usable(EnvironmentProxy(_variable(scheme, value), value.strip()), socks_package)
    return None


def _variable(scheme: str, value: str) -> str:
    """The name under which the environment has the proxy of a scheme: lower case comes first."""
    names = (name for name in sorted(os.environ, reverse=True) if name.lower() == f"{scheme}_proxy")
    return next((name for name in names if os.environ[name] == value), f"{scheme}_proxy")


def _usable(proxy: EnvironmentProxy, socks_package: str) -> EnvironmentProxy:
    name, url = proxy
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and (parts.port is None or parts.port > 0) and url.isprintable()
    except ValueError:
        is_address = False
    if not is_address or " " in url:
        raise ClientEnvironmentError(f"{name} holds no address of a proxy (http://host:port): correct or unset it")
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https", *SOCKS):
        raise ClientEnvironmentError(
            f"{name} names a proxy of the scheme {scheme}, which is not supported (http, https, socks5 and socks5h "
            "are): correct or unset it"
        )
    if scheme in SOCKS and importlib.util.find_spec({"PySocks": "socks"}.get(socks_package, socks_package)) is None:
        raise ClientEnvironmentError(
            f"{name} names a SOCKS proxy, for which the package {socks_package} is missing: pip install "
            f"{socks_package}, or unset {name}"
        )
    return EnvironmentProxy(name, url)


def _is_excepted(host: str, port: int, scheme: str, no_proxy: str) -> bool:
    """Whether an entry of NO_PROXY stands for a host. An entry is *, a name with those below it, an address or a
    network of addresses, with a scheme or a port where it is for these alone; any other entry is passed over."""
    for entry in no_proxy.replace(" ", ",").lower().split(","):
        own_scheme, _, rest = entry.rpartition("://")
        if not rest or (own_scheme not in ("", "all", scheme)):
            continue
        if rest == "*" or _is_in(host, rest):
            return True
        name, _, own_port = rest.rpartition(":")
        if own_port == str(port) and _is_in(host, name):
            return True
    return False


def _is_in(host: str, entry: str) -> bool:
    try:
        network = ipaddress.ip_network(entry.replace("[", "").replace("]", ""), strict=False)
    except ValueError:
        name = entry.removeprefix("*").strip(".")
        return bool(name) and (host == name or host.endswith(f".{name}"))
    try:
        return ipaddress.ip_address(host) in network
    except ValueError:
        return False


def tls_context(
    *,
    own_machine: bool = False,
    ca: str | None = None,
    own_variables: Sequence[str] = (),
    variables: Sequence[str] = OPENSSL_CAS,
) -> ssl.SSLContext:
    """A context that verifies a server: by the authorities in the file `ca`, else by those that the first variable
    names which is set, else by the system's.

    `own_machine`: the server is an address of this machine, for which only `own_variables` count: those of the client
    itself. Raises ClientEnvironmentError for a variable that cannot be used; for `ca`, OSError.
    """
    names = () if ca is not None else own_variables if own_machine else (*own_variables, *variables)
    named = next((name for name in names if os.environ.get(name)), None)
    if ca is not None or named is not None:
        context = _bare_context()
    else:
        from httpx2 import create_ssl_context  # it knows where the distributions keep them

        context = create_ssl_context(trust_env=False)
    if ca is not None:
        context.load_verify_locations(cafile=ca)
    elif named is not None:
        _load(context, named)
    if not own_machine and (key_log := os.environ.get(KEY_LOG)):
        _check_key_log()
        context.keylog_filename = key_log
    return context


def check_environment(url: str, *, by_requests: bool = False) -> None:
    """Raises ClientEnvironmentError where a client for an http:// or https:// address could not be made: one of httpx2,
    or of the library `requests`."""
    proxy_of(url, "PySocks" if by_requests else "socksio")
    if not is_own_machine(urlsplit(url).hostname or ""):
        tls_context(variables=REQUESTS_CAS if by_requests else OPENSSL_CAS)


def check_file(variable: str) -> None:
    """Raises ClientEnvironmentError where the variable is set and names no file that can be read."""
    if name := os.environ.get(variable):
        try:
            open_plain(Path(name)).close()
        except (OSError, ValueError) as error:
            raise _unusable(variable, name, error) from None


def _check_key_log() -> None:
    """Raises ClientEnvironmentError where SSLKEYLOGFILE names a file that cannot be written: every TLS context of
    Python's own would raise an error of its own."""
    if name := os.environ.get(KEY_LOG):
        try:
            os.close(os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600))
        except (OSError, ValueError) as error:
            raise _unusable(KEY_LOG, name, error) from None


def _bare_context() -> ssl.SSLContext:
    """As `ssl.create_default_context` makes it, without certificates. That one would read SSLKEYLOGFILE."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if sys.version_info >= (3, 13):
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT
    return context


def _load(context: ssl.SSLContext, variable: str) -> None:
    """Let a context trust the authorities that a variable names: a file, or directories as `openssl rehash` makes them,
    separated by colons. Raises ClientEnvironmentError."""
    name = os.environ[variable]
    try:
        folders = [folder for folder in name.split(os.pathsep) if os.path.isdir(folder)]
        if folders and variable != "SSL_CERT_FILE":
            if not any(_HASHED.fullmatch(file) for folder in folders for file in os.listdir(folder)):
                raise ssl.SSLError
            context.load_verify_locations(capath=os.pathsep.join(folders))
        else:
            open_plain(Path(name)).close()
            context.load_verify_locations(cafile=name)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise _unusable(variable, name, error) from None


def _unusable(variable: str, name: str, error: Exception) -> ClientEnvironmentError:
    if isinstance(error, ssl.SSLError):
        return ClientEnvironmentError(f"{variable}: {name} holds no certificate (PEM): correct or unset it")
    why = getattr(error, "strerror", None) or str(error)
    return ClientEnvironmentError(f"{variable}: {name} cannot be used ({why}): correct or unset it")
