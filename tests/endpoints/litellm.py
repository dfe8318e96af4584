"""LiteLLM's proxy before a model of OpenAI: its provider's refusals come through with words of its own around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conch_schemas import JsonObject
from tests.endpoints.base import Refused
from tests.endpoints.openai import OpenAI


@dataclass
class LiteLLM(OpenAI):
    """`litellm --config FILE`, with a model of OpenAI's o-series, without `drop_params`."""

    name = "LiteLLM"
    key: str | None = "sk-proxy"

    def error(self, status: int, message: str, **more: Any) -> Refused:
        around = f"litellm.BadRequestError: OpenAIException - {message}. Received Model Group={self.model}\nAvailable Model Group Fallbacks=None"  # fmt: skip # noqa: E501
        error = {"message": around, "type": "invalid_request_error", "param": None, "code": str(status), **more}
        return Refused(status, {"error": error})

    def unauthorized(self) -> Refused:
        words = "Authentication Error, Invalid proxy server token passed. Unable to find token in cache or `LiteLLM_VerificationTokenTable`"  # fmt: skip # noqa: E501
        error = {"message": words, "type": "token_not_found_in_db", "param": "key", "code": "401"}
        return Refused(401, {"error": error})

    def check(self, body: JsonObject) -> None:
        if body["model"] != self.model:
            words = f"/chat/completions: Invalid model name passed in model={body['model']}. Call `/v1/models` to view available models for your key."  # fmt: skip # noqa: E501
            raise Refused(400, {"error": {"message": words, "type": "None", "param": "None", "code": "400"}})
        if body.get("temperature", 1) != 1:
            words = (
                f"litellm.UnsupportedParamsError: openai does not support parameters: ['temperature'], for "
                f"model={self.model}. To drop these, set `litellm.drop_params=True` or for proxy:\n\n"
                "`litellm_settings:\n drop_params: true`\n"
            )
            raise Refused(400, {"error": {"message": words, "type": "None", "param": None, "code": "400"}})
        super().check(body)
