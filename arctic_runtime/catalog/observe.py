"""Observing tables through pyiceberg: milliseconds, and no Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from arctic_runtime.catalog.lease import newest_lease
from arctic_runtime.catalog.observe_views import current_views, reader_view
from arctic_runtime.catalog.reader import CatalogReader, UnsupportedType, spark_type
from arctic_runtime.errors import CorruptState
from arctic_runtime.model.branch import BranchCommit, BranchState, abandoned_branches
from arctic_runtime.model.columns import BEFORE, Column, Names, same_name
from arctic_runtime.model.expiry import Snapshot as KeptSnapshot
from arctic_runtime.model.expiry import Snapshots, trimmed_until
from arctic_runtime.model.ingestion import Progress, SourceProgress, time_of
from arctic_runtime.model.key import key_names
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    APPENDED_KIND,
    ATTEMPT,
    BRANCH_PREFIX,
    COMPACTED_UNTIL,
    CURRENT_VIEW,
    FORGOTTEN_KEYS_KIND,
    FORGOTTEN_UNTIL,
    KEEP,
    KIND,
    MERGED,
    PRIMARY_KEY,
    REPAIRED,
    RESYNC_PREFIX,
    RUN,
    VIEW_TAG_PREFIX,
)
from arctic_runtime.model.run_summary import RunSummary, last_run, offsets_of
from arctic_runtime.model.savepoint import Savepoint
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
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

_UNSORTED = 0
"""The id of the sort order without columns, in Iceberg's specification."""


def observe_model(reader: CatalogReader, model: Model) -> TableState:
    """The model's change table, base and view as they stand now.

    `conflicting` names what stands under the model's own name where that is no table of ours, so that nobody's data
    is ever taken over in silence.
    """
    changes = _load(reader, model.table.changes)
    own = _load(reader, model.table)
    view = reader_view(reader, model.table) if own is None else None
    if model.is_appended:
        return _appended(model, own, view, changes)
    base = own if model.config.merge == "on_write" else _load(reader, model.table.base)
    totals = _load(reader, model.table.totals) if model.config.input == "state" else None
    log = _change_table(changes) if changes is not None and _is_kind(changes, "changes") else None
    noted = log.properties.get(CURRENT_VIEW) if log else None
    named = {of for of in (model.current_view, model.table.sibling(noted) if noted else None) if of is not None}
    return TableState(
        changes=log,
        base=_base(base) if base is not None and _is_kind(base, "base") else None,
        view=view,
        conflicting=_stranger(model, own, view, changes, base, totals),
        aggregate_state=_aggregate_state(totals, last_run(log)),
        current_views=tuple(current_views(reader, model.table, named)),
    )


def _appended(model: Model, own: Table | None, view: ViewState | None, changes: Table | None) -> TableState:
    """The state of a table without a key, which has no change table beside it."""
    if own is not None and _is_kind(own, APPENDED_KIND):
        return TableState(appended=_change_table(own))
    if changes is not None and _is_kind(changes, "changes"):
        return TableState(conflicting=ConflictingRelation(model.table.changes, "table"))
    if own is not None:
        return TableState(conflicting=ConflictingRelation(model.table, "table"))
    return TableState(conflicting=ConflictingRelation(model.table, "view", view.is_clone) if view else None)


def observe_key(reader: CatalogReader, table: TableName) -> tuple[str, ...] | None:
    """The primary key that an ingested table is kept by, () where events are appended to it; None without a table."""
    changes = _load(reader, table.changes)
    if changes is not None and _is_kind(changes, "changes"):
        return key_names(changes.properties.get(PRIMARY_KEY, ""))
    own = _load(reader, table)
    return () if own is not None and _is_kind(own, APPENDED_KIND) else None


def observe_own(reader: CatalogReader, model: Model) -> tuple[ConflictingRelation, ...]:
    """Every relation that a model has made, however it was configured then; its change table is the last."""
    table = model.table
    view = reader_view(reader, table) if _load(reader, table) is None else None
    shown = [ConflictingRelation(table, "view")] if view is not None and view.head is not None else []
    parts = (
        (table, "base"),
        (table, APPENDED_KIND),
        (table.base, "base"),
        (table.totals, "totals"),
        (table.forgotten, FORGOTTEN_KEYS_KIND),
        (table.changes, "changes"),
    )
    loaded = [(name, kind, _load(reader, name)) for name, kind in parts]
    noted = [of.properties.get(CURRENT_VIEW, "") for name, _, of in loaded if of is not None and name == table.changes]
    current = current_views(reader, table, [table.sibling(of) for of in noted if of])
    return (
        *(ConflictingRelation(of.name, "view") for of in current if of.is_own),
        *shown,
        *(ConflictingRelation(name, "table") for name, kind, of in loaded if of is not None and _is_kind(of, kind)),
    )


def observe_source(reader: CatalogReader, name: TableName) -> SourceState | None:
    """An upstream's newest version: of its change table where it is an arctic model, else of the table itself.

    A change table tells nothing of a table or view that somebody else has made under its model's name. None where
    there is no such table, or none with a snapshot that pyiceberg can see.
    """
    return _observed(reader, name)[0]


def observe_readable(reader: CatalogReader, name: TableName) -> SourceState | None:
    """An upstream's version as a plain select shows it.

    Base and view of an arctic model may be behind its change table, where a run died between the two; whoever reads
    them then has not read the newest changes.
    """
    source, shown = _observed(reader, name)
    return replace(source, version=shown) if source is not None and shown is not None else source


def _observed(reader: CatalogReader, name: TableName) -> tuple[SourceState | None, Version | None]:
    """An upstream, and of an arctic model the version that its table or view shows as far as that is known."""
    changes, own = _load(reader, name.changes), _load(reader, name)
    if changes is None or not _is_kind(changes, "changes"):
        return (_source(name, "table", own) if own is not None else None), None
    view = reader_view(reader, name) if own is None else None
    merged = _base(own).merged if own is not None and _is_kind(own, "base") else None
    if own is not None and merged is None:
        return _source(name, "table", own), None
    if view is not None and view.head is None:
        return None, None
    source = _with_bases(reader, _source(name, "changes", changes), changes.properties.get(PRIMARY_KEY, ""), own)
    return source, merged or (_shown(source, view) if source is not None and view is not None else None)


def _shown(source: SourceState, view: ViewState) -> Version:
    """The version that a view pins."""
    assert view.head is not None
    known = (commit.version for commit in source.commits if commit.version.snapshot == view.head)
    return next(known, Version(source.version.table, view.head, 0))


def last_with_other_columns(reader: CatalogReader, name: TableName) -> int:
    """The sequence number of the newest snapshot written with a column that is gone now; 0 where there is none."""
    table = reader.load_table(name.schema, name.name)
    schemas, kept = table.schemas(), set(table.schema().field_ids)
    return max(
        (
            snapshot.sequence_number or 0
            for snapshot in table.metadata.snapshots
            if snapshot.schema_id is not None and not kept.issuperset(schemas[snapshot.schema_id].field_ids)
        ),
        default=0,
    )


def observe_columns(reader: CatalogReader, name: TableName) -> dict[int, dict[int, Column]]:
    """The columns that a table had at its snapshots, by their ids, which stay whatever a column is called later.

    Empty where there is no table; a snapshot that does not say its columns is left out.
    """
    table = _load(reader, name)
    if table is None:
        return {}
    columns = {
        number: {field.field_id: column for field, column in zip(schema.fields, _columns(schema), strict=True)}
        for number, schema in table.schemas().items()
    }
    known = ((of.snapshot_id, of.schema_id) for of in table.metadata.snapshots)
    return {snapshot: columns[schema] for snapshot, schema in known if schema is not None and schema in columns}


def columns_added_later(reader: CatalogReader, name: TableName) -> tuple[str, ...]:
    """The columns of a table that it did not have from the beginning, as far back as its metadata tells."""
    table = _load(reader, name)
    if table is None:
        return ()
    always = set.intersection(*({field.field_id for field in of.fields} for of in table.schemas().values()))
    return tuple(field.name for field in table.schema().fields if field.field_id not in always)


def observe_snapshots(reader: CatalogReader, name: TableName) -> Snapshots | None:
    """All snapshots of a table that are kept; None where there is no such table."""
    table = _load(reader, name)
    if table is None:
        return None
    behind = [snapshot.snapshot_id for snapshot in _lineage(table)]
    by_age = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    return Snapshots(
        name,
        tuple(_kept_snapshot(snapshot) for snapshot in by_age if snapshot.snapshot_id in behind),
        tuple(_kept_snapshot(snapshot) for snapshot in by_age if snapshot.snapshot_id not in behind),
        frozenset(_held(table, frozenset(behind))),
        {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if _is_view_tag(name, ref)},
    )


def observe_branch(reader: CatalogReader, name: TableName, branch: str) -> BranchState:
    """Where main and a branch of a table stand, and who wrote its snapshots."""
    table = reader.load_table(name.schema, name.name)
    tips = {ref: found.snapshot_id for ref, found in table.metadata.refs.items()}
    commits = {snapshot.snapshot_id: _branch_commit(snapshot) for snapshot in table.metadata.snapshots}
    return BranchState(tips.get("main"), tips.get(branch), commits)


def abandoned_branches_of(table: Table, now_ms: int, kept_seconds: int) -> tuple[str, ...]:
    """Branches of attempts on a table that nobody can still be writing to; see `abandoned_branches`."""
    head = table.metadata.current_snapshot_id
    return abandoned_branches(_branches(table), _parents(table), _times(table), head, now_ms, kept_seconds)


def _branch_commit(snapshot: Snapshot) -> BranchCommit:
    return BranchCommit(snapshot.parent_snapshot_id, _operation(snapshot), _summary(snapshot).get(ATTEMPT))


def _operation(snapshot: Snapshot) -> str:
    return snapshot.summary.operation.value if snapshot.summary else "append"


def observe_savepoints(reader: CatalogReader, model: Model) -> tuple[Savepoint, ...]:
    """The versions that have a name: tags of the change table that are no part of our own work, oldest first."""
    table = _load(reader, model.table.changes)
    if table is None:
        return ()
    found = [Savepoint(name, _commit(table, snapshot)) for name, snapshot in _tagged(table)]
    return tuple(sorted(found, key=lambda of: (of.commit.version.sequence, of.name)))


def _tagged(table: Table) -> Iterator[tuple[str, Snapshot]]:
    for name, ref in table.metadata.refs.items():
        snapshot = table.snapshot_by_id(ref.snapshot_id)
        if ref.snapshot_ref_type == "tag" and not name.startswith(BRANCH_PREFIX) and snapshot is not None:
            yield name, snapshot


def last_offsets(reader: CatalogReader, model: TableName) -> dict[str, Version]:
    """What a model has read of its upstreams, as its newest run says; empty where there is none."""
    for name, kind in ((model.changes, "changes"), (model, APPENDED_KIND)):
        log = _load(reader, name)
        if log is not None and _is_kind(log, kind):
            return dict(offsets_of(last_run(_change_table(log))))
    return {}


def observe_progress(reader: CatalogReader, dead_letters: TableName) -> SourceProgress | None:
    """The progress of a source of change data by its dead letter table; None where nothing was ingested yet."""
    table = _load(reader, dead_letters)
    if table is None:
        return None
    snapshot = table.current_snapshot()
    count, (_, lease) = _live_rows(_summary(snapshot)) if snapshot else 0, newest_lease(table)
    progress = Progress.decode(table.properties)
    asked = (key for key, at in table.properties.items() if key.startswith(RESYNC_PREFIX) and at)
    requested = frozenset(key.removeprefix(RESYNC_PREFIX) for key in asked)
    if lease is None:
        return SourceProgress(progress, count, requested=requested)
    return SourceProgress(progress, count, lease.process, time_of(round(1000 * lease.until)), requested)


def _kept_snapshot(snapshot: Snapshot) -> KeptSnapshot:
    merged = decode_versions(_summary(snapshot).get(MERGED)).get("changes")
    return KeptSnapshot(snapshot.snapshot_id, snapshot.sequence_number or 0, snapshot.timestamp_ms, merged)


def _is_view_tag(name: str, ref: SnapshotRef) -> bool:
    return name.startswith(VIEW_TAG_PREFIX) and ref.snapshot_ref_type == "tag"


def _held(table: Table, behind: frozenset[int]) -> Iterator[int]:
    """Snapshots that a tag, other than for a view, or a branch other than main keeps; of a branch also those behind it,
    up to main's.
    """
    parents = _parents(table)
    for name, ref in table.metadata.refs.items():
        at: int | None = ref.snapshot_id
        if name != "main" and not _is_view_tag(name, ref):
            yield ref.snapshot_id
        while at is not None and at not in behind and ref.snapshot_ref_type == "branch":
            yield at
            at = parents.get(at)


def _load(reader: CatalogReader, name: TableName) -> Table | None:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return reader.load_table(name.schema, name.name)
    except NoSuchTableError:
        return None


def _is_kind(table: Table, kind: str) -> bool:
    return table.properties.get(KIND) == kind


def _stranger(
    model: Model,
    own: Table | None,
    view: ViewState | None,
    changes: Table | None,
    base: Table | None,
    totals: Table | None,
) -> ConflictingRelation | None:
    if changes is not None and not _is_kind(changes, "changes"):
        return ConflictingRelation(model.table.changes, "table")
    if totals is not None and not _is_kind(totals, "totals"):
        return ConflictingRelation(model.table.totals, "table")
    if own is not None and not (_is_kind(own, "base") and model.config.merge == "on_write"):
        return ConflictingRelation(model.table, "table")
    if base is not None and not _is_kind(base, "base") and model.config.merge == "on_read":
        return ConflictingRelation(model.table.base, "table")
    if view is not None and (view.head is None or model.config.merge == "on_write"):
        return ConflictingRelation(model.table, "view", view.is_clone)
    return None


def _aggregate_state(table: Table | None, last: RunSummary | None) -> int | None:
    """The snapshot of the totals that the newest run wrote, before it committed its change rows."""
    if table is None or last is None or last.aggregate_state is None:
        return None
    written = (found for found in table.metadata.snapshots if _summary(found).get(RUN) == last.run)
    return next((snapshot.snapshot_id for snapshot in written), None)


def _change_table(table: Table) -> ChangeTableState:
    return ChangeTableState(
        uuid=str(table.metadata.table_uuid),
        columns=_columns(table.schema()),
        commits=tuple(_commits(table)),
        properties=dict(table.properties),
        branches=_branches(table),
        parents=_parents(table),
        times=_times(table),
        formerly=_formerly(table),
    )


def _base(table: Table) -> BaseState:
    lineage = list(_lineage(table))
    if not lineage:
        raise CorruptState(
            f"{'.'.join(table.name())}: the base has no snapshot.\n  expected: at least one snapshot\n  found: none\n"
            "  what to do: drop the base; the next run rebuilds it from the change table"
        )
    merged = next((text for snapshot in lineage if (text := _summary(snapshot).get(MERGED))), None)
    return BaseState(
        uuid=str(table.metadata.table_uuid),
        columns=_columns(table.schema()),
        snapshot=lineage[0].snapshot_id,
        merged=decode_versions(merged).get("changes"),
        rows=_live_rows(_summary(lineage[0])),
        properties=dict(table.properties),
        branches=_branches(table),
        parents=_parents(table),
        times=_times(table),
        formerly=_formerly(table),
        sequence=lineage[0].sequence_number if table.metadata.format_version >= 3 else None,
        has_write_order=table.metadata.default_sort_order_id != _UNSORTED,
    )


def _source(name: TableName, kind: str, table: Table) -> SourceState | None:
    commits = tuple(_commits(table))
    if not commits:
        return None
    return SourceState(
        name=name,
        kind=kind,
        version=_newest(commits) if kind == "changes" else commits[-1].version,
        commits=commits,
        columns=_columns(table.schema()),
        format_version=table.format_version,
        snapshots=frozenset(snapshot.snapshot_id for snapshot in table.metadata.snapshots),
        rows=_live_rows(commits[-1].summary),
        not_null=tuple(field.name for field in table.schema().fields if field.required),
        trimmed=trimmed_until(table.properties).sequence,
        forgotten=int(table.properties.get(FORGOTTEN_UNTIL, 0)),
        formerly=_formerly(table),
        moved=tuple(_moved(table)),
        keeps_all=table.properties.get(KEEP) == "all",
        key_only_until=_key_only_until(table),
    )


def _key_only_until(table: Table) -> int:
    """The sequence number up to which a table had no `_before`, as far as is known; 0 if it always had it, or never."""
    without = {number for number, schema in table.schemas().items() if BEFORE not in schema.column_names}
    if not without or table.schema().schema_id in without:
        return 0
    sequences = {of.snapshot_id: of.sequence_number or 0 for of in table.metadata.snapshots}
    lacking = [sequences[of.snapshot_id] for of in table.metadata.snapshots if of.schema_id in without]
    return max(lacking, default=min(sequences.values()))


def _with_bases(reader: CatalogReader, source: SourceState | None, key: str, own: Table | None) -> SourceState | None:
    """An arctic model's state with its key and the snapshots of its base: its `own` table, or one beside it."""
    if source is None:
        return None
    keyed = replace(source, key=key_names(key))
    name, table = (source.name, own) if own is not None else (source.name.base, _load(reader, source.name.base))
    if table is None or not _is_kind(table, "base"):
        return keyed
    base = _base(table)
    formerly = {**keyed.formerly, **base.formerly}
    return replace(keyed, base=name, bases=tuple(_merged_snapshots(table)), rows=base.rows, formerly=formerly)


def _merged_snapshots(table: Table) -> Iterator[tuple[int, Version]]:
    """The snapshots of a base that say which version they are merged to, the newest of those that say the same.

    An older one, and one that says nothing, may be half of a merge. Those that savepoints keep are among them, also
    where expiry has removed the snapshots in between.
    """
    kept = {snapshot.snapshot_id: snapshot for snapshot in (*_lineage(table), *(of for _, of in _tagged(table)))}
    found: dict[Version, int] = {}
    for snapshot in sorted(kept.values(), key=lambda snapshot: snapshot.sequence_number or 0):
        told = decode_versions(_summary(snapshot).get(MERGED)).get("changes")
        if told is not None:
            found[told] = snapshot.snapshot_id
    return ((snapshot, version) for version, snapshot in found.items())


def _newest(commits: tuple[Commit, ...]) -> Version:
    """The newest version with rows: a run that changed nothing is no news to those who read its changes.

    A repair is, whatever rows it brought: readers may have read what it mended.
    """
    news = (commit.version for commit in reversed(commits) if commit.rows or REPAIRED in commit.summary)
    return next(news, commits[0].version)


def _commits(table: Table) -> Iterable[Commit]:
    return (_commit(table, snapshot) for snapshot in reversed(list(_lineage(table))))


def _commit(table: Table, snapshot: Snapshot) -> Commit:
    summary = _summary(snapshot)
    operation = _operation(snapshot)
    if COMPACTED_UNTIL in summary:
        operation = "replace"  # What it took away had been replaced, and read by all.
    return Commit(
        version=Version(str(table.metadata.table_uuid), snapshot.snapshot_id, snapshot.sequence_number or 0),
        parent=snapshot.parent_snapshot_id,
        operation=operation,
        rows=0 if operation == "replace" else int(summary.get("added-records", 0)),
        bytes=int(summary.get("added-files-size", 0)),
        summary=summary,
        at_ms=snapshot.timestamp_ms,
    )


def _lineage(table: Table) -> Iterable[Snapshot]:
    """The current snapshot and those behind it, newest first, as far as they are kept."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    current = table.metadata.current_snapshot_id
    while current is not None and current in by_id:
        yield by_id[current]
        current = by_id[current].parent_snapshot_id


def _branches(table: Table) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if ref.snapshot_ref_type == "branch"}


def _parents(table: Table) -> dict[int, int | None]:
    return {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in table.metadata.snapshots}


def _times(table: Table) -> dict[int, int]:
    return {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in table.metadata.snapshots}


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def _live_rows(summary: Mapping[str, str]) -> int:
    return int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))


def _columns(schema: Schema) -> tuple[Column, ...]:
    return tuple(Column(field.name, _spark_type(field.field_type)) for field in schema.fields)


def _spark_type(kind: IcebergType) -> str:
    """A column of a type that Spark has no name for only matters to a query that reads it, and Spark refuses that."""
    try:
        return spark_type(kind)
    except UnsupportedType:
        return "unsupported"


def _formerly(table: Table) -> dict[int, Names]:
    """Snapshots that name columns in another way than the table does today, which reads old files by columns' ids."""
    today, schemas = table.schema(), table.schemas()
    if len(schemas) == 1:
        return {}
    names = {number: _names_then(today, schema) for number, schema in schemas.items()}
    found = ((of.snapshot_id, names.get(of.schema_id or 0, {})) for of in table.metadata.snapshots)
    return {snapshot: then for snapshot, then in found if then}


def _names_then(today: Schema, schema: Schema) -> Names:
    then = {field.field_id: field.name for field in schema.fields}
    known = {name.lower() for name in then.values()}
    pairs = [(field.name, then.get(field.field_id, "")) for field in today.fields]
    return {now: old for now, old in pairs if not same_name(now, old) and (old or now.lower() in known)}


def _moved(table: Table) -> Iterator[str]:
    """Columns, those inside of others too, whose names, ids and types have not always belonged together."""
    schemas = table.schemas()
    if len(schemas) == 1:
        return
    ever = {(name.lower(), of.find_field(name).field_id) for of in schemas.values() for name in of.column_names}
    ids, names = Counter(name for name, _ in ever), Counter(number for _, number in ever)
    types = _types_ever(schemas.values())
    today = table.schema()
    for name in map(str.lower, today.column_names):
        field = today.find_field(name, case_sensitive=False)
        if ids[name] > 1 or names[field.field_id] > 1:
            yield f"{name}={field.field_id}"
        if len(types[field.field_id]) > 1:
            yield f"{name}:{field.field_type}"


def _types_ever(schemas: Iterable[Schema]) -> dict[int, set[str]]:
    """The types that each field has had; of structs, lists and maps those of what is in them count."""
    found: dict[int, set[str]] = defaultdict(set)
    for schema in schemas:
        for name in schema.column_names:
            field = schema.find_field(name)
            found[field.field_id].add(str(field.field_type) if field.field_type.is_primitive else "")
    return found
