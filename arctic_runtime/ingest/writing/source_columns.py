"""Identifies the columns of a source's table after its definition changed.

Events contain only names. A column that is renamed, or added with a default, changes the existing rows without an event
for any of them. So a table stores the names of the columns that its newest events had, with their numbers in the
source. A change of columns is either applied exactly or ends ingestion.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.formats.event_format import OlderRows, SourceColumn, SourceSchema
from arctic_runtime.model.columns import Column, is_same_name
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import SOURCE_COLUMNS, SOURCE_TABLE
from arctic_runtime.model.sources.ingestion import advise_resync
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


@dataclass(frozen=True)
class FollowedTable:
    """An arctic table and the name, in the source, of the table that it follows; its text names both."""

    table: TableName
    source_name: str

    def __str__(self) -> str:
        return f"{self.table}, from {self.source_name}"


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
    if known is not None:
        schema = _identify_by_catalog(known, schema)
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

    Also stores the number of the table itself, if the source has one. Has to be called before rows with these columns
    are committed.
    """
    known = read_numbers(state)
    numbers = choose_column_numbers(known, schema)
    if numbers is not None and (numbers != known or schema.table_id != read_table_id(state)):
        _save_numbers(session, numbers, schema.table_id)


def clear_columns(session: TableSession, state: TableState) -> None:
    """Deletes the stored source numbers of a table and its columns, after a snapshot without rows.

    No event then shows the current columns of the source's table.
    """
    if read_numbers(state) is not None:
        _save_numbers(session, {}, None)


def _save_numbers(session: TableSession, numbers: ColumnNumbers, table_id: str | None) -> None:
    values = {SOURCE_COLUMNS: encode_numbers(numbers), SOURCE_TABLE: table_id or ""}
    set_properties("ingest.columns", session.spark(), session.model.log, values)


def read_numbers(state: TableState) -> ColumnNumbers | None:
    return decode_numbers(state.log.properties.get(SOURCE_COLUMNS)) if state.log else None


def read_table_id(state: TableState) -> str | None:
    """Returns the number of the table in the source from which the newest events came; None if it is not known."""
    return (state.log.properties.get(SOURCE_TABLE) or None) if state.log else None


def check_table_id(known: str | None, schema: SourceSchema, table: FollowedTable) -> None:
    """Raises RecreatedTable if events come from another table of the source than the one with the number `known`."""
    if known is not None and schema.table_id is not None and schema.table_id != known:
        raise _build_recreated_error(table)


def find_column_change(known: ColumnNumbers, schema: SourceSchema, table: FollowedTable) -> ColumnChange:
    """Determines how the source has changed its columns since the numbers `known` were stored.

    `schema` is that of the next events. Raises UnfollowedColumns if the change can't be determined, or if the value of
    an added column in older rows is unknown.
    """
    if number_columns(schema) is None:
        return ColumnChange()
    compare = _compare_by_numbers if _has_numbers(known) else _compare_by_names
    change = compare(known, _identify_by_catalog(known, schema), table)
    for name, older in change.added.items():
        if not older.is_known:
            raise build_unfollowed_columns_error(
                table, f"column {name} was added, and its value in older rows is not known: {older.reason}"
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


def _has_numbers(known: ColumnNumbers) -> bool:
    return any(number is not None for number in known.values())


def _identify_by_catalog(known: ColumnNumbers, schema: SourceSchema) -> SourceSchema:
    """Numbers the columns of `schema`, if one lacks a number, by the source's catalog; else returns it unchanged.

    Events have their columns in the order of the catalog. If none was dropped since the numbers `known` were stored,
    the events' columns are the first ones of the catalog, without those that had been dropped before.
    """
    if not schema.catalog or not _lacks_numbers(schema) or not _has_numbers(known):
        return schema
    numbers = {number for number in known.values() if number is not None}
    newest = max(numbers)
    left = [column for column in schema.catalog if column.number in numbers or column.number > newest]
    known_count = sum(column.number <= newest for column in left)
    if any(column.is_dropped for column in left) or not known_count <= len(schema.columns) <= len(left):
        return schema
    pairs = zip(schema.columns, left, strict=False)
    columns = (replace(column, number=own.number, older_rows=own.older_rows) for column, own in pairs)
    return replace(schema, columns=tuple(columns))


def _compare_by_numbers(known: ColumnNumbers, schema: SourceSchema, table: FollowedTable) -> ColumnChange:
    """Determines renamed and added columns by their numbers, which a source never uses again.

    Raises UnfollowedColumns if a column can't be distinguished from another one, or if the table was made again.
    """
    if {column.name for column in schema.columns} == set(known) and _lacks_numbers(schema):
        return ColumnChange()  # These events are older than the definition that the source has now.
    names = {number: name for name, number in known.items()}
    newest = max(number for number in names if number is not None)
    if all(column.number is not None and column.number > newest for column in schema.columns):
        raise _build_recreated_error(table)
    renamed: dict[str, str] = {}
    added: dict[str, OlderRows] = {}
    for column in schema.columns:
        before = names.get(column.number)
        if column.number is not None and known.get(column.name, 0) is None:
            continue  # Its number was not known before.
        if column.number is None:
            raise build_unfollowed_columns_error(table, f"column {column.name} {_CHANGED_SINCE}")
        if before is None and (column.name in known or column.number <= newest):
            raise build_unfollowed_columns_error(table, f"column {column.name} {_REPLACED}")
        if before is None:
            added[column.name] = _require_older_rows(column)
        elif before != column.name:
            renamed[column.name] = before
    return ColumnChange(renamed, added)


def _lacks_numbers(schema: SourceSchema) -> bool:
    return any(column.number is None for column in schema.columns)


_CHANGED_SINCE = (
    "can't be identified: the source renamed or dropped it, or another column, before these events of it were read"
)
_REPLACED = "is not the column that had this name before: that one was dropped, or has another name now"


def _compare_by_names(known: ColumnNumbers, schema: SourceSchema, table: FollowedTable) -> ColumnChange:
    """Determines added columns by their names, for sources that do not number columns.

    Raises UnfollowedColumns if columns are missing as well, since they may have been renamed.
    """
    new = [column for column in schema.columns if not _has_name(column.name, known)]
    names = {column.name: None for column in schema.columns}
    gone = [name for name in known if not _has_name(name, names)]
    if new and gone:
        shown = f"{', '.join(gone)} became {', '.join(column.name for column in new)}, or was dropped"
        raise build_unfollowed_columns_error(table, f"{shown}, and the source does not say which")
    return ColumnChange({}, {column.name: _require_older_rows(column) for column in new})


def _has_name(name: str, names: ColumnNumbers) -> bool:
    return any(is_same_name(name, other) for other in names)


def _require_older_rows(column: SourceColumn) -> OlderRows:
    assert column.older_rows is not None
    return column.older_rows


def _build_recreated_error(table: FollowedTable) -> RecreatedTable:
    return RecreatedTable(
        f"{table}: it was dropped and made again in the source, or another table got its name.",
        fix="wait until ingestion has loaded it again, which begins within about a minute",
    )


def build_unfollowed_columns_error(table: FollowedTable, what: str) -> UnfollowedColumns:
    """Builds the error for a change of columns; `what` names the column and says why the change can't be followed."""
    return UnfollowedColumns(f"{table}: {what}.", fix=advise_resync(table.table))
