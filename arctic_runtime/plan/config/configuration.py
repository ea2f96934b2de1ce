"""All configuration keys of an arctic model: reader, default, effect and documentation of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from arctic_runtime.model.table import (
    Changelog,
    FormatVersion,
    History,
    Input,
    Keep,
    Merge,
    OnConfigurationChange,
    OnFailedRow,
    OnMatch,
    OnMissingKey,
    OnQueryChange,
    OnSchemaChange,
    OnSessionChange,
    Refresh,
)
from arctic_runtime.plan.config.config_readers import (
    get_reader,
    read_file_size,
    read_flag,
    read_merge_columns,
    read_names,
    read_nodes,
    read_properties,
    read_renamed,
    read_sequence,
    read_text,
    read_transforms,
    read_view_name,
)
from arctic_runtime.plan.config.maintenance_settings import read_compaction, read_lag, read_retention
from arctic_runtime.plan.config.value_reader import ValueReader


@dataclass(frozen=True)
class ConfigKey:
    """A configuration key; `values`, `default` and `meaning` are Markdown for docs/reference/model-keys.md.

    `read` converts a user's value to the type of the `ModelConfig` field with the key's name. The default that is used
    is that field's; `default` only documents it.
    """

    name: str
    values: str
    default: str
    meaning: str
    read: ValueReader[Any]
    needs_changes: bool = False
    """Whether the key is allowed only with `input: changes`."""

    is_filled_by_dbt: bool = False
    """Whether dbt fills in a default of its own if the user has not set the key."""

    effect: Literal["rows", "layout", "none"] = "none"
    """Effect of a changed value on an existing table.

    `rows`: all rows are computed again, because the value is part of the fingerprint. `layout`: the base table is
    rewritten in another layout. `none`: neither.
    """


CONFIGURATION = (
    ConfigKey(
        "primary_key",
        "column, or list of columns",
        "from [constraints and tests](../adopting.md#keys)",
        (
            "identifies a row: never null, unique in the table. `[]` for a query with exactly one row. `null` with "
            "`input: changes`: the events [are appended](../configuration.md#events-without-a-key). It can't be "
            "changed once a run has succeeded"
        ),
        read=read_names,
    ),
    ConfigKey(
        "unique_key",
        "column, or list of columns",
        "",
        "another name of `primary_key`",
        read=read_names,
    ),
    ConfigKey(
        "on_missing_key",
        "`error`, `table`",
        "`error`",
        (
            "a model without `primary_key` whose constraints and tests [tell no key](../adopting.md#keys): one error "
            "that lists all such models, or a table of dbt"
        ),
        read=get_reader(OnMissingKey),
    ),
    ConfigKey(
        "partition_by",
        "column, transform, or list",
        "none",
        (
            "level 1 of the layout: `c`, `years(c)`, `months(c)`, `days(c)`, `hours(c)`, `bucket(n, c)`, "
            "`truncate(w, c)`"
        ),
        read=read_transforms,
        effect="layout",
    ),
    ConfigKey(
        "hash_key",
        "column",
        "first column of `primary_key`",
        (
            "level 2: the column of the primary key whose hash selects the bucket. A number, text, date or timestamp; "
            "no boolean or float"
        ),
        read=read_text,
        effect="layout",
    ),
    ConfigKey(
        "sort_key",
        "column, or list of columns",
        "none",
        "level 3: the rows of a bucket are sorted by it",
        read=read_names,
        effect="layout",
    ),
    ConfigKey(
        "merge",
        "`on_write`, `on_read`",
        "`on_write`",
        "`on_write`: every run merges into the table. `on_read`: the table is a view over base and changes",
        read=get_reader(Merge),
    ),
    ConfigKey(
        "input",
        "`state`, `changes`",
        "`state`",
        "`state`: the query returns the rows of the table. `changes`: it returns change events",
        read=get_reader(Input),
        effect="rows",
    ),
    ConfigKey(
        "refresh",
        "`auto`, `incremental`, `strict`, `full`",
        "`auto`",
        "how a model of `input: state` follows its upstreams; see [refresh](../configuration.md#refresh)",
        read=get_reader(Refresh),
    ),
    ConfigKey(
        "sequence_by",
        "column, or mapping of columns to lists of columns",
        "none",
        (
            "changes: the event with the highest value wins. A number, text, date or timestamp, never null. A mapping "
            "has a column for each flow of [partial rows](../concepts.md#partial-rows)"
        ),
        read=read_sequence,
        needs_changes=True,
        effect="rows",
    ),
    ConfigKey(
        "columns_to_update",
        "column",
        "none",
        (
            "changes: the column that says which columns an event has: an array of their names, or a mask. The row "
            "keeps its values in the others. See [partial rows](../concepts.md#which-columns-an-event-has)"
        ),
        read=read_text,
        needs_changes=True,
        effect="rows",
    ),
    ConfigKey(
        "unavailable_value",
        "text, such as `__debezium_unavailable_value`",
        "none",
        (
            "changes: stands for a value that the source did not send; the row keeps its own. See [partial "
            "rows](../concepts.md#which-columns-an-event-has)"
        ),
        read=read_text,
        needs_changes=True,
        effect="rows",
    ),
    ConfigKey(
        "delete_when",
        "SQL predicate",
        "none",
        "changes: the events that delete the row, as a predicate over the columns of the query",
        read=read_text,
        needs_changes=True,
        effect="rows",
    ),
    ConfigKey(
        "truncate_when",
        "SQL predicate",
        "none",
        "changes: the events that delete all rows of the table, as a predicate over the columns of the query",
        read=read_text,
        needs_changes=True,
        effect="rows",
    ),
    ConfigKey(
        "on_match",
        "`replace`, `update`, `ignore`",
        "`replace`",
        ("changes, if the key exists: store the new row; store its columns that are not null; or keep the old row"),
        read=get_reader(OnMatch),
        needs_changes=True,
        effect="rows",
    ),
    ConfigKey(
        "merge_columns",
        "mapping of columns to functions",
        "none",
        (
            "changes: how single columns take values from events: `sum`, `max`, `min`, `first`, `last`, "
            "`last_non_null`, `union`, or an SQL expression over `old.column` and `new.column`. See [merge "
            "functions](../concepts.md#merge-functions)"
        ),
        read=read_merge_columns,
        needs_changes=True,
        effect="rows",
    ),
    ConfigKey(
        "exclude_columns",
        "column, or list of columns",
        "none",
        "changes: columns of the query that the table does not store",
        read=read_names,
        needs_changes=True,
    ),
    ConfigKey(
        "deterministic_functions",
        "name, or list of names",
        "none",
        (
            "functions of your own in the query, as it calls them without a schema, that return one value for a row, "
            "always the same for the same arguments. The query is then maintained incrementally. A `--full-refresh` "
            "applies another definition of a function to the rows that are there"
        ),
        read=read_names,
    ),
    ConfigKey(
        "renamed_columns",
        "mapping of new names to old ones",
        "none",
        ("columns that keep their values under a new name. See [schema changes](../runs.md#schema-changes)"),
        read=read_renamed,
    ),
    ConfigKey(
        "history",
        "`none`, `scd2`",
        "`none`",
        (
            "`scd2`: the table keeps [every version of a row](../history.md), with the time from which, and to which, "
            "it was valid"
        ),
        read=get_reader(History),
    ),
    ConfigKey(
        "track",
        "column, or list of columns",
        "all columns",
        (
            "history: the columns whose change opens a new version. Other columns are updated in place. See "
            "[tracked columns](../history.md#tracked-columns)"
        ),
        read=read_names,
    ),
    ConfigKey(
        "valid_time",
        "column",
        "none",
        (
            "history of events: the column with the time from which on an event is true. The table is "
            "[bitemporal](../history.md#bitemporal-tables): it tells when it was recorded, too"
        ),
        read=read_text,
        effect="rows",
    ),
    ConfigKey(
        "keep_deleted",
        "`true`, `false`",
        "`true`",
        ("history: whether the versions of a deleted row stay, the last one closed. `false` deletes them with the row"),
        read=read_flag,
        effect="rows",
    ),
    ConfigKey(
        "current_view",
        "`true`, `false`, a name",
        "`false`",
        (
            "history: whether a [view of the current versions](../history.md#a-view-of-the-current-rows) is in the "
            "schema of the model. `true` names it as the model with `_current` behind it"
        ),
        read=read_view_name,
    ),
    ConfigKey(
        "changes_view",
        "`true`, `false`, a name",
        "`false`",
        (
            "whether a [view of the change rows](../readers.md#change-data-feed) with the columns of Delta's change "
            "data feed is in the schema of the model. `true` names it as the model with `_cdf` behind it"
        ),
        read=read_view_name,
    ),
    ConfigKey(
        "changelog",
        "`lookup`, `input`",
        "`lookup`",
        (
            "changes: `lookup` reads the old row, so that `_action` and `_before` are exact. `input` only appends "
            "the events as `upsert` and `delete`, without `_before`. The first load and full refreshes are exact "
            "in both cases"
        ),
        read=get_reader(Changelog),
        needs_changes=True,
    ),
    ConfigKey(
        "keep",
        "`net`, `all`",
        "`net`",
        (
            "`net`: one row per key and commit in the change table. `all` (changes): one per event that changes its "
            "row. See [all changes](../concepts.md#all-changes)"
        ),
        read=get_reader(Keep),
    ),
    ConfigKey(
        "on_schema_change",
        "`append_new_columns`, `sync_all_columns`, `fail`, `ignore`",
        "`append_new_columns`",
        (
            "what to do if the columns of the query differ from the columns of the table. See [schema "
            "changes](../runs.md#schema-changes)"
        ),
        read=get_reader(OnSchemaChange),
        is_filled_by_dbt=True,
        effect="rows",
    ),
    ConfigKey(
        "on_configuration_change",
        "`apply`, `continue`, `fail`",
        "`apply`",
        (
            "what to do if the configured layout has changed: rewrite the base, keep the old layout, or fail; and if "
            "keys have changed that say how rows follow from events: compute all rows again, apply the new values to "
            "later events alone, or fail. See [changed configuration](../runs.md#changed-configuration)"
        ),
        read=get_reader(OnConfigurationChange),
        is_filled_by_dbt=True,
    ),
    ConfigKey(
        "on_session_change",
        "`recompute`, `keep`",
        "`recompute`",
        (
            "what to do with a model of `input: state` if Spark has another minor version, or another value of a "
            "setting that may change results: compute all rows again, or keep the present ones. See "
            "[settings](../incremental.md#settings)"
        ),
        read=get_reader(OnSessionChange),
    ),
    ConfigKey(
        "on_query_change",
        "`recompute`, `forward`",
        "`recompute`",
        (
            "what to do with a model of `input: state` after an edit of its query or contract: bring all rows to the "
            "new query, or let the rows stay, and the new query hold for what changes from then on. See [an edit that "
            "goes forward](../incremental.md#an-edit-that-goes-forward)"
        ),
        read=get_reader(OnQueryChange),
    ),
    ConfigKey(
        "frozen_where",
        "SQL predicate over columns of the model",
        "none",
        (
            "rows for which it is true [stay as they are](../frozen.md), whatever happens to sources, such as "
            "`day < current_date - interval 90 days`"
        ),
        read=read_text,
    ),
    ConfigKey(
        "on_failed_row",
        "`hold`, `quarantine`",
        "`hold`",
        (
            "what to do with a row that fails a `not_null`, `accepted_values` or expression test: keep it in the "
            "table, whose test then fails; or keep it in a [quarantine](../quarantine.md) until it passes"
        ),
        read=get_reader(OnFailedRow),
    ),
    ConfigKey(
        "compaction",
        "`auto`, `off`, mapping",
        "`auto`",
        "whether runs compact, and the [thresholds](../configuration.md#compaction-and-retention)",
        read=read_compaction,
    ),
    ConfigKey(
        "retention",
        "`off`, mapping",
        "`{versions: 5d, max_versions: 1000}`",
        "how long versions and change rows are [kept](../configuration.md#compaction-and-retention)",
        read=read_retention,
    ),
    ConfigKey(
        "target_lag",
        "time, such as `30s`, `5m`, `1h`",
        "`0s`",
        (
            "how old rows may be while [`arctic run`](../live.md#how-fresh-tables-are) follows the model, and before "
            "it is shown as `behind`; `dbt run` does not look at it"
        ),
        read=read_lag,
    ),
    ConfigKey(
        "nodes",
        "`auto`, a power of two",
        "`auto`",
        (
            "buckets of a new base. `auto` depends on the average size of a partition in the first load: one bucket "
            "per half of `node_bytes`, and enough for all cores from 16 MiB each. Later partitions are "
            "[split](../maintenance.md#bucket-split-and-merge) as they grow"
        ),
        read=read_nodes,
        effect="layout",
    ),
    ConfigKey(
        "target_file_bytes",
        "bytes, or a text such as `64 MiB`",
        "`128 MiB`",
        (
            "target size of the files of a base, in its sort order. Existing files keep their size "
            "until compaction rewrites them"
        ),
        read=read_file_size,
    ),
    ConfigKey(
        "node_bytes",
        "bytes, or a text such as `1 GiB`",
        "`256 MiB`",
        (
            "size from which a bucket of a partition is [split](../maintenance.md#bucket-split-and-merge). The buckets "
            "of a new base have up to half of this size"
        ),
        read=read_file_size,
    ),
    ConfigKey(
        "format_version",
        "`3`, `2`",
        "`3`",
        (
            "Iceberg format version of the base. `2` is for [readers](../readers.md#format-version-2) without support "
            "for deletion vectors. The change table always has version 3"
        ),
        read=get_reader(FormatVersion),
        effect="layout",
    ),
    ConfigKey(
        "tblproperties",
        "mapping",
        "none",
        (
            "further Iceberg table properties of change table and base, set when the tables are created. "
            "`format-version` is taken as `format_version`; paths such as `write.data.path`, and names that start with "
            "`arctic.`, are refused"
        ),
        read=read_properties,
        effect="layout",
    ),
)
"""All configuration keys, in the order of the documentation."""

KEYS = tuple(key.name for key in CONFIGURATION)

_EFFECTS = {"rows": "computes all rows once", "layout": "rewrites the base", "none": ""}


def describe_configuration() -> str:
    """Formats the table of model keys in docs/reference/model-keys.md, as Markdown."""
    header = "| key | values | default | meaning | another value |\n|---|---|---|---|---|"
    return "\n".join([header, *map(_format_row, CONFIGURATION)])


def _format_row(key: ConfigKey) -> str:
    cells = (f"`{key.name}`", key.values, key.default, key.meaning, _EFFECTS[key.effect])
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"
