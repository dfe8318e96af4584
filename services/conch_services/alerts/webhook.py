"""A webhook by the Standard Webhooks specification: one signed POST, read to its status within bounds."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

import httpx2

from conch.clients import http_client
from conch.config import AlertSettings, webhook_key
from conch.errors import ConchError
from conch_schemas import JsonObject

REQUEST_SECONDS = 10.0
"""Longest wait for one request, from the connection to the reply's status: an hour's ceiling is no matter of seconds,
and a receiver that hangs holds up the next alerts."""


class WebhookError(ConchError):
    """The webhook did not take an alert."""


class Webhook:
    """Posts alerts to one address."""

    def __init__(self, url: str, key: bytes, clock: Callable[[], float] = time.time) -> None:
        """`key`: of the signature. `clock`: seconds since the epoch. Raises ClientEnvironmentError."""
        self._url, self._key, self._clock = url, key, clock
        self.where = urlsplit(url).hostname or "the webhook"
        """The host alone: the path of an address may be its secret."""
        self._client = http_client(url, timeout=REQUEST_SECONDS)

    @classmethod
    def of(cls, settings: AlertSettings) -> Webhook:
        """The webhook of the settings, which name one."""
        assert settings.webhook is not None
        assert settings.secret is not None
        return cls(settings.webhook, webhook_key(settings.secret))

    async def post(self, id: str, alert: JsonObject) -> None:
        """Post an alert; `id` is the same for each try of it. Raises WebhookError unless the receiver takes it (2xx).

        A redirect is not followed: the signature is meant for this address.
        """
        body = json.dumps(alert, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"content-type": "application/json"} | signed(self._key, id, int(self._clock()), body)
        try:
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                self._client.stream("POST", self._url, content=body, headers=headers) as reply,
            ):
                status = reply.status_code
        except TimeoutError:
            raise WebhookError(f"{self.where} did not reply within {REQUEST_SECONDS:g} s (alerts.webhook)") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise WebhookError(f"{self.where} cannot be reached: {type(error).__name__} (alerts.webhook)") from None
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            raise WebhookError(
                f"{self.where} redirects (HTTP {status}), which is not followed: put its address in alerts.webhook"
            )
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise WebhookError(f"{self.where} did not take the alert: HTTP {status} (alerts.webhook)")

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._client.aclose()


def signed(key: bytes, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a message: its id, the time of the try in seconds since the epoch, and the signature of both and
    the body."""
    mac = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }
