"""A model, and its configuration of the table: key, layout, input, history, compaction and retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arctic_runtime.model.columns import RECORDED_FROM, VALID_FROM, Column, is_same_name
from arctic_runtime.model.names import CHANGES_VIEW_SUFFIX, CURRENT_SUFFIX, TableName
from arctic_runtime.model.sources.ingestion import ChangeSource

Merge = Literal["on_write", "on_read"]
Input = Literal["state", "changes"]
OnMatch = Literal["replace", "update", "ignore"]
OnMissingKey = Literal["error", "table"]
Changelog = Literal["lookup", "input"]
Keep = Literal["net", "all"]
OnSchemaChange = Literal["append_new_columns", "sync_all_columns", "fail", "ignore"]
OnConfigurationChange = Literal["apply", "continue", "fail"]
Refresh = Literal["auto", "incremental", "strict", "full"]
FormatVersion = Literal[3, 2]
History = Literal["none", "scd2"]
Unit = Literal["identity", "bucket", "truncate", "years", "months", "days", "hours"]


@dataclass(frozen=True)
class Transform:
    """One Iceberg partition transform of a column.

    `parameter` is the width or number of buckets, None if it has none.
    """

    unit: Unit
    column: str
    parameter: int | None = None

    def __str__(self) -> str:
        if self.unit == "identity":
            return self.column
        arguments = self.column if self.parameter is None else f"{self.parameter}, {self.column}"
        return f"{self.unit}({arguments})"

    def is_bucket_of(self, column: str | None) -> bool:
        """Whether it is a bucket transform of `column`, as that of the hash key; False for None."""
        return self.unit == "bucket" and column is not None and is_same_name(self.column, column)


@dataclass(frozen=True)
class Compaction:
    """Compaction settings: from which share of deleted rows or number of small files a bucket is rewritten.

    `change_files` is the number of files from which on the change table is compacted. If it is not `automatic`, they
    apply only to compactions that a user starts.
    """

    automatic: bool = True
    deleted_share: float = 0.25
    small_files: int = 16
    change_files: int = 100


VERSIONS_SECONDS = 5 * 86_400
"""The default age in seconds at which versions expire."""


@dataclass(frozen=True)
class Retention:
    """How long unneeded versions are kept: for `versions_seconds`, and the newest `retain_last` at any age.

    Without both they are kept for ever. `changes_seconds` is the age at which replaced change rows may be deleted; None
    for never.
    """

    versions_seconds: int | None = None
    retain_last: int | None = None
    changes_seconds: int | None = None

    @property
    def age_seconds(self) -> int | None:
        """The age in seconds at which versions may expire; None for never; 0 if only `retain_last` is set."""
        return 0 if self.versions_seconds is None and self.retain_last is not None else self.versions_seconds


@dataclass(frozen=True)
class ModelConfig:
    """The checked configuration of one model: all values are valid, and none contradicts another.

    `primary_key` identifies a row of the table. In a table with history, rows are versions, so it is the user's key
    plus `_valid_from`, and `_recorded_from` in a bitemporal table; `entity_key` is the user's key alone. If
    `is_appended`, there is no primary key, and change events are appended as rows.
    """

    primary_key: tuple[str, ...]
    partition_by: tuple[Transform, ...] = ()
    hash_key: str | None = None
    sort_key: tuple[str, ...] = ()
    merge: Merge = "on_write"
    input: Input = "state"
    refresh: Refresh = "auto"
    sequence_by: str | None = None
    sequence_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Order column of each flow → the columns of this flow; `sequence_by` is None if there are flows.

    A flow is a set of columns whose events have an order of their own.
    """
    columns_to_update: str | None = None
    """A column of the query that says which columns each event has; None: all events have all columns."""
    unavailable_value: str | None = None
    """A text that marks a value as not sent by the source; None: there is no such text."""
    delete_when: str | None = None
    truncate_when: str | None = None
    on_match: OnMatch = "replace"
    merge_columns: Mapping[str, str] = field(default_factory=dict)
    """Column → its merge function: one of `merge_columns.FUNCTIONS`, or an SQL expression over `old` and `new`."""
    exclude_columns: tuple[str, ...] = ()
    renamed_columns: Mapping[str, str] = field(default_factory=dict)
    history: History = "none"
    track: tuple[str, ...] = ()
    valid_time: str | None = None
    keep_deleted: bool = True
    current_view: bool | str = False
    """Whether there is a view of the current versions; a text is the name of this view."""
    changes_view: bool | str = False
    """Whether there is a view of the change rows with the columns of Delta's change data feed; a text is its name."""
    changelog: Changelog = "lookup"
    keep: Keep = "net"
    on_schema_change: OnSchemaChange = "append_new_columns"
    on_configuration_change: OnConfigurationChange = "apply"
    on_missing_key: OnMissingKey = "error"
    compaction: Compaction = Compaction()
    retention: Retention = Retention(VERSIONS_SECONDS)
    target_lag: int = 0
    """The age in seconds that rows may have while `arctic run` follows the model."""
    nodes: int | None = None
    target_file_bytes: int = 128 * 1024 * 1024
    node_bytes: int = 256 * 1024 * 1024
    format_version: FormatVersion = 3
    tblproperties: Mapping[str, str] = field(default_factory=dict)
    is_appended: bool = False

    @property
    def has_history(self) -> bool:
        """Whether the table keeps all versions of a row, not only the current one."""
        return self.history != "none"

    @property
    def has_partial_events(self) -> bool:
        """Whether events may lack columns, which then keep their values in the row."""
        return self.columns_to_update is not None or self.unavailable_value is not None

    @property
    def entity_key(self) -> tuple[str, ...]:
        """The columns that identify a row of the query; in a table with history, one such row has several versions."""
        added = (VALID_FROM, RECORDED_FROM) if self.has_history else ()
        return tuple(part for part in self.primary_key if part not in added)


@dataclass(frozen=True)
class Model:
    """A model: its table, its compiled query and its configuration.

    `not_null` are columns outside the primary key that an enforced contract declares as not null, and `checks` are
    predicates that no row may violate. `contract` are the columns and types of the contract, empty if there is none.
    Comments are set only if they are to be stored in the catalog. An ingested table has no query, since its rows come
    from change events: `ingested_from` is its name in the source, and `source` is the source, if the project declares
    it. `is_landing`: other programs append to the table, which has no query either. `may_replace`: a plain table or
    view of its name is the model's own, from before it was an arctic model.
    """

    table: TableName
    sql: str
    config: ModelConfig
    not_null: tuple[str, ...] = ()
    contract: tuple[Column, ...] = ()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    ingested_from: str | None = None
    source: ChangeSource | None = None
    is_landing: bool = False
    may_replace: bool = False

    @property
    def is_appended(self) -> bool:
        """Whether the table has no primary key and no change table, because events are appended to the table itself."""
        return self.config.is_appended or (self.ingested_from is not None and not self.config.primary_key)

    @property
    def log(self) -> TableName:
        """Name of the table that runs commit to, and whose snapshots are the versions.

        It is the change table, or for a model without a key the table itself.
        """
        return self.table if self.is_appended else self.table.changes

    @property
    def current_view(self) -> TableName | None:
        """Name of the view of the current versions; None if the model has none."""
        return self._get_view_name(self.config.current_view, CURRENT_SUFFIX)

    @property
    def changes_view(self) -> TableName | None:
        """Name of the view of the change rows as a change data feed; None if the model has none."""
        return self._get_view_name(self.config.changes_view, CHANGES_VIEW_SUFFIX)

    def _get_view_name(self, asked: bool | str, suffix: str) -> TableName | None:
        if not asked:
            return None
        return self.table.with_name(asked if isinstance(asked, str) else self.table.name + suffix)

    @property
    def base(self) -> TableName:
        """Name of the table with the merged rows: the model's table itself, or its base table if merged on read."""
        return self.table.base if self.config.merge == "on_read" else self.table
