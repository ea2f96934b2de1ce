"""HTTP routes that show a service and its tables, and that control it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from arctic_runtime.errors import ArcticError
from arctic_runtime.service.http.cached import Cached, TableTexts, answer_request
from arctic_runtime.service.http.encoding import build_list_schema, build_record_schema, build_reference, encode_json
from arctic_runtime.service.http.feed import EventFeed
from arctic_runtime.service.http.problems import build_problem
from arctic_runtime.service.http.threads import run_in_thread
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.view.live_data import LiveService
from arctic_runtime.thresholds import HttpThresholds

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer", "description": "the newest event that this state has"}


class Tables(BaseModel):
    """Request body with names of tables; all tables if it names none."""

    model_config = ConfigDict(extra="forbid", strict=True)
    tables: list[str] = Field(default_factory=list)


class Pause(Tables):
    """Request body with names of tables to pause; with `upkeep_only`, only their upkeep is paused."""

    upkeep_only: bool = False


def describe_response(description: str, schema: dict[str, Any], status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Builds the OpenAPI entry of a route's JSON response."""
    return {status: {"description": description, "content": {"application/json": {"schema": schema}}}}


def build_service_routes(
    service: LiveService, feed: EventFeed, settings: HttpSettings, thresholds: HttpThresholds
) -> APIRouter:
    """Builds all routes below /api except those of operations and of change rows."""
    router = APIRouter(prefix="/api")
    _add_tables(router, service, thresholds)
    _add_table_parts(router, service, settings)
    _add_jobs(router, service)
    _add_changes(router, service)
    _add_events(router, feed, settings)

    async def state() -> Response:
        return build_json_response({"event": service.events.last, "service": service.get_state()})

    async def sources() -> Response:
        return build_json_response(service.list_sources())

    async def upkeep() -> Response:
        return build_json_response(service.list_upkeep())

    _add_get_route(
        router,
        "/service",
        state,
        "The service itself",
        build_record_schema(event=_NUMBER, service=build_reference("ServiceState")),
    )
    _add_get_route(
        router,
        "/sources",
        sources,
        "The ingested sources: whether, by which process and how far",
        build_list_schema(build_reference("SourceOverview")),
    )
    _add_get_route(
        router,
        "/upkeep",
        upkeep,
        "The upkeep that is planned, what comes next first",
        build_list_schema(build_reference("Upkeep")),
    )
    return router


def build_json_response(value: Any, status: int = 200) -> Response:
    return Response(encode_json(value), status, {"cache-control": "no-store"}, "application/json")


def _add_tables(router: APIRouter, service: LiveService, thresholds: HttpThresholds) -> None:
    texts = TableTexts()

    def encode_tables(event_number: int) -> bytes:
        return b'{"event":%d,"tables":%s}' % (event_number, texts.join_tables(service.list_tables()))

    tables = Cached(service.events, encode_tables, thresholds)
    graph = Cached(service.events, lambda event_number: encode_json(_build_graph(service, event_number)), thresholds)

    async def all_tables(request: Request) -> Response:
        return answer_request(request, tables.get_body())

    async def get_table(table: Annotated[str, Path(min_length=1)]) -> Response:
        overview = service.find_table(table)
        if overview is None:
            return build_unknown_table(table)
        return build_json_response({"event": service.events.last, "table": overview})

    async def whole_graph(request: Request) -> Response:
        return answer_request(request, graph.get_body())

    overview = build_reference("TableOverview")
    node = build_record_schema(table=_TEXT, kind=_TEXT, state=_TEXT, layer={"type": "integer"})
    edge = build_record_schema(source=_TEXT, target=_TEXT)
    all_nodes = build_record_schema(event=_NUMBER, nodes=build_list_schema(node), edges=build_list_schema(edge))
    _add_get_route(
        router,
        "/tables",
        all_tables,
        "All tables, layer by layer",
        build_record_schema(event=_NUMBER, tables=build_list_schema(overview)),
    )
    _add_get_route(
        router, "/tables/{table}", get_table, "One table", build_record_schema(event=_NUMBER, table=overview)
    )
    _add_get_route(router, "/graph", whole_graph, "Which table reads which", all_nodes)


def _add_table_parts(router: APIRouter, service: LiveService, settings: HttpSettings) -> None:
    async def get_details(table: Annotated[str, Path(min_length=1)]) -> Response:
        overview = service.find_table(table)
        if overview is None:
            return build_unknown_table(table)
        return await run_in_thread(
            build_json_response, await run_in_thread(service.requests.describe_table, overview.table)
        )

    async def get_trend(table: Annotated[str, Path(min_length=1)]) -> Response:
        overview = service.find_table(table)
        if overview is None:
            return build_unknown_table(table)
        return await run_in_thread(
            build_json_response, await run_in_thread(service.requests.read_trend, overview.table)
        )

    async def list_rows(
        table: Annotated[str, Path(min_length=1)], limit: Annotated[int, Query(ge=1, le=1000)] = 20
    ) -> Response:
        if not settings.has_users:
            return build_problem(403, NO_TOKEN)
        overview = service.find_table(table)
        if overview is None:
            return build_unknown_table(table)
        return await run_in_thread(
            build_json_response, await run_in_thread(service.requests.read_rows, overview.table, limit)
        )

    _add_get_route(
        router,
        "/tables/{table}/details",
        get_details,
        "Query, columns with their origins, and data tests of one table",
        build_reference("TableDetails"),
    )
    _add_get_route(
        router,
        "/tables/{table}/trend",
        get_trend,
        "Freshness and rows of one table over the last days",
        build_reference("TableTrend"),
    )
    _add_get_route(
        router,
        "/tables/{table}/rows",
        list_rows,
        "A few rows of one table; only from a service with a token",
        build_reference("TableRows"),
    )


NO_TOKEN = ArcticError(
    "Rows are only shown by a service that needs a token.",
    where="`serve.http` of the target",
    expected="a `token`, `users` or `open_id`",
    actual="none",
    fix="set a token and start the service again, or read the rows by `arctic sql`",
)
"""Error for requests of rows, which a service without tokens would show to every program of its machine."""


def build_unknown_table(table: str) -> Response:
    """Builds the response for a table that the service does not know."""
    error = ArcticError(f"There is no table {table!r}.", fix="see /api/tables for those there are")
    return build_problem(404, error)


def _build_graph(service: LiveService, event_number: int) -> dict[str, Any]:
    tables = service.list_tables()
    return {
        "event": event_number,
        "nodes": [
            {"table": overview.table, "kind": overview.kind, "state": overview.state, "layer": overview.layer}
            for overview in tables
        ],
        "edges": [{"source": above, "target": overview.table} for overview in tables for above in overview.reads],
    }


def _add_jobs(router: APIRouter, service: LiveService) -> None:
    async def jobs() -> Response:
        return build_json_response({"event": service.events.last, "jobs": service.list_jobs()})

    async def job(number: str) -> Response:
        return build_json_response(_require_known(service.find_job(number), number))

    async def cancel(number: str) -> Response:
        return build_json_response(_require_known(await run_in_thread(service.requests.cancel_job, number), number))

    schema = build_record_schema(event=_NUMBER, jobs=build_list_schema(build_reference("Job")))
    _add_get_route(router, "/jobs", jobs, "Jobs that wait or run, then those that ended of late", schema)
    _add_get_route(router, "/jobs/{number}", job, "One job", build_reference("Job"))
    router.add_api_route(
        "/jobs/{number}",
        cancel,
        methods=["DELETE"],
        summary="Cancels a job",
        response_class=Response,
        responses=describe_response("The job", build_reference("Job")),
    )


def _require_known(job: Any, number: str) -> Any:
    if job is None:
        raise HTTPException(404, f"There is no job {number!r}; those that ended long ago are forgotten.")
    return job


def _add_changes(router: APIRouter, service: LiveService) -> None:
    async def refresh(body: Annotated[Tables, Body()]) -> Response:
        await run_in_thread(service.requests.refresh_tables, body.tables)
        return build_json_response({"event": service.events.last, "service": service.get_state()}, 202)

    async def pause(body: Annotated[Pause, Body()]) -> Response:
        await run_in_thread(service.requests.pause_tables, body.tables, body.upkeep_only)
        return build_json_response({"event": service.events.last, "service": service.get_state()})

    async def resume(body: Annotated[Tables, Body()]) -> Response:
        await run_in_thread(service.requests.resume_tables, body.tables)
        return build_json_response({"event": service.events.last, "service": service.get_state()})

    state = build_record_schema(event=_NUMBER, service=build_reference("ServiceState"))
    for path, endpoint, status, summary in (
        ("/refresh", refresh, 202, "Looks at models at once, whatever lag they may have"),
        ("/pause", pause, 200, "Leaves tables or their upkeep alone"),
        ("/resume", resume, 200, "Ends a pause"),
    ):
        router.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            status_code=status,
            summary=summary,
            response_class=Response,
            responses=describe_response("The service", state, status),
        )


def _add_events(router: APIRouter, feed: EventFeed, settings: HttpSettings) -> None:
    async def events(
        after: Annotated[int, Query(ge=0, lt=10**15)] = 0,
        last_event_id: Annotated[str | None, Header(pattern="^[0-9]{1,15}$")] = None,
    ) -> Response:
        if feed.streams >= settings.streams:
            raise HTTPException(503, f"{feed.streams} clients follow events already, which is the limit.")
        event_number = after if last_event_id is None else int(last_event_id)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(feed.follow_events(event_number), 200, headers, "text/event-stream")

    router.add_api_route(
        "/events",
        events,
        methods=["GET"],
        summary="What changes, as server-sent events",
        response_class=Response,
        responses={200: {"description": "A stream", "content": {"text/event-stream": {"schema": _TEXT}}}},
    )


def _add_get_route(
    router: APIRouter, path: str, endpoint: Callable[..., Any], summary: str, schema: dict[str, Any]
) -> None:
    router.add_api_route(
        path,
        endpoint,
        methods=["GET"],
        summary=summary,
        response_class=Response,
        responses=describe_response(summary, schema),
    )
