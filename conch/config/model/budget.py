"""Settings of an agent's budget, and of the webhook that is told at its ceiling."""

from __future__ import annotations

import base64
from typing import Annotated, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from conch.config.model.section import SettingsSection

Count = Annotated[int, Field(gt=0)]
Amount = Annotated[float, Field(gt=0)]


class BudgetSettings(SettingsSection):
    """Most that one agent may use within an hour and a day: the last 3,600 s and 86,400 s. None: no limit."""

    tokens_per_hour: Count | None = None
    """Tokens of prompts and replies in an hour."""
    tokens_per_day: Count | None = None
    """Tokens of prompts and replies in a day."""
    money_per_hour: Amount | None = None
    """Price of the tokens in an hour, in mind.currency; each mind at an endpoint needs its price."""
    money_per_day: Amount | None = None
    """Price of the tokens in a day, in mind.currency; each mind at an endpoint needs its price."""
    acts_per_hour: Count | None = None
    """Acts that call a tool in an hour."""
    acts_per_day: Count | None = None
    """Acts that call a tool in a day."""
    irreversible_acts_per_hour: Count | None = None
    """Acts in an hour whose tool declares the effect world, or none: nothing in Conch can take them back."""
    irreversible_acts_per_day: Count | None = None
    """Acts in a day whose tool declares the effect world, or none: nothing in Conch can take them back."""
    for_people: Annotated[float, Field(ge=0, le=0.9)] = 0.1
    """Share of each limit that is kept for messages of people, 0..0.9; work pauses at the rest."""

    @property
    def limits_money(self) -> bool:
        """Whether money is limited."""
        return self.money_per_hour is not None or self.money_per_day is not None

    @property
    def limits_questions(self) -> bool:
        """Whether tokens or money are limited."""
        return self.limits_money or self.tokens_per_hour is not None or self.tokens_per_day is not None


LEAST_KEY, MOST_KEY = 24, 64
"""Bytes of a webhook's key, as the specification of Standard Webhooks has it."""
KEY_PREFIX = "whsec_"


def webhook_key(secret: SecretStr) -> bytes:
    """The key of a webhook's signatures: `whsec_` and base64, or a text as it is. Raises ValueError."""
    text = secret.get_secret_value()
    is_coded = text.startswith(KEY_PREFIX)
    key = base64.b64decode(text.removeprefix(KEY_PREFIX), validate=True) if is_coded else text.encode()
    if not LEAST_KEY <= len(key) <= MOST_KEY:
        raise ValueError(
            f"it has {len(key)} bytes, {LEAST_KEY} to {MOST_KEY} are needed: openssl rand -base64 32 makes one"
        )
    return key


class AlertSettings(SettingsSection):
    """Who is told when an agent waits at a limit of its budget, and when an alarm begins."""

    webhook: Annotated[str, Field(pattern=r"^https?://[^\s/]+(/\S*)?$")] | None = None
    """Address that each alert is posted to, signed by the Standard Webhooks specification; none: no address."""
    secret: SecretStr | None = None
    """Secret of the signatures, 24 to 64 bytes: whsec_ and base64, or any text."""

    @field_validator("secret")
    @classmethod
    def _is_a_key(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None:
            webhook_key(secret)
        return secret

    @model_validator(mode="after")
    def _is_signed(self) -> Self:
        if self.webhook is not None and self.secret is None:
            raise ValueError("alerts.webhook needs alerts.secret, by which the receiver knows that an alert is genuine")
        return self
