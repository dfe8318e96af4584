"""The guard: ASGI middleware that every request passes on its way in, and every answer on its way out."""

from __future__ import annotations

import asyncio
import re
import time
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conch.auth import SESSION_SECONDS, LoginTokens, same, session_audience, signed_session
from conch.config import UiSettings
from conch.errors import ConchError
from conch.log import get_logger
from conch_services.dashboard.assets import cache_control
from conch_services.dashboard.security import refusals
from conch_services.dashboard.security.places import CHANGES, PageNames, is_part_of_another, named_by
from conch_services.dashboard.security.rate_limit import LoginRateLimit
from conch_services.dashboard.security.refusals import is_for_programs, refusal
from conch_services.dashboard.security.sessions import Sessions, is_let_in, prefix_of

log = get_logger(__name__)

MOST_HEAD = 16 * 1024
"""Bytes of a request's line and headers."""
MOST_BODY = 64 * 1024
"""Bytes of a request's body."""
BODY_SECONDS = 10.0
"""Timeout of reading a request's body."""
MOST_PATH = 2000
"""Longest path that a login redirects to, in characters."""
HEALTH = frozenset({"/healthz", "/readyz"})
"""Paths that only say that the server is there."""
LOGIN, LOGOUT = "/login", "/logout"
ONCE = ("host", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-purpose", "authorization")
"""Headers that decide on access: of two that differ, one would be ignored."""

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), midi=(), payment=(), usb=()",
}
"""On every answer that may become a document."""
OF_DATA = ("X-Content-Type-Options", "Cross-Origin-Resource-Policy")
"""Those on an answer to a page's script (Sec-Fetch-Dest `empty`, which no script can set): it never becomes a document,
and a page that is looked at is answered several times a second."""


class RequestGuard:
    """Lets through requests from the dashboard's own pages and from programs that know the token, and nothing else."""

    def __init__(self, app: ASGIApp, settings: UiSettings, login_tokens: LoginTokens, port: int) -> None:
        """`port`: where the page listens. Raises HomeError where the home's key cannot be read or made."""
        self._app, self._login_tokens = app, login_tokens
        self._open = settings.unsafe_allow_unauthenticated
        self._places = PageNames.of(settings, port)
        self._key = login_tokens.key()
        own = settings.token
        self._token = login_tokens.token() if own is None else own.get_secret_value()
        self._audience = session_audience(self._key, port)
        self._sessions = Sessions(login_tokens, self._key, port)
        self._tries = LoginRateLimit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            raise ConchError(f"the dashboard speaks HTTP alone, no {scope['type']}")
        scope = self._sessions.within(scope)
        path, begun, ended = scope["path"], False, False

        async def guarded(message: Message) -> None:
            nonlocal begun, ended
            if message["type"] == "http.response.start":
                begun = True
                _put_headers(scope, message)
            else:
                ended = not message.get("more_body", False)
            await send(message)

        try:
            answer = await self._refused(scope, receive)
            if answer is None:
                body = await _body(scope, receive)
                answer = await self._login(scope, body or b"") if _is_login(scope) else await self._logout(scope)
                receive = self._sessions.watched(scope, _again(body, receive))
            await (answer or self._app)(scope, receive, guarded)
            if begun and not ended:  # the session of a stream was ended
                await guarded({"type": "http.response.body"})
        except _RequestRefusedError as refused:
            await refusal(path, refused.status, str(refused), headers=refused.headers)(scope, receive, guarded)
        except Exception as error:
            log.exception("dashboard.broke", path=path)
            if ended:
                return
            if begun:
                raise
            status, said = (503, str(error)) if isinstance(error, ConchError) else (500, refusals.BROKEN)
            if status == 503 and not is_let_in(scope):  # the sentence names files of the home
                said = refusals.NOT_NOW
            await refusal(path, status, said)(scope, receive, guarded)

    # -- coming in ---------------------------------------------------------------------------------------------------

    async def _refused(self, scope: Scope, receive: Receive) -> Response | None:
        """The response to a request that may not reach the application; None: it may."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        if len(scope["raw_path"]) + len(scope["query_string"]) + sum(map(len, sum(headers.raw, ()))) > MOST_HEAD:
            raise _RequestRefusedError(431, refusals.LONG_HEAD)
        if any(len(headers.getlist(name)) > 1 for name in ONCE):
            raise _RequestRefusedError(400, refusals.TWICE)
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may believe the other one
            raise _RequestRefusedError(400, refusals.TWO_LENGTHS, {"Connection": "close"})
        host = headers.get("host", "")
        if not host:
            raise _RequestRefusedError(400, refusals.NO_HOST)
        if not self._places.knows(host, harmless=path in HEALTH):
            raise _RequestRefusedError(421, refusals.FOREIGN_HOST)
        target = scope["raw_path"].decode("latin-1")
        if not target.startswith("/") and not self._places.knows(named_by(target)):
            raise _RequestRefusedError(421, refusals.FOREIGN_HOST)
        if method in CHANGES and not self._places.comes_from_us(host, headers):
            raise _RequestRefusedError(403, refusals.CROSS_SITE)
        if path in HEALTH or path.startswith("/static/") or _is_login(scope):
            return None
        shown = _shown(scope)
        if shown is not None:
            return await self._by_link(scope, shown)
        if self._open or self._is_known(scope, headers):
            scope["state"]["let_in"] = True
            return None
        if path == LOGOUT and prefix_of(scope):  # logged out: a valid session was let in above
            return refusal(path, 200, refusals.LOGGED_OUT, form="/", way="forget")
        challenge = {"WWW-Authenticate": "Bearer"} if is_for_programs(path) else None
        way = _way(scope) if method == "GET" else None
        return refusal(path, 401, refusals.LOG_IN, headers=challenge, form=_onward(scope), way=way)

    def _is_known(self, scope: Scope, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._is_token(scope, token.strip())
        return self._sessions.shown(scope) is not None

    def _is_token(self, scope: Scope, shown: str) -> bool:
        """Raises a refusal after too many wrong tokens; the right token is accepted, however many others were wrong."""
        right = same(shown, self._token)
        if not right and not is_part_of_another(Headers(scope=scope)):
            self._note_wrong(scope)
        return right

    def _note_wrong(self, scope: Scope) -> None:
        address, now = (scope.get("client") or ("",))[0], time.monotonic()
        wait = self._tries.wait(address, now)
        if wait:
            raise _RequestRefusedError(429, refusals.TOO_OFTEN, {"Retry-After": str(int(wait) + 1)})
        self._tries.note(address, now)

    async def _by_link(self, scope: Scope, token: str) -> Response:
        headers = Headers(scope=scope)
        if "prefetch" in headers.get("sec-purpose", ""):  # a browser guesses where its person will go
            raise _RequestRefusedError(503, refusals.NOT_AHEAD)
        if is_part_of_another(headers):
            raise _RequestRefusedError(403, refusals.CROSS_SITE)
        if await asyncio.to_thread(self._login_tokens.redeem, token, time.time()):
            return self._admitted(headers, _onward(scope))
        if self._open or self._sessions.shown(scope) is not None:
            return RedirectResponse(prefix_of(scope) + _onward(scope), 303)
        refused = _RequestRefusedError(401, refusals.SPENT)
        try:
            self._note_wrong(scope)
        except _RequestRefusedError as wait:
            refused = wait
        # One's own link, clicked again, comes without the session: the page that is answered leads on to it.
        form, way = _onward(scope), _way(scope)
        return refusal(scope["path"], refused.status, str(refused), headers=refused.headers, form=form, way=way)

    async def _login(self, scope: Scope, body: bytes) -> Response:
        """Handle the login form: the token, and the path to go on to."""
        said = dict(parse_qsl(body.decode("ascii", errors="replace")))
        onward = _local(said.get("next", "/"))
        if self._is_token(scope, said.get("token", "")):
            return self._admitted(Headers(scope=scope), onward)
        return refusal(LOGIN, 401, refusals.WRONG, form=onward)

    async def _logout(self, scope: Scope) -> Response | None:
        """Log out: each session in the request ends. None: it is another request."""
        headers = Headers(scope=scope)
        if self._open or not prefix_of(scope) or scope["path"] != LOGOUT or scope["method"] != "POST":
            return None
        while session := self._sessions.shown(scope):
            await self._sessions.end(session)
        answer = RedirectResponse(self._sessions.prefix + LOGOUT, 303)
        answer.delete_cookie(
            self._sessions.cookie,
            self._sessions.prefix,
            secure=self._places.is_secure(headers["host"]),
            httponly=True,
            samesite="strict",
        )
        return answer

    def _admitted(self, headers: Headers, onward: str) -> Response:
        answer = RedirectResponse(self._sessions.prefix + onward, 303)
        answer.set_cookie(
            self._sessions.cookie,
            signed_session(self._key, self._audience, time.time()),
            max_age=int(SESSION_SECONDS),
            path=self._sessions.prefix,
            secure=self._places.is_secure(headers["host"]),
            httponly=True,
            samesite="strict",
        )
        return answer


class _RequestRefusedError(Exception):
    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.headers = status, headers


def _is_login(scope: Scope) -> bool:
    return bool(scope["path"] == LOGIN and scope["method"] == "POST")


def _shown(scope: Scope) -> str | None:
    """The one-time token in the query of a page."""
    if scope["method"] != "GET" or is_for_programs(scope["path"]):
        return None
    return dict(_query(scope)).get("token")


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _onward(scope: Scope) -> str:
    """The path and query that were asked for, without the token."""
    query = urlencode([(name, value) for name, value in _query(scope) if name != "token"])
    return _local(quote(scope["path"]) + (f"?{query}" if query else ""))


def _way(scope: Scope) -> refusals.Way | None:
    """What a refusal's page makes the browser do, which may have a session that it did not send."""
    if not prefix_of(scope):
        return "resume"
    # A browser sends no cookie where a foreign page leads here, also on the way from a link.
    return None if Headers(scope=scope).get("sec-fetch-site", "none") in ("same-origin", "none") else "again"


def _local(place: str) -> str:
    """`place` without a prefix, where it is a path of ours and no longer than MOST_PATH; else the overview's path."""
    path = f"/{re.sub('^/~[^/?]*', '', place).lstrip('/')}"
    plain = place.startswith("/") and len(place) <= MOST_PATH and place.isascii() and place.isprintable()
    return path if plain and "\\" not in place and path not in (LOGIN, LOGOUT) else "/"


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """All of the request's body; None: it has none. Raises what refuses one that is too large, or too slow."""
    headers = Headers(scope=scope)
    length = headers.get("content-length", "0")
    if length == "0" and "transfer-encoding" not in headers:
        return None
    if int(length) > MOST_BODY:
        raise _RequestRefusedError(413, refusals.TOO_LARGE)
    body, more = b"", True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise TimeoutError
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MOST_BODY:
                    raise _RequestRefusedError(413, refusals.TOO_LARGE)
    except TimeoutError:
        raise _RequestRefusedError(408, refusals.TOO_SLOW, {"Connection": "close"}) from None
    return body


def _again(body: bytes | None, receive: Receive) -> Receive:
    """A `receive` that gives the application the body that was read, then what comes after it."""
    if body is None:
        return receive
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return left.pop() if left else await receive()

    return give


def _put_headers(scope: Scope, start: Message) -> None:
    headers = MutableHeaders(scope=start)
    if is_let_in(scope) and prefix_of(scope) and (location := headers.get("location", "")).startswith("http"):
        parts = urlsplit(location)  # the application's own, to the same address without the slash at its end
        headers["location"] = prefix_of(scope) + parts.path + (f"?{parts.query}" if parts.query else "")
    for name in OF_DATA if Headers(scope=scope).get("sec-fetch-dest") == "empty" else HEADERS:
        headers[name] = HEADERS[name]
    headers["Cache-Control"] = cache_control(scope["path"]) or "no-store"
