"""Questions of agents beside the registry's operations: which tables there are, their queries, lineage and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, Final

from arctic_runtime.catalog.observation.tables import read_last_offsets
from arctic_runtime.model.table import Model
from arctic_runtime.operations import inspect
from arctic_runtime.operations.arguments import read_count
from arctic_runtime.operations.operation import Answer, Argument, Operation, OperationContext, Perform, Values, on_one
from arctic_runtime.service.view.table_details import ColumnOrigin, TableDetails

DescribeTable = Callable[[str], TableDetails]


def _list_tables(_: OperationContext, models: Sequence[Model], __: Values) -> Answer:
    tables = [
        {
            "table": str(model.table),
            "key": list(model.config.primary_key),
            "kind": "ingested" if model.ingested_from is not None else "landing" if model.is_landing else "model",
            "source": "" if model.source is None else model.source.name,
        }
        for model in models
    ]
    return Answer(tables, tuple(f"{table['table']}: {table['kind']}" for table in tables))


def _show_freshness(context: OperationContext, models: Sequence[Model], _: Values) -> Answer:
    now = datetime.now(timezone.utc)
    freshness = inspect.observe_freshness(context.reader, models, context.models, now)
    data = [
        {"table": str(table), "says": known.describe_freshness(now), **asdict(known)}
        for table, known in freshness.items()
    ]
    missing = [str(model.table) for model in models if model.table not in freshness]
    lines = (*(f"{row['table']}: {row['says']}" for row in data), *(f"{table}: not built yet" for table in missing))
    return Answer({"tables": data, "not_built": missing}, lines, any(row["state"] != "fresh" for row in data))


def _list_runs(context: OperationContext, models: Sequence[Model], values: Values) -> Answer:
    entries = [(entry, model) for model in models for entry in inspect.read_history(context.reader, model)]
    newest = sorted(entries, key=lambda pair: (pair[0].at, pair[0].sequence), reverse=True)[: values["limit"]]
    lines = [f"{model.table}: {' '.join(inspect.describe_history(entry)[0].split())}" for entry, model in newest]
    return Answer([{"table": str(model.table), **asdict(entry)} for entry, model in newest], tuple(lines))


def build_questions(describe_table: DescribeTable) -> tuple[Operation, ...]:
    """Builds the questions; `describe_table` returns the details of a table by its full name."""
    return (
        _build_question("tables", "the tables of the project, with their keys, and what writes them", _list_tables),
        _build_question("freshness", "as of when tables show their sources, and why some are behind", _show_freshness),
        _build_question(
            "runs",
            "the newest runs of tables that committed: when, how, why, and how many rows they changed",
            _list_runs,
            arguments=(Argument("limit", "at most so many runs", read_count, "integer"),),
        ),
        _build_question(
            "describe",
            "the query of a table, its columns with types and descriptions, its key, and its data tests",
            on_one(lambda _, model, __: describe_details(describe_table(str(model.table)))),
            needs_query=True,
        ),
        _build_question(
            "lineage",
            "which tables and columns a table is computed from, and which tables are computed from it",
            on_one(lambda context, model, _: _trace(context, model, describe_table(str(model.table)))),
            needs_query=True,
        ),
    )


def _answer_query(context: OperationContext, _: Sequence[Model], values: Values) -> Answer:
    answer = context.answer_query(values["query"], values["limit"], context.audit)
    rows = [dict(zip(answer.schema.names, row, strict=True)) for row in answer.iterate_rows()]
    return Answer(rows, (f"the first {len(rows):,} rows; there are more",) if answer.is_cut else ())


SQL: Final = Operation(
    "sql",
    "the rows of a query, which is answered without Spark; what Spark might answer otherwise is refused",
    "any",
    _answer_query,
    needs_spark=False,
    changes=False,
    arguments=(
        Argument("query", "one select in Spark's SQL, over tables, versions and changes", is_required=True),
        Argument("limit", "at most so many rows", read_count, "integer"),
    ),
    tables_help="none: the query names those that it reads",
)
"""The question in SQL; a service has it only if requests need a token."""


def _build_question(
    name: str, description: str, perform: Perform, needs_query: bool = False, arguments: tuple[Argument, ...] = ()
) -> Operation:
    return Operation(
        name,
        description,
        "one" if needs_query else "any",
        perform,
        needs_spark=False,
        changes=False,
        arguments=arguments,
        needs_query=needs_query,
    )


def describe_details(details: TableDetails) -> Answer:
    """Returns the query, the columns and the tests of a table as an answer, without the origins of columns."""
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "is_key": column.is_key,
            "is_masked": column.is_masked,
            "description": column.description,
        }
        for column in details.columns
    ]
    data = {
        "table": str(details.table),
        "description": details.description,
        "sql": details.sql,
        "key": list(details.key),
        "columns": columns,
        "tests": [asdict(test) for test in details.tests],
        "is_cut": details.is_cut,
    }
    return Answer(data, ())


def _trace(context: OperationContext, model: Model, details: TableDetails) -> Answer:
    read = read_last_offsets(context.reader, model.table)
    below = [str(table) for table in context.list_descendants([model.table])]
    data: dict[str, Any] = {
        "table": str(model.table),
        "reads": sorted({*read, *(str(origin.table) for origin in _list_origins(details))}),
        "computed_from_it": below,
        "has_column_lineage": details.has_lineage,
        "columns": {column.name: _show_origins(column.origins) for column in details.columns},
        "rows": _show_origins(details.row_origins),
    }
    lines = (f"reads {', '.join(data['reads']) or 'no table'}", f"computed from it: {', '.join(below) or 'no table'}")
    return Answer(data, lines)


def _list_origins(details: TableDetails) -> list[ColumnOrigin]:
    return [*details.row_origins, *(origin for column in details.columns for origin in column.origins)]


def _show_origins(origins: Iterable[ColumnOrigin]) -> list[dict[str, Any]]:
    return [{"table": str(origin.table), "column": origin.column, "uses": list(origin.uses)} for origin in origins]
