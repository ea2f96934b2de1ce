"""Steps: effects on the relations of a model, as data. One evaluator performs them, `arctic explain` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from typing_extensions import assert_never

from arctic_runtime.model.columns import Column, SchemaChange
from arctic_runtime.model.files.compaction import ResizeBuckets, RewriteBase, RewriteFiles, describe_compaction
from arctic_runtime.model.files.expiry import CompactChangelog, DropTags, ExpireSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.savepoint import SetTag
from arctic_runtime.model.state import ConflictingRelation
from arctic_runtime.model.table import Transform
from arctic_runtime.model.version import Version

Mode = Literal["create", "incremental", "full", "unchanged"]
Reason = Literal[
    "FIRST_RUN",
    "CHANGES",
    "FULL_REFRESH",
    "RESTORED",
    "FORGOTTEN",
    "REPLAYED",
    "RESYNCED",
    "QUERY_CHANGED",
    "OVERWRITTEN",
    "NOTHING_NEW",
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
    """Branches of attempts that died and can't win any more."""

    table: TableName
    branches: tuple[str, ...]


@dataclass(frozen=True)
class CreateChangeTable:
    """An empty change table for these columns."""

    table: TableName
    columns: tuple[Column, ...]
    sequence_type: str


@dataclass(frozen=True)
class CreateAppended:
    """An empty table without a key, for rows with these columns."""

    table: TableName
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class SetLayout:
    """Layout of files written to a table without a key from now on, which its property keeps as `text`.

    Partition fields come and go in this order: `drop`, then `add`. Without a `sort_key` rows stay as they come.
    """

    table: TableName
    drop: tuple[Transform, ...]
    add: tuple[Transform, ...]
    sort_key: tuple[str, ...]
    properties: tuple[tuple[str, str], ...]
    text: str


@dataclass(frozen=True)
class EvolveSchema:
    """The same change of columns to a change table or a base."""

    table: TableName
    change: SchemaChange
    is_change_table: bool


@dataclass(frozen=True)
class AppendChanges:
    """The commit of a run's change rows and offsets, if the change table's head still is `expected`.

    A `ChangeSet` is this commit together with its rows.
    """

    table: TableName
    expected: int
    mode: Mode
    reason: Reason


@dataclass(frozen=True)
class CreateBase:
    """A base with everything that the change table tells, up to a version; it may replace a table of that name."""

    table: TableName
    version: Version
    bytes: int
    replaces: bool = False


@dataclass(frozen=True)
class MergeBase:
    """The changes of a window merged into the base, if its head still is `expected`."""

    table: TableName
    expected: int
    start: Version | None
    end: Version
    commits: int


@dataclass(frozen=True)
class ReplaceView:
    """The view, pinned to a snapshot of the base and the changes after `merged` up to `head`."""

    table: TableName
    base_snapshot: int
    merged: Version
    head: Version
    commits: int


@dataclass(frozen=True)
class NoteCurrentView:
    """The name of the view of current versions, noted in the change table; an empty name for none."""

    table: TableName
    view: str


@dataclass(frozen=True)
class ReplaceCurrentView:
    """The view of a table's current versions, with the table's columns as they are now."""

    view: TableName
    table: TableName


@dataclass(frozen=True)
class DropCurrentView:
    """A view of current versions that the model no longer has, or not under this name."""

    view: TableName


@dataclass(frozen=True)
class DropTable:
    """A base that has to be recreated and can't be replaced: Iceberg takes no table back to an older format."""

    table: TableName


@dataclass(frozen=True)
class DropConflictingRelation:
    """Whatever stands under the model's name and is not its own goes, now that its own is about to be made."""

    conflicting: ConflictingRelation


@dataclass(frozen=True)
class SetWriteOrder:
    """The order in which writers sort the files of a base: its sort key."""

    table: TableName


@dataclass(frozen=True)
class DropRelation:
    """A relation that a model made, which goes because the model is reset."""

    name: TableName
    kind: Literal["table", "view"]


@dataclass(frozen=True)
class SetProperties:
    """Properties of a table, set in a commit of their own by the effect of this name."""

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
    | MergeBase
    | ReplaceView
    | NoteCurrentView
    | ReplaceCurrentView
    | DropCurrentView
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
"""Every effect on a relation of a model, but the commit of change rows: that is a `ChangeSet`."""


def describe_step(step: Step | AppendChanges) -> str:  # noqa: C901 - one case for each step
    """One line for people."""
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
