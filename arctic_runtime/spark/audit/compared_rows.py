"""Selects the rows that an audit compares: columns that query and table share, with the table's types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.audit.audited_model import AuditedModel, AuditOptions
from arctic_runtime.audit.comparison import ComparedColumn
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_name, type_name
from arctic_runtime.spark.tables.rows.frames import type_of
from arctic_runtime.sql.types import Map, list_primitives, read_type

_FLOATS = ("float", "double")
_NOT_COMPARED = ("variant", "geometry", "geography")


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that an audit compares, those of the key first, and notes about the columns that it does not compare.

    `key` names the columns by which rows of query and table are matched; it is empty if rows are compared as a whole.
    `types` has the table's SQL type of each compared column.
    """

    key: tuple[str, ...]
    columns: tuple[ComparedColumn, ...]
    types: tuple[str, ...]
    notes: tuple[str, ...]


def choose_columns(
    model: AuditedModel, query: DataFrame, table: DataFrame, volatile: Iterable[str], options: AuditOptions
) -> ColumnChoice:
    """Chooses the columns of a model that can be compared.

    These are the columns that both frames have, except those in `volatile`, those that the options exclude, and those
    of types that Spark can't compare. If a key column is not among them, rows are compared as a whole.
    """
    stored = {field.name.lower(): (field.name, type_of(field.dataType)) for field in table.schema.fields}
    computed = {name.lower(): name for name in query.columns}
    shared = [name for name in computed if name in stored]
    changing = set(volatile)
    excluded = [name for name in shared if options.excludes_column(model.name, name)]
    unlike = [name for name in shared if not _is_comparable(stored[name][1])]
    left_out = {*changing, *excluded, *unlike}
    names = [name for name in shared if name not in left_out]
    groups = {
        "the query has it, and the table does not": [computed[name] for name in computed if name not in stored],
        "the table has it, and the query does not": [stored[name][0] for name in stored if name not in computed],
        "each run computes another value": [stored[name][0] for name in shared if name in changing],
        "it is excluded": [stored[name][0] for name in excluded],
        "values of its type can't be compared": [stored[name][0] for name in unlike],
    }
    notes = [f"not compared: {', '.join(columns)}: {why}" for why, columns in groups.items() if columns]
    key = [column.lower() for column in model.key]
    if key and not set(key) <= set(names):
        missing = ", ".join(column for column in model.key if column.lower() not in names)
        notes.append(f"rows are compared as a whole, since key column {missing} is not compared")
        key = []
    ordered = [*key, *(name for name in names if name not in key)]
    types = tuple(stored[name][1] for name in ordered)
    columns = (ComparedColumn(stored[name][0], not key or name in key, stored[name][1] in _FLOATS) for name in ordered)
    return ColumnChoice(model.key if key else (), tuple(columns), types, tuple(notes))


def _is_comparable(kind: str) -> bool:
    known = read_type(kind)
    nested = known.value if isinstance(known, Map) else known
    texts = {leaf.text for leaf in list_primitives(known)}
    return not texts & set(_NOT_COMPARED) and "map<" not in str(nested)


def select_compared(rows: DataFrame, choice: ColumnChoice) -> DataFrame:
    """Selects the compared columns as `c0`, `c1`, …, converted to the types of the table."""
    kinds = {field.name.lower(): type_of(field.dataType) for field in rows.schema.fields}
    values = (
        F.expr(_write_value(column.name, kinds[column.name.lower()], kind)).alias(f"c{index}")
        for index, (column, kind) in enumerate(zip(choice.columns, choice.types, strict=True))
    )
    return rows.select(*values)


def _write_value(name: str, kind: str, wanted: str) -> Sql:
    value = quote_name(name)
    if kind != wanted:
        value = fill_statement("try_cast({value} AS {kind})", value=value, kind=type_name(wanted))
    if isinstance(read_type(wanted), Map):
        # Spark can't group or compare maps, but it can compare their sorted entries.
        return fill_statement("array_sort(map_entries({value}))", value=value)
    return value


def write_shown_columns(choice: ColumnChoice, sides: Sequence[str] = ("q", "t")) -> list[Sql]:
    """Builds expressions that cast the compared values of query (q0, …) and table (t0, …) to text, with equal names.

    Binary values become hexadecimal text.
    """
    shown = []
    for side in sides:
        for index, kind in enumerate(choice.types):
            name = quote_name(f"{side}{index}")
            template = fill_statement("hex({name})", name=name) if kind == "binary" else name
            shown.append(fill_statement("CAST({value} AS string) AS {name}", value=template, name=name))
    return shown
