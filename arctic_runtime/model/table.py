"""A model, and its checked configuration: key, layout, input, history, compaction and retention."""

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

    `parameter` is the number of buckets of `bucket` or the width of `truncate`; None for other transforms.
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
        """Whether this is a bucket transform of `column`; False if `column` is None."""
        return self.unit == "bucket" and column is not None and is_same_name(self.column, column)


@dataclass(frozen=True)
class Compaction:
    """Compaction settings: the limits from which on files are rewritten.

    A bucket of the base table is rewritten if `deleted_share`, from 0 to 1, of its rows are marked as deleted, or if it
    has `small_files` small files. The change table is compacted from `change_files` files on. Unless `automatic`, the
    settings apply only to compactions that a user starts.
    """

    automatic: bool = True
    deleted_share: float = 0.25
    small_files: int = 16
    change_files: int = 100


VERSIONS_SECONDS = 5 * 86_400
"""Default age in seconds at which versions expire."""


@dataclass(frozen=True)
class Retention:
    """Retention settings: versions expire at an age of `versions_seconds`, except the newest `retain_last` versions.

    Versions never expire if both are None. `changes_seconds` is the age at which change rows may be deleted that a
    newer row of the same key has replaced; None for never.
    """

    versions_seconds: int | None = None
    retain_last: int | None = None
    changes_seconds: int | None = None

    @property
    def age_seconds(self) -> int | None:
        """Age in seconds at which versions may expire; None for never; 0 if only `retain_last` is set."""
        return 0 if self.versions_seconds is None and self.retain_last is not None else self.versions_seconds


@dataclass(frozen=True)
class ModelConfig:
    """Checked configuration of one model: all values are valid, and none contradicts another.

    The fields are the configuration keys of a model with defaults filled in. `primary_key` identifies a row of the
    table. In a table with history, whose rows are versions, it is the user's key plus `_valid_from`, and
    `_recorded_from` in a bitemporal table; `entity_key` is the user's key alone. If `is_appended`, there is no primary
    key, and change events are appended as rows.
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
    """Maps the order column of each flow to the other columns of the flow; `sequence_by` is None if there are flows.

    A flow is a group of columns with its own order of events: the event with the highest value of the order column
    determines these columns, independently of other columns of the row.
    """
    columns_to_update: str | None = None
    """Column of the query that lists the columns which an event has values for; None if all events have all columns."""
    unavailable_value: str | None = None
    """Text by which the source marks a value that it does not send; None if there is no such text."""
    delete_when: str | None = None
    truncate_when: str | None = None
    on_match: OnMatch = "replace"
    merge_columns: Mapping[str, str] = field(default_factory=dict)
    """Maps columns to merge functions: one of `merge_columns.FUNCTIONS`, or an SQL expression over `old` and `new`."""
    exclude_columns: tuple[str, ...] = ()
    renamed_columns: Mapping[str, str] = field(default_factory=dict)
    history: History = "none"
    track: tuple[str, ...] = ()
    valid_time: str | None = None
    keep_deleted: bool = True
    current_view: bool | str = False
    """Whether the model has a view of the current versions; a text is the name of this view."""
    changes_view: bool | str = False
    """Whether the model has a view of the change rows, as Delta's change data feed; a text is the name of this view."""
    changelog: Changelog = "lookup"
    keep: Keep = "net"
    on_schema_change: OnSchemaChange = "append_new_columns"
    on_configuration_change: OnConfigurationChange = "apply"
    on_missing_key: OnMissingKey = "error"
    compaction: Compaction = Compaction()
    retention: Retention = Retention(VERSIONS_SECONDS)
    target_lag: int = 0
    """Age in seconds that the table's data may have while `arctic run` refreshes the model continuously."""
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
        """Whether events may lack values for some columns; such columns keep the values that the stored row has."""
        return self.columns_to_update is not None or self.unavailable_value is not None

    @property
    def entity_key(self) -> tuple[str, ...]:
        """Columns that identify a row of the query; a table with history may have several versions of such a row."""
        added = (VALID_FROM, RECORDED_FROM) if self.has_history else ()
        return tuple(part for part in self.primary_key if part not in added)


@dataclass(frozen=True)
class Model:
    """A model: its table, its compiled query and its configuration.

    `not_null` are columns outside the primary key that an enforced contract declares as not null, and `checks` are
    SQL predicates that every row must fulfil. `contract` are the columns and types of the contract, empty if there is
    none. Comments are set only if they are to be stored in the catalog.

    Two kinds of tables have no query. Of an ingested table, whose rows come from the change events of a source,
    `ingested_from` is the name in the source, and `source` is the source if the project declares it. To a landing table
    (`is_landing`), other programs append rows. `may_replace` is True if an existing plain table or view of the model's
    name may be replaced, because the model created it with another materialization.
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
        """Whether events are appended to the table itself, which has no primary key and no change table."""
        return self.config.is_appended or (self.ingested_from is not None and not self.config.primary_key)

    @property
    def log(self) -> TableName:
        """Name of the table to which runs commit, whose snapshots are the model's versions.

        It is the change table or, for a model without a primary key, the table itself.
        """
        return self.table if self.is_appended else self.table.changes

    @property
    def current_view(self) -> TableName | None:
        """Name of the view of the current versions; None if the model has none."""
        return self._get_view_name(self.config.current_view, CURRENT_SUFFIX)

    @property
    def changes_view(self) -> TableName | None:
        """Name of the view of the change rows; None if the model has none."""
        return self._get_view_name(self.config.changes_view, CHANGES_VIEW_SUFFIX)

    def _get_view_name(self, asked: bool | str, suffix: str) -> TableName | None:
        if not asked:
            return None
        return self.table.with_name(asked if isinstance(asked, str) else self.table.name + suffix)

    @property
    def base(self) -> TableName:
        """Name of the base table: the model's own name, or with `merge: on_read` that name with a suffix."""
        return self.table.base if self.config.merge == "on_read" else self.table
