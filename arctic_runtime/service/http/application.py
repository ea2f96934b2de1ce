"""The FastAPI application: routes, their OpenAPI description, health, files of the page, and the guard before them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from arctic_runtime.operations.operation import Answer
from arctic_runtime.service import page
from arctic_runtime.service.http.agent_routes import (
    HttpAgents,
    build_agent_route,
    build_plan_routes,
    open_transport,
)
from arctic_runtime.service.http.cached import CachedBody, answer_request
from arctic_runtime.service.http.change_routes import build_change_routes
from arctic_runtime.service.http.encoding import build_reference, build_schemas
from arctic_runtime.service.http.feed import EventFeed
from arctic_runtime.service.http.guard import OPEN_PATHS, Guard
from arctic_runtime.service.http.operation_routes import build_operation_routes
from arctic_runtime.service.http.problems import PROBLEM_SCHEMA, PROBLEM_TYPE, add_problems
from arctic_runtime.service.http.query_routes import build_query_route
from arctic_runtime.service.http.routes import build_service_routes
from arctic_runtime.service.http.threads import run_in_thread
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.view.live_data import Job, LiveService, ServiceState, SourceOverview, TableOverview, Upkeep
from arctic_runtime.service.view.table_details import TableDetails, TableRows, TableTrend
from arctic_runtime.thresholds import SHIPPED, HttpThresholds

_UNREADY_STATES = ("missing", "loading", "failed", "held")
_MAINTAINED = ("model", "ingested")


def list_unready_tables(tables: Iterable[TableOverview]) -> list[TableOverview]:
    """Lists the tables that are not loaded yet, or that are behind because of an error.

    A table that is late but gets on, and one that users have paused, is ready.
    """
    return [table for table in tables if not _is_loaded(table) or _is_stopped(table)]


def _is_loaded(table: TableOverview) -> bool:
    """Whether the table exists and shows all of its sources, even if not their newest changes."""
    if table.kind in _MAINTAINED and not table.version:
        return False
    return table.freshness is None or table.freshness.state == "fresh" or table.freshness.as_of is not None


def _is_stopped(table: TableOverview) -> bool:
    """Whether nothing keeps the table up to date."""
    return table.state in _UNREADY_STATES or (table.ingestion is not None and not table.ingestion.is_running)


FOLDER = Path(page.__file__).parent

_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}


@cache
def list_page_paths() -> Mapping[str, Path]:
    """Maps the URL path under which each file of the page is served to the file.

    `/` is the page itself, and `/diff` opens it at its view of differences.
    """
    files = {
        f"/page/{file.relative_to(FOLDER).as_posix()}": file for file in FOLDER.rglob("*") if file.suffix in _TYPES
    }
    return {"/": FOLDER / "index.html", "/diff": FOLDER / "index.html", **files}


@cache
def _read_page_file(file: Path) -> CachedBody:
    body = file.read_bytes()
    return CachedBody(body, gzip.compress(body, mtime=0), f'"{hashlib.sha256(body).hexdigest()[:16]}"')


async def serve_page(request: Request) -> Response:
    """Serves the file of the page at the request's path, which has to be one of `list_page_paths`."""
    file = list_page_paths()[request.url.path]
    return answer_request(request, _read_page_file(file), _TYPES[file.suffix])


SCHEMA_CLASSES = (Answer, Job, ServiceState, SourceOverview, TableDetails, TableOverview, TableRows, TableTrend, Upkeep)

ReadMetrics = Callable[[str], tuple[bytes, str]]
"""Function that takes an Accept header, and returns the service's metrics in that format and their content type."""


def build_application(
    service: LiveService,
    settings: HttpSettings,
    metrics: ReadMetrics | None = None,
    thresholds: HttpThresholds = SHIPPED.http,
    agents: HttpAgents | None = None,
) -> FastAPI:
    """Builds the HTTP interface and the page of a service, with all rules of `settings` enforced.

    `agents` is what the service offers to agents; None for nothing.
    """
    feed = EventFeed(service.events, thresholds)
    transport = None if agents is None else open_transport(service, agents, answers_sql=settings.has_users)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        feed.open_feed()
        async with nullcontext() if transport is None else transport.run_transport():
            yield
        feed.close_streams()

    app = FastAPI(
        title="dbt-arctic",
        version=service.get_state().version,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.feed = feed
    app.include_router(build_service_routes(service, feed, settings, thresholds))
    app.include_router(build_change_routes(service, thresholds))
    app.include_router(build_operation_routes(service))
    app.include_router(build_query_route(service, settings))
    if agents is not None:
        app.include_router(build_plan_routes(service, agents.proposals))
    if transport is not None:
        app.router.routes.append(build_agent_route(transport))
    _add_health(app, service)
    if metrics is not None:
        _add_metrics(app, metrics)
    files = list_page_paths()
    app.router.routes.extend(Route(path, serve_page) for path in files)
    app.openapi = lambda: _describe_interface(app, settings.has_users)  # type: ignore[method-assign]
    add_problems(app)
    public = {*OPEN_PATHS, *files}
    app.add_middleware(Guard, settings=settings, thresholds=thresholds, is_public=public.__contains__)
    return app


_ALL_TABLES = "with `all`, it is ready if all tables are loaded, and none is behind because of an error"


def _add_health(app: FastAPI, service: LiveService) -> None:
    async def health() -> Response:
        return PlainTextResponse("alive")

    async def ready(tables: Annotated[Literal["all"] | None, Query(description=_ALL_TABLES)] = None) -> Response:
        # Failing parts do not make the service unready: the page has to stay reachable to show them.
        state = service.get_state()
        is_ready = state.role != "ending" and state.looked_at is not None and not state.ended_parts
        if is_ready and tables == "all":
            is_ready = not list_unready_tables(service.list_tables())
        return PlainTextResponse("ready" if is_ready else "not ready", 200 if is_ready else 503)

    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    for path, endpoint, summary in (
        ("/health", health, "Whether the process is alive"),
        ("/ready", ready, "Whether it has looked at its tables, and goes on"),
    ):
        responses: dict[int | str, dict[str, Any]] = {200: {"description": summary, **text}}
        if path == "/ready":
            responses[503] = {
                "description": "It has not looked at its tables yet, it ends, or tables are not ready",
                **text,
            }
        app.add_api_route(path, endpoint, summary=summary, response_class=Response, responses=responses)


def _add_metrics(app: FastAPI, metrics: ReadMetrics) -> None:
    async def read(request: Request) -> Response:
        text, kind = await run_in_thread(metrics, request.headers.get("accept", ""))
        return Response(text, headers={"content-type": kind})

    content = {"text/plain": {"schema": {"type": "string"}}}
    app.add_api_route(
        "/metrics",
        read,
        summary="What Prometheus reads",
        response_class=Response,
        responses={200: {"description": "Metrics", "content": content}},
    )


def _describe_interface(app: FastAPI, has_token: bool) -> dict[str, Any]:
    """Returns the OpenAPI description of the application, built at the first call and then cached."""
    if app.openapi_schema is None:
        description = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = description.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas |= {**build_schemas(SCHEMA_CLASSES), "Problem": PROBLEM_SCHEMA}
        if has_token:
            description["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            description["security"] = [{"token": []}]
            for path in OPEN_PATHS:
                description["paths"][path]["get"]["security"] = []
        refused = {"description": "An error", "content": {PROBLEM_TYPE: {"schema": build_reference("Problem")}}}
        for methods in description["paths"].values():
            for described in methods.values():
                described["responses"].pop("422", None)
                described["responses"]["default"] = refused
        app.openapi_schema = description
    return app.openapi_schema
