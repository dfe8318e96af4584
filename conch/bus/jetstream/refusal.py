"""Sentences for a failed connection: what is wrong, at which server, which setting to change. They hold no secret."""

from __future__ import annotations

import ssl

from nats.errors import Error

from conch.bus.access import Access
from conch_schemas import JsonObject

_EXPIRED, _OTHER_NAMES = 10, (62, 64)
"""OpenSSL's numbers (X509_V_ERR_*): the certificate has expired; it does not hold the host's name, or its address."""
_REFUSED = {
    "": "lets nobody in without a name: set bus.token, bus.user, bus.nkey or bus.credentials",
    "bus.url": "refused the user that bus.url names",
    "bus.token": "refused the token (bus.token)",
    "bus.user": "refused the user or the password (bus.user, bus.password)",
    "bus.nkey": "refused the key (bus.nkey): it knows no such user",
    "bus.credentials": "refused the credentials (bus.credentials): it does not know them, or not any more",
}


class UnfitServerError(Error):
    """The server's INFO rules it out for this client; no secret was sent to it."""


def unfit(info: JsonObject, access: Access, server: str) -> str | None:
    """Why not to connect to a server with this INFO; None: nothing rules it out."""
    if access.secure and not (info.get("tls_required") or info.get("tls_available")):
        asks = "bus.url (tls://)" if "tls://" in access.url else "bus.tls"
        return f"the server at {server} offers no TLS, and {asks} asks for it: give it a certificate, or ask not"
    if info.get("tls_verify") and access.certificate is None:
        return f"the server at {server} asks for a certificate of ours: set bus.tls.certificate and bus.tls.key"
    return None


def refusal(error: BaseException, access: Access, server: str) -> str | None:
    """The sentence for an `error` that waiting does not mend; None where the server may only be unreachable."""
    said = str(error).lower()
    if isinstance(error, UnfitServerError):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_trusted(error, access, server)
    if isinstance(error, ssl.SSLError):
        return _not_agreed(error, access, server)
    if "authorization violation" in said:
        return f"the bus at {server} {_REFUSED[access.way]}"
    if "authentication expired" in said or "authentication revoked" in said:
        return f"the bus at {server} says that what {access.way} names has expired or was revoked: get it anew"
    return None


def _not_trusted(error: ssl.SSLCertVerificationError, access: Access, server: str) -> str:
    of = f"the certificate of the server at {server}"
    if error.verify_code == _EXPIRED:
        return f"{of} has expired, or that of who signed it: renew it there"
    if error.verify_code in _OTHER_NAMES:
        asked = f"{access.hostname} (bus.tls.hostname)" if access.hostname is not None else "the name in bus.url"
        return f"{of} is not for {asked}: use a name that it holds, in bus.url or bus.tls.hostname"
    known = (
        "bus.tls.ca does not hold" if access.ca is not None else "this system does not know: name them in bus.tls.ca"
    )
    return f"{of} is signed by somebody whom {known} ({error.verify_message})"


def _not_agreed(error: ssl.SSLError, access: Access, server: str) -> str:
    why = (error.reason or "").rpartition("_ALERT_")[2].replace("_", " ").lower() or "no reason given"
    if "ALERT" not in (error.reason or "") or access.certificate is None:
        return f"no TLS with the server at {server}: {why}"
    if "expired" in why:
        return f"our certificate (bus.tls.certificate) has expired, says the server at {server}: renew it"
    return f"the server at {server} does not accept our certificate (bus.tls.certificate): {why}"
