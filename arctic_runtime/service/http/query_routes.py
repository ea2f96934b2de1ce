"""The HTTP route that answers a query over the tables of a service, without Spark."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Body, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from arctic_runtime.operations.queries import QueryAnswer
from arctic_runtime.operations.row_formats import FORMATS_BY_MEDIA_TYPE
from arctic_runtime.service.http.access import QUERY_PATH
from arctic_runtime.service.http.encoding import build_list_schema, build_record_schema
from arctic_runtime.service.http.guard import AUDIT
from arctic_runtime.service.http.media_types import build_type_error, choose_media_type
from arctic_runtime.service.http.problems import build_problem
from arctic_runtime.service.http.routes import NO_TOKEN
from arctic_runtime.service.http.threads import run_in_thread
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.view.live_data import LiveService

_JSON = "application/json"
_OFFERED = (_JSON, *FORMATS_BY_MEDIA_TYPE)
_SUMMARY = "The rows of a query, which is answered without Spark; only from a service with a token"
_TEXT = {"type": "string"}
_SCHEMA = build_record_schema(
    columns=build_list_schema(build_record_schema(name=_TEXT, type=_TEXT)),
    rows=build_list_schema({"type": "array", "items": {}}),
    is_cut={"type": "boolean", "description": "whether there are more rows than `limit`"},
    seconds={"type": "number"},
)


class QueryArguments(BaseModel):
    """Arguments of a query, as those of `arctic sql`."""

    model_config = ConfigDict(extra="forbid", strict=True)
    query: str = Field(min_length=1, description="one select in Spark's SQL")
    limit: int | None = Field(None, ge=0, description="at most so many rows")


class QueryBody(BaseModel):
    """Request body of a query."""

    model_config = ConfigDict(extra="forbid", strict=True)
    arguments: QueryArguments


def build_query_route(service: LiveService, settings: HttpSettings) -> APIRouter:
    """Builds the route; each of its requests is in the audit log, with the tables that it reads."""
    router = APIRouter(tags=["operations"])

    async def answer_query(
        request: Request, body: Annotated[QueryBody, Body()], accept: Annotated[str, Header()] = "*/*"
    ) -> Response:
        if not settings.has_users:
            return build_problem(403, NO_TOKEN)
        media_type = choose_media_type(accept, _OFFERED)
        if media_type is None:
            return build_problem(406, build_type_error(_OFFERED))
        asked = body.arguments
        answer = await run_in_thread(service.requests.answer_query, asked.query, asked.limit, request.scope[AUDIT])
        headers = {"cache-control": "no-store", "vary": "accept, authorization"}
        return Response(await run_in_thread(_encode_answer, answer, media_type), 200, headers, media_type)

    schemas = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in FORMATS_BY_MEDIA_TYPE}
    router.add_api_route(
        QUERY_PATH,
        answer_query,
        methods=["POST"],
        summary=_SUMMARY,
        operation_id="sql",
        response_class=Response,
        responses={200: {"description": _SUMMARY, "content": {_JSON: {"schema": _SCHEMA}, **schemas}}},
    )
    return router


def _encode_answer(answer: QueryAnswer, media_type: str) -> bytes:
    """Encodes an answer as a whole, so that an error is never a part of it."""
    if media_type != _JSON:
        return b"".join(FORMATS_BY_MEDIA_TYPE[media_type].encode(answer.schema, answer.batches))
    names = zip(answer.schema.names, answer.types, strict=True)
    written = {
        "columns": [{"name": name, "type": of_type} for name, of_type in names],
        "rows": list(answer.iterate_rows()),
        "is_cut": answer.is_cut,
        "seconds": round(answer.seconds, 3),
    }
    return json.dumps(written, separators=(",", ":"), allow_nan=False).encode("ascii")
