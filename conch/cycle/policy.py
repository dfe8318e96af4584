"""The acting policy: what its digest covers, which of several minds it stands for now, and to what that is held."""

from __future__ import annotations

import hashlib
import json

from conch.actions import Registry, gbnf
from conch.config import SERVED, MindSettings, OneMindSettings
from conch.cycle.acting.arms import PolicyAdapter
from conch.minds import Mind
from conch_schemas import Constraint


class ActingPolicy:
    """The policy of an agent. `digest` covers the mind that decides, the system prompt and the values, the mind that
    thinks where that is another one, the constraint of decisions where there is one, and the adapter that decides with
    its base, tokenizer and chat template. Of a mind with fallbacks it stands for the one that replied last."""

    def __init__(self, mind: Mind, settings: MindSettings, system: str, values: str, registry: Registry) -> None:
        """`values`: digest of the values in force. `registry`: the tools whose calls decisions are held to."""
        self._mind, self._system, self._values, self._registry = mind, system, values, registry
        self._thinks = "" if settings.thinking == settings.deciding else _name(settings.thinking)
        minds = (*settings.fallbacks, settings.deciding)
        self._held: dict[tuple[str, str], Constraint] = {
            (one.kind, one.model): held for one in minds if (held := _asked_for(one)) is not None
        }
        self._decides = settings.deciding.kind, settings.deciding.model
        self._adapter: PolicyAdapter | None = None
        self._stands: tuple[str, str, Constraint | None, PolicyAdapter | None] = ("", "", None, None)
        self._constraint: str | None = None
        self.digest = ""
        self.follow()

    def decides_under(self, adapter: PolicyAdapter | None) -> None:
        """Decisions are made under this adapter from the next `follow` on; None: under none."""
        self._adapter = adapter

    def follow(self, held: Constraint = "free") -> bool:
        """Take the mind that replied last; whether the policy is another one by that. `held`: what its decision was
        held to. A mind that was held once stands as held: single decisions are free (`mind.free_share`)."""
        now = (self._mind.kind, self._mind.model)
        if held != "free":
            self._held[now] = held
        stands = (*now, self._held.get(now), self._adapter if self._is_first(now) else None)
        if stands == self._stands:
            return False
        self._stands = stands
        self._constraint = None if stands[2] is None else policy_digest(stands[2], gbnf(self._registry))
        more = [self._thinks] if self._thinks else []
        more += [f"held to {self._constraint}"] if self._constraint is not None else []
        more += [] if stands[3] is None else [f"adapter {stands[3].digest}", *stands[3].covers]
        self.digest = policy_digest(*now, self._system, self._values, *more)
        return True

    def _is_first(self, replied: tuple[str, str]) -> bool:
        """Whether the mind that replied is the one that the settings let decide; a fallback has no adapter."""
        return replied == self._decides or replied[0] == self._decides[0] == "reflex"

    def content(self) -> dict[str, str | int | None]:
        """The fields of `policy.set`."""
        kind, model, _, adapter = self._stands
        under: dict[str, str | int | None] = {}
        if adapter is not None:
            under = {
                "adapter": adapter.digest,
                "base": adapter.base,
                "generation": adapter.generation,
                "evidence": adapter.evidence,
            }
        return {
            "mind": kind,
            "model": model,
            "constraint": self._constraint,
            "system_prompt": self._system,
            "values": self._values,
            "thinks": self._thinks,
            **under,
        }

    @property
    def mind(self) -> str:
        """Kind and model of the mind that decides, for a person."""
        return " ".join(self._stands[:2])


def _asked_for(settings: OneMindSettings) -> Constraint | None:
    """What a mind's decisions are held to by its settings; None: nothing, or what its endpoint is found to take."""
    if not _asks(settings) or settings.free_share == 1:
        return None
    from conch.minds import forms_of

    kinds = {form.kind for form in forms_of(settings)}
    return kinds.pop() if len(kinds) == 1 else None


def _name(settings: OneMindSettings) -> str:
    return f"{settings.kind} {settings.model}" if _asks(settings) else settings.kind


def _asks(settings: OneMindSettings) -> bool:
    """Whether the mind asks a model by its name."""
    return settings.kind == "openai" or settings.kind in SERVED


def policy_digest(*parts: str) -> str:
    """16 hexadecimal digits of what makes up a policy, in this order."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
