"""Observed state of a model's relations and its upstreams, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import Column, Names
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import KEEP, REPAIRED
from arctic_runtime.model.version import Version, Window


@dataclass(frozen=True)
class Removed:
    """Number of rows that a commit removed, as whole files or row by row, of those up to a sequence number."""

    sequence: int
    rows: int


@dataclass(frozen=True)
class Commit:
    """One snapshot as its summary tells it; `rows` are those it added.

    `removed` is what one that only deletes took away; None if that was not looked up, or is unknown.
    """

    version: Version
    parent: int | None
    operation: str
    rows: int
    bytes: int
    summary: Mapping[str, str]
    at_ms: int
    removed: tuple[Removed, ...] | None = None

    def count_removed_after(self, version: Version) -> int | None:
        """Number of removed rows that were added after a version; None if that is not known."""
        if self.removed is None:
            return None
        return sum(removal.rows for removal in self.removed if removal.sequence > version.sequence)


@dataclass(frozen=True)
class ChangeTableState:
    """The change table: its head, and every snapshot from the oldest kept to the head.

    `times` are the milliseconds at which snapshots were committed, those of branches too. `formerly` are the names that
    columns had in snapshots where these were not those of today.
    """

    uuid: str
    columns: tuple[Column, ...]
    commits: tuple[Commit, ...]
    properties: Mapping[str, str]
    branches: Mapping[str, int] = field(default_factory=dict)
    parents: Mapping[int, int | None] = field(default_factory=dict)
    times: Mapping[int, int] = field(default_factory=dict)
    formerly: Mapping[int, Names] = field(default_factory=dict)

    @property
    def head(self) -> Version | None:
        return self.commits[-1].version if self.commits else None

    @property
    def newest(self) -> Version | None:
        """The newest version that added rows, or the oldest one kept where none did."""
        with_rows = (commit.version for commit in reversed(self.commits) if commit.rows)
        return next(with_rows, self.commits[0].version if self.commits else None)

    @property
    def newest_repair(self) -> Version | None:
        """The newest version that restored what the table had promised; None if none that is kept did."""
        return next((commit.version for commit in reversed(self.commits) if REPAIRED in commit.summary), None)

    def keeps_version(self, version: Version | None) -> bool:
        """Whether the snapshot of a version is still there, so that later rows can be read as a range."""
        return version is None or any(commit.version == version for commit in self.commits)

    @property
    def begins(self) -> bool:
        """Whether the first commit of all is still there; expiry takes the oldest ones, while their rows stay."""
        return not self.commits or self.commits[0].parent is None

    @property
    def keeps_all(self) -> bool:
        """Whether a commit may have several rows of one key, in the order of `_seq`."""
        return self.properties.get(KEEP) == "all"

    def count_after(self, version: Version | None) -> int:
        """Number of commits that added rows after a version, 2 for several if some have expired.

        It is 2 for one commit as well that may have several rows of one key: 1 says that each key is there once.
        """
        commit_count = len(self.list_commits_after(version))
        is_whole = self.begins if version is None else self.keeps_version(version)
        is_one_by_one = is_whole and not (commit_count and self.keeps_all)
        return commit_count if is_one_by_one else max(commit_count, 2)

    def list_commits_after(self, version: Version | None) -> tuple[Commit, ...]:
        """Commits that added rows after a version, oldest first."""
        sequence = version.sequence if version else -1
        return tuple(commit for commit in self.commits if commit.version.sequence > sequence and commit.rows)

    def count_rows_after(self, version: Version | None) -> int:
        """Number of rows added after a version."""
        return sum(commit.rows for commit in self.list_commits_after(version))

    def are_few_after(self, version: Version, limit: int) -> bool:
        """Whether it is known that at most so many rows came after a version."""
        return self.keeps_version(version) and self.count_rows_after(version) <= limit


@dataclass(frozen=True)
class BaseState:
    """The base: its snapshot, what it is merged to, and its layout as written in its properties.

    `sequence` is the snapshot's sequence number where each row tells the one of its commit, None if none does.
    `times` are the milliseconds at which snapshots were committed, those of branches too. `formerly` are the names that
    columns had in snapshots where these were not those of today.
    """

    uuid: str
    columns: tuple[Column, ...]
    snapshot: int
    merged: Version | None
    rows: int
    properties: Mapping[str, str]
    branches: Mapping[str, int] = field(default_factory=dict)
    parents: Mapping[int, int | None] = field(default_factory=dict)
    times: Mapping[int, int] = field(default_factory=dict)
    formerly: Mapping[int, Names] = field(default_factory=dict)
    sequence: int | None = None
    has_write_order: bool = True
    """Whether writers sort the files that they add, as a table with a sort key has them do."""


@dataclass(frozen=True)
class ViewState:
    """The view of a table merged on read: the snapshots that it pins."""

    columns: tuple[Column, ...]
    base_snapshot: int | None
    merged: int | None
    head: int | None
    is_clone: bool = False
    """Made by `dbt clone`, so what it shows is another relation's and it may be replaced."""


@dataclass(frozen=True)
class CurrentViewState:
    """Relation under the name of a view of current versions, and whether it `is_own`: made by the model."""

    name: TableName
    kind: Literal["table", "view"]
    columns: tuple[Column, ...]
    is_own: bool


@dataclass(frozen=True)
class ConflictingRelation:
    """A relation under one of the model's names that the model, as it is now, did not make.

    A `is_clone`, which `dbt clone` made and which holds no rows, may be replaced without being asked.
    """

    name: TableName
    kind: Literal["table", "view"]
    is_clone: bool = False


@dataclass(frozen=True)
class TableState:
    """Everything about a model's own relations; a part is None if the relation does not exist.

    `aggregate_state` is the snapshot of the aggregate state that belongs to the newest run, None if it kept none.
    `appended` is a table without a key, to which events are appended: it has no other parts. `current_views` are what
    stands under the name that the model gives the view of its current versions, and under the name it had before.
    """

    changes: ChangeTableState | None = None
    base: BaseState | None = None
    view: ViewState | None = None
    conflicting: ConflictingRelation | None = None
    aggregate_state: int | None = None
    appended: ChangeTableState | None = None
    current_views: tuple[CurrentViewState, ...] = ()

    @property
    def log(self) -> ChangeTableState | None:
        """The table that runs commit to, whose snapshots are the versions."""
        return self.changes or self.appended


@dataclass(frozen=True)
class SourceState:
    """An upstream table: its newest version, and the snapshots behind it, oldest first.

    `kind` is `changes` for the change table of an arctic model, `table` for any other Iceberg table.
    `format_version` 3 tables carry row lineage, from which the position of a row in the log follows.
    `snapshots` are all that can still be read, also those that a replaced table has left behind.
    `rows` are those of the table, not of its change table. `key` is an arctic model's primary key; `base` its base,
    and `bases` the snapshots of that with the version that each is merged to, oldest first. `trimmed` is the sequence
    number up to which change rows are no longer all in the log, and `forgotten` the same one where only those of
    forgotten keys are gone. `formerly` are the names that columns had in snapshots
    of log and base where these were not those of today; `moved` tells of columns whose name was another one's once, or
    that had another name or another type.
    """

    name: TableName
    kind: str
    version: Version
    commits: tuple[Commit, ...]
    columns: tuple[Column, ...]
    format_version: int
    snapshots: frozenset[int] = frozenset()
    rows: int = 0
    not_null: tuple[str, ...] = ()
    key: tuple[str, ...] | None = None
    base: TableName | None = None
    bases: tuple[tuple[int, Version], ...] = ()
    trimmed: int = 0
    forgotten: int = 0
    formerly: Mapping[int, Names] = field(default_factory=dict)
    moved: tuple[str, ...] = ()
    keeps_all: bool = False
    """Whether a commit of a change table may have several rows of one key, in the order of `_seq`."""
    key_only_until: int = 0
    """The sequence number up to which change rows have no `_before`: all columns were in the key then."""

    @property
    def log(self) -> TableName:
        """The table that rows are appended to: the change table where there is one."""
        return self.name.changes if self.kind == "changes" else self.name

    def keeps_version(self, version: Version | None) -> bool:
        """Whether the snapshot of a version is still in the line of commits, so that later rows are a range."""
        return version is None or any(commit.version.snapshot == version.snapshot for commit in self.commits)

    def can_read_all_after(self, version: Version | None) -> bool:
        """Whether all that came after a version can still be read, if its snapshot is gone by row lineage."""
        return self.keeps_version(version) or (version is not None and version.sequence >= self.trimmed)

    @property
    def is_compacted(self) -> bool:
        """Whether change rows may have been deleted that newer ones have replaced, not only those of forgotten keys."""
        return self.trimmed > 0 and self.trimmed != self.forgotten

    @property
    def has_deleted_rows(self) -> bool:
        """Whether rows are known to be gone that were appended to a table that is no arctic model."""
        is_deleted = any(commit.operation == "delete" for commit in self.commits)
        return self.kind != "changes" and (self.trimmed > 0 or is_deleted)

    @property
    def has_lost_rows(self) -> bool:
        """Whether rows are known to be gone that were not forgotten, so that what was made of them does not follow."""
        return self.is_compacted or self.has_deleted_rows

    @property
    def may_have_deleted_rows(self) -> bool:
        """Whether rows may be gone that were appended to such a table: where its first commits are, nobody knows."""
        is_rewritten = any(commit.operation not in ("append", "replace") for commit in self.commits)
        begins = not self.commits or self.commits[0].parent is None
        return self.kind != "changes" and (self.trimmed > 0 or is_rewritten or not begins)

    def find_base_before(self, version: Version) -> tuple[int, Version] | None:
        """The snapshot of the newest base that is kept and holds no change after a version; None if none is."""
        candidates = [(snapshot, merged) for snapshot, merged in self.bases if merged.sequence <= version.sequence]
        return candidates[-1] if candidates and self.base else None

    def count_unmerged_at(self, version: Version) -> int:
        """Number of change rows up to a version that are not in that base; 0 for a table without a change table."""
        base = self.find_base_before(version)
        return self.count_rows_in(Window(str(self.name), base[1], version)) if base else 0

    def list_commits_between(self, window: Window) -> tuple[Commit, ...]:
        """The commits of a window, oldest first."""
        after = window.start.sequence if window.start else -1
        return tuple(commit for commit in self.commits if after < commit.version.sequence <= window.end.sequence)

    def count_rows_in(self, window: Window) -> int:
        """Number of rows added in a window."""
        return sum(commit.rows for commit in self.list_commits_between(window))

    def are_few_in(self, window: Window, limit: int) -> bool:
        """Whether it is known that at most so many rows came in a window."""
        return self.keeps_version(window.start) and self.count_rows_in(window) <= limit

    def count_commits_in(self, window: Window) -> int:
        """Number of commits with rows in a window; 2 stands for several where they are not kept one by one.

        It is 2 for one commit as well that may have several rows of one key: 1 says that each key is there once.
        """
        commit_count = sum(1 for commit in self.list_commits_between(window) if commit.rows)
        is_one_by_one = self.keeps_version(window.start) and not (commit_count and self.keeps_all)
        return commit_count if is_one_by_one else max(commit_count, 2)


def check_built(state: TableState, table: TableName) -> None:
    """Raises ConfigError if no run has made a table yet."""
    if state.appended is None:
        require_built(state, table)


def require_built(state: TableState, table: TableName) -> tuple[ChangeTableState, BaseState]:
    """A table's change table and base; raises ConfigError if no run has made them yet."""
    if state.changes is None or state.base is None:
        raise build_not_built_error(table)
    return state.changes, state.base


def build_not_built_error(table: TableName) -> ConfigError:
    """Error for a table that no run has made yet."""
    return ConfigError(f"{table} has not been built yet; run the model first")
