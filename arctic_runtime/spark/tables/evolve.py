"""Columns of a table renamed, added, widened and dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from arctic_runtime.model.columns import BEFORE, CHANGE_COLUMNS, Column, SchemaChange, same_name
from arctic_runtime.model.names import TableName
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.step import EvolveSchema
from arctic_runtime.spark.engine.statement import Sql, name, statement, type_name
from arctic_runtime.spark.tables.commit import perform_statement
from arctic_runtime.spark.tables.frames import type_of


def evolve(step: EvolveSchema, spark: SparkSession, key: Sequence[str]) -> None:
    """Renames, adds, widens and drops columns; in a change table inside `_before` first, which nobody compares.

    A run that dies in between is followed by one that sees what is still to do, and does that alone.
    """
    found = spark.table(name(*step.table.parts)).schema
    if step.change.rename:
        for sql in _rename_statements(step, found):
            perform_statement("schema.evolve", spark, sql)
        found = spark.table(name(*step.table.parts)).schema
    if step.is_change_table:
        for sql in _evolve_before(step, found, key):
            perform_statement("schema.evolve", spark, sql)
    for sql in _statements(step.table, _remaining(step.change, found)):
        perform_statement("schema.evolve", spark, sql)


def _rename_statements(step: EvolveSchema, found: StructType) -> Iterator[Sql]:
    """What is left of renaming; inside `_before` first, since the others tell whether it is to be done."""
    before = [((BEFORE,), cast(StructType, found[BEFORE].dataType))] if BEFORE in found.names else []
    for holder, held in (*before, ((), found)):
        names = {of.lower() for of in held.names}
        for old, new in step.change.rename:
            if old.lower() in names:
                parts = {"table": name(*step.table.parts), "path": name(*holder, old), "new": name(new)}
                yield statement("ALTER TABLE {table} RENAME COLUMN {path} TO {new}", **parts)


def _evolve_before(step: EvolveSchema, found: StructType, key: Sequence[str]) -> tuple[Sql, ...]:
    """What gives `_before` the columns outside the key as they will be; without any there is no `_before`."""
    change, target, before = step.change, name(*step.table.parts), name(BEFORE)
    types = {field.name: type_of(field.dataType) for field in found.fields if field.name not in CHANGE_COLUMNS}
    types |= {own: of.type for own in types for of in change.widen if same_name(own, of.name)}
    gone = {of.lower() for of in (*change.drop, *key)}
    wanted = [Column(*of) for of in types.items() if of[0].lower() not in gone]
    wanted += [of for of in change.add if of.name.lower() not in {own.lower() for own in types}]
    if BEFORE not in found.names:
        struct = Shape(tuple(wanted), (), ()).before_type
        return (_add_column(target, before, type_name(struct)),) if struct else ()
    if not wanted:
        return (_drop_column(target, before),)
    held = cast(StructType, found[BEFORE].dataType)
    left = {of.name.lower() for of in wanted}
    drop = tuple(of for of in held.names if of.lower() not in left)
    remaining = _remaining(SchemaChange(add=tuple(wanted), widen=tuple(wanted), drop=drop), held)
    return _statements(step.table, remaining, (BEFORE,))


def _remaining(change: SchemaChange, found: StructType) -> SchemaChange:
    """What is left of a change for columns as they are now."""
    types = {field.name.lower(): type_of(field.dataType) for field in found.fields}
    return SchemaChange(
        add=tuple(of for of in change.add if of.name.lower() not in types),
        widen=tuple(of for of in change.widen if types.get(of.name.lower(), of.type) != of.type),
        drop=tuple(of for of in change.drop if of.lower() in types),
    )


def _statements(table: TableName, change: SchemaChange, holder: tuple[str, ...] = ()) -> tuple[Sql, ...]:
    """The statements of a change of columns, at the top level or below `holder`."""
    target = name(*table.parts)
    return (
        *(_add_column(target, name(*holder, kept.name), type_name(kept.type)) for kept in change.add),
        *(_widen_column(target, name(*holder, kept.name), type_name(kept.type)) for kept in change.widen),
        *(_drop_column(target, name(*holder, gone)) for gone in change.drop),
    )


def _add_column(table: Sql, path: Sql, kind: Sql) -> Sql:
    return statement("ALTER TABLE {table} ADD COLUMN {path} {kind}", table=table, path=path, kind=kind)


def _widen_column(table: Sql, path: Sql, kind: Sql) -> Sql:
    return statement("ALTER TABLE {table} ALTER COLUMN {path} TYPE {kind}", table=table, path=path, kind=kind)


def _drop_column(table: Sql, path: Sql) -> Sql:
    return statement("ALTER TABLE {table} DROP COLUMN {path}", table=table, path=path)
