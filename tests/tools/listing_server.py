"""An MCP server of the tests that says what it is told to: `python listing_server.py FILE`, on stdin and stdout.

FILE is a JSON object: `pages`, the results of `tools/list` one after the other; `results`, the results of `tools/call`
by the tool's name (without: the call's arguments as text); `initialize`, the result of that; `stderr` and `status`,
with which it ends at `at`, `start` or `call`; at `hang` it prints that and does nothing more.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

INITIALIZED = {
    "protocolVersion": "2024-11-05",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "listing", "version": "1"},
}


def ends(told: dict[str, Any]) -> NoReturn:
    """Print the last words, and end."""
    sys.stderr.write(told["stderr"])
    sys.stderr.flush()
    raise SystemExit(told.get("status", 1))


def answer(told: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, less its id."""
    if method == "initialize":
        return {"result": told.get("initialize", INITIALIZED)}
    if method == "tools/list":
        at = int(params.get("cursor") or 0)
        if at < len(told["pages"]):
            return {"result": told["pages"][at]}
    if method == "tools/call":
        if told.get("at") == "call":
            ends(told)
        said = {"content": [{"type": "text", "text": json.dumps(params["arguments"], sort_keys=True)}]}
        return {"result": told.get("results", {}).get(params["name"], said)}
    return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Answer until stdin ends."""
    with open(sys.argv[1], encoding="utf-8") as file:
        told = json.load(file)
    if told.get("at") == "start":
        ends(told)
    if told.get("at") == "hang":
        print(told["stderr"], file=sys.stderr, flush=True)
        sys.stdin.read()
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            said = answer(told, asked["method"], asked.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)


if __name__ == "__main__":
    main()
