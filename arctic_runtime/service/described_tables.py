"""Reads the details of a table for people: its query, its columns with their origins, and its description."""

from __future__ import annotations

from arctic_runtime.catalog.observation.tables import observe_readable
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.columns import strip_change_columns
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.service.project import TableDocs
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.telemetry.lineage.observed import observe_lineage
from arctic_runtime.service.view.table_details import DetailInputs, TableDetails, build_table_details


def read_table_details(
    reader: CatalogReader, table: TableName, docs: TableDocs, model: Model | None, followed: FollowedModel | None
) -> TableDetails:
    """Reads the details of a table from the catalog; `followed` is None for a table that no arctic model computes."""
    state = observe_readable(reader, table)
    inputs = DetailInputs(
        table,
        followed.model.sql if followed is not None else docs.sql,
        model.config.primary_key if model is not None else (),
        strip_change_columns(state.columns) if state is not None else (),
        docs,
        observe_lineage(reader, followed).columns if followed is not None else None,
    )
    return build_table_details(inputs, reader.thresholds.service)
