"""Errors as RFC 9457 has them: what, where, expected, found and what to do, and never a secret or a traceback."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from arctic_runtime.errors import (
    ArcticError,
    CatalogError,
    CommitConflict,
    CommitUnknown,
    ConfigError,
    CorruptState,
    DataError,
    PlanError,
    SourceError,
    SparkEnded,
)

PROBLEM_TYPE = "application/problem+json"
PROBLEM_SCHEMA = {
    "type": "object",
    "description": "An error, as RFC 9457 describes it; `detail` says what to do",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}

_LOG = logging.getLogger(__name__)

_STATUSES: Mapping[type[ArcticError], int] = {
    ConfigError: 422,
    SourceError: 409,
    DataError: 409,
    PlanError: 409,
    CommitConflict: 409,
    CommitUnknown: 500,
    SparkEnded: 503,
    CatalogError: 503,
    CorruptState: 500,
}


def problem(status: int, detail: str, kind: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """An error's response; `kind` is the name of its class where it has one."""
    body = {
        "type": f"urn:dbt-arctic:problem:{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return Response(json.dumps(body), status, headers, PROBLEM_TYPE)


def problem_of(error: ArcticError) -> Response:
    """The response to a request that ended in one of our errors."""
    kind = next((of for of in type(error).__mro__ if of in _STATUSES), ArcticError)
    return problem(_STATUSES.get(kind, 500), str(error), kind.__name__)


def unexpected(error: BaseException) -> Response:
    """The response to an error that nobody raises on purpose; its text may have secrets, so only the log has it."""
    number = secrets.token_hex(4)
    _LOG.error("unexpected error %s", number, exc_info=error)
    return problem(500, f"An unexpected error.\n  what to do: look for {number} in the log of the service")


def add_problems(app: FastAPI) -> None:
    """Turns the errors of an application into problems."""

    async def ours(_: Request, error: Exception) -> Response:
        assert isinstance(error, ArcticError)
        return problem_of(error)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        lines = [f"{'.'.join(map(str, of['loc']))}: {of['msg']}" for of in error.errors()]
        return problem(422, "\n".join(("The request can't be used.", *(f"  {line}" for line in lines))), "ConfigError")

    async def of_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem(error.status_code, str(error.detail), headers=error.headers)

    app.add_exception_handler(ArcticError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, of_http)
