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
from arctic_runtime.observe import observe_model
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
    head = state.changes.commits[-1]
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
        unmerged_rows=sum(commit.rows for commit in pending),
        consumers=tuple(_consumers(reader, model, state, project)),
    )


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
    head = pending[-1].version.snapshot
    places = _added_files(table, head, {commit.version.snapshot: commit.version.sequence for commit in pending})
    scan = _scan(table, head, wanted)
    tasks = [task for task in scan.plan_files() if task.file.file_path in places]
    rows = [{**row, "_place": places[task.file.file_path]} for task in tasks for row in _read(table, scan, [task])]
    return rows, len(tasks)


def _added_files(table: Table, head: int, commits: Mapping[int, int]) -> dict[str, int]:
    """Path → sequence number of the data files that these commits added."""
    snapshot = table.snapshot_by_id(head)
    assert snapshot is not None
    return {
        entry.data_file.file_path: commits[entry.snapshot_id]
        for manifest in snapshot.manifests(table.io)
        if manifest.added_snapshot_id in commits
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.snapshot_id is not None and entry.snapshot_id in commits
    }


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
        offset = decisions.consumed(decisions.last_run(observe_model(reader, other).changes)).get(str(model.table))
        if offset is not None and offset.table == state.changes.uuid:
            behind = state.changes.after(offset)
            found.append(Consumer(str(other.table), len(behind), sum(commit.rows for commit in behind)))
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
