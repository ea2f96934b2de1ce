"""Reads facts about a table for people, without Spark: versions, unmerged changes, files, and models that read it."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from arctic_runtime.catalog.foreign_readers import list_foreign_offsets
from arctic_runtime.catalog.observation.table_facts import observe_lineage
from arctic_runtime.catalog.observation.table_size import UnmergedRows, count_table_rows
from arctic_runtime.catalog.observation.tables import (
    observe_columns,
    observe_model,
    observe_progress,
    observe_savepoints,
    read_last_offsets,
)
from arctic_runtime.catalog.reader import CatalogReader, find_metadata
from arctic_runtime.model.columns import CHANGE_COLUMNS, Column, SchemaChange, compare_columns
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import Savepoint
from arctic_runtime.model.run_summary import (
    RunSummary,
    describe_frozen,
    find_awaited_cut,
    find_last_run,
    find_version_at,
    get_offsets,
    run_commits,
)
from arctic_runtime.model.sources.freshness import Freshness
from arctic_runtime.model.sources.ingestion import Progress, SourceProgress, time_of
from arctic_runtime.model.sources.positions import ParsePosition, keep_opaque
from arctic_runtime.model.state import ChangeTableState, Commit
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.freshness import FreshnessPlan

Offsets = Mapping[str, Mapping[str, Version]]
"""The version of each upstream, by name, up to which each model has read it, by the name of the model's table."""


@dataclass(frozen=True)
class Consumer:
    """A model that reads a table, and the numbers of the table's commits and change rows that it has not read yet."""

    model: str
    behind_commits: int
    behind_rows: int
    noted_at: str = ""
    """For a model of another project, the time at which it has noted that it reads the table; else empty."""


@dataclass(frozen=True)
class IngestionStatus:
    """Progress of an ingested table; values that are not known are an empty text or None.

    Positions are those in the source's log of changes.
    """

    source: str
    """Name of the source in the project."""

    table: str
    """Name of the table in the source."""

    position: str = ""
    """Position up to which the table has all events."""

    changed_at: str = ""
    """Time at which the source made the newest change that the table has."""

    source_position: str = ""
    """Position up to which every table of the source has all its events."""

    cut_version: str = ""
    """Newest version of the table without events after `source_position`."""

    as_of: str = ""
    """Time at which the source looked as the table looks now."""

    lag_seconds: float | None = None
    """Seconds since `as_of`."""

    dead_letters: int = 0
    """Number of events of the whole source that could not be applied."""

    loaded_rows: int | None = None
    """Number of rows that a load under way has read; None if there is no load under way."""

    estimated_rows: int | None = None
    """Estimated number of rows that this load has to read; None if it is not known."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings with which the source is ingested, with secrets masked; empty if they are not known."""

    waits: Mapping[str, str] = field(default_factory=dict)
    """Other tables of the source that wait, by their names in the source, with the reason."""


@dataclass(frozen=True)
class Status:
    """Summary of a table's state, from metadata in the catalog; no rows are read."""

    model: str
    built: bool
    """Whether the table exists."""

    version: str = ""
    """Newest version of the table, as a text; empty if there is none."""

    changed_at: str = ""
    """Time of the newest commit."""

    rows: int = 0
    """Number of rows that readers see, including unmerged changes.

    With `changelog: input` it is the number of rows in the base table, since such change rows do not say which rows are
    new.
    """

    files: int = 0
    """Number of data files."""

    bytes: int = 0
    """Bytes of the data files."""

    nodes: int = 0
    """Number of buckets per partition."""

    versions: int = 0
    """Number of versions that have not expired."""

    unmerged_commits: int = 0
    """Number of commits of the change table that are not merged into the base table; 0 without a key."""

    unmerged_rows: int = 0
    """Number of change rows in these commits."""

    consumers: tuple[Consumer, ...] = ()
    """Models that read the table, with what they have not read yet."""

    savepoints: Mapping[str, str] = field(default_factory=dict)
    """Version of each savepoint, by its name."""

    ingestion: IngestionStatus | None = None
    """Progress of ingestion; None for tables that models compute."""

    has_key: bool = True
    """Whether the table has a primary key."""

    freshness: Freshness | None = None
    """Freshness of the table; None if it was not computed, or if there is no table."""

    frozen: int = 0
    """Number of changes that the last run did not apply, since they would touch frozen rows."""

    frozen_total: int = 0
    """Number of such changes since frozen rows were last computed."""

    awaited_cut: str = ""
    """The cut to which the table was restored and for whose query its runs wait; empty if they don't wait."""

    edited_at: str = ""
    """Time of the newest edit of the query that left rows of earlier queries; empty if all rows are of one query."""

    older_rows: int = 0
    """Number of rows, at most, that are of earlier queries."""


@dataclass(frozen=True)
class HistoryEntry:
    """One version of a table, with the run that committed it."""

    version: str
    """The version, as a text."""

    sequence: int
    """Sequence number of the commit, which is the `_commit_version` of its change rows."""

    at: str
    """Time of the commit."""

    mode: str
    """Mode of the run."""

    reason: str
    """Reason for the mode."""

    rows: int
    """Number of change rows of the commit."""

    consumed: Mapping[str, str]
    """Maps each upstream to the version up to which the run read it."""

    savepoints: tuple[str, ...] = ()
    """Names of the savepoints of this version."""

    columns: SchemaChange = field(default_factory=SchemaChange)
    """Differences of the table's columns from those of the previous version.

    Empty if the columns of either version are not known.
    """

    where: str = ""
    """Predicate of a restatement; else empty."""


def read_status(
    reader: CatalogReader, model: Model, project: Sequence[Model], counts: UnmergedRows | None = None
) -> Status:
    """Reads the state of a model's table; `project` are all models, any of which may read the table.

    `counts` caches numbers of unmerged rows between calls, so that repeated calls read each commit only once.
    """
    (status,) = read_statuses(reader, [model], project, counts)
    return status


def read_statuses(
    reader: CatalogReader, models: Sequence[Model], project: Sequence[Model], counts: UnmergedRows | None = None
) -> Iterator[Status]:
    """Yields the state of each model's table, as `read_status` does; reads once what each model has read."""
    offsets = {str(other.table): read_last_offsets(reader, other.table) for other in project}
    counts = counts or UnmergedRows(reader)
    return (_read_status(reader, model, offsets, counts) for model in models)


def _read_status(reader: CatalogReader, model: Model, offsets: Offsets, counts: UnmergedRows) -> Status:
    state = observe_model(reader, model)
    if state.appended is not None:
        return replace(_read_table_status(reader, model, state.appended, offsets), has_key=False)
    if state.changes is None or state.base is None:
        return Status(str(model.table), built=False, ingestion=_read_ingestion(reader, model, None))
    pending = state.changes.list_commits_after(state.base.merged)
    rows = count_table_rows(model, state, counts)
    last = find_last_run(state.changes) or RunSummary()
    edit = last.forward
    return replace(
        _read_table_status(reader, model, state.changes, offsets),
        rows=rows,
        nodes=_count_nodes(reader, model),
        unmerged_commits=len(pending),
        unmerged_rows=state.changes.count_rows_after(state.base.merged),
        savepoints={
            reader_model.name: str(reader_model.commit.version.snapshot)
            for reader_model in observe_savepoints(reader, model)
        },
        frozen=last.count_frozen(),
        frozen_total=int(last.frozen_total or 0),
        awaited_cut=find_awaited_cut(state.changes) or "",
        edited_at=_format_iso(time_of(edit.at_ms)) if edit else "",
        older_rows=min(edit.rows, rows) if edit else 0,
    )


def _read_table_status(reader: CatalogReader, model: Model, log: ChangeTableState, offsets: Offsets) -> Status:
    """Builds the part of the status that tables with and without a key have in common: commits, files and consumers.

    `rows` is the number of rows in the newest snapshot of the table, or of its base table if it has a key.
    """
    head = (run_commits(log) or log.commits)[-1]
    summary = _read_base_summary(reader, model)
    return Status(
        model=str(model.table),
        built=True,
        version=str(head.version.snapshot),
        changed_at=_format_commit_time(head),
        rows=int(summary.get("total-records", 0)),
        files=int(summary.get("total-data-files", 0)),
        bytes=int(summary.get("total-files-size", 0)),
        versions=len(log.commits),
        consumers=tuple(_list_consumers(reader, model, log, offsets)),
        ingestion=_read_ingestion(reader, model, log),
    )


def _read_ingestion(reader: CatalogReader, model: Model, log: ChangeTableState | None) -> IngestionStatus | None:
    """Reads the progress of an ingested table; None for other tables. `log` is None for a table that does not exist."""
    if model.source is None or model.ingested_from is None:
        return None
    now = datetime.datetime.now(datetime.timezone.utc)
    source_progress = observe_progress(reader, model.source.dead_letters) or SourceProgress(Progress(), 0)
    commits = () if log is None else run_commits(log)
    runs = [RunSummary.decode(commit.summary) for commit in commits]
    own = max((time_of(run.source_time_ms) for run in runs if run.source_time_ms is not None), default=None)
    last = None if log is None else find_last_run(log)
    progress = source_progress.progress.get_table_progress(model.ingested_from, own)
    load = source_progress.progress.loading.get(model.ingested_from)
    parse = model.source.parse_position
    cut = find_version_at(commits, progress.position or "", parse)
    return IngestionStatus(
        source=model.source.name,
        table=model.ingested_from,
        position=(last.position if last else None) or "",
        changed_at=_format_iso(own),
        source_position=parse(source_progress.progress.position or "").text,
        cut_version=str(cut.version.snapshot) if cut else "",
        as_of=_format_iso(progress.as_of),
        lag_seconds=progress.compute_lag_seconds(now),
        dead_letters=source_progress.dead_letters,
        loaded_rows=None if load is None else load.rows,
        estimated_rows=None if load is None else load.estimate,
        settings=source_progress.settings,
        waits={
            table: wait.message
            for table, wait in sorted(source_progress.progress.waits.items())
            if table != model.ingested_from
        },
    )


def observe_freshness(
    reader: CatalogReader, models: Sequence[Model], project: Sequence[Model], now: datetime.datetime
) -> dict[TableName, Freshness]:
    """Computes the freshness of each model's table at the time `now`; returns it by table.

    The freshness of a table depends on all tables from which it is computed; `project` has all models, by which these
    are determined. Models whose table does not exist are left out.
    """
    facts = observe_lineage(reader, [model.table for model in models], project)
    plan = FreshnessPlan(facts, now, reader.thresholds.ingest.confirmed_seconds)
    return {model.table: plan.get_freshness(str(model.table)) for model in models if str(model.table) in facts}


def describe_status(
    status: Status, now: datetime.datetime | None = None, parse_position: ParsePosition = keep_opaque
) -> list[str]:
    """Describes a status in lines for people; includes the freshness at the time `now`, unless `now` is None.

    `parse_position` parses positions of an ingested table's source, so that they are shown in readable form.
    """
    freshness = [f"  {status.freshness.describe_freshness(now)}"] if status.freshness and now else []
    ingestion = _describe_ingestion(status.ingestion, parse_position) if status.ingestion else []
    if not status.built:
        return [f"{status.model}: not {'loaded' if ingestion else 'built'} yet", *freshness, *ingestion]
    files = f"{status.files} files, {status.bytes:,} bytes"
    own = [f"  without a key, appended to: {status.rows:,} rows, {files}"]
    if status.has_key:
        own = [f"  {status.rows:,} rows; base: {files}, {status.nodes} nodes"]
        own += [f"  not merged: {status.unmerged_commits} commits, {status.unmerged_rows:,} rows"]
    return [
        f"{status.model}: version {status.version} of {status.changed_at}, {status.versions} versions kept",
        *([f"  waits for the query of {status.awaited_cut}, to which it was restored"] if status.awaited_cut else []),
        *(
            [f"  its query is of {status.edited_at}; up to {status.older_rows:,} rows are still of earlier queries"]
            if status.edited_at
            else []
        ),
        *freshness,
        *own,
        *([f"  {_describe_frozen(status)}"] if status.frozen_total else []),
        *(
            f"  read by {consumer.model}: {consumer.behind_commits} commits behind, {consumer.behind_rows:,} rows"
            f"{f'; of another project, noted {consumer.noted_at}' if consumer.noted_at else ''}"
            for consumer in status.consumers
        ),
        *ingestion,
        *(f"  savepoint {name}: version {version}" for name, version in status.savepoints.items()),
    ]


def _describe_frozen(status: Status) -> str:
    total = describe_frozen(status.frozen_total)
    return f"{total} since frozen rows were last computed, {status.frozen:,} of them by the last run"


def _describe_ingestion(ingestion: IngestionStatus, parse_position: ParsePosition) -> list[str]:
    newest = f"newest change of {ingestion.changed_at}, " if ingestion.changed_at else ""
    lag = "" if ingestion.lag_seconds is None else f"{ingestion.lag_seconds:,.0f} s behind, "
    own, all_tables = (
        parse_position(text).describe_position() or "its begin"
        for text in (ingestion.position, ingestion.source_position)
    )
    version = f", which version {ingestion.cut_version} shows" if ingestion.cut_version else ""
    return [
        f"  ingested from {ingestion.table} of {ingestion.source}: {newest}{lag}"
        f"{ingestion.dead_letters:,} dead letters in the source",
        f"  last commit at {own}; all tables of {ingestion.source} are complete up to {all_tables}{version}",
        *(f"  {table} of {ingestion.source} waits: {' '.join(why.split())}" for table, why in ingestion.waits.items()),
        *([f"  ingested with {json.dumps(ingestion.settings, ensure_ascii=False)}"] if ingestion.settings else ()),
    ]


def format_row_counts(counts: Mapping[str, int]) -> str:
    """Formats numbers of change rows by action, such as `+3 ~1 -0` for rows inserted, updated and deleted."""
    return f"+{counts['insert']} ~{counts['update']} -{counts['delete']}"


def describe_restored(model: Model, counts: Mapping[str, int]) -> str:
    """Describes a restore in a line for people; `counts` has the number of changed rows by action."""
    return f"{model.table}: restored {format_row_counts(counts)}"


def describe_overwritten(model: Model, counts: Mapping[str, int], as_of: str) -> str:
    """Describes an overwrite in a line for people; `counts` has the number of changed rows by action."""
    return f"{model.table}: as of {as_of} {format_row_counts(counts)}"


def describe_savepoint(model: Model, savepoint: Savepoint) -> str:
    """Describes a new savepoint in a line for people."""
    return f"{model.table}: savepoint {savepoint.name} at version {savepoint.commit.version.snapshot}"


def read_history(reader: CatalogReader, model: Model) -> tuple[HistoryEntry, ...]:
    """Reads the versions of a table that are not expired, newest first, including those that only a savepoint keeps."""
    state = observe_model(reader, model)
    named = observe_savepoints(reader, model)
    runs = {commit.version: commit for commit in run_commits(state.log)}
    known = {**{savepoint.commit.version: savepoint.commit for savepoint in named}, **runs}
    ordered = sorted(known.values(), key=lambda commit: commit.version.sequence)
    changes = _list_schema_changes(ordered, observe_columns(reader, model.log))
    entries = (
        _build_entry(
            commit, [savepoint.name for savepoint in named if savepoint.commit.version == commit.version], changed
        )
        for commit, changed in zip(ordered, changes, strict=True)
    )
    return tuple(reversed(tuple(entries)))


def _list_schema_changes(commits: Sequence[Commit], columns: Mapping[int, Mapping[int, Column]]) -> list[SchemaChange]:
    """Compares the columns of each commit with those of the commit before; returns one difference per commit.

    `columns` has the columns of each snapshot id by field id. The difference is empty for the first commit, and if the
    columns of either commit are not known.
    """
    own = [_strip_change_columns(columns.get(commit.version.snapshot, {})) for commit in commits]
    changed = [compare_columns(old, new) if old and new else SchemaChange() for old, new in pairwise(own)]
    return [SchemaChange(), *changed][: len(commits)]


def _strip_change_columns(columns: Mapping[int, Column]) -> Mapping[int, Column]:
    """Returns a change table's columns without those that only change rows have, such as `_action`."""
    return {number: column for number, column in columns.items() if column.name not in CHANGE_COLUMNS}


def describe_history(entry: HistoryEntry) -> list[str]:
    """Describes a version in one line for people, with more lines for a predicate and for changed columns."""
    names = f"  ({', '.join(entry.savepoints)})" if entry.savepoints else ""
    line = f"{entry.version:>20}  {entry.at}  {entry.mode:12} {entry.reason:18} {entry.rows:,} rows{names}"
    where = [f"{'':22}where {entry.where}"] if entry.where else []
    columns = [] if entry.columns.is_empty else [f"{'':22}columns: {entry.columns.describe_change()}"]
    return [line, *where, *columns]


def _list_consumers(reader: CatalogReader, model: Model, log: ChangeTableState, offsets: Offsets) -> Sequence[Consumer]:
    consumers, name = [], str(model.table)
    for other, read in offsets.items():
        offset = read.get(name)
        if offset is not None and offset.table == log.uuid:
            commits, rows = len(log.list_commits_after(offset)), log.count_rows_after(offset)
            consumers.append(Consumer(other, commits, rows))
    known = {consumer.model for consumer in consumers}
    now_ms = round(1000 * datetime.datetime.now(datetime.timezone.utc).timestamp())
    for foreign, (offset, at_ms) in list_foreign_offsets(log, reader, now_ms).items():
        if str(foreign) not in known:
            commits, rows = len(log.list_commits_after(offset)), log.count_rows_after(offset)
            consumers.append(Consumer(str(foreign), commits, rows, _format_iso(time_of(at_ms))))
    return consumers


def _build_entry(commit: Commit, names: Sequence[str], changed: SchemaChange) -> HistoryEntry:
    run = RunSummary.decode(commit.summary)
    return HistoryEntry(
        version=str(commit.version.snapshot),
        sequence=commit.version.sequence,
        at=_format_commit_time(commit),
        mode=run.mode or "",
        reason=run.reason or "",
        rows=commit.rows,
        consumed={name: str(version.snapshot) for name, version in get_offsets(run).items()},
        savepoints=tuple(names),
        columns=changed,
        where=run.where or "",
    )


def _format_commit_time(commit: Commit) -> str:
    return _format_iso(time_of(commit.at_ms))


def _format_iso(at: datetime.datetime | None) -> str:
    return "" if at is None else at.isoformat(" ", "seconds")


def _read_base_summary(reader: CatalogReader, model: Model) -> Mapping[str, str]:
    base = find_metadata(reader, model.base)
    snapshot = base.current_snapshot() if base is not None else None
    return snapshot.summary.additional_properties if snapshot and snapshot.summary else {}


def _count_nodes(reader: CatalogReader, model: Model) -> int:
    base = find_metadata(reader, model.base)
    transforms = [str(field.transform) for field in base.spec().fields] if base is not None else []
    counts = [int(match[1]) for text in transforms if (match := _BUCKET.fullmatch(text))]
    return counts[-1] if counts else 1


_BUCKET = re.compile(r"bucket\[(\d+)\]")
