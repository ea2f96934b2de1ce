"""The HTTP route that streams the change rows of a table, so that clients can follow the table without Spark."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from arctic_runtime.errors import ArcticError
from arctic_runtime.operations.row_formats import FORMATS_BY_MEDIA_TYPE
from arctic_runtime.service.http.media_types import build_type_error, choose_media_type
from arctic_runtime.service.http.problems import build_problem
from arctic_runtime.service.http.threads import run_in_thread
from arctic_runtime.service.view.live_data import LiveService
from arctic_runtime.thresholds import HttpThresholds

NEXT_VERSION_HEADER = "arctic-next-version"
"""Response header with the version from which a client has to request the next change rows; a snapshot id, as text."""

_SUMMARY = "The change rows between two versions of a table, as a stream"
_VERSION = "a version, by its number or the name of a savepoint; "


class _Exports:
    """Counts the exports that are running, of which at most `max_exports` are allowed."""

    def __init__(self, max_exports: int) -> None:
        self._max_exports = max_exports
        self._running = 0

    def begin_export(self) -> None:
        """Counts a new export; raises HTTPException if there are too many."""
        if self._running >= self._max_exports:
            raise HTTPException(503, f"{self._running} clients read change rows already, which is the limit.")
        self._running += 1

    def end_export(self) -> None:
        self._running -= 1


class _ExportResponse(StreamingResponse):
    """A streamed response that calls `end` once it has ended, whether it was sent as a whole or not."""

    def __init__(self, parts: AsyncIterator[bytes], headers: dict[str, str], media_type: str, end: Callable[[], None]):
        super().__init__(parts, 200, headers, media_type)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


def build_change_routes(service: LiveService, thresholds: HttpThresholds) -> APIRouter:
    """Builds the route that streams change rows; `thresholds.exports` limits the number of concurrent streams."""
    router = APIRouter(prefix="/api")
    exports = _Exports(thresholds.exports)

    async def changes(
        table: Annotated[str, Path(min_length=1)],
        start: Annotated[
            str | None, Query(alias="from", min_length=1, description=_VERSION + "rows after it; all if left out")
        ] = None,
        end: Annotated[
            str | None, Query(alias="to", min_length=1, description=_VERSION + "the newest if left out")
        ] = None,
        accept: Annotated[str, Header()] = "*/*",
    ) -> Response:
        media_type = choose_media_type(accept, tuple(FORMATS_BY_MEDIA_TYPE))
        if media_type is None:
            return build_problem(406, build_type_error(tuple(FORMATS_BY_MEDIA_TYPE)))
        if service.find_table(table) is None:
            error = ArcticError(f"There is no table {table!r}.", fix="see /api/tables for those there are")
            return build_problem(404, error)
        exports.begin_export()
        try:
            rows = await run_in_thread(service.requests.open_changes, table, start, end)
            parts = FORMATS_BY_MEDIA_TYPE[media_type].encode(rows.schema, rows.batches)
            # Read before the status is sent, since later the status can't report an error.
            first = await run_in_thread(next, parts, b"")
        except BaseException:
            exports.end_export()
            raise
        headers = {
            NEXT_VERSION_HEADER: str(rows.end.snapshot),
            "cache-control": "no-store",
            "vary": "accept, authorization",
            "x-accel-buffering": "no",
        }
        return _ExportResponse(_stream_parts(first, parts), headers, media_type, exports.end_export)

    router.add_api_route(
        "/tables/{table}/changes",
        changes,
        methods=["GET"],
        summary=_SUMMARY,
        response_class=Response,
        responses={200: _describe_stream()},
    )
    return router


async def _stream_parts(first: bytes, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    while (part := await run_in_thread(next, parts, None)) is not None:
        yield part


def _describe_stream() -> dict[str, Any]:
    """Returns the OpenAPI entry of the response that streams change rows."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    version = {"description": "the version to ask from next", "schema": {"type": "string"}, "required": True}
    content = dict.fromkeys(FORMATS_BY_MEDIA_TYPE, schema)
    return {"description": _SUMMARY, "headers": {NEXT_VERSION_HEADER: version}, "content": content}
