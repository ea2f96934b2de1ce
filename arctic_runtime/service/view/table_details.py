"""Details of one table for people: query, columns with types and origins, data tests, first rows, and its last days."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from arctic_runtime.catalog.table_samples import TableSample
from arctic_runtime.model.columns import Column, is_same_name
from arctic_runtime.model.masking import Mask, is_masked
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import mask_text
from arctic_runtime.service.project import LastDataTest, TableDocs
from arctic_runtime.service.telemetry.lineage.columns import ColumnLineage, Uses
from arctic_runtime.thresholds import ServiceThresholds


@dataclass(frozen=True)
class ColumnOrigin:
    """A column of a table that the query reads, and the kinds of its uses, such as `identity` or `aggregation`."""

    table: TableName
    column: str
    uses: tuple[str, ...]


@dataclass(frozen=True)
class ColumnDetails:
    """A column of a table, and the columns from which its values are computed."""

    name: str
    type: str
    is_key: bool
    is_masked: bool
    """Whether the values are shown as hashes."""

    description: str
    origins: tuple[ColumnOrigin, ...]


@dataclass(frozen=True)
class TableDetails:
    """Details of a table.

    Long parts are cut, as `is_cut` says: the service's thresholds limit columns, origins and the characters of the SQL.
    """

    table: TableName
    description: str
    sql: str
    """Query of the model, compiled if the service refreshes it, with secrets masked; empty for a table without one."""

    key: tuple[str, ...]
    """Columns of the primary key in their order; empty without one."""

    columns: tuple[ColumnDetails, ...]
    row_origins: tuple[ColumnOrigin, ...]
    """Columns that only decide which rows the table has, as in joins and filters."""

    has_lineage: bool
    """Whether the origins are known: the query of an arctic model could be analysed."""

    tests: tuple[LastDataTest, ...]
    is_cut: bool = False


@dataclass(frozen=True)
class DetailInputs:
    """All inputs of a table's details: `sql`, `key` and `columns` of the table, and what its project says of it."""

    table: TableName
    sql: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    docs: TableDocs
    lineage: ColumnLineage | None = None


def build_table_details(inputs: DetailInputs, thresholds: ServiceThresholds) -> TableDetails:
    """Builds the details of a table, cut to the limits in `thresholds`."""
    lineage = inputs.lineage or ColumnLineage({}, {})
    own = {name.lower(): uses for name, uses in lineage.columns.items()}
    sql, tests = mask_text(inputs.sql.strip()), inputs.docs.tests
    rows = _list_origins(lineage.rows)
    by_column = {column.name: _list_origins(own.get(column.name.lower(), {})) for column in inputs.columns}
    most = thresholds.shown_origins
    return TableDetails(
        inputs.table,
        inputs.docs.description,
        sql[: thresholds.shown_sql_characters],
        inputs.key,
        tuple(
            _build_column(column, inputs, by_column[column.name][:most])
            for column in inputs.columns[: thresholds.shown_columns]
        ),
        rows[:most],
        inputs.lineage is not None,
        tests[: thresholds.shown_columns],
        len(sql) > thresholds.shown_sql_characters
        or max(len(inputs.columns), len(tests)) > thresholds.shown_columns
        or any(len(origins) > most for origins in (rows, *by_column.values())),
    )


def _build_column(column: Column, inputs: DetailInputs, origins: tuple[ColumnOrigin, ...]) -> ColumnDetails:
    docs = inputs.docs
    is_key = any(is_same_name(column.name, part) for part in inputs.key)
    description = docs.columns.get(column.name.lower(), "")
    return ColumnDetails(column.name, column.type, is_key, is_masked(column.name, docs.masks), description, origins)


def _list_origins(uses: Uses) -> tuple[ColumnOrigin, ...]:
    """Lists the origins in `uses`; those of which values come are before those that only decide."""
    ordered = sorted(uses, key=lambda origin: (not any(use.is_direct for use in uses[origin]), origin))
    return tuple(
        ColumnOrigin(
            origin.table, origin.column, tuple(sorted({use.kind.lower().replace("_", " ") for use in uses[origin]}))
        )
        for origin in ordered
    )


@dataclass(frozen=True)
class TableRows:
    """A few rows of a table; each row has a text for each column, or None for null.

    The rows are those of the last merge.
    """

    table: TableName
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    masked: tuple[str, ...]
    """Columns whose values are shown as hashes: equal values have the same hash until the service ends."""

    unmerged_rows: int
    """Number of change rows that are not merged yet, so that the rows shown may be older."""


def build_table_rows(
    table: TableName,
    rows: Sequence[Mapping[str, Any]],
    mask: Mask,
    most_characters: int,
    unmerged_rows: int = 0,
) -> TableRows:
    """Builds the rows to show: values are hidden by `mask`, and become texts of at most `most_characters`."""
    columns = tuple(rows[0]) if rows else ()
    masked = tuple(filter(mask.hides_column, columns))
    shown = tuple(
        tuple(_describe_value(mask.hide_value(name, row[name]), most_characters) for name in columns) for row in rows
    )
    return TableRows(table, columns, shown, masked, unmerged_rows)


def _describe_value(value: Any, max_length: int) -> str | None:
    if value is None:
        return None
    text = _to_text(value)
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def _to_text(value: Any) -> str:
    match value:
        case str():
            return value
        case bytes():
            return value.hex()
        case date() | time():
            return value.isoformat()
        case bool() | list() | dict():
            return json.dumps(value, ensure_ascii=False, default=_to_text)
    return str(value)


@dataclass(frozen=True)
class TableTrend:
    """Samples of a table, oldest first: the lists have an item for each sample."""

    table: TableName
    at: tuple[datetime, ...]
    rows: tuple[int, ...]
    stale_seconds: tuple[float | None, ...]
    """Seconds since the time as of which the table showed its sources; None if that was not known."""

    states: tuple[str, ...]


def build_table_trend(table: TableName, samples: Sequence[TableSample]) -> TableTrend:
    """Builds the trend of a table from its samples."""
    return TableTrend(
        table,
        tuple(sample.sampled_at for sample in samples),
        tuple(sample.rows for sample in samples),
        tuple(sample.stale_seconds for sample in samples),
        tuple(sample.state for sample in samples),
    )
