"""Observes the state of tables from their metadata, which takes milliseconds and needs no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING

from arctic_runtime.catalog.lease import Held
from arctic_runtime.catalog.observation.columns import (
    UNSORTED,
    list_columns,
    list_reassigned_columns,
    list_snapshots_with_dropped_columns,
    map_former_names,
    map_missing_defaults,
)
from arctic_runtime.catalog.observation.views import (
    find_conflicting_table,
    find_conflicting_view,
    is_kind,
    is_unfinished,
    observe_named_views,
    observe_reader_view,
)
from arctic_runtime.catalog.reader import CatalogReader, find_metadata
from arctic_runtime.catalog.table_refs import read_table_refs
from arctic_runtime.errors import ArcticError, CorruptState
from arctic_runtime.model.baseline import read_baseline
from arctic_runtime.model.clone import shares_files
from arctic_runtime.model.columns import BEFORE, Column, parse_key
from arctic_runtime.model.files.expiry import DatedSnapshot as KeptSnapshot
from arctic_runtime.model.files.expiry import Snapshots, read_trimmed_age
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    APPENDED_KIND,
    BRANCH_PREFIX,
    CHANGES_VIEW,
    CHANGES_VIEW_KIND,
    COMPACTED_UNTIL,
    CURRENT_VIEW,
    CURRENT_VIEW_KIND,
    FORGOTTEN_KEYS_KIND,
    FORGOTTEN_UNTIL,
    KEEP,
    MERGED,
    PRIMARY_KEY,
    REFRESH_STATE,
    REPAIRED,
    RESYNC_PREFIX,
    RUN,
    SOURCE_SETTINGS,
    VIEW_TAG_PREFIX,
)
from arctic_runtime.model.refs import BranchState, Savepoint, list_abandoned_branches, parse_cut
from arctic_runtime.model.run_summary import RunSummary, find_last_run, get_offsets
from arctic_runtime.model.sources.ingestion import Progress, SourceProgress, time_of
from arctic_runtime.model.state import (
    BaseState,
    ChangeTableState,
    Commit,
    ConflictingRelation,
    SourceState,
    TableState,
    ViewState,
)
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, decode_versions

if TYPE_CHECKING:
    from arctic_runtime.catalog.json_metadata import LoadedRef, LoadedSnapshot, LoadedTable

_OWN_NAMES = ("arctic.", REFRESH_STATE)
"""What the names of our entries in snapshot summaries begin with."""


def observe_model(reader: CatalogReader, model: Model) -> TableState:
    """Returns the present state of a model's change table, base table and views.

    `conflicting` is a relation that has one of the model's names but was not made for it; a run must not overwrite it.
    """
    changes = find_metadata(reader, model.table.changes)
    own = find_metadata(reader, model.table)
    view = observe_reader_view(reader, model.table) if own is None else None
    if model.is_appended:
        return _build_keyless_state(model, own, view, changes)
    base = own if model.config.merge == "on_write" else find_metadata(reader, model.table.base)
    totals = find_metadata(reader, model.table.totals) if model.config.input == "state" else None
    unfinished = frozenset(
        name for name, table in ((model.table.changes, changes), (model.base, base)) if is_unfinished(table)
    )
    has_log = changes is not None and is_kind(changes, "changes") and model.table.changes not in unfinished
    log = _change_table(changes) if changes is not None and has_log else None
    has_base = base is not None and is_kind(base, "base") and model.base not in unfinished
    views = {
        kind: _list_view_names(model.table, wanted, log, key)
        for kind, key, wanted in (
            (CURRENT_VIEW_KIND, CURRENT_VIEW, model.current_view),
            (CHANGES_VIEW_KIND, CHANGES_VIEW, model.changes_view),
        )
    }
    return TableState(
        changes=log,
        base=_build_base_state(base) if base is not None and has_base else None,
        view=view,
        conflicting=find_conflicting_table(model, own, changes, base, totals) or find_conflicting_view(model, view),
        aggregate_state=_find_aggregate_state(totals, find_last_run(log)),
        current_views=tuple(observe_named_views(reader, model.table, views[CURRENT_VIEW_KIND], CURRENT_VIEW_KIND)),
        changes_views=tuple(observe_named_views(reader, model.table, views[CHANGES_VIEW_KIND], CHANGES_VIEW_KIND)),
        unfinished=unfinished,
    )


def _list_view_names(
    table: TableName, wanted: TableName | None, log: ChangeTableState | None, key: str
) -> set[TableName]:
    """Returns the name that a view of a model has, and the one that its change table notes under the property `key`."""
    noted = log.properties.get(key) if log else None
    return {*([wanted] if wanted else []), *([table.with_name(noted)] if noted else [])}


def _build_keyless_state(
    model: Model, own: LoadedTable | None, view: ViewState | None, changes: LoadedTable | None
) -> TableState:
    """Builds the state of a model without a key, whose table has no change table; `own` is the table of its name."""
    if own is not None and is_kind(own, APPENDED_KIND):
        is_begun = is_unfinished(own)
        return TableState(
            appended=None if is_begun else _change_table(own), unfinished=frozenset([model.table] if is_begun else [])
        )
    if changes is not None and is_kind(changes, "changes"):
        return TableState(conflicting=ConflictingRelation(model.table.changes, "table"))
    if own is not None:
        return TableState(conflicting=ConflictingRelation(model.table, "table"))
    return TableState(conflicting=ConflictingRelation(model.table, "view", view.is_clone) if view else None)


def observe_key(reader: CatalogReader, table: TableName) -> tuple[str, ...] | None:
    """Returns the primary key of an ingested table.

    () if it has no key and events are appended, None if there is no table.
    """
    changes = find_metadata(reader, table.changes)
    if changes is not None and is_kind(changes, "changes"):
        return parse_key(changes.properties.get(PRIMARY_KEY, ""))
    own = find_metadata(reader, table)
    return () if own is not None and is_kind(own, APPENDED_KIND) else None


def observe_own(reader: CatalogReader, model: Model) -> tuple[ConflictingRelation, ...]:
    """Lists all relations that a model has created, also with an earlier configuration; its change table comes last."""
    table = model.table
    view = observe_reader_view(reader, table) if find_metadata(reader, table) is None else None
    shown = [ConflictingRelation(table, "view")] if view is not None and view.head is not None else []
    parts = (
        (table, "base"),
        (table, APPENDED_KIND),
        (table.base, "base"),
        (table.totals, "totals"),
        (table.forget_keys_name, FORGOTTEN_KEYS_KIND),
        (table.changes, "changes"),
    )
    loaded = [(name, kind, find_metadata(reader, name)) for name, kind in parts]
    log = next(
        (_change_table(own_table) for name, _, own_table in loaded if own_table is not None and name == table.changes),
        None,
    )
    views = (
        view
        for kind, key in ((CURRENT_VIEW_KIND, CURRENT_VIEW), (CHANGES_VIEW_KIND, CHANGES_VIEW))
        for view in observe_named_views(reader, table, _list_view_names(table, None, log, key), kind)
    )
    return (
        *(ConflictingRelation(view.name, "view") for view in views if view.is_own),
        *shown,
        *(
            ConflictingRelation(name, "table")
            for name, kind, view_name in loaded
            if view_name is not None and is_kind(view_name, kind)
        ),
    )


def observe_source(reader: CatalogReader, name: TableName) -> SourceState | None:
    """Returns the state of an upstream at its newest version.

    For an arctic model it is the state of its change table, unless the table or view of the model's name was made by
    others. None if there is no such table, or if it has no snapshot that pyiceberg can read.
    """
    return _observe_upstream(reader, name)[0]


def observe_readable(reader: CatalogReader, name: TableName) -> SourceState | None:
    """Returns the state of an upstream at the version that a query of its table or view sees.

    The base table or view of an arctic model may be older than its change table, if a run died between the two commits.
    """
    source, shown = _observe_upstream(reader, name)
    return replace(source, version=shown) if source is not None and shown is not None else source


def count_table_rows(reader: CatalogReader, name: TableName) -> int | None:
    """Returns the rows of a table at its newest version; None if they can't be known from the catalog."""
    if name.catalog != reader.profile.catalog:
        return None
    try:
        state = observe_source(reader, name)
    except ArcticError:
        return None
    return state.rows if state is not None else None


def _observe_upstream(reader: CatalogReader, name: TableName) -> tuple[SourceState | None, Version | None]:
    """Returns the state of an upstream, and the version that its table or view shows if it is an arctic model.

    The version is None if it is not known, or for other tables.
    """
    changes, own = find_metadata(reader, name.changes), find_metadata(reader, name)
    changes, own = (None if is_unfinished(table) else table for table in (changes, own))
    if changes is None or not is_kind(changes, "changes"):
        return (_build_source_state(name, "table", own) if own is not None else None), None
    view = observe_reader_view(reader, name) if own is None else None
    merged = _build_base_state(own).merged if own is not None and is_kind(own, "base") else None
    if own is not None and merged is None:
        return _build_source_state(name, "table", own), None
    if view is not None and view.head is None:
        return None, None
    source = _with_bases(
        reader, _build_source_state(name, "changes", changes), changes.properties.get(PRIMARY_KEY, ""), own
    )
    return source, merged or (_get_shown_version(source, view) if source is not None and view is not None else None)


def _get_shown_version(source: SourceState, view: ViewState) -> Version:
    """Returns the version of `source` that a view shows; its sequence number is 0 if the commit has expired."""
    assert view.head is not None
    known = (commit.version for commit in source.commits if commit.version.snapshot == view.head)
    return next(known, Version(source.version.table, view.head, 0))


def find_last_with_other_columns(reader: CatalogReader, name: TableName) -> int:
    """Returns the sequence number of a table's newest snapshot with a column that was dropped since.

    0 if there is none.
    """
    table = reader.load_table(name.schema, name.name)
    schemas, field_ids = table.schemas(), set(table.schema().field_ids)
    return max(
        (
            snapshot.sequence_number or 0
            for snapshot in table.metadata.snapshots
            if snapshot.schema_id is not None and not field_ids.issuperset(schemas[snapshot.schema_id].field_ids)
        ),
        default=0,
    )


def observe_columns(reader: CatalogReader, name: TableName) -> dict[int, dict[int, Column]]:
    """Returns the columns that a table had, by snapshot id and then by column id, which a rename does not change.

    Empty if there is no such table; a snapshot whose schema is not known is left out.
    """
    table = find_metadata(reader, name)
    if table is None:
        return {}
    columns = {
        number: dict(zip((field.field_id for field in schema.fields), list_columns(schema), strict=True))
        for number, schema in table.schemas().items()
    }
    known = ((snapshot_entry.snapshot_id, snapshot_entry.schema_id) for snapshot_entry in table.metadata.snapshots)
    return {snapshot: columns[schema] for snapshot, schema in known if schema is not None and schema in columns}


def list_later_columns(reader: CatalogReader, name: TableName) -> tuple[str, ...]:
    """Names of the columns that were added after a table's first schema in its metadata; () if there is no table."""
    table = find_metadata(reader, name)
    if table is None:
        return ()
    always = set.intersection(*({field.field_id for field in schema.fields} for schema in table.schemas().values()))
    return tuple(field.name for field in table.schema().fields if field.field_id not in always)


def observe_snapshots(reader: CatalogReader, name: TableName) -> Snapshots | None:
    """Returns the snapshots that a table keeps, with those that tags or branches protect.

    None if there is no such table.
    """
    table = find_metadata(reader, name)
    if table is None:
        return None
    behind = [snapshot.snapshot_id for snapshot in _walk_lineage(table)]
    snapshots: list[LoadedSnapshot] = [*table.metadata.snapshots]
    by_age = sorted(snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    return Snapshots(
        name,
        tuple(_build_kept_snapshot(snapshot) for snapshot in by_age if snapshot.snapshot_id in behind),
        tuple(_build_kept_snapshot(snapshot) for snapshot in by_age if snapshot.snapshot_id not in behind),
        frozenset(_walk_protected(table, frozenset(behind))),
        {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if _is_view_tag(name, ref)},
        {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if _is_cut(name, ref)},
        shares_files(table.properties),
        can_expire=not shares_files(table.properties) or reader.can_edit_metadata,
    )


def observe_branch(reader: CatalogReader, name: TableName, branch: str) -> BranchState:
    """Returns the heads of the main branch and of `branch`, and the attempt that wrote each snapshot of the table."""
    return read_table_refs(reader, name).read_state(branch)


def list_abandoned_table_branches(table: LoadedTable, before_ms: int) -> tuple[str, ...]:
    """Names of a table's branches whose attempts were given up before the time `before_ms`.

    See `list_abandoned_branches`.
    """
    head = table.metadata.current_snapshot_id
    return list_abandoned_branches(_list_branches(table), _map_parents(table), _map_times(table), head, before_ms)


def _get_operation(snapshot: LoadedSnapshot) -> str:
    """Returns the operation of a snapshot; `overwrite`, which may be anything, if its writer did not say."""
    return "overwrite" if snapshot.summary is None else snapshot.summary.operation.value


def observe_savepoints(reader: CatalogReader, model: Model) -> tuple[Savepoint, ...]:
    """Lists the savepoints of a model, oldest first: tags of its change table, except those that arctic sets itself."""
    table = find_metadata(reader, model.table.changes)
    if table is None:
        return ()
    savepoints = [Savepoint(name, _build_commit(table, snapshot)) for name, snapshot in _list_tagged(table)]
    return tuple(sorted(savepoints, key=lambda savepoint: (savepoint.commit.version.sequence, savepoint.name)))


def _list_tagged(table: LoadedTable) -> Iterator[tuple[str, LoadedSnapshot]]:
    for name, ref in table.metadata.refs.items():
        snapshot = table.snapshot_by_id(ref.snapshot_id)
        if ref.snapshot_ref_type == "tag" and not name.startswith(BRANCH_PREFIX) and snapshot is not None:
            yield name, snapshot


def read_last_offsets(reader: CatalogReader, model: TableName) -> dict[str, Version]:
    """Returns the version of each upstream, by name, up to which a model's newest run has read it.

    Empty before any run.
    """
    for name, kind in ((model.changes, "changes"), (model, APPENDED_KIND)):
        log = find_metadata(reader, name)
        if log is not None and is_kind(log, kind):
            return dict(get_offsets(find_last_run(_change_table(log))))
    return {}


def observe_progress(reader: CatalogReader, dead_letters: TableName) -> SourceProgress | None:
    """Reads a source's progress and lease from the properties of its dead letter table.

    None if there is no such table yet.
    """
    table = find_metadata(reader, dead_letters)
    if table is None:
        return None
    snapshot = table.current_snapshot()
    count, lease = _count_live_rows(_get_summary(snapshot)) if snapshot else 0, Held.decode(table.properties)
    progress = Progress.decode(table.properties)
    asked = (key for key, at in table.properties.items() if key.startswith(RESYNC_PREFIX) and at)
    requested = frozenset(key.removeprefix(RESYNC_PREFIX) for key in asked)
    known = SourceProgress(
        progress, count, requested=requested, settings=json.loads(table.properties.get(SOURCE_SETTINGS, "{}"))
    )
    if lease is None:
        return known
    return replace(known, ingested_by=lease.process, ingested_until=time_of(round(1000 * lease.until)))


def _build_kept_snapshot(snapshot: LoadedSnapshot) -> KeptSnapshot:
    merged = decode_versions(_get_summary(snapshot).get(MERGED)).get("changes")
    return KeptSnapshot(snapshot.snapshot_id, snapshot.sequence_number or 0, snapshot.timestamp_ms, merged)


def _is_view_tag(name: str, ref: LoadedRef) -> bool:
    return name.startswith(VIEW_TAG_PREFIX) and ref.snapshot_ref_type == "tag"


def _is_cut(name: str, ref: LoadedRef) -> bool:
    return parse_cut(name) is not None and ref.snapshot_ref_type == "tag"


def _walk_protected(table: LoadedTable, behind: frozenset[int]) -> Iterator[int]:
    """Yields the snapshots that a tag or branch keeps, except tags for a view or a cut, and the main branch.

    A branch also keeps the ancestors of its head, down to the first one in `behind`, the snapshots of the main branch.
    """
    parents = _map_parents(table)
    for name, ref in table.metadata.refs.items():
        at: int | None = ref.snapshot_id
        if name != "main" and not _is_view_tag(name, ref) and not _is_cut(name, ref):
            yield ref.snapshot_id
        while at is not None and at not in behind and ref.snapshot_ref_type == "branch":
            yield at
            at = parents.get(at)


def _find_aggregate_state(table: LoadedTable | None, last: RunSummary | None) -> int | None:
    """Returns the snapshot id of the aggregate state that the run `last` wrote to `table`; None if it wrote none."""
    if table is None or last is None or last.aggregate_state is None:
        return None
    written = (candidate for candidate in table.metadata.snapshots if _get_summary(candidate).get(RUN) == last.run)
    return next((snapshot.snapshot_id for snapshot in written), None)


def _change_table(table: LoadedTable) -> ChangeTableState:
    return ChangeTableState(
        uuid=str(table.metadata.table_uuid),
        columns=list_columns(table.schema()),
        commits=tuple(_list_commits(table)),
        properties=dict(table.properties),
        branches=_list_branches(table),
        parents=_map_parents(table),
        times=_map_times(table),
        old_column_names=map_former_names(table),
        dropped_columns=list_snapshots_with_dropped_columns(table),
    )


def _build_base_state(table: LoadedTable) -> BaseState:
    lineage = list(_walk_lineage(table))
    if not lineage:
        raise CorruptState(
            f"{'.'.join(table.name())}: the base has no snapshot.",
            expected="at least one snapshot",
            actual="none",
            fix="drop the base; the next run rebuilds it from the change table",
        )
    merged = next((text for snapshot in lineage if (text := _get_summary(snapshot).get(MERGED))), None)
    return BaseState(
        uuid=str(table.metadata.table_uuid),
        columns=list_columns(table.schema()),
        snapshot=lineage[0].snapshot_id,
        merged=decode_versions(merged).get("changes"),
        rows=_count_live_rows(_get_summary(lineage[0])),
        properties=dict(table.properties),
        branches=_list_branches(table),
        parents=_map_parents(table),
        times=_map_times(table),
        old_column_names=map_former_names(table),
        sequence=lineage[0].sequence_number if table.metadata.format_version >= 3 else None,
        has_write_order=table.metadata.default_sort_order_id != UNSORTED,
    )


def _build_source_state(name: TableName, kind: str, table: LoadedTable) -> SourceState | None:
    commits, newest = tuple(_list_commits(table)), table.current_snapshot()
    if not commits or newest is None:
        return None
    return SourceState(
        name=name,
        kind=kind,
        version=_find_newest_version(commits) if kind == "changes" else commits[-1].version,
        commits=commits,
        columns=list_columns(table.schema()),
        format_version=table.format_version,
        snapshots=frozenset(snapshot.snapshot_id for snapshot in table.metadata.snapshots),
        rows=_count_live_rows(_get_summary(newest)),
        not_null=tuple(field.name for field in table.schema().fields if field.required),
        trimmed=read_trimmed_age(table.properties).sequence,
        forgotten=int(table.properties.get(FORGOTTEN_UNTIL, 0)),
        old_column_names=map_former_names(table),
        reassigned_columns=tuple(list_reassigned_columns(table)),
        keeps_all=table.properties.get(KEEP) == "all",
        missing_defaults=map_missing_defaults(table),
        key_only_until=_find_key_only_until(table),
        baseline=read_baseline(table.properties) if kind == "changes" else None,
    )


def _find_key_only_until(table: LoadedTable) -> int:
    """Returns the sequence number up to which a change table had no column `_before`.

    0 if it always or never had it.
    """
    without = {
        number for number, schema in table.schemas().items() if all(field.name != BEFORE for field in schema.fields)
    }
    if not without or table.schema().schema_id in without:
        return 0
    sequences = {snapshot.snapshot_id: snapshot.sequence_number or 0 for snapshot in table.metadata.snapshots}
    lacking = [
        sequences[snapshot.snapshot_id] for snapshot in table.metadata.snapshots if snapshot.schema_id in without
    ]
    return max(lacking, default=min(sequences.values()))


def _with_bases(
    reader: CatalogReader, source: SourceState | None, key: str, own: LoadedTable | None
) -> SourceState | None:
    """Adds the primary key, base table and merged snapshots to the state of an arctic model; None if `source` is None.

    `key` is the text of the key. `own` is the table of the model's name, which is its base table; None for a model
    merged on read, whose base table has another name.
    """
    if source is None:
        return None
    keyed = replace(source, key=parse_key(key))
    name, table = (source.name, own) if own is not None else (source.name.base, find_metadata(reader, source.name.base))
    if table is None or is_unfinished(table) or not is_kind(table, "base"):
        return keyed
    base = _build_base_state(table)
    old_column_names = {**keyed.old_column_names, **base.old_column_names}
    return replace(
        keyed, base=name, bases=tuple(_list_merged_snapshots(table)), rows=base.rows, old_column_names=old_column_names
    )


def _list_merged_snapshots(table: LoadedTable) -> Iterator[tuple[int, Version]]:
    """Yields snapshots of a base table with the version up to which each is merged; for each version only the newest.

    An older snapshot of the same version, and one that records none, may be half of a merge. Snapshots that savepoints
    keep are included, also if expiry has removed the snapshots in between.
    """
    snapshots = {
        snapshot.snapshot_id: snapshot
        for snapshot in (*_walk_lineage(table), *(tagged for _, tagged in _list_tagged(table)))
    }
    by_version: dict[Version, int] = {}
    for snapshot in sorted(snapshots.values(), key=lambda snapshot: snapshot.sequence_number or 0):
        merged = decode_versions(_get_summary(snapshot).get(MERGED)).get("changes")
        if merged is not None:
            by_version[merged] = snapshot.snapshot_id
    return ((snapshot, version) for version, snapshot in by_version.items())


def _find_newest_version(commits: tuple[Commit, ...]) -> Version:
    """Returns the newest version with change rows; readers of changes can skip later runs, which changed nothing.

    A repair counts even without rows: readers may have read the rows that it repaired. The oldest version if there is
    no such commit.
    """
    news = (commit.version for commit in reversed(commits) if commit.rows or REPAIRED in commit.summary)
    return next(news, commits[0].version)


def _list_commits(table: LoadedTable) -> Iterable[Commit]:
    return (_build_commit(table, snapshot) for snapshot in reversed(list(_walk_lineage(table))))


def _build_commit(table: LoadedTable, snapshot: LoadedSnapshot) -> Commit:
    summary = _get_summary(snapshot)
    operation = _get_operation(snapshot)
    if COMPACTED_UNTIL in summary:
        operation = "replace"  # It only deleted change rows that were superseded, and that all readers had read.
    elif operation == "overwrite" and _is_empty(summary):
        operation = "replace"  # A delete of Spark that matches no row commits an overwrite all the same.
    return Commit(
        version=Version(str(table.metadata.table_uuid), snapshot.snapshot_id, snapshot.sequence_number or 0),
        parent=snapshot.parent_snapshot_id,
        operation=operation,
        rows=0 if operation == "replace" else int(summary.get("added-records", 0)),
        bytes=int(summary.get("added-files-size", 0)),
        summary={intern(name): text for name, text in summary.items() if name.startswith(_OWN_NAMES)},
        at_ms=snapshot.timestamp_ms,
    )


def _is_empty(summary: Mapping[str, str]) -> bool:
    """Whether a commit neither added nor removed files, by its summary."""
    is_changed = any(key.startswith(("added-", "deleted-", "removed-")) for key in summary)
    return summary.get("changed-partition-count") == "0" and not is_changed


def _walk_lineage(table: LoadedTable) -> Iterable[LoadedSnapshot]:
    """Yields the current snapshot of a table and its ancestors, newest first, until one that has expired."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    current = table.metadata.current_snapshot_id
    while current is not None and current in by_id:
        yield by_id[current]
        current = by_id[current].parent_snapshot_id


def _list_branches(table: LoadedTable) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if ref.snapshot_ref_type == "branch"}


def _map_parents(table: LoadedTable) -> dict[int, int | None]:
    return {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in table.metadata.snapshots}


def _map_times(table: LoadedTable) -> dict[int, int]:
    return {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in table.metadata.snapshots}


def _get_summary(snapshot: LoadedSnapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _count_live_rows(summary: Mapping[str, str]) -> int:
    return int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))
