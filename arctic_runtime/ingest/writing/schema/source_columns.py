"""Identifies the columns of a source's table after its definition changed.

Events contain only names. A column that is renamed, or added with a default, changes the existing rows without an event
for any of them. So a table stores the names of the columns that its newest events had, with their numbers in the
source. A change of columns is either applied exactly or ends ingestion.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.formats.event_format import OlderRows, SourceColumn, SourceSchema
from arctic_runtime.model.columns import Column, is_same_name
from arctic_runtime.model.properties import SOURCE_COLUMNS
from arctic_runtime.model.state import TableState
from arctic_runtime.plan.refresh.schema import to_stored_type
from arctic_runtime.spark.tables.commit import set_properties
from arctic_runtime.spark.tables.table_session import TableSession


class UnfollowedKey(ConfigError):
    """Raised if the primary key in the source or the configuration differs from that of the stored arctic table."""


class UnfollowedColumns(SourceError):
    """Raised if it can't be determined how a source changed a table's columns; a resync of the table repairs this."""


class RecreatedTable(UnfollowedColumns):
    """Raised if the source has dropped a table and created it again, so that its older rows are gone."""


ColumnNumbers = Mapping[str, int | None]
"""The numbers of a table's columns in the source, by column name; None for a column without a number."""

_RESYNC = "`arctic ingest --resync TABLE` reads this table again and writes what differs"


@dataclass(frozen=True)
class ColumnChange:
    """Changes of a table's columns at its source, which sends no events for them.

    `renamed` maps new names to old ones, and `added` maps names of added columns to the columns' values in older rows.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, OlderRows] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.renamed or self.added)


def number_columns(schema: SourceSchema) -> ColumnNumbers | None:
    """Maps the column names of a schema to the columns' numbers in the source.

    None if the source can't be queried for numbers.
    """
    if any(column.older_rows is None for column in schema.columns):
        return None
    return {column.name: column.number for column in schema.columns}


def to_stored_columns(schema: SourceSchema) -> tuple[Column, ...]:
    """Converts the columns of a source's table to columns of the arctic table, with types that Iceberg stores."""
    return tuple(Column(column.name, to_stored_type(column.type)) for column in schema.columns)


def choose_column_numbers(known: ColumnNumbers | None, schema: SourceSchema) -> ColumnNumbers | None:
    """Returns the column numbers to store for a table; None if the source can't be queried for numbers.

    `known` are the stored numbers. They are returned unchanged if the events have the same columns, but are older than
    the source's current definition, so that `schema` lacks numbers.
    """
    numbers = number_columns(schema)
    if known is None or numbers is None:
        return numbers
    return known if set(known) == set(numbers) and _has_numbers(known) and _lacks_numbers(schema) else numbers


def encode_numbers(numbers: ColumnNumbers) -> str:
    return json.dumps(numbers, separators=(",", ":"))


def decode_numbers(text: str | None) -> ColumnNumbers | None:
    numbers: ColumnNumbers | None = json.loads(text or "{}")
    return numbers or None


def save_columns(session: TableSession, state: TableState, schema: SourceSchema) -> None:
    """Stores the names and source numbers of the columns of `schema` in the table's properties, if they differ.

    Has to be called before rows with these columns are committed.
    """
    known = read_numbers(state)
    numbers = choose_column_numbers(known, schema)
    if numbers is not None and numbers != known:
        _save_numbers(session, numbers)


def clear_columns(session: TableSession, state: TableState) -> None:
    """Deletes the stored source numbers of a table's columns, after a snapshot without rows.

    No event then shows the current columns of the source's table.
    """
    if read_numbers(state) is not None:
        _save_numbers(session, {})


def _save_numbers(session: TableSession, numbers: ColumnNumbers) -> None:
    set_properties("ingest.columns", session.spark(), session.model.log, {SOURCE_COLUMNS: encode_numbers(numbers)})


def read_numbers(state: TableState) -> ColumnNumbers | None:
    return decode_numbers(state.log.properties.get(SOURCE_COLUMNS)) if state.log else None


def find_column_change(known: ColumnNumbers, schema: SourceSchema, where: str) -> ColumnChange:
    """Determines how the source has changed its columns since the numbers `known` were stored.

    `where` names both tables in errors. Raises UnfollowedColumns if the change can't be determined, or if the value of
    an added column in older rows is unknown.
    """
    if number_columns(schema) is None:
        return ColumnChange()
    change = (
        _compare_by_numbers(known, schema, where) if _has_numbers(known) else _compare_by_names(known, schema, where)
    )
    unknown = [name for name, older in change.added.items() if not older.is_known]
    if unknown:
        raise UnfollowedColumns(
            f"{where}: a column was added, and it is not known what older rows have in it.",
            actual=f"{', '.join(unknown)}, with a default that differs from row to row, or one that was set later",
            fix=_RESYNC,
        )
    return change


def was_renamed(known: ColumnNumbers | None, schema: SourceSchema) -> bool:
    """Whether a column of `schema` has another name in the table, or another column has its name in the table.

    `schema` is the schema of older events, and `known` are the table's stored column numbers.
    """
    numbers = number_columns(schema)
    if known is None or numbers is None:
        return False
    names = {number: name for name, number in known.items()}
    return any(
        number is not None and (names.get(number, name) != name or known.get(name, number) != number)
        for name, number in numbers.items()
    )


def _check_not_recreated(known: ColumnNumbers, schema: SourceSchema, where: str) -> None:
    """Raises RecreatedTable if the table has none of its columns any more; `where` names the tables in the error."""
    numbers = {column.number for column in schema.columns}
    if None not in {*numbers, *known.values()} and numbers.isdisjoint(known.values()):
        raise RecreatedTable(
            f"{where}: the table was dropped and created again.",
            fix="wait until ingestion has loaded it again, which begins within about a minute",
        )


def _has_numbers(known: ColumnNumbers) -> bool:
    return any(number is not None for number in known.values())


def _compare_by_numbers(known: ColumnNumbers, schema: SourceSchema, where: str) -> ColumnChange:
    """Determines renamed and added columns by their numbers, which a source never uses again.

    Raises UnfollowedColumns if a column can't be distinguished from another one. `where` names the tables in the error.
    """
    if {column.name for column in schema.columns} == set(known) and _lacks_numbers(schema):
        return ColumnChange()  # These events are older than the definition that the source has now.
    _check_not_recreated(known, schema, where)
    names = {number: name for name, number in known.items()}
    newest = max(number for number in names if number is not None)
    renamed: dict[str, str] = {}
    added: dict[str, OlderRows] = {}
    for column in schema.columns:
        before = names.get(column.number)
        if column.number is not None and known.get(column.name, 0) is None:
            continue  # Its number was not known before.
        if column.number is None or (before is None and (column.name in known or column.number <= newest)):
            raise build_unfollowed_columns_error(where, f"{column.name} can't be distinguished from another column")
        if before is None:
            added[column.name] = _require_older_rows(column)
        elif before != column.name:
            renamed[column.name] = before
    return ColumnChange(renamed, added)


def _lacks_numbers(schema: SourceSchema) -> bool:
    return any(column.number is None for column in schema.columns)


def _compare_by_names(known: ColumnNumbers, schema: SourceSchema, where: str) -> ColumnChange:
    """Determines added columns by their names, for sources that do not number columns.

    Raises UnfollowedColumns if columns are missing as well, since they may have been renamed. `where` names the tables
    in the error.
    """
    new = [column for column in schema.columns if not _has_name(column.name, known)]
    names = {column.name: None for column in schema.columns}
    gone = [name for name in known if not _has_name(name, names)]
    if new and gone:
        shown = f"{', '.join(gone)} became {', '.join(column.name for column in new)}, or was dropped"
        raise build_unfollowed_columns_error(where, f"{shown}, and the source does not say which")
    return ColumnChange({}, {column.name: _require_older_rows(column) for column in new})


def _has_name(name: str, names: ColumnNumbers) -> bool:
    return any(is_same_name(name, other) for other in names)


def _require_older_rows(column: SourceColumn) -> OlderRows:
    assert column.older_rows is not None
    return column.older_rows


def build_unfollowed_columns_error(where: str, actual: str) -> UnfollowedColumns:
    return UnfollowedColumns(
        f"{where}: its columns changed in a way that can't be followed.",
        actual=actual,
        fix=_RESYNC,
    )
