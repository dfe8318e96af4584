"""The acting policy: what its digest covers, and which of several minds it stands for now."""

from __future__ import annotations

import hashlib
import json

from conch.config import MindSettings, OneMindSettings
from conch.minds import Mind


class ActingPolicy:
    """The policy of an agent. `digest` covers the mind that decides, the system prompt and the values, and the mind
    that thinks where that is another one. Of a mind with fallbacks it stands for the one that replied last."""

    def __init__(self, mind: Mind, settings: MindSettings, system: str, values: str) -> None:
        """`values`: digest of the values in force."""
        self._mind, self._system, self._values = mind, system, values
        self._thinks = "" if settings.thinking == settings.deciding else _name(settings.thinking)
        self._decides = ("", "")
        self.digest = ""
        self.follow()

    def follow(self) -> bool:
        """Take the mind that replied last; whether the policy is another one by that."""
        now = (self._mind.kind, self._mind.model)
        if now == self._decides:
            return False
        self._decides = now
        self.digest = policy_digest(*now, self._system, self._values, *([self._thinks] if self._thinks else []))
        return True

    def content(self) -> dict[str, str]:
        """The fields of `policy.set`."""
        kind, model = self._decides
        return {
            "mind": kind,
            "model": model,
            "system_prompt": self._system,
            "values": self._values,
            "thinks": self._thinks,
        }

    @property
    def mind(self) -> str:
        """Kind and model of the mind that decides, for a person."""
        return " ".join(self._decides)


def _name(settings: OneMindSettings) -> str:
    return f"{settings.kind} {settings.model}" if settings.kind in ("openai", "local") else settings.kind


def policy_digest(*parts: str) -> str:
    """16 hexadecimal digits of what makes up a policy, in this order."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
