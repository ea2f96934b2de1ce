"""Searches for clones that hold rows to forget."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from arctic_runtime.catalog.observation.clones import list_clones, observe_clone_tags
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.model.clone import Clone, CloneTags, list_tagged_tables
from arctic_runtime.model.forgetting import Forget
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.spark.forget import trace
from arctic_runtime.spark.forget.downstream import DownstreamTables
from arctic_runtime.spark.forget.purge import has_tagged_rows


def list_holding_clones(
    tables: DownstreamTables, request: Forget, keys_by_table: Mapping[TableName, DataFrame], given: DataFrame | None
) -> list[Clone]:
    """Lists the clones of `tables` that hold rows to forget, or that may hold them.

    These have keys of `keys_by_table` or, in the root table, of `given`. If the request drops clones, all clones of the
    tables in `keys_by_table` are listed.
    """
    models = {model.table: model for model in (*tables.keyed, *tables.appended)}
    clones = [clone for clone in list_clones(tables.reader) if clone.origin.model in models]
    return [
        clone
        for clone in clones
        if (request.drop_clones and clone.origin.model in keys_by_table)
        or _may_hold_rows(tables, request, models[clone.origin.model], clone, keys_by_table, given)
    ]


def _may_hold_rows(
    tables: DownstreamTables,
    request: Forget,
    origin: Model,
    clone: Clone,
    keys_by_table: Mapping[TableName, DataFrame],
    given: DataFrame | None,
) -> bool:
    """Whether a clone of `origin` may hold rows to forget.

    A clone without versions of its own has the rows of the snapshots that are tagged for it, and these are searched. A
    clone with such versions may have the rows under other keys, since its query may be another one.
    """
    seen = _find_tags(tables.reader, clone)
    if origin.is_appended or seen is None or _has_own_versions(tables, origin, clone):
        return True
    known = (keys_by_table.get(origin.table), given if origin is tables.root else None)
    searched = [keys for keys in known if keys is not None]
    tags = [(table, tag) for table, tag in seen.tags if table != origin.table.totals]
    if searched and len(tags) < len(seen.tags):
        return True
    session = tables.open_session(origin.table)
    if any(has_tagged_rows(session, tags, keys.toArrow()) for keys in searched):
        return True
    if request.where is None or origin is not tables.root:
        return False
    snapshot = clone.origin.version.snapshot
    matching = trace.find_keys_where(tables.spark(), origin, session.observe_state(), request.where, snapshot)
    return not matching.isEmpty()


def _find_tags(reader: CatalogReader, clone: Clone) -> CloneTags | None:
    """Returns the tags of the origin for a clone; None if its change table has none, as after a reset."""
    observed = observe_clone_tags(reader, list_tagged_tables(clone.origin.model))
    seen = next((tags for tags in observed if tags.tag == clone.tag), None)
    return seen if seen is not None and any(table == clone.origin.table for table, _ in seen.tags) else None


def _has_own_versions(tables: DownstreamTables, origin: Model, clone: Clone) -> bool:
    """Whether a clone has been run with changes, or its origin is another table than the one that was cloned."""
    state = tables.observe_state(origin).log
    log = find_table(tables.reader, clone.table.changes)
    head = log.current_snapshot() if log is not None else None
    version = clone.origin.version
    return state is None or state.uuid != version.table or head is None or head.snapshot_id != version.snapshot
