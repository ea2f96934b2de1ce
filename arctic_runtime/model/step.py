"""Steps: data classes for effects on a model's relations, of which plans consist.

One evaluator performs the steps, and `arctic explain` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from typing_extensions import assert_never

from arctic_runtime.model.baseline import Baseline
from arctic_runtime.model.columns import Column, SchemaChange
from arctic_runtime.model.files.compaction import ResizeBuckets, RewriteBase, RewriteFiles, describe_compaction
from arctic_runtime.model.files.expiry import CompactChangelog, DropTags, ExpireSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import SetTag
from arctic_runtime.model.state import ConflictingRelation
from arctic_runtime.model.table import Transform
from arctic_runtime.model.version import Version

Mode = Literal["create", "incremental", "full", "unchanged"]
Reason = Literal[
    "FIRST_RUN",
    "CHANGES",
    "FULL_REFRESH",
    "ADOPTED",
    "RESTORED",
    "RESTATED",
    "FORGOTTEN",
    "REPLAYED",
    "RESYNCED",
    "QUERY_CHANGED",
    "EDITED",
    "FORWARD",
    "REVERTED",
    "PROMOTED",
    "OVERWRITTEN",
    "NOTHING_NEW",
    "WAITS_FOR_RESTORED_QUERY",
    "SCHEMA_ONLY",
    "AS_CONFIGURED",
    "COST",
    "EVERYTHING_AFFECTED",
    "TOO_COMPLEX",
    "GROUPING_SETS",
    "INCREMENT_FAILED",
    "LIMIT",
    "NON_DETERMINISTIC",
    "NOT_IN_NULLABLE",
    "NOT_REPEATABLE",
    "NOT_SAME_TO_SPARK",
    "ONE_ROW",
    "SCALAR_SUBQUERY",
    "SELF_REFERENCE",
    "SOURCE_REPAIRED",
    "SOURCE_REPLACED",
    "SOURCE_UNKNOWN",
    "SUBQUERY",
    "UNKNOWN_FUNCTION",
    "UNPARSED",
    "UNRESOLVED",
    "UNSUPPORTED",
    "UPSTREAM_EXPIRED",
]


@dataclass(frozen=True)
class DropBranches:
    """Drop branches of attempts that can't be published any more."""

    table: TableName
    branches: tuple[str, ...]


@dataclass(frozen=True)
class CreateChangeTable:
    """Create an empty change table for rows with these columns; `sequence_type` is the type of `_seq`.

    If `baseline` is given, the change table continues the rows of that snapshot.
    """

    table: TableName
    columns: tuple[Column, ...]
    sequence_type: str
    baseline: Baseline | None = None


@dataclass(frozen=True)
class CreateAppended:
    """Create an empty table without a primary key, for rows with these columns."""

    table: TableName
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class SetLayout:
    """Set the partition spec and sort order for later writes to a table without a primary key."""

    table: TableName
    drop: tuple[Transform, ...]
    """Partition fields to drop, before others are added."""

    add: tuple[Transform, ...]
    """Partition fields to add."""

    sort_key: tuple[str, ...]
    """Columns by which rows are sorted in files; empty if they are not sorted."""

    properties: tuple[tuple[str, str], ...]
    """Table properties to set."""

    text: str
    """The layout as JSON, which a property stores."""


@dataclass(frozen=True)
class EvolveSchema:
    """Change the columns of a table.

    `is_change_table` is True for a change table, in which the struct `_before` has to change as well.
    """

    table: TableName
    change: SchemaChange
    is_change_table: bool


@dataclass(frozen=True)
class AppendChanges:
    """Commit a run's change rows and offsets, if the change table's newest snapshot still is `expected`.

    A `ChangeSet` consists of this step and the rows.
    """

    table: TableName
    expected: int
    mode: Mode
    reason: Reason


@dataclass(frozen=True)
class CreateBase:
    """Create a model's base table with the rows that result from the change rows up to `version`.

    `bytes` are those of these change rows. If `replaces`, the step replaces an existing table of this name.
    """

    table: TableName
    version: Version
    bytes: int
    replaces: bool = False


@dataclass(frozen=True)
class AdoptBase:
    """Make a table of other writers the base table of a model whose change table continues its snapshot `baseline`.

    `version` is the version of the change table that has no change rows yet.
    """

    table: TableName
    baseline: Baseline
    version: Version


@dataclass(frozen=True)
class MergeBase:
    """Merge the change rows after `start` and up to `end` into the base table, if its snapshot still is `expected`.

    `commits` is the number of commits of the change table with these rows.
    """

    table: TableName
    expected: int
    start: Version | None
    end: Version
    commits: int


@dataclass(frozen=True)
class ReplaceView:
    """Replace the view of a table merged on read.

    The view shows the base table at `base_snapshot`, merged with the change rows after `merged` and up to `head`.
    `commits` is the number of commits with these change rows.
    """

    table: TableName
    base_snapshot: int
    merged: Version
    head: Version
    commits: int


@dataclass(frozen=True)
class NoteCurrentView:
    """Store the name of the view of current versions in the change table's properties; an empty name for no view."""

    table: TableName
    view: str


@dataclass(frozen=True)
class ReplaceCurrentView:
    """Create or replace the view of a table's current versions, with the current columns of the table."""

    view: TableName
    table: TableName


@dataclass(frozen=True)
class DropCurrentView:
    """Drop a view of current versions that the model's configuration no longer has under this name."""

    view: TableName


@dataclass(frozen=True)
class NoteChangesView:
    """Store the name of the view of change rows in the change table's properties; an empty name for no view."""

    table: TableName
    view: str


@dataclass(frozen=True)
class ReplaceChangesView:
    """Create or replace the view of the change rows of a table, with the current columns of the table."""

    view: TableName
    table: TableName


@dataclass(frozen=True)
class DropChangesView:
    """Drop a view of change rows that the model's configuration no longer has under this name."""

    view: TableName


@dataclass(frozen=True)
class DropTable:
    """Drop a base table that is then created with an older format version, to which Iceberg can't replace a table."""

    table: TableName


@dataclass(frozen=True)
class DropConflictingRelation:
    """Drop a relation of the model's name that the model did not create, just before its own relation is created."""

    conflicting: ConflictingRelation


@dataclass(frozen=True)
class SetWriteOrder:
    """Set the order by which writers sort the files of a base table to the model's sort key."""

    table: TableName


@dataclass(frozen=True)
class DropRelation:
    """Drop a relation that a model created, as part of a reset of the model."""

    name: TableName
    kind: Literal["table", "view"]


@dataclass(frozen=True)
class SetProperties:
    """Set properties of a table in a commit of their own; `effect` is the effect's name in logs and failpoints."""

    effect: str
    table: TableName
    values: Mapping[str, str]


Step = (
    DropConflictingRelation
    | DropBranches
    | CreateChangeTable
    | CreateAppended
    | SetLayout
    | EvolveSchema
    | DropTable
    | CreateBase
    | AdoptBase
    | MergeBase
    | ReplaceView
    | NoteCurrentView
    | ReplaceCurrentView
    | DropCurrentView
    | NoteChangesView
    | ReplaceChangesView
    | DropChangesView
    | SetProperties
    | SetWriteOrder
    | RewriteFiles
    | ResizeBuckets
    | RewriteBase
    | CompactChangelog
    | DropTags
    | ExpireSnapshots
    | SetTag
    | DropRelation
)
"""All effects on a relation of a model except the commit of change rows, which is a `ChangeSet`."""


def describe_step(step: Step | AppendChanges) -> str:  # noqa: C901 - one case for each step
    """Describes a step in one line for users."""
    match step:
        case DropConflictingRelation(conflicting):
            return f"drop {conflicting.kind} {conflicting.name}, which this model did not make"
        case DropBranches(table, branches):
            return f"drop {len(branches)} branch(es) left on {table}"
        case CreateChangeTable(table):
            return f"create change table {table}"
        case CreateAppended(table):
            return f"create {table}, to which events are appended"
        case SetLayout(table):
            return f"lay out the files of {table} as configured"
        case EvolveSchema(table, change):
            return f"change columns of {table}: {_describe_change(change)}"
        case AppendChanges(table, _, mode, reason):
            return f"append changes to {table} ({mode}, {reason})"
        case DropTable(table):
            return f"drop {table}, since it can't be replaced by one of an older format version"
        case CreateBase(table):
            return f"create {table} from its changes"
        case AdoptBase(table):
            return f"make {table} the base of the model, with the rows that it has"
        case MergeBase(table, _, _, _, commits):
            return f"merge {commits} commit(s) of changes into {table}"
        case ReplaceView(table, _, _, _, commits):
            return f"replace view {table}: base and {commits} commit(s) of changes"
        case NoteCurrentView(table, name):
            return f"note in {table} that {name or 'no view'} shows the current versions"
        case ReplaceCurrentView(view, table):
            return f"replace view {view} of the current versions of {table}"
        case DropCurrentView(view):
            return f"drop view {view} of current versions"
        case NoteChangesView(table, name):
            return f"note in {table} that {name or 'no view'} shows the change rows"
        case ReplaceChangesView(view, table):
            return f"replace view {view} of the change rows of {table}"
        case DropChangesView(view):
            return f"drop view {view} of change rows"
        case SetProperties(_, table, values):
            return f"set {', '.join(values)} of {table}"
        case SetWriteOrder(table):
            return f"have writers sort the files of {table} by its sort key"
        case RewriteFiles() | ResizeBuckets() | RewriteBase():
            return describe_compaction(step)
        case CompactChangelog(table, _, until):
            return f"delete replaced change rows of {table} up to sequence number {until.sequence}"
        case DropTags(table, tags):
            return f"drop {len(tags)} tag(s) of {table} that kept snapshots for a view"
        case ExpireSnapshots(table, snapshots):
            return f"expire {len(snapshots)} snapshot(s) of {table}"
        case SetTag(table, name, snapshot):
            done = "drop tag" if snapshot is None else f"tag snapshot {snapshot} as"
            return f"{done} {name} in {table}"
        case DropRelation(name, kind):
            return f"drop {kind} {name}"
        case _:
            assert_never(step)


def _describe_change(change: SchemaChange) -> str:
    parts = [f"rename {old} to {new}" for old, new in change.rename]
    parts += [f"add {column.name} {column.type}" for column in change.add]
    parts += [f"widen {column.name} to {column.type}" for column in change.widen]
    return ", ".join([*parts, *(f"drop {name}" for name in change.drop)])
