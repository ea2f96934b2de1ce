"""Observes clones: those that tags of a model's tables are for, all of a catalog, and what a clone has computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from arctic_runtime.catalog.observation.tables import observe_model, observe_source
from arctic_runtime.catalog.observation.views import is_kind
from arctic_runtime.catalog.reader import CatalogReader, find_metadata
from arctic_runtime.model.clone import (
    Clone,
    CloneTag,
    CloneTags,
    CloneUpstream,
    ObservedClone,
    parse_clone_tag,
    read_clone,
)
from arctic_runtime.model.names import CHANGES_SUFFIX, TableName, parse_full_name
from arctic_runtime.model.properties import APPENDED_KIND
from arctic_runtime.model.run_summary import find_last_run, get_offsets, is_load
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version

if TYPE_CHECKING:
    from arctic_runtime.catalog.json_metadata import LoadedTable


def observe_clone(reader: CatalogReader, table: TableName) -> Clone | None:
    """Returns the clone that is the model `table`; None if there is no such model, or if it is no clone."""
    for name, kind in ((table.changes, "changes"), (table, APPENDED_KIND)):
        log = find_metadata(reader, name)
        if log is not None and is_kind(log, kind):
            return _read_clone(table, log)
    return None


def observe_computed(
    reader: CatalogReader, model: Model, tables: Mapping[TableName, TableName]
) -> ObservedClone | None:
    """Returns what the clone `model` has computed; None if it is no clone of a table with a primary key.

    `tables` maps names in the environment of the clone to those of the same tables in that of its origin.
    """
    clone, state = observe_clone(reader, model.table), observe_model(reader, model)
    # Observed last, so that it has all versions of the change table that was observed.
    source = observe_source(reader, model.table)
    if clone is None or state.changes is None or source is None:
        return None
    offsets = get_offsets(find_last_run(state.changes))
    upstreams = {name: _observe_upstream_clone(reader, name, version) for name, version in offsets.items()}
    known = {name: upstream for name, upstream in upstreams.items() if upstream is not None}
    return ObservedClone(clone, state.changes, source, state.aggregate_state, known, tables)


def _observe_upstream_clone(reader: CatalogReader, name: str, version: Version) -> CloneUpstream | None:
    """Returns the clone with this name, of which another one has read `version`; None if it is no clone."""
    table = parse_full_name(name)
    if table is None or table.catalog != reader.profile.catalog:
        return None
    clone, source = observe_clone(reader, table), observe_source(reader, table)
    if clone is None or source is None or source.version.table != version.table:
        return None
    loads = [commit.version for commit in source.commits if is_load(commit)]
    before = [load for load in loads if load.sequence <= version.sequence]
    return CloneUpstream(clone, before[-1] if before else version)


def observe_clone_tags(reader: CatalogReader, tables: Iterable[TableName]) -> list[CloneTags]:
    """Returns the tags for clones of `tables`, those of a model, with the clones; oldest first."""
    names: dict[tuple[int, TableName], list[tuple[TableName, str]]] = {}
    for name in tables:
        table = find_metadata(reader, name)
        for ref in table.metadata.refs if table is not None else ():
            if (tag := parse_clone_tag(ref)) is not None:
                names.setdefault((tag.at_ms, tag.clone), []).append((name, ref))
    return [
        CloneTags(CloneTag(clone, at_ms), tuple(tags), _observe_clone_made_at(reader, clone, at_ms))
        for (at_ms, clone), tags in sorted(names.items())
    ]


def list_clones(reader: CatalogReader) -> list[Clone]:
    """Lists all clones in the catalog; loads the metadata of every table."""
    return [
        clone
        for namespace in reader.list_namespaces()
        for name in reader.list_tables(namespace)
        for clone in _list_clones_of(reader, TableName(reader.profile.catalog, namespace, name))
    ]


def _list_clones_of(reader: CatalogReader, name: TableName) -> Iterator[Clone]:
    """Yields the clone that has a table as its change table, or as its table without a key."""
    table = find_metadata(reader, name)
    if table is None:
        return
    if is_kind(table, "changes") and name.name.endswith(CHANGES_SUFFIX):
        clone = _read_clone(name.with_name(name.name.removesuffix(CHANGES_SUFFIX)), table)
    else:
        clone = _read_clone(name, table) if is_kind(table, APPENDED_KIND) else None
    if clone is not None:
        yield clone


def _observe_clone_made_at(reader: CatalogReader, table: TableName, at_ms: int) -> Clone | None:
    clone = observe_clone(reader, table)
    return clone if clone is not None and clone.origin.at_ms == at_ms else None


def _read_clone(table: TableName, log: LoadedTable) -> Clone | None:
    newest = log.current_snapshot()
    return read_clone(table, log.properties, newest.timestamp_ms if newest is not None else 0)
