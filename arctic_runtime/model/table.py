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
OnFailedRow = Literal["hold", "quarantine"]
Changelog = Literal["lookup", "input"]
Keep = Literal["net", "all"]
OnSchemaChange = Literal["append_new_columns", "sync_all_columns", "fail", "ignore"]
OnConfigurationChange = Literal["apply", "continue", "fail"]
OnSessionChange = Literal["recompute", "keep"]
OnQueryChange = Literal["recompute", "forward"]
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
    """Compaction settings: the limits from which on files are rewritten."""

    automatic: bool = True
    """Whether runs compact the table; if False, the limits apply only to compactions that a user starts."""

    deleted_share: float = 0.25
    """Share of a bucket's rows, from 0 to 1, that are marked as deleted when the bucket is rewritten."""

    small_files: int = 16
    """Number of small files in a bucket of the base table from which on the bucket is rewritten."""

    change_files: int = 100
    """Number of files of the change table from which on they are joined."""


VERSIONS_SECONDS = 5 * 86_400
"""Default age in seconds at which versions expire."""

MAX_VERSIONS = 1_000
"""Default number of versions that are kept, for tables that change so often that an age would keep very many."""


@dataclass(frozen=True)
class Retention:
    """Retention settings: versions expire at an age of `versions_seconds`, except the newest `retain_last` versions.

    Versions never expire if both are None. Those before the newest `max_versions` expire at any age. `changes_seconds`
    is the age at which change rows may be deleted that a newer row of the same key has replaced; None for never.
    """

    versions_seconds: int | None = None
    retain_last: int | None = None
    changes_seconds: int | None = None
    max_versions: int | None = None

    @property
    def age_seconds(self) -> int | None:
        """Age in seconds at which versions may expire; None for never; 0 if only `retain_last` is set."""
        return 0 if self.versions_seconds is None and self.retain_last is not None else self.versions_seconds


@dataclass(frozen=True)
class ModelConfig:
    """Checked configuration of one model: all values are valid, and none contradicts another.

    The fields are the configuration keys of a model with defaults filled in; `docs/configuration.md` describes them.
    """

    primary_key: tuple[str, ...]
    """Columns that identify a row of the table.

    In a table with history, whose rows are versions, they are the user's key plus `_valid_from`, and `_recorded_from`
    in a bitemporal table; `entity_key` is the user's key alone.
    """

    partition_by: tuple[Transform, ...] = ()
    """Partition transforms of the table's columns; the outermost level of the layout."""

    hash_key: str | None = None
    """Key column whose hash determines the bucket of a row; None for the first column of the primary key."""

    sort_key: tuple[str, ...] = ()
    """Columns by which the rows of a bucket are sorted."""

    merge: Merge = "on_write"
    """Whether runs merge changes into the table that is read, or a view merges them when it is read."""

    input: Input = "state"
    """Whether the query returns the rows of the table (`state`) or change events (`changes`)."""

    refresh: Refresh = "auto"
    """Whether runs may be incremental, must be, or never are."""

    sequence_by: str | None = None
    """Column that orders the events of a key: the event with the highest value wins."""

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
    """SQL predicate that is true for events which delete the row."""

    truncate_when: str | None = None
    """SQL predicate that is true for events which delete all rows of the table."""

    on_match: OnMatch = "replace"
    """What an event with an existing key does: replaces the row, updates the columns that are not null, or nothing."""

    merge_columns: Mapping[str, str] = field(default_factory=dict)
    """Maps columns to merge functions: one of `merge_columns.FUNCTIONS`, or an SQL expression over `old` and `new`."""

    exclude_columns: tuple[str, ...] = ()
    """Columns of the query that the table does not store."""

    deterministic_functions: tuple[str, ...] = ()
    """Functions that users define and that return the same value for the same arguments, as the query calls them."""

    renamed_columns: Mapping[str, str] = field(default_factory=dict)
    """Maps new names of columns to old ones; the columns keep their values."""

    history: History = "none"
    """Whether the table keeps every version of a row (`scd2`), or only the current one."""

    track: tuple[str, ...] = ()
    """Columns whose change begins a new version in a table with history; empty for all columns."""

    valid_time: str | None = None
    """Column with the time from which on an event is true; the table is then bitemporal."""

    keep_deleted: bool = True
    """Whether a table with history keeps the versions of a deleted row."""

    current_view: bool | str = False
    """Whether the model has a view of the current versions; a text is the name of this view."""

    changes_view: bool | str = False
    """Whether the model has a view of the change rows, as Delta's change data feed; a text is the name of this view."""

    changelog: Changelog = "lookup"
    """Whether change rows contain the old row (`lookup`), or only what the events say (`input`)."""

    keep: Keep = "net"
    """Whether a commit has one change row per key (`net`), or one for each event that changes the row (`all`)."""

    on_schema_change: OnSchemaChange = "append_new_columns"
    """What a run does if the query's columns differ from those of the table."""

    on_configuration_change: OnConfigurationChange = "apply"
    """What a run does if the layout of the table differs from the configured one."""

    on_session_change: OnSessionChange = "recompute"
    """What a run does if Spark's minor version, or a setting that may change results, is another than before."""

    on_query_change: OnQueryChange = "recompute"
    """Whether an edit of the query holds for all rows, or only for what changes in its sources from then on."""

    on_missing_key: OnMissingKey = "error"
    """What is done with a model that has no `primary_key`."""

    frozen_where: str | None = None
    """SQL predicate that is true for rows which no run changes any more; None if there are none."""

    on_failed_row: OnFailedRow = "hold"
    """Whether a row that fails a test stays in the table, or is in a table of its own until it passes."""

    compaction: Compaction = Compaction()
    retention: Retention = Retention(VERSIONS_SECONDS, max_versions=MAX_VERSIONS)
    target_lag: int = 0
    """Age in seconds that the table's data may have while `arctic run` refreshes the model continuously."""

    nodes: int | None = None
    """Number of buckets of a new table, a power of two; None to compute it from the data."""

    target_file_bytes: int = 128 * 1024 * 1024
    """Size of new data files in bytes."""

    node_bytes: int = 256 * 1024 * 1024
    """Size in bytes above which a bucket is split."""

    format_version: FormatVersion = 3
    """Version of the Iceberg format."""

    tblproperties: Mapping[str, str] = field(default_factory=dict)
    """Further table properties, which the user sets."""

    is_appended: bool = False
    """True if there is no primary key, and change events are appended as rows."""

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

    Two kinds of tables have no query: an ingested table, whose rows come from the change events of a source, and a
    landing table, to which other programs append rows.
    """

    table: TableName
    sql: str
    """The compiled query; empty for an ingested or a landing table."""

    config: ModelConfig
    not_null: tuple[str, ...] = ()
    """Columns outside the primary key that an enforced contract declares as not null."""

    contract: tuple[Column, ...] = ()
    """Columns and types of an enforced contract; empty if there is none."""

    comment: str | None = None
    """Description of the table to be stored in the catalog; None if none is to be stored."""

    column_comments: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of columns to be stored in the catalog, by column."""

    masks: Mapping[str, bool] = field(default_factory=dict)
    """Whether reports show values of a column as hashes, by its name in lower case; `*` stands for all other columns.

    A column without an entry is masked if its name says that it has secrets.
    """

    checks: tuple[str, ...] = ()
    """SQL predicates of the contract that every row must fulfil."""

    ingested_from: str | None = None
    """Name of an ingested table in its source; None for other tables."""

    source: ChangeSource | None = None
    """Source of an ingested table; None for other tables, or if the project does not declare the source."""

    is_landing: bool = False
    """True for a landing table."""

    may_replace: bool = False
    """True if an existing plain table or view of the model's name may be replaced.

    The model may then have created it with another materialization.
    """

    quarantine: Model | None = None
    """Model of the rows that fail tests, which are not in this table; None without `on_failed_row: quarantine`."""

    tested_table: TableName | None = None
    """Table whose tests the rows of a quarantine fail; None for any other model."""

    foreign_tables: frozenset[TableName] = frozenset()
    """Tables that the project declares as sources and does not ingest: they may belong to another project."""

    key_origin: str = ""
    """Reason for which a primary key that nobody configured is one, such as a test; empty for other keys."""

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
    def parts(self) -> tuple[Model, ...]:
        """The models that one run refreshes, in this order: that of the rows that fail tests, if any, and this one."""
        return (self,) if self.quarantine is None else (self.quarantine, self)

    @property
    def relations(self) -> tuple[TableName, ...]:
        """Names of all relations that runs of the model may create, those of its quarantine among them."""
        views = (view for view in (self.current_view, self.changes_view) if view is not None)
        others = () if self.quarantine is None else self.quarantine.relations
        return (self.table, *self.table.helper_tables.values(), *views, *others)

    @property
    def base(self) -> TableName:
        """Name of the base table: the model's own name, or with `merge: on_read` that name with a suffix."""
        return self.table.base if self.config.merge == "on_read" else self.table
