"""HTTP routes built from the registry of operations: to describe operations, to plan and to start them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from starlette.responses import Response

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.operation import Argument, JsonType, Operation
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.service.http.encoding import build_list_schema, build_record_schema, build_reference, encode_json
from arctic_runtime.service.http.guard import AUDIT
from arctic_runtime.service.http.threads import run_in_thread
from arctic_runtime.service.view.live_data import LiveService

TABLES_HELP: Mapping[str, str] = {
    "one": "the table; catalog and schema can be left out where it is the only one of its name",
    "any": "the tables; all where none is given",
    "named_or_all": "the tables; none where the argument `all` is set",
}

OPERATION_SCHEMA = build_record_schema(
    name={"type": "string"},
    description={"type": "string"},
    tables={"type": "string", "enum": list(TABLES_HELP)},
    changes={"type": "boolean"},
    needs_confirmation={"type": "boolean"},
    has_plan={"type": "boolean"},
    is_answered_at_once={"type": "boolean"},
    arguments=build_list_schema(
        build_record_schema(
            name={"type": "string"},
            description={"type": "string"},
            type={"type": "string"},
            default={},
            is_required={"type": "boolean"},
            choices=build_list_schema({"type": "string"}),
        )
    ),
)

_STRICT = ConfigDict(extra="forbid", strict=True)


def _parse_flag(value: Any) -> Any:
    """Converts `true` and `false` of a query string to a bool; returns other values unchanged."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


_IN_BODY: Mapping[JsonType, Any] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list[str],
    "object": dict[str, str],
}
_IN_QUERY: Mapping[JsonType, Any] = {**_IN_BODY, "boolean": Annotated[bool, BeforeValidator(_parse_flag)]}


def build_operation_routes(service: LiveService) -> APIRouter:
    """Builds the routes of all operations: GET for plans and for read-only operations without Spark, POST for jobs."""
    router = APIRouter(prefix="/api/operations", tags=["operations"])
    texts = encode_json([_describe_operation(operation) for operation in OPERATIONS])

    async def operations() -> Response:
        return Response(texts, media_type="application/json")

    router.add_api_route(
        "",
        operations,
        methods=["GET"],
        summary="All operations with their arguments",
        response_class=Response,
        responses=_describe_answer("Operations", build_list_schema(OPERATION_SCHEMA)),
    )
    for operation in OPERATIONS:
        if _is_answered_at_once(operation):
            _add_question(
                router, f"/{operation.name}", operation, _build_question_endpoint(service, operation, plan=False)
            )
        else:
            _add_start(router, operation, _build_start_endpoint(service, operation))
        if operation.plan is not None:
            path = f"/{operation.name}/plan"
            _add_question(
                router, path, operation, _build_question_endpoint(service, operation, plan=True), "What this would do: "
            )
    return router


def _is_answered_at_once(operation: Operation) -> bool:
    return not operation.needs_spark and not operation.changes


def _describe_operation(operation: Operation) -> dict[str, Any]:
    return {
        "name": operation.name,
        "description": operation.description,
        "tables": operation.tables,
        "changes": operation.changes,
        "needs_confirmation": operation.needs_confirmation,
        "has_plan": operation.plan is not None,
        "is_answered_at_once": _is_answered_at_once(operation),
        "arguments": [
            {
                "name": argument.name,
                "description": argument.help,
                "type": argument.json_type,
                "default": argument.default,
                "is_required": argument.is_required,
                "choices": argument.choices,
            }
            for argument in _list_arguments(operation)
        ],
    }


def _list_arguments(operation: Operation) -> list[Argument]:
    """Lists the arguments of an operation that a service takes."""
    return [argument for argument in operation.arguments if not argument.is_local]


# Questions


def _build_question_endpoint(
    service: LiveService, operation: Operation, plan: bool
) -> Callable[..., Awaitable[Response]]:
    repeatable = {"table", *(argument.name for argument in _list_arguments(operation) if argument.json_type == "array")}

    async def ask(request: Request, query: BaseModel) -> Response:
        _check_once(request, repeatable)
        values = query.model_dump(exclude_unset=True)
        tables: list[str] = values.pop("table", [])
        answer = await run_in_thread(service.requests.answer_operation, operation, tables, values, plan)
        return Response(await run_in_thread(encode_json, answer), media_type="application/json")

    ask.__annotations__["query"] = Annotated[_query_model(operation), Query()]
    return ask


def _check_once(request: Request, repeatable: Collection[str]) -> None:
    """Raises ConfigError if a query string has a parameter twice that is not in `repeatable`."""
    counts = Counter(name for name, _ in request.query_params.multi_items() if name not in repeatable)
    for name, count in counts.items():
        if count > 1:
            raise ConfigError(f"`{name}` is given {count} times; expected once")


def _add_question(
    router: APIRouter,
    path: str,
    operation: Operation,
    ask: Callable[..., Awaitable[Response]],
    before: str = "",
) -> None:
    router.add_api_route(
        path,
        ask,
        methods=["GET"],
        summary=f"{before}{operation.description}",
        operation_id=path.strip("/").replace("/", "_"),
        response_class=Response,
        responses=_describe_answer("The answer", build_reference("Answer")),
    )


def _query_model(operation: Operation) -> type[BaseModel]:
    tables: tuple[Any, Any] = (
        list[str],
        Field(description=TABLES_HELP[operation.tables], **_build_count_limits(operation)),
    )
    arguments = _build_fields(_list_arguments(operation), _IN_QUERY)
    config = ConfigDict(extra="forbid")
    return _build_model(f"{operation.name}_query", config, {"table": tables, **arguments})


# Jobs


def _build_start_endpoint(service: LiveService, operation: Operation) -> Callable[..., Awaitable[Response]]:
    async def start(request: Request, body: BaseModel) -> Response:
        values = body.model_dump(exclude_unset=True)
        if operation.needs_confirmation and not values.get("confirm"):
            raise ConfigError(
                f"{operation.name} must be confirmed: {operation.description}.",
                fix=f"see what it would do by /api/operations/{operation.name}/plan, then send it with `confirm` true",
            )
        tables, arguments = values.get("tables", []), values.get("arguments", {})
        operation.read_values(arguments)
        job = await run_in_thread(service.requests.submit_operation, operation, tables, arguments, request.scope[AUDIT])
        return Response(encode_json(job), 202, {"location": f"/api/jobs/{job.number}"}, "application/json")

    start.__annotations__["body"] = Annotated[_build_body_model(operation), Body()]
    return start


def _add_start(router: APIRouter, operation: Operation, start: Callable[..., Awaitable[Response]]) -> None:
    router.add_api_route(
        f"/{operation.name}",
        start,
        methods=["POST"],
        status_code=202,
        summary=operation.description,
        operation_id=operation.name,
        response_class=Response,
        responses=_describe_answer("The job that does it", build_reference("Job"), 202),
    )


def _build_body_model(operation: Operation) -> type[BaseModel]:
    tables: tuple[Any, Any] = (
        list[str],
        Field(description=TABLES_HELP[operation.tables], **_build_count_limits(operation)),
    )
    fields: dict[str, tuple[Any, Any]] = {"tables": tables}
    if taken := _list_arguments(operation):
        arguments = _build_model(f"{operation.name}_arguments", _STRICT, _build_fields(taken, _IN_BODY))
        is_required = any(argument.is_required for argument in taken)
        fields["arguments"] = (arguments, ...) if is_required else (arguments, Field(default_factory=arguments))
    if operation.needs_confirmation:
        fields["confirm"] = (bool, Field(False, description="must be true, for it can't be undone"))
    return _build_model(f"{operation.name}_request", _STRICT, fields)


def _build_model(name: str, config: ConfigDict, fields: Mapping[str, Any]) -> type[BaseModel]:
    definitions: Any = fields
    made: type[BaseModel] = create_model(name, __config__=config, **definitions)
    return made


def _build_count_limits(operation: Operation) -> dict[str, Any]:
    if operation.tables == "one":
        return {"min_length": 1, "max_length": 1}
    return {"default_factory": list}


def _build_fields(arguments: Sequence[Argument], types: Mapping[JsonType, Any]) -> dict[str, tuple[Any, Any]]:
    return {argument.name: _build_field(argument, types) for argument in arguments}


def _build_field(argument: Argument, types: Mapping[JsonType, Any]) -> tuple[Any, Any]:
    written = Literal[argument.choices] if argument.choices else types[argument.json_type]
    if argument.is_required:
        return written, Field(description=argument.help)
    default = argument.default
    if default is None:
        # A query has no null.
        return (written if types is _IN_QUERY else written | None), Field(None, description=argument.help)
    return written, Field(default, description=argument.help)


def _describe_answer(description: str, schema: dict[str, Any], status: int = 200) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": description, "content": {"application/json": {"schema": schema}}}}
