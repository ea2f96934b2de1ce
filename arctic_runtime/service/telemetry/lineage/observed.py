"""Lineage of a model, observed from the catalog and the analysis of its query, with OpenLineage's names of datasets.

The names equal those that OpenLineage's Spark integration gives to Iceberg tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from arctic_runtime.catalog.observation.tables import observe_readable
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog_kinds.registry import select_catalog_kind
from arctic_runtime.errors import ArcticError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.analyse import Analysed, analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.model.columns import RESERVED, Column, find_column, strip_change_columns
from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_model
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.telemetry.lineage.columns import (
    ColumnLineage,
    SourceColumnRead,
    Uses,
    compute_column_lineage,
)

_SCHEMES: Mapping[str, str] = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""URL schemes of Hadoop clients, with the scheme that OpenLineage uses for the same object store."""


_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?)?(.*)", re.DOTALL)
"""Scheme, authority and path of a location; the path is plain text, in which `?` and `#` are parts of names."""


@dataclass(frozen=True)
class DatasetName:
    """A dataset's name in OpenLineage; the namespace identifies its store or catalog."""

    namespace: str
    name: str


def name_by_location(location: str) -> DatasetName:
    """Returns the dataset name for a storage location such as `s3://bucket/warehouse/ods/orders`."""
    scheme, authority, path = _LOCATION.fullmatch(location).groups("")  # type: ignore[union-attr]
    if scheme.lower() in ("", "file"):
        return DatasetName("file", "/" + path.strip("/"))
    return DatasetName(f"{_SCHEMES.get(scheme.lower(), scheme.lower())}://{authority}", path.strip("/") or "/")


def name_by_catalog(table: TableName, properties: Mapping[str, str]) -> DatasetName:
    """Returns the dataset name of a table in the catalog with these `properties`; the name contains no secrets."""
    return DatasetName(_build_catalog_namespace(properties) or table.catalog, f"{table.schema}.{table.name}")


def _build_catalog_namespace(properties: Mapping[str, str]) -> str:
    location = select_catalog_kind(properties).locate_catalog(properties)
    if not location:
        return ""
    name = name_by_location(location)
    if name.name == "/" and name.namespace != "file":
        return name.namespace
    return f"{name.namespace}{':' if name.namespace == 'file' else '/'}{name.name}"


@dataclass(frozen=True)
class Dataset:
    """A table's columns and its names in OpenLineage: by location (`name`) and in the catalog (`alias`)."""

    name: DatasetName
    alias: DatasetName
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True)
class ModelLineage:
    """The tables that a model reads, directly or through views (`inputs`), and its own table (`output`).

    `output` is None if the model's table does not exist. `columns` is None if the query can't be analysed.
    """

    inputs: Mapping[TableName, Dataset] = field(default_factory=dict)
    output: Dataset | None = None
    columns: ColumnLineage | None = None


def observe_lineage(reader: CatalogReader, followed: FollowedModel) -> ModelLineage:
    """Observes the current lineage of a model, without Spark. Raises CatalogError if the catalog does not answer."""
    model = followed.model
    upstreams = RefreshPlanner(model, reader).observe_upstreams()
    states = [state for state in upstreams.states.values() if state is not None]
    known = {state.name for state in states} | {model.table}
    if not upstreams.reads.parsed or not model.sql:
        others = (observe_readable(reader, name) for name in sorted(followed.declared - known))
        states += [state for state in others if state is not None]
    inputs = {state.name: _build_dataset(reader, state) for state in states}
    own = observe_readable(reader, model.table)
    output = None if own is None else _build_dataset(reader, own)
    return ModelLineage(inputs, output, _compute_columns(model, upstreams, output))


def _build_dataset(reader: CatalogReader, state: SourceState) -> Dataset:
    holder = state.base or state.name
    location = reader.load_table(holder.schema, holder.name).location()
    alias = name_by_catalog(state.name, reader.profile.catalog_properties)
    return Dataset(name_by_location(location), alias, strip_change_columns(state.columns))


def _compute_columns(model: Model, upstreams: Upstreams, output: Dataset | None) -> ColumnLineage | None:
    """Computes the column lineage of a model's query, with the column names of the model's table.

    Returns None if the query can't be analysed.
    """
    sources = {
        state.name: strip_change_columns(state.columns) for state in upstreams.states.values() if state is not None
    }
    is_of_events = model.config.input == "changes"
    try:
        analysed = _analyse_over_events(model, sources) if is_of_events else analyse_model(model, upstreams)[0]
        lineage = compute_column_lineage(analysed.tree, analysed.outputs)
    except (ArcticError, NotMaintained, RecursionError):
        return None
    of_views = {_name_changes(model, source): source for source in sources} if is_of_events else {}

    def select_known_uses(uses: Uses) -> Uses:
        """Selects the uses of the sources' own columns; drops those of columns that only change events have."""
        named = {
            SourceColumnRead(of_views.get(origin.table, origin.table), origin.column): kinds
            for origin, kinds in uses.items()
        }
        return {origin: kinds for origin, kinds in named.items() if find_column(sources[origin.table], origin.column)}

    columns = {name: select_known_uses(uses) for name, uses in lineage.columns.items()}
    if output is not None:
        shown = ((find_column(output.columns, name), uses) for name, uses in columns.items())
        columns = {column.name: uses for column, uses in shown if column is not None}
    return ColumnLineage(columns, select_known_uses(lineage.rows))


def _analyse_over_events(model: Model, sources: Mapping[TableName, tuple[Column, ...]]) -> Analysed:
    """Analyses the query of a model that reads change events.

    `sources` has the columns of each source, which the analysis reads as a view of the source's changes.
    """
    further = tuple(Column(name, "string") for name in RESERVED)
    relations = {
        str(_name_changes(model, source)): Relation((*columns, *further)) for source, columns in sources.items()
    }
    return analyse_query(model.sql, relations, {}, model.table.catalog, model.table.schema)


def _name_changes(model: Model, source: TableName) -> TableName:
    return model.table.with_name(format_changes_view(source))
