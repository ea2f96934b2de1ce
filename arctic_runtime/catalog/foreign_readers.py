"""Reads the notes by which models of other projects say that they read a table, so that expiry waits for them."""

from __future__ import annotations

from collections.abc import Iterable

from arctic_runtime.catalog.observation.tables import read_last_offsets
from arctic_runtime.catalog.observation.views import is_kind
from arctic_runtime.catalog.reader import CatalogReader, find_metadata
from arctic_runtime.model.foreign_readers import read_notes, select_waiting
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import APPENDED_KIND
from arctic_runtime.model.state import ChangeTableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version


def list_tables_to_note(
    model: Model, tables: Iterable[TableName], reader: CatalogReader, now_ms: int
) -> list[TableName]:
    """Lists those of `tables` that are of another project and lack a note of today's that `model` reads them.

    These are names of change tables, and of tables without a key. Tables that no arctic model or ingestion maintains
    are left out: nobody expires their versions by these notes.
    """
    seconds = reader.thresholds.expiry.noted_use_seconds
    lacking = []
    for table in sorted(model.foreign_tables.intersection(tables)):
        for name, kind in ((table.changes, "changes"), (table, APPENDED_KIND)):
            log = find_metadata(reader, name)
            if log is not None and is_kind(log, kind):
                noted_ms = read_notes(log.properties).get(model.table, 0)
                lacking += [name] if now_ms - noted_ms >= 1000 * seconds else []
                break
    return lacking


def list_foreign_offsets(
    log: ChangeTableState | None, reader: CatalogReader, now_ms: int
) -> dict[TableName, tuple[Version, int]]:
    """Maps each model of another project for which expiry waits to the version of the table that it has read.

    `log` is the state of the table. With each version comes the time of the model's note, in milliseconds since 1970. A
    model that has read nothing of the present table, or that is gone, is left out.
    """
    if log is None:
        return {}
    read: dict[TableName, tuple[Version, int]] = {}
    for model, at_ms in select_waiting(
        read_notes(log.properties), now_ms, reader.thresholds.expiry.reader_seconds
    ).items():
        # The other project may know the catalog by another name, so the table is recognised by its id.
        version = next((v for v in read_last_offsets(reader, model).values() if v.table == log.uuid), None)
        if version is not None:
            read[model] = version, at_ms
    return read
