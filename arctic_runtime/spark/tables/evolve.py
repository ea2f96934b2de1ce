"""Renames, adds, widens and drops columns of a change table or a base table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from arctic_runtime.model.columns import BEFORE, CHANGE_COLUMNS, Column, SchemaChange, is_same_name
from arctic_runtime.model.names import TableName
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.step import EvolveSchema
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_name, type_name
from arctic_runtime.spark.tables.commit import perform_statement
from arctic_runtime.spark.tables.rows.frames import type_of


def evolve_columns(step: EvolveSchema, spark: SparkSession, key: Sequence[str]) -> None:
    """Changes the columns of a table, each by its own statement; `key` are the columns of the primary key.

    In a change table, the fields of `_before` are changed before the other columns. So if the process dies in between,
    the other columns show which changes remain, and the next run makes them.
    """
    schema = spark.table(quote_name(*step.table.parts)).schema
    if step.change.rename:
        for sql in _list_rename_statements(step, schema):
            perform_statement("schema.evolve", spark, sql)
        schema = spark.table(quote_name(*step.table.parts)).schema
    if step.is_change_table:
        for sql in _evolve_before(step, schema, key):
            perform_statement("schema.evolve", spark, sql)
    for sql in _list_statements(step.table, _find_remaining_change(step.change, schema)):
        perform_statement("schema.evolve", spark, sql)


def _list_rename_statements(step: EvolveSchema, schema: StructType) -> Iterator[Sql]:
    """Yields the statements that rename columns which still have their old names; fields of `_before` come first.

    If the process dies in between, other columns still have their old names, so the next run continues.
    """
    before = [((BEFORE,), cast(StructType, schema[BEFORE].dataType))] if BEFORE in schema.names else []
    for holder, fields in (*before, ((), schema)):
        names = {field_name.lower() for field_name in fields.names}
        for old, new in step.change.rename:
            if old.lower() in names:
                parts = {
                    "table": quote_name(*step.table.parts),
                    "path": quote_name(*holder, old),
                    "new": quote_name(new),
                }
                yield fill_statement("ALTER TABLE {table} RENAME COLUMN {path} TO {new}", **parts)


def _evolve_before(step: EvolveSchema, schema: StructType, key: Sequence[str]) -> tuple[Sql, ...]:
    """Builds the statements that give `_before` the fields it must have after the change: all columns outside the key.

    `_before` is added if it is missing, and dropped if it would have no fields.
    """
    change, target, before = step.change, quote_name(*step.table.parts), quote_name(BEFORE)
    types = {field.name: type_of(field.dataType) for field in schema.fields if field.name not in CHANGE_COLUMNS}
    types |= {own: column.type for own in types for column in change.widen if is_same_name(own, column.name)}
    gone = {column.lower() for column in (*change.drop, *key)}
    wanted = [Column(*column) for column in types.items() if column[0].lower() not in gone]
    wanted += [column for column in change.add if column.name.lower() not in {own.lower() for own in types}]
    if BEFORE not in schema.names:
        struct = Shape(tuple(wanted), (), ()).before_type
        return (_add_column(target, before, type_name(struct)),) if struct else ()
    if not wanted:
        return (_drop_column(target, before),)
    before_fields = cast(StructType, schema[BEFORE].dataType)
    left = {column.name.lower() for column in wanted}
    drop = tuple(column for column in before_fields.names if column.lower() not in left)
    remaining = _find_remaining_change(SchemaChange(add=tuple(wanted), widen=tuple(wanted), drop=drop), before_fields)
    return _list_statements(step.table, remaining, (BEFORE,))


def _find_remaining_change(change: SchemaChange, schema: StructType) -> SchemaChange:
    """Returns the part of `change` that was not made yet, according to the columns in `schema`."""
    types = {field.name.lower(): type_of(field.dataType) for field in schema.fields}
    return SchemaChange(
        add=tuple(column for column in change.add if column.name.lower() not in types),
        widen=tuple(column for column in change.widen if types.get(column.name.lower(), column.type) != column.type),
        drop=tuple(column for column in change.drop if column.lower() in types),
    )


def _list_statements(table: TableName, change: SchemaChange, holder: tuple[str, ...] = ()) -> tuple[Sql, ...]:
    """Builds the statements that add, widen and drop columns, or fields of the struct column `holder`."""
    target = quote_name(*table.parts)
    return (
        *(_add_column(target, quote_name(*holder, column.name), type_name(column.type)) for column in change.add),
        *(
            _write_widen_statement(target, quote_name(*holder, column.name), type_name(column.type))
            for column in change.widen
        ),
        *(_drop_column(target, quote_name(*holder, gone)) for gone in change.drop),
    )


def _add_column(table: Sql, path: Sql, kind: Sql) -> Sql:
    return fill_statement("ALTER TABLE {table} ADD COLUMN {path} {kind}", table=table, path=path, kind=kind)


def _write_widen_statement(table: Sql, path: Sql, kind: Sql) -> Sql:
    return fill_statement("ALTER TABLE {table} ALTER COLUMN {path} TYPE {kind}", table=table, path=path, kind=kind)


def _drop_column(table: Sql, path: Sql) -> Sql:
    return fill_statement("ALTER TABLE {table} DROP COLUMN {path}", table=table, path=path)
