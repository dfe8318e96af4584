"""An environment that says nothing of connections, until a test lets it."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
SetVariables = Callable[..., None]


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> SetVariables:
    """Sets variables of the environment, in which no other one about connections is left."""

    def setting(**variables: str) -> None:
        for name in [name for name in os.environ if name.lower().endswith("_proxy") or name in VARIABLES]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    setting()
    return setting
