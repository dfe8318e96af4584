"""TLS contexts for client connections, made from files; each error is one sentence that names the setting."""

from __future__ import annotations

import ssl
from pathlib import Path

from conch.clients import tls_context
from conch.errors import ConfigError
from conch.files import open_plain


def context(ca: str | None, certificate: str | None, key: str | None, *, own_machine: bool = False) -> ssl.SSLContext:
    """The context with the CA and the client certificate; `ca` None: as `conch.clients.tls_context`. Raises ConfigError
    and ClientEnvironmentError."""
    try:
        made = tls_context(own_machine=own_machine, ca=_readable(ca, "bus.tls.ca") if ca is not None else None)
    except ssl.SSLError:
        raise ConfigError(f"bus.tls.ca: {ca} holds no certificate (PEM)") from None
    if certificate is not None:
        own = _readable(certificate, "bus.tls.certificate")
        try:
            # Without this OpenSSL would ask for a passphrase on the terminal.
            made.load_cert_chain(own, _readable(key, "bus.tls.key") if key is not None else None, password="")
        except ssl.SSLError as error:
            raise ConfigError(_complaint(error, certificate, key)) from None
    return made


def _complaint(error: ssl.SSLError, certificate: str, key: str | None) -> str:
    of_key = f"bus.tls.key: {key}" if key is not None else f"bus.tls.certificate: {certificate}"
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{of_key} holds the key of another certificate than {certificate}"
    if "BEGIN CERTIFICATE" not in Path(certificate).expanduser().read_text(encoding="utf-8", errors="replace"):
        return f"bus.tls.certificate: {certificate} holds no certificate (PEM)"
    return f"{of_key} holds no key (PEM) without a passphrase"


def _readable(file: str, setting: str) -> str:
    path = Path(file).expanduser()
    try:
        open_plain(path).close()
    except OSError as error:
        raise ConfigError(f"{setting}: {file} cannot be read ({error.strerror})") from None
    return str(path)
