"""Errors as RFC 9457 problems, with their text and parts as members, but without secrets and tracebacks."""

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
from arctic_runtime.operations.queries import TooManyQueries

PROBLEM_TYPE = "application/problem+json"
PROBLEM_SCHEMA = {
    "type": "object",
    "description": "An error, as RFC 9457 describes it; `detail` is its whole text",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "where": {"type": "string", "description": "the place of the error, such as a table, a setting or a file"},
        "expected": {"type": "string"},
        "actual": {"type": "string", "description": "what is there instead of what is expected"},
        "fix": {"type": "string", "description": "what to do about it"},
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
    TooManyQueries: 503,
}


def build_problem(
    status: int, error: ArcticError, kind: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """Builds the problem response for an error; `kind` is its error class for clients, "" for an error without one."""
    body = {
        "type": f"urn:dbt-arctic:problem:{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": str(error),
        **error.details,
    }
    return Response(json.dumps(body), status, headers, PROBLEM_TYPE)


def to_problem(error: ArcticError) -> Response:
    """Builds the response to a request that ended with an ArcticError; the error's class determines the status."""
    kind = next((error_class for error_class in type(error).__mro__ if error_class in _STATUSES), ArcticError)
    return build_problem(_STATUSES.get(kind, 500), error, kind.__name__)


def to_unexpected_problem(error: BaseException) -> Response:
    """Builds the response to an unexpected error; its text may contain secrets, so it is only written to the log."""
    number = secrets.token_hex(4)
    _LOG.error("unexpected error %s", number, exc_info=error)
    return build_problem(500, ArcticError("An unexpected error.", fix=f"look for {number} in the log of the service"))


def add_problems(app: FastAPI) -> None:
    """Registers handlers that turn the errors of an application into problem responses."""

    async def answer_known_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, ArcticError)
        return to_problem(error)

    async def answer_invalid_request(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        lines = [f"  {'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
        return to_problem(ConfigError("\n".join(("The request can't be used.", *lines))))

    async def answer_http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return build_problem(error.status_code, ArcticError(str(error.detail)), headers=error.headers)

    app.add_exception_handler(ArcticError, answer_known_error)
    app.add_exception_handler(RequestValidationError, answer_invalid_request)
    app.add_exception_handler(HTTPException, answer_http_error)
