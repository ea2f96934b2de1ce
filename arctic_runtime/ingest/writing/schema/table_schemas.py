"""Determines the schemas of a table's events: from the transport, the events, the declaration, or the stored table."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.transports.transport import TableEvents
from arctic_runtime.ingest.writing.decoding.event_frames import to_dataframe
from arctic_runtime.ingest.writing.schema.column_names import check_column_names
from arctic_runtime.ingest.writing.schema.schema_runs import find_schema_runs, split_by_runs
from arctic_runtime.ingest.writing.table_target import TableTarget
from arctic_runtime.model.columns import strip_change_columns


class TableSchemas:
    """Determines the schemas of one table's events.

    `newest` is the schema that `find_schema` returned last, None before its first call.
    """

    def __init__(self, target: TableTarget) -> None:
        self.newest: SourceSchema | None = None
        self._target = target

    def find_key(self) -> tuple[str, ...]:
        """Returns the table's primary key, () for none: that of its newest events, else that of the stored table.

        If there is no stored table either, the key is the one that the user configured.
        """
        if self.newest is not None:
            return self.newest.key
        return self._target.find_stored_key() or self._target.table.key

    def find_schema(self, events: TableEvents) -> SourceSchema:
        """Returns the schema of events, with the key of the arctic table; also stores it as `newest`.

        Raises SourceError if neither the transport nor a declaration provides a schema, and UnstorableColumns if the
        table can't have the names of the columns.
        """
        table, schema = self._target.table, events.schema or self.read_declared()
        if schema is None:
            raise SourceError(
                f"{table.table}: the columns of {table.source_name} are not known: its events do not describe them.",
                fix="declare the source's columns with their `data_type` in the YAML",
            )
        schema = schema.rename_columns(table.renames)
        key = self._order_key(table.choose_key(schema.key))
        stored = replace(schema, key=key, is_key_chosen=set(key) != set(schema.key))
        check_column_names(table, stored)
        self.newest = stored
        return self.newest

    def read_declared(self) -> SourceSchema | None:
        """Returns the schema that the user declares; None if no column has a type."""
        table = self._target.table
        return self._target.form.declare(table.columns, table.key_in_source) if table.columns else None

    def split_by_schema(self, events: TableEvents) -> list[TableEvents]:
        """Splits events into parts with one schema each, in their order.

        Returns one part if no event contains a schema: with the newest schema, else the declared one, else the stored
        one.
        """
        form = self._target.form
        if events.schema is not None or form.read_event_schema is None:
            return [events]
        rows = to_dataframe(self._target.spark(), events)
        runs = find_schema_runs(rows, form.events.schema)
        if not runs:
            return [replace(events, schema=self.newest or self.read_declared() or self._read_stored())]
        schemas = [form.read_event_schema(run.example, None, self._target.table.columns) for run in runs]
        parts = zip(schemas, split_by_runs(rows, runs), strict=True)
        return [replace(events, schema=schema, events=part) for schema, part in parts]

    def _order_key(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """Returns `key` in the column order of the table's key; the schema of truncates may have another order."""
        known = self.newest.key if self.newest is not None else self._target.find_stored_key()
        return known if known is not None and set(known) == set(key) else key

    def _read_stored(self) -> SourceSchema | None:
        """Returns the schema of the stored table, for events that contain no schema; None if there is no table."""
        key = self._target.find_stored_key()
        if key is None:
            return None
        log = self._target.open_by_key(key).session.observe_state().log
        columns = strip_change_columns(log.columns) if log else ()
        old_names = {new: old for old, new in self._target.table.renames.items()}
        return SourceSchema(
            tuple(SourceColumn(old_names.get(column.name, column.name), column.type) for column in columns),
            tuple(old_names.get(name, name) for name in key),
        )
