"""Routes that show a service and its tables, and that tell it what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from arctic_runtime.service.http.cached import Cached, TableTexts, answer
from arctic_runtime.service.http.encoding import encoded
from arctic_runtime.service.http.feed import EventFeed
from arctic_runtime.service.http.schema import component, list_of, record
from arctic_runtime.service.http.settings import HttpSettings
from arctic_runtime.service.http.threads import in_thread
from arctic_runtime.service.live import LiveService
from arctic_runtime.thresholds import HttpThresholds

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer", "description": "the newest event that this state has"}


class Tables(BaseModel):
    """Tables by name; all where none is given."""

    model_config = ConfigDict(extra="forbid", strict=True)
    tables: list[str] = Field(default_factory=list)


class Pause(Tables):
    """What is left alone: tables, or their upkeep."""

    upkeep_only: bool = False


def shown(description: str, schema: dict[str, Any], status: int = 200) -> dict[int | str, dict[str, Any]]:
    """The response of a route, for the description of the interface."""
    return {status: {"description": description, "content": {"application/json": {"schema": schema}}}}


def service_routes(
    service: LiveService, feed: EventFeed, settings: HttpSettings, thresholds: HttpThresholds
) -> APIRouter:
    """Everything under /api but the operations."""
    router = APIRouter(prefix="/api")
    _add_tables(router, service, thresholds)
    _add_jobs(router, service)
    _add_changes(router, service)
    _add_events(router, feed, settings)

    async def state() -> Response:
        return as_json({"event": service.events.last, "service": service.state()})

    async def upkeep() -> Response:
        return as_json(service.upkeep())

    _get(router, "/service", state, "The service itself", record(event=_NUMBER, service=component("ServiceState")))
    _get(router, "/upkeep", upkeep, "The upkeep that is planned, what comes next first", list_of(component("Upkeep")))
    return router


def as_json(value: Any, status: int = 200) -> Response:
    return Response(encoded(value), status, {"cache-control": "no-store"}, "application/json")


def _add_tables(router: APIRouter, service: LiveService, thresholds: HttpThresholds) -> None:
    texts = TableTexts()

    def all_texts(number: int) -> bytes:
        return b'{"event":%d,"tables":%s}' % (number, texts.joined(service.tables()))

    tables = Cached(service.events, all_texts, thresholds)
    graph = Cached(service.events, lambda number: encoded(_graph(service, number)), thresholds)

    async def all_tables(request: Request) -> Response:
        return answer(request, tables.get())

    async def one_table(table: Annotated[str, Path(min_length=1)]) -> Response:
        found = service.table(table)
        if found is None:
            raise HTTPException(404, f"There is no table {table!r}.\n  what to do: see /api/tables for those there are")
        return as_json({"event": service.events.last, "table": found})

    async def whole_graph(request: Request) -> Response:
        return answer(request, graph.get())

    overview = component("TableOverview")
    node = record(table=_TEXT, kind=_TEXT, state=_TEXT, layer={"type": "integer"})
    edge = record(source=_TEXT, target=_TEXT)
    all_nodes = record(event=_NUMBER, nodes=list_of(node), edges=list_of(edge))
    _get(router, "/tables", all_tables, "All tables, layer by layer", record(event=_NUMBER, tables=list_of(overview)))
    _get(router, "/tables/{table}", one_table, "One table", record(event=_NUMBER, table=overview))
    _get(router, "/graph", whole_graph, "Which table reads which", all_nodes)


def _graph(service: LiveService, number: int) -> dict[str, Any]:
    tables = service.tables()
    return {
        "event": number,
        "nodes": [{"table": of.table, "kind": of.kind, "state": of.state, "layer": of.layer} for of in tables],
        "edges": [{"source": above, "target": of.table} for of in tables for above in of.reads],
    }


def _add_jobs(router: APIRouter, service: LiveService) -> None:
    async def jobs() -> Response:
        return as_json({"event": service.events.last, "jobs": service.jobs()})

    async def job(number: str) -> Response:
        return as_json(_known(service.job(number), number))

    async def cancel(number: str) -> Response:
        return as_json(_known(await in_thread(service.cancel, number), number))

    schema = record(event=_NUMBER, jobs=list_of(component("Job")))
    _get(router, "/jobs", jobs, "Jobs that wait or run, then those that ended of late", schema)
    _get(router, "/jobs/{number}", job, "One job", component("Job"))
    router.add_api_route(
        "/jobs/{number}",
        cancel,
        methods=["DELETE"],
        summary="Cancels a job",
        response_class=Response,
        responses=shown("The job", component("Job")),
    )


def _known(job: Any, number: str) -> Any:
    if job is None:
        raise HTTPException(404, f"There is no job {number!r}; those that ended long ago are forgotten.")
    return job


def _add_changes(router: APIRouter, service: LiveService) -> None:
    async def refresh(body: Annotated[Tables, Body()]) -> Response:
        await in_thread(service.refresh, body.tables)
        return as_json({"event": service.events.last, "service": service.state()}, 202)

    async def pause(body: Annotated[Pause, Body()]) -> Response:
        await in_thread(service.pause, body.tables, body.upkeep_only)
        return as_json({"event": service.events.last, "service": service.state()})

    async def resume(body: Annotated[Tables, Body()]) -> Response:
        await in_thread(service.resume, body.tables)
        return as_json({"event": service.events.last, "service": service.state()})

    state = record(event=_NUMBER, service=component("ServiceState"))
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
            responses=shown("The service", state, status),
        )


def _add_events(router: APIRouter, feed: EventFeed, settings: HttpSettings) -> None:
    async def events(
        after: Annotated[int, Query(ge=0, lt=10**15)] = 0,
        last_event_id: Annotated[str | None, Header(pattern="^[0-9]{1,15}$")] = None,
    ) -> Response:
        if feed.streams >= settings.streams:
            raise HTTPException(503, f"{feed.streams} clients follow events already, which is the limit.")
        number = after if last_event_id is None else int(last_event_id)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(feed.follow(number), 200, headers, "text/event-stream")

    router.add_api_route(
        "/events",
        events,
        methods=["GET"],
        summary="What changes, as server-sent events",
        response_class=Response,
        responses={200: {"description": "A stream", "content": {"text/event-stream": {"schema": _TEXT}}}},
    )


def _get(router: APIRouter, path: str, endpoint: Callable[..., Any], summary: str, schema: dict[str, Any]) -> None:
    router.add_api_route(
        path, endpoint, methods=["GET"], summary=summary, response_class=Response, responses=shown(summary, schema)
    )
