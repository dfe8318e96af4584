"""Clients of httpx2, made the one way: what the environment says is read here, and never by httpx2 itself."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from http.cookiejar import DefaultCookiePolicy

import httpx2

from conch.clients.environment import proxy_of, tls_context
from conch.clients.own_machine import is_own_machine
from conch.errors import ClientEnvironmentError


def http_client(
    url: httpx2.URL | str,
    headers: Mapping[str, str] | None = None,
    timeout: httpx2.Timeout | float | None = None,
    limits: httpx2.Limits = httpx2.Limits(),  # noqa: B008 - not changed
) -> httpx2.AsyncClient:
    """A client for one server, of an http:// or https:// address. It keeps no cookies and follows no redirects.

    The environment's proxies, certificates and key log count for it, unless the address is of this machine. Raises
    ClientEnvironmentError with the name of a variable that cannot be used.
    """
    context, proxy = http_tls(url), proxy_of(str(url))
    transport = _made(
        proxy.variable if proxy is not None else "",
        lambda: httpx2.AsyncHTTPTransport(
            verify=context,
            limits=limits,
            trust_env=False,
            proxy=_proxy(proxy.url) if proxy is not None else None,
        ),
    )
    client = httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport, trust_env=False)
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
    return client


def http_tls(url: httpx2.URL | str) -> ssl.SSLContext:
    """The TLS context for a server. For an http:// address of this machine it trusts no authority: reading them takes
    15 ms. Raises ClientEnvironmentError."""
    address = httpx2.URL(url)
    is_own = is_own_machine(address.host)
    if is_own and address.scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return tls_context(own_machine=is_own)


def _proxy(url: str) -> httpx2.Proxy:
    return httpx2.Proxy(url, ssl_context=tls_context() if url.lower().startswith("https:") else None)


def _made(variable: str, make: Callable[[], httpx2.AsyncHTTPTransport]) -> httpx2.AsyncHTTPTransport:
    """What `make` returns. httpx2 has an opinion of its own on what a proxy's address is."""
    try:
        return make()
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise ClientEnvironmentError(
            f"{variable} names a proxy that cannot be used ({type(error).__name__}): correct or unset it"
        ) from None
