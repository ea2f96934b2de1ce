"""What can be told of tables without Spark: their versions, what waits to be merged, who reads them, one row."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import ACTION, SEQUENCE, plain_columns
from arctic_runtime.model.state import Commit, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.observe import last_consumed, observe_model
from arctic_runtime.plan import decide as decisions

if TYPE_CHECKING:
    from pyiceberg.table import DataScan, Table


@dataclass(frozen=True)
class Consumer:
    """A model that reads another, and how many commits of it that it has not read yet."""

    model: str
    behind_commits: int
    behind_rows: int


@dataclass(frozen=True)
class Status:
    """A table at one glance; numbers are rows, bytes and counts as the catalog keeps them."""

    model: str
    built: bool
    version: str = ""
    changed_at: str = ""
    rows: int = 0
    files: int = 0
    bytes: int = 0
    nodes: int = 0
    versions: int = 0
    unmerged_commits: int = 0
    unmerged_rows: int = 0
    consumers: tuple[Consumer, ...] = ()


@dataclass(frozen=True)
class HistoryEntry:
    """One version of a table."""

    version: str
    at: str
    mode: str
    reason: str
    rows: int
    consumed: Mapping[str, str]


@dataclass(frozen=True)
class Lookup:
    """A row by its key, None where there is none, and how many data files were opened for it."""

    row: Mapping[str, Any] | None
    files_opened: int


def status(reader: CatalogReader, model: Model, project: Sequence[Model]) -> Status:
    """The state of one table; `project` are the models that may read it."""
    state = observe_model(reader, model)
    if state.changes is None or state.base is None:
        return Status(str(model.table), built=False)
    runs = (commit for commit in reversed(state.changes.commits) if decisions.RUN in commit.summary)
    head = next(runs, state.changes.commits[-1])
    pending = state.changes.after(state.base.merged)
    summary = _base_summary(reader, model)
    return Status(
        model=str(model.table),
        built=True,
        version=str(head.version.snapshot),
        changed_at=_time(head),
        rows=state.base.rows,
        files=int(summary.get("total-data-files", 0)),
        bytes=int(summary.get("total-files-size", 0)),
        nodes=_nodes(reader, model),
        versions=len(state.changes.commits),
        unmerged_commits=len(pending),
        unmerged_rows=state.changes.rows_after(state.base.merged),
        consumers=tuple(_consumers(reader, model, state, project)),
    )


def describe_status(status: Status) -> list[str]:
    """A few lines for people."""
    if not status.built:
        return [f"{status.model}: not built yet"]
    return [
        f"{status.model}: version {status.version} of {status.changed_at}, {status.versions} versions kept",
        f"  base: {status.rows:,} rows, {status.files} files, {status.bytes:,} bytes, {status.nodes} nodes",
        f"  not merged: {status.unmerged_commits} commits, {status.unmerged_rows:,} rows",
        *(
            f"  read by {consumer.model}: {consumer.behind_commits} commits behind, {consumer.behind_rows:,} rows"
            for consumer in status.consumers
        ),
    ]


def describe_restored(model: Model, counts: Mapping[str, int]) -> str:
    """A line for people; `counts` are the changed rows by action."""
    return f"{model.table}: restored +{counts['insert']} ~{counts['update']} -{counts['delete']}"


def history(reader: CatalogReader, model: Model) -> tuple[HistoryEntry, ...]:
    """The versions of a table that are kept, newest first."""
    state = observe_model(reader, model)
    commits = state.changes.commits if state.changes else ()
    return tuple(_entry(commit) for commit in reversed(commits) if decisions.RUN in commit.summary)


def lookup(reader: CatalogReader, model: Model, values: Sequence[str]) -> Lookup:
    """The row of a key, given as texts in the order of the primary key; reads only files that may hold it.

    Raises ConfigError where the number of values is not that of the key's columns.
    """
    key = model.config.primary_key
    if len(values) != len(key):
        raise ConfigError(f"{model.table}: give one value for each of {', '.join(key) or 'no column'}")
    state = observe_model(reader, model)
    if state.changes is None or state.base is None:
        raise ConfigError(f"{model.table} was not built yet; run it first")
    wanted = dict(zip(key, values, strict=True))
    changes, opened = _unmerged_rows(reader, model, state, wanted)
    names = [column.name for column in plain_columns(state.changes.columns)]
    if changes:
        newest = max(changes, key=lambda row: (row["_place"], row[SEQUENCE]))
        row = None if newest[ACTION] == "delete" else {name: newest[name] for name in names}
        return Lookup(row, opened)
    scan = _scan(reader.load_table(model.base.schema, model.base.name), state.base.snapshot, wanted)
    opened += len(list(scan.plan_files()))
    found = scan.to_arrow().to_pylist()
    return Lookup(found[0] if found else None, opened)


def _unmerged_rows(
    reader: CatalogReader, model: Model, state: TableState, wanted: Mapping[str, str]
) -> tuple[list[dict[str, Any]], int]:
    """The key's change rows that are not merged yet, each with its commit's place in the order."""
    assert state.changes is not None
    assert state.base is not None
    pending = state.changes.after(state.base.merged)
    if not pending:
        return [], 0
    table = reader.load_table(model.table.changes.schema, model.table.changes.name)
    places = _added_files(table, pending)
    found: dict[str, Any] = {}
    for snapshot in _before_rewriting(state.changes.commits, pending):
        scan = _scan(table, snapshot, wanted)
        found |= {task.file.file_path: (scan, task) for task in scan.plan_files() if task.file.file_path in places}
    rows = [
        {**row, "_place": places[path]} for path, (scan, task) in found.items() for row in _read(table, scan, [task])
    ]
    return rows, len(found)


def _before_rewriting(commits: Sequence[Commit], pending: Sequence[Commit]) -> list[int]:
    """Snapshots that together have all files that were added in `pending`, before anybody put some of them together."""
    first = pending[0].version.sequence
    rewritten = (c.parent for c in commits if c.operation == "replace" and c.version.sequence > first)
    return [*(parent for parent in rewritten if parent is not None), pending[-1].version.snapshot]


def _added_files(table: Table, commits: Sequence[Commit]) -> dict[str, int]:
    """Path → sequence number of the data files that these commits added, each read where it was added."""
    places: dict[str, int] = {}
    for commit in commits:
        snapshot = table.snapshot_by_id(commit.version.snapshot)
        assert snapshot is not None
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                entries = manifest.fetch_manifest_entry(table.io)
                added = (entry for entry in entries if entry.snapshot_id == snapshot.snapshot_id)
                places |= {entry.data_file.file_path: commit.version.sequence for entry in added}
    return places


def _read(table: Table, scan: DataScan, tasks: Sequence[Any]) -> list[dict[str, Any]]:
    from pyiceberg.io.pyarrow import ArrowScan

    reading = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter, scan.case_sensitive)
    rows: list[dict[str, Any]] = reading.to_table(tasks).to_pylist()
    return rows


def _scan(table: Table, snapshot: int, wanted: Mapping[str, str]) -> DataScan:
    from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, Reference
    from pyiceberg.expressions.literals import literal

    condition: BooleanExpression = AlwaysTrue()
    for name, value in wanted.items():
        kind = table.schema().find_field(name, case_sensitive=False).field_type
        try:
            condition = And(condition, EqualTo(term=Reference(name), value=literal(value).to(kind)))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise ConfigError(f"{value!r} is no {kind}, which is the type of the key column `{name}`") from error
    return table.scan(row_filter=condition, snapshot_id=snapshot, case_sensitive=False)


def _consumers(reader: CatalogReader, model: Model, state: TableState, project: Sequence[Model]) -> Sequence[Consumer]:
    found = []
    assert state.changes is not None
    for other in project:
        offset = last_consumed(reader, other.table).get(str(model.table))
        if offset is not None and offset.table == state.changes.uuid:
            commits, rows = len(state.changes.after(offset)), state.changes.rows_after(offset)
            found.append(Consumer(str(other.table), commits, rows))
    return found


def _entry(commit: Commit) -> HistoryEntry:
    summary = commit.summary
    read = decisions.consumed(summary)
    return HistoryEntry(
        version=str(commit.version.snapshot),
        at=_time(commit),
        mode=summary.get(decisions.MODE, ""),
        reason=summary.get(decisions.REASON, ""),
        rows=commit.rows,
        consumed={name: str(version.snapshot) for name, version in read.items()},
    )


def _time(commit: Commit) -> str:
    return datetime.datetime.fromtimestamp(commit.at_ms / 1000, datetime.timezone.utc).isoformat(" ", "seconds")


def _base_summary(reader: CatalogReader, model: Model) -> Mapping[str, str]:
    snapshot = reader.load_table(model.base.schema, model.base.name).current_snapshot()
    return snapshot.summary.additional_properties if snapshot and snapshot.summary else {}


def _nodes(reader: CatalogReader, model: Model) -> int:
    from pyiceberg.transforms import BucketTransform

    spec = reader.load_table(model.base.schema, model.base.name).spec()
    counts = [field.transform.num_buckets for field in spec.fields if isinstance(field.transform, BucketTransform)]
    return counts[-1] if counts else 1
