"""Access rules of HTTP, for heads and bodies, checked for each request before any route sees it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arctic_runtime.errors import ArcticError
from arctic_runtime.service.audit_log import AuditLog
from arctic_runtime.service.http.access import SAFE_METHODS, Access, User, get_needed_role
from arctic_runtime.service.http.problems import build_problem, to_unexpected_problem
from arctic_runtime.service.http.threads import run_in_thread
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.thresholds import HttpThresholds

AUDIT = "audit"
"""Key of the scope of a request, for a function that writes facts about an effect of the request to the audit log."""

USER = "arctic_user"
"""Key of the scope of a request, for the user who sends it; None for what everybody may read."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
"""A text of JSON; one without an end goes on to the end of the body, so that it is not searched for again and again."""


def check_body(body: bytes, most_levels: int) -> None:
    """Raises ArcticError for a body that is not JSON as RFC 8259 has it, is nested too deep, or has broken Unicode.

    An empty body is left to the route, which knows if it needs one.
    """
    if not body:
        return
    try:
        text = body.decode("utf-8-sig")
        _check_levels(text, most_levels)
        value = json.loads(text, parse_constant=_refuse_constant)
        # Lone surrogates are escapes of JSON, but no text: nothing can store or print them.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise _build_error(f"at byte {error.start} it is not UTF-8", "text in UTF-8") from error
    except UnicodeEncodeError as error:
        character = f"\\u{ord(error.object[error.start]):04x}"
        raise _build_error(f"it has half a character, {character}", "whole characters") from error
    except ValueError as error:
        raise _build_error(str(error), "JSON") from error


def _check_levels(text: str, most_levels: int) -> None:
    level = 0
    for character in _STRING.sub("", text):
        level += (character in "[{") - (character in "]}")
        if level > most_levels:
            raise _build_error(f"it has more than {most_levels} levels of arrays and objects", "what the route takes")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _build_error(actual: str, expected: str) -> ArcticError:
    fix = "see /api/openapi.json for what each route takes"
    return ArcticError("The body can't be read as JSON.", actual=actual, expected=expected, fix=fix)


EVENTS_PATH = "/api/events"
OPEN_PATHS = ("/health", "/ready")
"""Health paths that process supervisors read without a token; the answers contain only a word or two."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

_HEADERS = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": POLICY,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }.items()
)


class Guard:
    """Middleware that refuses requests that break a rule, limits their size and time, and adds security headers.

    `is_public` returns whether a path can be read without a token: the page's files, which are the same for everybody.
    """

    def __init__(
        self, app: ASGIApp, settings: HttpSettings, thresholds: HttpThresholds, is_public: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._settings = settings
        self._thresholds = thresholds
        self._is_public = is_public
        self._access = Access(settings)
        self._audit_log = AuditLog(settings.audit_file)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._handle_request(scope, receive, _Sender(send))
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _handle_request(self, scope: Scope, receive: Receive, send: _Sender) -> None:
        """Answers a request; an unexpected error becomes a problem too, if the response has not begun."""
        try:
            await self._guard_request(scope, receive, send)
        except Exception as error:
            answer = to_unexpected_problem(error)
            if not send.has_started:
                await answer(scope, receive, send)

    async def _guard_request(self, scope: Scope, receive: Receive, send: _Sender) -> None:
        headers = Headers(scope=scope)
        refused, user = _check_host(self._settings, headers) or _check_origin(scope, headers), None
        if refused is None and not self._is_public(scope["path"]):
            user = await self._find_user(headers)
            refused = _check_user(scope, user)
        refused = refused or _check_content(self._settings, scope, headers)
        if refused is not None:
            self._note_change(scope, user, b"", refused.status_code)
            await refused(scope, receive, send)
            return
        limit = None if scope["path"] == EVENTS_PATH else self._settings.request_seconds
        started = time.monotonic()
        with anyio.move_on_after(limit) as time_limit:
            if limit is not None and _is_export(scope["path"]):
                send.renew_limit = lambda: _move_deadline(time_limit, limit)
            await self._answer_request(scope, receive, send, user)
        if time_limit.cancelled_caught and not send.has_started:
            seconds = time.monotonic() - started
            error = ArcticError(f"The request was given up after {seconds:.0f} seconds.", fix="try again later")
            await build_problem(504, error)(scope, receive, send)

    async def _find_user(self, headers: Headers) -> User | None:
        if self._settings.open_id is None:
            return self._access.find_user(headers)
        return await run_in_thread(self._access.find_user, headers)

    def _note_change(self, scope: Scope, user: User | None, body: bytes, status: int) -> None:
        """Writes a request that asks for a change to the audit log, also if it was refused."""
        if scope["method"] not in SAFE_METHODS:
            self._audit_log.add_entry(_describe_request(scope, user), body, status)

    async def _answer_request(self, scope: Scope, receive: Receive, send: _Sender, user: User | None) -> None:
        body = b""
        send.note_start = lambda status: self._note_change(scope, user, body, status)
        scope[USER] = user
        scope[AUDIT] = partial(self._audit_log.add_effect, _describe_request(scope, user))
        try:
            if scope["method"] not in SAFE_METHODS:
                read, receive = await _read_whole_body(receive, self._settings.body_bytes)
                check_body(read, self._thresholds.body_levels)
                body = read
        except _TooLarge:
            await _build_too_large_response(self._settings)(scope, receive, send)
        except ArcticError as error:
            await build_problem(400, error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _is_export(path: str) -> bool:
    """Whether `path` streams change rows, so that the time limit is for each part of the response, not the whole."""
    return path.startswith("/api/tables/") and path.endswith("/changes")


def _describe_request(scope: Scope, user: User | None) -> dict[str, Any]:
    client = scope.get("client")
    return {
        "user": None if user is None else user.name,
        "role": None if user is None else user.role,
        "client": None if client is None else client[0],
        "method": scope["method"],
        "path": scope["path"],
    }


def _move_deadline(time_limit: anyio.CancelScope, seconds: float) -> None:
    time_limit.deadline = anyio.current_time() + seconds


class _Sender:
    """Sends a response with security headers; `has_started` is whether the response has begun.

    `renew_limit` is called after each part that was sent.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_started = False
        self.note_start: Callable[[int], None] = lambda _: None
        self.renew_limit: Callable[[], None] = lambda: None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            note, self.note_start = self.note_start, lambda _: None
            note(message["status"])
            self.has_started = True
            message = {**message, "headers": [*message["headers"], *_HEADERS]}
        await self._send(message)
        self.renew_limit()


class _TooLarge(Exception):
    """Raised if the body of a request is longer than allowed."""


async def _read_whole_body(receive: Receive, most_bytes: int) -> tuple[bytes, Receive]:
    """Reads the request body, and returns it with a `receive` function that delivers it again.

    Raises _TooLarge for more than `most_bytes`.
    """
    body, has_more = bytearray(), True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return bytes(body), receive
        body += message.get("body", b"")
        has_more = message.get("more_body", False)
        if len(body) > most_bytes:
            raise _TooLarge
    messages: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return bytes(body), receive_again


def _check_host(settings: HttpSettings, headers: Headers) -> Response | None:
    """Returns the refusal of a request with an unknown host name, as in DNS rebinding attacks; else None."""
    written = headers.getlist("host")
    host = _parse_host(written[0]) if len(written) == 1 else ""
    if host and settings.allows_host(host):
        return None
    return build_problem(
        421,
        ArcticError(
            f"This service is not known as {', '.join(written)!r}.",
            expected="localhost, the address it is served on, or a name in its `allowed_hosts`",
            fix="call it by such a name, or allow this one",
        ),
    )


def _check_origin(scope: Scope, headers: Headers) -> Response | None:
    """Returns the refusal of a request that changes data and was sent by a page of another origin; else None."""
    if scope["method"] in SAFE_METHODS:
        return None
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    is_own = origin is None or _get_netloc(origin).lower() == headers.get("host", "").lower()
    if is_own and site in (None, "same-origin", "none"):
        return None
    return build_problem(
        403,
        ArcticError(
            f"A page of {origin or site} may change nothing here.",
            fix="use the page that this service has, or a program outside of browsers",
        ),
    )


def _check_user(scope: Scope, user: User | None) -> Response | None:
    if user is None:
        error = ArcticError("This needs the token of the service.", fix="send the header `Authorization: Bearer TOKEN`")
        return build_problem(401, error, headers={"www-authenticate": "Bearer"})
    needed = get_needed_role(scope["method"], scope["path"])
    if user.can_act_as(needed):
        return None
    return build_problem(
        403,
        ArcticError(
            f"{user.name} may not do this.",
            expected=f"the role {needed}",
            actual=f"the role {user.role}",
            fix="ask somebody with that role, or for it",
        ),
    )


def _check_content(settings: HttpSettings, scope: Scope, headers: Headers) -> Response | None:
    if scope["method"] in SAFE_METHODS:
        return None
    length = headers.get("content-length", "0")
    if length.isdecimal() and (len(length) > len(str(settings.body_bytes)) or int(length) > settings.body_bytes):
        return _build_too_large_response(settings)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if scope["method"] == "DELETE" or kind == "application/json":
        return None
    return build_problem(
        415,
        ArcticError(f"The body must be JSON; its content type is {kind or 'missing'}.", expected="application/json"),
    )


def _build_too_large_response(settings: HttpSettings) -> Response:
    return build_problem(413, ArcticError(f"The body has more than {settings.body_bytes:,} bytes, which is the limit."))


def _get_netloc(origin: str) -> str:
    """Returns host and port of an Origin header; "" if the header is malformed, which no host is."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


_HOST = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
"""Name or address and port of a Host header, as RFC 9112 has them: no user, path, query or fragment."""


def _parse_host(text: str) -> str:
    """Returns the host name or address in a Host header, without the port; "" if the header is anything else."""
    parts = _HOST.fullmatch(text)
    if parts is None or int(parts["port"] or 0) > 65_535:
        return ""
    return parts["host"].lower()
