"""Observed state of a model's relations and its upstreams at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.baseline import Baseline, read_baseline
from arctic_runtime.model.columns import Column, Names
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import KEEP, REPAIRED
from arctic_runtime.model.version import Version, Window


@dataclass(frozen=True)
class Removed:
    """Number of rows that a commit deleted and that commits up to the sequence number `sequence` had added."""

    sequence: int
    rows: int


@dataclass(frozen=True)
class Commit:
    """One snapshot of a table, with its summary."""

    version: Version
    parent: int | None
    """Id of the parent snapshot; None for the first one."""

    operation: str
    """Iceberg's name of the kind of commit: `append`, `overwrite`, `replace` or `delete`."""

    rows: int
    """Number of rows that the commit added."""

    bytes: int
    """Bytes of the files that the commit added."""

    summary: Mapping[str, str]
    """What arctic has stored with the commit; entries of Iceberg and of engines are left out, as states are many."""

    at_ms: int
    """Commit time in milliseconds since 1970."""

    removed: tuple[Removed, ...] | None = None
    """Numbers of rows that a commit of the operation `delete` removed; None if they were not read or are not known."""

    def count_removed_after(self, version: Version) -> int | None:
        """Number of rows that this commit removed and that were added after `version`; None if it is not known.

        It is unknown if both are of a time when the table had format version 1, since all sequence numbers are 0 then.
        """
        if self.removed is None or any(removal.sequence == version.sequence == 0 for removal in self.removed):
            return None
        return sum(removal.rows for removal in self.removed if removal.sequence > version.sequence)


@dataclass(frozen=True)
class ChangeTableState:
    """State of a change table."""

    uuid: str
    """Iceberg's id of the table, which a new table of the same name does not have."""

    columns: tuple[Column, ...]
    commits: tuple[Commit, ...]
    """All snapshots of the main branch that have not expired, oldest first."""

    properties: Mapping[str, str]
    branches: Mapping[str, int] = field(default_factory=dict)
    """Maps the names of branches to the ids of their newest snapshots."""

    parents: Mapping[int, int | None] = field(default_factory=dict)
    """Maps the id of each snapshot, including those of branches, to the id of its parent."""

    times: Mapping[int, int] = field(default_factory=dict)
    """Maps the id of each snapshot to its commit time in milliseconds since 1970."""

    old_column_names: Mapping[int, Names] = field(default_factory=dict)
    """Maps each snapshot whose column names differ from the current ones to its names, by the current ones."""

    dropped_columns: frozenset[int] = frozenset()
    """Ids of the snapshots that have a column which was dropped since."""

    @property
    def head(self) -> Version | None:
        return self.commits[-1].version if self.commits else None

    @property
    def newest(self) -> Version | None:
        """Newest version that added rows, or else the oldest version that has not expired; None without commits."""
        with_rows = (commit.version for commit in reversed(self.commits) if commit.rows)
        return next(with_rows, self.commits[0].version if self.commits else None)

    @property
    def newest_repair(self) -> Version | None:
        """Newest version in which a full refresh repaired rows that violated the key or the contract.

        None if there is none among the snapshots that have not expired.
        """
        return next((commit.version for commit in reversed(self.commits) if REPAIRED in commit.summary), None)

    def keeps_version(self, version: Version | None) -> bool:
        """Whether the snapshot of `version` still exists, so that later rows can be read as a range of snapshots.

        True for None.
        """
        return version is None or any(commit.version == version for commit in self.commits)

    @property
    def begins(self) -> bool:
        """Whether the table's first commit still exists; expiry removes the oldest commits, but not their rows."""
        return not self.commits or self.commits[0].parent is None

    @property
    def keeps_all(self) -> bool:
        """Whether one commit may have several rows of the same key, ordered by `_seq`."""
        return self.properties.get(KEEP) == "all"

    @property
    def baseline(self) -> Baseline | None:
        """Snapshot with the rows that the change table continues; None if the change table has all rows itself."""
        return read_baseline(self.properties)

    def count_after(self, version: Version | None) -> int:
        """Number of commits that added rows after `version` (None: all); at least 2 if some may have expired.

        Callers rely on 1 to mean that each key has at most one row. So the number is also at least 2 if one commit may
        have several rows of a key.
        """
        commit_count = len(self.list_commits_after(version))
        is_whole = self.begins if version is None else self.keeps_version(version)
        is_one_by_one = is_whole and not (commit_count and self.keeps_all)
        return commit_count if is_one_by_one else max(commit_count, 2)

    def list_commits_after(self, version: Version | None) -> tuple[Commit, ...]:
        """Returns the commits that added rows after `version`, oldest first; all commits with rows for None."""
        sequence = version.sequence if version else -1
        return tuple(commit for commit in self.commits if commit.version.sequence > sequence and commit.rows)

    def count_rows_after(self, version: Version | None) -> int:
        """Number of rows that commits added after `version`; for None, of all commits that have not expired."""
        return sum(commit.rows for commit in self.list_commits_after(version))

    def has_at_most_rows_after(self, version: Version, limit: int) -> bool:
        """Whether at most `limit` rows were added after `version`.

        False if this is not known because the snapshot of `version` has expired.
        """
        return self.keeps_version(version) and self.count_rows_after(version) <= limit


@dataclass(frozen=True)
class BaseState:
    """State of a model's base table."""

    uuid: str
    """Iceberg's id of the table, which a new table of the same name does not have."""

    columns: tuple[Column, ...]
    snapshot: int
    """Id of the newest snapshot."""

    merged: Version | None
    """Version of the change table up to which the newest snapshot contains the changes; None if it is not known."""

    rows: int
    properties: Mapping[str, str]
    """Table properties, such as the layout."""

    branches: Mapping[str, int] = field(default_factory=dict)
    """As in `ChangeTableState`, like `parents`, `times` and `old_column_names`."""

    parents: Mapping[int, int | None] = field(default_factory=dict)
    times: Mapping[int, int] = field(default_factory=dict)
    old_column_names: Mapping[int, Names] = field(default_factory=dict)
    sequence: int | None = None
    """Sequence number of the newest snapshot; None for a table without row lineage.

    By row lineage, each row has the sequence number of its commit.
    """

    has_write_order: bool = True
    """Whether the Iceberg table has a sort order, by which writers sort the files that they add."""


@dataclass(frozen=True)
class ViewState:
    """State of the view of a table that is merged on read: the ids of the snapshots that the view reads.

    They are None for a view that arctic did not create.
    """

    columns: tuple[Column, ...]
    base_snapshot: int | None
    """The snapshot of the base table."""

    merged: int | None
    """The snapshot of the change table up to which the base table contains the changes; the view reads later ones."""

    head: int | None
    """The snapshot of the change table up to which the view reads changes."""

    is_clone: bool = False
    """Whether `dbt clone` created the view: it shows the rows of another relation, and may be replaced."""

    is_plain: bool = False
    """Whether the view has no property that marks it as part of an arctic model."""


@dataclass(frozen=True)
class NamedViewState:
    """Relation that exists under the name of a model's view of current versions, or of its view of change rows.

    `is_own` says whether the model created the relation.
    """

    name: TableName
    kind: Literal["table", "view"]
    columns: tuple[Column, ...]
    is_own: bool


@dataclass(frozen=True)
class ConflictingRelation:
    """A relation with one of the model's names that the model in its current configuration did not create.

    `is_clone` is True if `dbt clone` created it: it contains no rows and may be replaced without consent of the user.
    `is_plain` is True if no property marks it as part of an arctic model, so that the model may have created it before
    its materialization was changed to arctic.
    """

    name: TableName
    kind: Literal["table", "view"]
    is_clone: bool = False
    is_plain: bool = False


@dataclass(frozen=True)
class TableState:
    """State of a model's own relations; a field is None if the relation does not exist."""

    changes: ChangeTableState | None = None
    """The change table."""

    base: BaseState | None = None
    """The base table."""

    view: ViewState | None = None
    """The view that readers use, of a table that is merged on read."""

    conflicting: ConflictingRelation | None = None
    """A relation that has one of the model's names and was not created by the model."""

    aggregate_state: int | None = None
    """Snapshot id of the aggregate state that belongs to the newest run; None if that run stored none."""

    appended: ChangeTableState | None = None
    """A table without a key, to which events are appended; such a model has no other relations."""

    current_views: tuple[NamedViewState, ...] = ()
    """The relations with the current or the former name of the view of current versions."""

    changes_views: tuple[NamedViewState, ...] = ()
    """The relations with the current or the former name of the view of change rows."""

    unfinished: frozenset[TableName] = frozenset()
    """Tables without a snapshot, whose creation another attempt or another writer has begun.

    The fields for these tables are None.
    """

    @property
    def log(self) -> ChangeTableState | None:
        """State of the table to which runs commit: `changes`, or `appended` without a key; None if neither exists."""
        return self.changes or self.appended


@dataclass(frozen=True)
class SourceState:
    """State of an upstream table: its newest version, and its commits up to this one, oldest first."""

    name: TableName
    kind: str
    """`changes` for an arctic model, whose commits are those of its change table; `table` for any other Iceberg table.
    """

    version: Version
    commits: tuple[Commit, ...]
    columns: tuple[Column, ...]
    format_version: int
    """Version of the Iceberg format; from 3 on each row has the sequence number of its commit (row lineage)."""

    snapshots: frozenset[int] = frozenset()
    """All snapshot ids that can be read, including those from before the table was replaced."""

    rows: int = 0
    """Number of rows of the table, not of its change table."""

    not_null: tuple[str, ...] = ()
    """Columns that are never null."""

    key: tuple[str, ...] | None = None
    """Primary key of an arctic model; else None."""

    base: TableName | None = None
    """Base table of an arctic model; else None."""

    bases: tuple[tuple[int, Version], ...] = ()
    """Snapshots of an arctic model's base table, oldest first, each with the version up to which it is merged."""

    trimmed: int = 0
    """Sequence number up to which change rows of an arctic model may have been deleted; 0 if none were."""

    forgotten: int = 0
    """The same number as `trimmed` if only change rows of forgotten keys were deleted; else another one."""

    old_column_names: Mapping[int, Names] = field(default_factory=dict)
    """As in `ChangeTableState`."""

    reassigned_columns: tuple[str, ...] = ()
    """Columns that were renamed, that have the name of a former column, or that had another type."""

    keeps_all: bool = False
    """Whether a commit of the change table may have several rows of the same key, in the order of `_seq`."""

    missing_defaults: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """By snapshot, the columns that have a default value and that the snapshot's schema lacks, in lower case."""

    key_only_until: int = 0
    """Sequence number up to which change rows have no `_before`, because all columns were key columns at that time."""

    baseline: Baseline | None = None
    """As in `ChangeTableState`; None for a table that is no arctic model."""

    @property
    def log(self) -> TableName:
        """Name of the table to which rows are appended: the change table of an arctic model, else the table itself."""
        return self.name.changes if self.kind == "changes" else self.name

    def keeps_version(self, version: Version | None) -> bool:
        """Whether the snapshot of `version` still exists, so that later rows can be read as a range of snapshots.

        True for None.
        """
        return version is None or any(commit.version.snapshot == version.snapshot for commit in self.commits)

    def can_read_all_after(self, version: Version | None) -> bool:
        """Whether all rows that were added after `version` can still be read; True for None.

        If the snapshot of `version` has expired, they can be read by row lineage, unless some of them were deleted.
        """
        return self.keeps_version(version) or (version is not None and version.sequence >= self.trimmed)

    @property
    def is_compacted(self) -> bool:
        """Whether changelog compaction may have deleted change rows; those of forgotten keys don't count."""
        return self.trimmed > 0 and self.trimmed != self.forgotten

    @property
    def has_deleted_rows(self) -> bool:
        """Whether some rows of a table that is no arctic model are known to be deleted; False for an arctic model."""
        is_deleted = any(commit.operation == "delete" for commit in self.commits)
        return self.kind != "changes" and (self.trimmed > 0 or is_deleted)

    @property
    def has_lost_rows(self) -> bool:
        """Whether rows are known to be deleted for another reason than a request to forget them.

        A model can then not compute again the rows that it has computed from the deleted ones.
        """
        return self.is_compacted or self.has_deleted_rows

    @property
    def may_have_deleted_rows(self) -> bool:
        """Whether some rows of a table that is no arctic model may have been deleted; False for an arctic model.

        True if the table's first commits have expired, because their operations are not known.
        """
        is_rewritten = any(commit.operation not in ("append", "replace") for commit in self.commits)
        begins = not self.commits or self.commits[0].parent is None
        return self.kind != "changes" and (self.trimmed > 0 or is_rewritten or not begins)

    def find_base_before(self, version: Version) -> tuple[int, Version] | None:
        """Returns the newest snapshot of the base table that has no changes after `version`.

        The second element is the version of the change table up to which it is merged. None if all such snapshots have
        expired.
        """
        candidates = [(snapshot, merged) for snapshot, merged in self.bases if merged.sequence <= version.sequence]
        return candidates[-1] if candidates and self.base else None

    def count_unmerged_at(self, version: Version) -> int:
        """Number of change rows up to `version` that are not merged into the snapshot of `find_base_before(version)`.

        0 if there is no such snapshot.
        """
        base = self.find_base_before(version)
        return self.count_rows_in(Window(str(self.name), base[1], version)) if base else 0

    def list_commits_between(self, window: Window) -> tuple[Commit, ...]:
        """Returns the commits in a window of versions, oldest first.

        They begin after the snapshot of the window's start. If that has expired, sequence numbers are compared; those
        are 0 for all snapshots from a time when the table had format version 1.
        """
        start, end = window.start, window.end.sequence
        first = 0 if start is None else self._positions.get(start.snapshot, -1) + 1
        after = start.sequence if start is not None and not first else -1
        return tuple(commit for commit in self.commits[first:] if after < commit.version.sequence <= end)

    @cached_property
    def _positions(self) -> Mapping[int, int]:
        """Maps the snapshot of each commit to its index in `commits`."""
        return {commit.version.snapshot: index for index, commit in enumerate(self.commits)}

    def count_rows_in(self, window: Window) -> int:
        """Number of rows that the commits in a window of versions added."""
        return sum(commit.rows for commit in self.list_commits_between(window))

    def are_few_in(self, window: Window, limit: int) -> bool:
        """Whether at most `limit` rows were added in `window`; False if the snapshot of its start has expired."""
        return self.keeps_version(window.start) and self.count_rows_in(window) <= limit

    def count_commits_in(self, window: Window) -> int:
        """Number of commits that added rows in `window`; at least 2 if some may have expired.

        Callers rely on 1 to mean that each key has at most one row. So the number is also at least 2 if one commit may
        have several rows of a key.
        """
        commit_count = sum(1 for commit in self.list_commits_between(window) if commit.rows)
        is_one_by_one = self.keeps_version(window.start) and not (commit_count and self.keeps_all)
        return commit_count if is_one_by_one else max(commit_count, 2)


def check_built(state: TableState, table: TableName) -> None:
    """Raises ConfigError if no run has created the model's tables yet; `table` is the model's name."""
    if state.appended is None:
        require_built(state, table)


def require_built(state: TableState, table: TableName) -> tuple[ChangeTableState, BaseState]:
    """Returns the states of a table's change table and base table.

    Raises ConfigError if no run has created them yet.
    """
    if state.changes is None or state.base is None:
        raise build_not_built_error(table)
    return state.changes, state.base


def build_not_built_error(table: TableName) -> ConfigError:
    """Builds the error for a model's table that no run has created yet."""
    return ConfigError(f"{table} has not been built yet; run the model first")
