"""Declarations of a model about its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arctic_runtime.model.columns import RECORDED_FROM, VALID_FROM, Column, is_same_name
from arctic_runtime.model.names import CURRENT_SUFFIX, TableName
from arctic_runtime.model.sources.ingestion import ChangeSource

Merge = Literal["on_write", "on_read"]
Input = Literal["state", "changes"]
OnMatch = Literal["replace", "update", "ignore"]
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
    """One Iceberg partition transform; `parameter` is the width or number of buckets where it has one."""

    unit: Unit
    column: str
    parameter: int | None = None

    def __str__(self) -> str:
        if self.unit == "identity":
            return self.column
        arguments = self.column if self.parameter is None else f"{self.parameter}, {self.column}"
        return f"{self.unit}({arguments})"

    def is_bucket_of(self, column: str | None) -> bool:
        """Whether it buckets a column, as nodes do with the hash key."""
        return self.unit == "bucket" and column is not None and is_same_name(self.column, column)


@dataclass(frozen=True)
class Compaction:
    """Compaction thresholds: a file group's share of deleted rows and number of small files, files of the change table.

    If it is not `automatic`, these hold for what is asked for by hand.
    """

    automatic: bool = True
    deleted_share: float = 0.25
    small_files: int = 16
    change_files: int = 100


VERSIONS_SECONDS = 5 * 86_400
"""How old versions become where a model says nothing of them."""


@dataclass(frozen=True)
class Retention:
    """Retention of versions that nobody needs any more, and how many of the newest stay however old they are.

    With neither they are kept for ever. `changes_seconds` is the age from which on change rows may go that a newer one
    has replaced.
    """

    versions_seconds: int | None = None
    retain_last: int | None = None
    changes_seconds: int | None = None

    @property
    def age_seconds(self) -> int | None:
        """The age from which versions may expire; None: they are kept for ever. 0 if only a number is set."""
        return 0 if self.versions_seconds is None and self.retain_last is not None else self.versions_seconds


@dataclass(frozen=True)
class ModelConfig:
    """The configuration of one model, checked: every value is known and nothing contradicts.

    `primary_key` identifies a row of the table. In a table with history, rows are versions, and it is the user's key
    with `_valid_from`, and `_recorded_from` in a bitemporal table; `entity_key` is the user's alone. `is_appended`:
    there is no primary key, and rows of change events are appended.
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
    """Columns that order the events of one flow each → the columns of this flow; then `sequence_by` is None."""
    columns_to_update: str | None = None
    """A column of the query that names the columns which each event has; None: all events have all."""
    unavailable_value: str | None = None
    """A text that stands for a value which the source did not send; None: there is no such text."""
    delete_when: str | None = None
    truncate_when: str | None = None
    on_match: OnMatch = "replace"
    merge_columns: Mapping[str, str] = field(default_factory=dict)
    """Columns → one of `merge_columns.FUNCTIONS`, or an SQL expression over `old` and `new`."""
    exclude_columns: tuple[str, ...] = ()
    renamed_columns: Mapping[str, str] = field(default_factory=dict)
    history: History = "none"
    track: tuple[str, ...] = ()
    valid_time: str | None = None
    keep_deleted: bool = True
    current_view: bool | str = False
    """Whether a view shows the current versions; a text is its name."""
    changelog: Changelog = "lookup"
    keep: Keep = "net"
    on_schema_change: OnSchemaChange = "append_new_columns"
    on_configuration_change: OnConfigurationChange = "apply"
    compaction: Compaction = Compaction()
    retention: Retention = Retention(VERSIONS_SECONDS)
    target_lag: int = 0
    """Seconds for which the rows may be old where `arctic run` follows the model."""
    nodes: int | None = None
    target_file_bytes: int = 128 * 1024 * 1024
    node_bytes: int = 256 * 1024 * 1024
    format_version: FormatVersion = 3
    tblproperties: Mapping[str, str] = field(default_factory=dict)
    is_appended: bool = False

    @property
    def has_history(self) -> bool:
        """Whether the table keeps every version of a row."""
        return self.history != "none"

    @property
    def has_partial_events(self) -> bool:
        """Whether events may lack columns of their rows, which these columns then keep."""
        return self.columns_to_update is not None or self.unavailable_value is not None

    @property
    def entity_key(self) -> tuple[str, ...]:
        """The columns that identify a row of the query; of a table with history they identify all versions of it."""
        added = (VALID_FROM, RECORDED_FROM) if self.has_history else ()
        return tuple(part for part in self.primary_key if part not in added)


@dataclass(frozen=True)
class Model:
    """A model as the runtime knows it: its table, its compiled select and its configuration.

    `not_null` are columns that an enforced contract declares so, beyond the primary key, and `checks` predicates that
    no row may break; `contract` are its columns and types, empty if there is none. Comments are set only where they
    are to be kept in the catalog. The rows of a table that is `ingested_from` a source come as change events, and it
    has no query: `ingested_from` is its name there, and `source` the source where a project tells it. A table that
    `is_landing` is appended to by other programs; it has no query either.
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

    @property
    def is_appended(self) -> bool:
        """Whether it is a plain table, to which events without a primary key are appended."""
        return self.config.is_appended or (self.ingested_from is not None and not self.config.primary_key)

    @property
    def log(self) -> TableName:
        """The table that runs commit to, whose snapshots are the versions."""
        return self.table if self.is_appended else self.table.changes

    @property
    def current_view(self) -> TableName | None:
        """The view of the current versions; None if the model has none."""
        asked = self.config.current_view
        if not asked:
            return None
        return self.table.with_name(asked if isinstance(asked, str) else self.table.name + CURRENT_SUFFIX)

    @property
    def base(self) -> TableName:
        """Table with the merged rows: the table itself, or its base when merged on read."""
        return self.table.base if self.config.merge == "on_read" else self.table
