"""What a model reads and makes, as the catalog and the analysis of its query tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from arctic_runtime.catalog.observe import observe_readable
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.analyse import Analysed, Relation, analyse
from arctic_runtime.model.columns import RESERVED, Column, find_column, plain_columns
from arctic_runtime.model.names import TableName, changes_view
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.increment import Upstreams, analysis
from arctic_runtime.service.lineage.columns import ColumnLineage, Origin, Uses, column_lineage
from arctic_runtime.service.lineage.datasets import DatasetName, by_catalog, by_location
from arctic_runtime.service.readings import FollowedModel
from arctic_runtime.spark.refresh.planning import RefreshPlanner


@dataclass(frozen=True)
class Dataset:
    """A table: its name by location, its name in the catalog, and its columns."""

    name: DatasetName
    alias: DatasetName
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True)
class ModelLineage:
    """The tables that a model reads, directly or through views, and its own; None where that does not exist.

    `columns` is None where the query is not understood.
    """

    inputs: Mapping[TableName, Dataset] = field(default_factory=dict)
    output: Dataset | None = None
    columns: ColumnLineage | None = None


def observe_lineage(reader: CatalogReader, followed: FollowedModel) -> ModelLineage:
    """The lineage of a model now, without Spark. Raises CatalogError where the catalog does not answer."""
    model = followed.model
    upstreams = RefreshPlanner(model, reader).observe_upstreams()
    states = [state for state in upstreams.states.values() if state is not None]
    known = {state.name for state in states} | {model.table}
    if not upstreams.reads.parsed or not model.sql:
        others = (observe_readable(reader, name) for name in sorted(followed.declared - known))
        states += [state for state in others if state is not None]
    inputs = {state.name: _dataset(reader, state) for state in states}
    own = observe_readable(reader, model.table)
    output = None if own is None else _dataset(reader, own)
    return ModelLineage(inputs, output, _columns(model, upstreams, output))


def _dataset(reader: CatalogReader, state: SourceState) -> Dataset:
    holder = state.base or state.name
    location = reader.load_table(holder.schema, holder.name).location()
    alias = by_catalog(state.name, reader.profile.catalog_properties)
    return Dataset(by_location(location), alias, plain_columns(state.columns))


def _columns(model: Model, upstreams: Upstreams, output: Dataset | None) -> ColumnLineage | None:
    """The lineage of the query's columns, by the names that the table has for them."""
    sources = {state.name: plain_columns(state.columns) for state in upstreams.states.values() if state is not None}
    is_of_events = model.config.input == "changes"
    try:
        analysed = _over_events(model, sources) if is_of_events else analysis(model, upstreams)[0]
        found = column_lineage(analysed.tree, analysed.outputs)
    except (ArcticError, NotMaintained, RecursionError):
        return None
    of_views = {_changes_of(model, source): source for source in sources} if is_of_events else {}

    def known(uses: Uses) -> Uses:
        """The uses of columns that the sources have; events have further ones, which tell of the change."""
        named = {Origin(of_views.get(of.table, of.table), of.column): kinds for of, kinds in uses.items()}
        return {of: kinds for of, kinds in named.items() if find_column(sources[of.table], of.column)}

    columns = {name: known(uses) for name, uses in found.columns.items()}
    if output is not None:
        shown = ((find_column(output.columns, name), uses) for name, uses in columns.items())
        columns = {column.name: uses for column, uses in shown if column is not None}
    return ColumnLineage(columns, known(found.rows))


def _over_events(model: Model, sources: Mapping[TableName, tuple[Column, ...]]) -> Analysed:
    """The query of a model that reads the new rows of its sources, each under the name of a view of its own."""
    further = tuple(Column(name, "string") for name in RESERVED)
    relations = {str(_changes_of(model, source)): Relation((*columns, *further)) for source, columns in sources.items()}
    return analyse(model.sql, relations, {}, model.table.catalog, model.table.schema)


def _changes_of(model: Model, source: TableName) -> TableName:
    return model.table.sibling(changes_view(source))
