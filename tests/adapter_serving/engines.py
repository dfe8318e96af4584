"""Stand-ins of engines that serve a base and adapters over HTTP, honest ones and those that lie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from conch.config import OneMindSettings
from conch.engine.front.listen import serving
from conch_schemas import PromptMessage

BASE = "tiny"
PROMPTS = [[PromptMessage(role="user", content=f"Question {number}: what do you do?")] for number in range(8)]


@dataclass
class Engine:
    """An engine whose reply is a function of the prompt and of the weights that it applies."""

    form: str = "vllm"
    """vllm, sglang or named."""
    lie: str = ""
    """applies-nothing, serves-base, stale, evicts, half."""
    key: str = "secret-key"
    refuses: bool = False
    """Whether loading is not switched on: there are no such addresses."""
    loaded: dict[str, str] = field(default_factory=dict)
    """Path by name."""
    loads: int = 0
    asked: int = 0
    hangs: bool = False
    huge: bool = False

    def reply(self, model: str, prompt: str) -> str:
        """What the weights say that are applied."""
        weights = self.loaded.get(model, BASE)
        self.asked += model != BASE
        if model != BASE:
            if self.lie in ("applies-nothing", "serves-base"):
                weights = BASE
            elif self.lie == "stale":
                weights = "the adapter before"
            elif (self.lie == "half" and self.asked % 2) or (self.lie == "evicts" and self.asked > 12):
                weights = BASE
        return f"{prompt[:10]}, {weights} says so"

    async def chat(self, request: Request) -> Response:
        """One reply, in one piece."""
        asked = await request.json()
        model = asked["model"].rpartition(":")[2] if self.form == "sglang" else asked["model"]
        if self.hangs:
            await asyncio.Event().wait()
        if model != BASE and model not in self.loaded:
            return self.error(404, f"The model `{model}` does not exist.")
        echoed = BASE if self.lie == "serves-base" else asked["model"]
        text = self.reply(model, asked["messages"][-1]["content"])
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return JSONResponse({"model": echoed, "choices": [choice], "usage": {"prompt_tokens": 1}})

    def error(self, status: int, message: str) -> Response:
        """An error as the engine's form has it."""
        if self.form == "sglang":
            return JSONResponse({"success": False, "error_message": message}, status)
        return JSONResponse({"error": {"message": message, "code": status}}, status)

    async def models(self, _: Request) -> Response:
        """The list of models."""
        if self.huge:
            return PlainTextResponse("x" * 3_000_000)
        owner = "somebody" if self.form == "named" else self.form
        return JSONResponse({"data": [{"id": name, "owned_by": owner} for name in [BASE, *self.loaded]]})

    async def load(self, request: Request) -> Response:
        """Load an adapter."""
        asked = await request.json()
        name, path = asked["lora_name"], asked["lora_path"]
        if self.hangs:
            await asyncio.Event().wait()
        if name in self.loaded:
            return self.error(400, f"The lora adapter '{name}' has already been loaded.")
        if "broken" in path:
            return self.error(400, f"{path} holds no adapter ({self.key})")
        self.loaded[name] = path
        self.loads += 1
        return JSONResponse({"success": True}) if self.form == "sglang" else PlainTextResponse("Success")

    async def unload(self, request: Request) -> Response:
        """Unload an adapter."""
        name = (await request.json())["lora_name"]
        if self.loaded.pop(name, None) is None:
            return self.error(404 if self.form == "vllm" else 400, f"The lora adapter '{name}' cannot be found.")
        return JSONResponse({"success": True}) if self.form == "sglang" else PlainTextResponse("Success")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[OneMindSettings]:
        """Serve, and give the settings of a mind that asks it."""
        prefix = "" if self.form == "sglang" else "/v1"
        routes = [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/models", self.models),
        ]
        if self.form != "named" and not self.refuses:
            routes += [
                Route(f"{prefix}/load_lora_adapter", self.load, methods=["POST"]),
                Route(f"{prefix}/unload_lora_adapter", self.unload, methods=["POST"]),
            ]
        async with serving(Starlette(routes=routes)) as url:
            yield OneMindSettings.model_validate(
                {"kind": "openai", "base_url": f"{url}/v1", "model": BASE, "api_key": self.key, "timeout": 5}
            )
