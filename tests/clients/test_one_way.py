"""All HTTP clients of the product are made in one place."""

from __future__ import annotations

import ast

import pytest

from tests.house.product import modules

OWNER = "conch.clients."
MAKERS = {
    *("httpx2.AsyncClient", "httpx2.Client", "httpx2.get", "httpx2.post", "httpx2.stream", "httpx2.request"),
    *("httpx2.create_ssl_context", "requests.Session", "requests.get", "requests.post", "requests.request"),
    *("urllib.request.urlopen", "urllib.request.build_opener", "ssl.create_default_context"),
}
"""What reads the environment by itself."""
ON_THEIR_OWN = {
    "conch.tools.web.fetch": "goes to an address that was checked, with trust_env=False and a context of conch.clients",
    "conch_services.otel.exporter": "is the session of OpenTelemetry's exporters, with trust_env off",
    "conch.tools.mcp.transport": "bounds a reply in its transport, with trust_env=False and a context of conch.clients",
}


def made(tree: ast.AST) -> set[str]:
    """The makers that a module calls or derives from."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    bases = [base for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases]
    return {ast.unparse(node) for node in (*calls, *bases)} & MAKERS


def test_only_one_package_makes_clients_that_read_the_environment() -> None:
    """A module that makes its own is named here, with the reason."""
    found = {module.name for module in modules() if made(module.tree) and not module.name.startswith(OWNER)}

    assert found == set(ON_THEIR_OWN)


@pytest.mark.parametrize("name", [name for name in ON_THEIR_OWN if name.startswith("conch.")])
def test_a_client_of_its_own_trusts_no_environment(name: str) -> None:
    """Each client and transport in it says so."""
    [module] = [module for module in modules() if module.name == name]
    calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    clients = [call for call in calls if ast.unparse(call.func) in ("httpx2.AsyncClient", "httpx2.AsyncHTTPTransport")]

    assert clients
    for call in clients:
        assert "trust_env=False" in ast.unparse(call), f"{name}:{call.lineno}"
