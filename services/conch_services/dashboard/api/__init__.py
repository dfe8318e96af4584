"""The HTTP API under /api/v1: the same data as the commands' --json, and people's requests; described by OpenAPI."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import Response

from conch_schemas import JsonObject
from conch_services.dashboard.api import (
    actions,
    alarms,
    approvals,
    chat,
    exports,
    history,
    live,
    memories,
    own_goals,
    reviews,
    teams,
    training,
    weights,
)
from conch_services.dashboard.api.asked import answer, clear_query
from conch_services.dashboard.api.problems import API_HANDLERS
from conch_services.dashboard.checking import ChainChecks
from conch_services.dashboard.security.refusals import Refusal
from conch_services.dashboard.world import DashboardContext

PREFIX = "/api/v1"
PUBLIC_NAMES = {
    "NeedChange": "NeedCause",
    "NeedChangeRow": "NeedChange",
    "MessageTold": "Told",
    "MarkProblem": "ChainProblem",
    "Refusal": "Problem",
}
"""Class -> its name in the document, where the two differ: clients in other languages are generated from it."""


def make_api(world: DashboardContext, checks: ChainChecks) -> FastAPI:
    """The API over `world`, to be mounted at PREFIX. Its document is at PREFIX/openapi.json, for those let in alone."""
    api = _routed()
    described = _described(api)
    described_once = answer(described)

    async def openapi_json(_: Request) -> Response:
        return described_once

    api.add_route("/openapi.json", openapi_json)
    api.state.world, api.state.checks = world, checks
    api.state.parameters = _parameters(described)
    return api


def openapi() -> JsonObject:
    """The OpenAPI 3.1 document of the API, without a dashboard."""
    return _described(_routed())


def _routed() -> FastAPI:
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, exception_handlers=API_HANDLERS)
    parts = (
        exports,
        history,
        live,
        memories,
        actions,
        alarms,
        own_goals,
        approvals,
        chat,
        reviews,
        teams,
        training,
        weights,
    )
    for part in parts:
        api.include_router(part.router, dependencies=[Depends(clear_query)])
    return api


def _described(api: FastAPI) -> JsonObject:
    """The OpenAPI 3.1 document."""
    described = get_openapi(
        title="Conch",
        version="1",
        summary="What an agent does, what it earns and why.",
        description="The same documents as the commands print with --json. A program shows the token of the dashboard.",
        routes=api.routes,
        servers=[{"url": PREFIX}],
    )
    described["components"]["schemas"]["Refusal"] = Refusal.model_json_schema(mode="serialization")
    described = _with_public_names(described)
    parts = described["components"]
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return described | {"security": [{"token": []}]}


def _with_public_names(described: JsonObject) -> JsonObject:
    """The document with the schemas of PUBLIC_NAMES and the references to them renamed."""
    schemas = described["components"]["schemas"]
    for ours, public in PUBLIC_NAMES.items():
        schemas[ours]["title"] = public
    described["components"]["schemas"] = {PUBLIC_NAMES.get(name, name): schema for name, schema in schemas.items()}
    prefix = "#/components/schemas/"

    def renamed(node: Any) -> Any:
        if isinstance(node, list):
            return [renamed(one) for one in node]
        if not isinstance(node, dict):
            return node
        return {key: _reference(one) if key == "$ref" else renamed(one) for key, one in node.items()}

    def _reference(reference: str) -> str:
        name = reference.removeprefix(prefix)
        return prefix + PUBLIC_NAMES.get(name, name)

    found: JsonObject = renamed(described)
    return found


def _parameters(described: JsonObject) -> dict[str, frozenset[str]]:
    """The names that a query may have, by path."""
    return {
        path: frozenset(
            one["name"] for told in operations.values() for one in told.get("parameters", ()) if one["in"] == "query"
        )
        for path, operations in described["paths"].items()
    }
