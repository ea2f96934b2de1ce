"""Observes tables of other writers that models can adopt."""

from __future__ import annotations

from arctic_runtime.catalog.observation.columns import UNSORTED, list_columns
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.model.baseline import PlainTable
from arctic_runtime.model.names import TableName


def observe_plain_table(reader: CatalogReader, name: TableName) -> PlainTable | None:
    """Returns a table at its newest snapshot; None if there is no such table, or if it has no snapshot."""
    table = find_table(reader, name)
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None:
        return None
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return PlainTable(
        name=name,
        snapshot=snapshot.snapshot_id,
        at_ms=snapshot.timestamp_ms,
        rows=int(summary.get("total-records", 0)),
        bytes=int(summary.get("total-files-size", 0)),
        columns=list_columns(table.schema()),
        format_version=table.format_version,
        spec=table.metadata.default_spec_id,
        is_sorted=table.metadata.default_sort_order_id != UNSORTED,
        properties=dict(table.properties),
    )
