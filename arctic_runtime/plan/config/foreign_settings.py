"""Settings of other dbt adapters that a model's configuration may have, with their treatment and documentation.

The settings are those that the adapters read from the configuration of models, seeds and snapshots. A setting is
refused if a table without it would have other rows, or show them to more readers; otherwise it is translated or
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from arctic_runtime.plan.config.foreign_translations import (
    suggest_sort_key,
    translate_lag,
    translate_partition_by,
    translate_partitioned_by,
    translate_properties,
)
from arctic_runtime.plan.config.foreign_treatments import (
    ForeignSetting,
    Ignored,
    MacroSetting,
    Refused,
    Translated,
    Treatment,
    is_set,
)
from arctic_runtime.plan.config.value_reader import PLAIN_VALUES

_FOLLOWED: Final = MacroSetting()
_TRANSLATED_PARTITIONS: Final = Translated(
    "Iceberg's transforms, from a mapping or from functions of dates",
    translate_partition_by,
    {
        "anyOf": [
            {"type": "object", "required": ["field"]},
            {"type": "string", "pattern": r"(?:^|[(,\s])(?:to|TO|date|DATE)[A-Za-z_]*\s*\("},
        ]
    },
)
_UNSORTED: Final = Ignored("tables of dbt's own materializations are not sorted")

_FROM_QUERY: Final = "has no counterpart: a run makes the table what the query returns"
_WRITE_IN_QUERY: Final = "let the query return the rows that the table shall have, and remove the setting"
_KEEP_INCREMENTAL: Final = _WRITE_IN_QUERY + "; or keep `materialized: incremental`"
_NOT_FOLLOWED: Final = "is not followed by incremental models here"

_ALIASES: Final = "write DBT_INTERNAL_SOURCE and DBT_INTERNAL_DEST where a predicate names the two tables"
_ROWS_TO_UPDATE: Final = "leave rows that must not be updated out of the model's query, by a join with {{ this }}"
_ROWS_TO_INSERT: Final = "leave rows that must not be inserted out of the model's query, by a join with {{ this }}"
_ROWS_TO_DELETE: Final = "make it an arctic model, which deletes rows that its query no longer returns"
_VALUES: Final = "compute the values in the model's query, and choose columns by `merge_update_columns`"
_KEEP_VALUES: Final = (
    "with `input: changes`, `merge_columns: {column: first}` keeps the value that a column has first; with "
    "`input: state` compute the value in the query"
)
_SET_ACCESS: Final = "set access in the catalog or the storage, and remove the setting"

_PLAIN_ENGINES: Final = frozenset({"mergetree", "memory", "log", "tinylog", "stripelog", "distributed"})
"""Table engines of ClickHouse that store rows unchanged, unlike `SummingMergeTree`."""


def _ignore_setting(
    because: str, adapters: str, names: str, silent: tuple[str, ...] = (), dbt: Treatment | None = None
) -> Iterable[ForeignSetting]:
    """Yields the settings in `names`, separated by spaces, which are ignored for the same reason `because`.

    `adapters` are the adapters that have the settings, separated by spaces. `silent` is as in `Ignored`. `dbt` is the
    treatment in models of dbt's own materializations, if it is another one.
    """
    ignored = Ignored(because, silent)
    for name in names.split():
        yield ForeignSetting(name, tuple(adapters.split()), ignored, dbt or ignored)


def _suggest_sort(adapters: str, names: str) -> Iterable[ForeignSetting]:
    translated = Translated("`sort_key`, if there is none and it has only columns", suggest_sort_key)
    for name in names.split():
        yield ForeignSetting(name, tuple(adapters.split()), translated, _UNSORTED)


def _refuse_merge(adapters: str, name: str, fix: str, arctic_fix: str = _WRITE_IN_QUERY) -> ForeignSetting:
    """Builds a setting of another adapter's MERGE, which arctic models and dbt's incremental models refuse.

    `arctic_fix` and `fix` are the advised actions for these two; other models ignore the setting.
    """
    arctic = Refused(_FROM_QUERY, arctic_fix)
    return ForeignSetting(name, tuple(adapters.split()), arctic, Refused(_NOT_FOLLOWED, fix, _is_incremental))


def _refuse_setting(
    adapters: str, name: str, refused: Refused, arctic: Treatment | None = None, dbt: Treatment | None = None
) -> ForeignSetting:
    return ForeignSetting(name, tuple(adapters.split()), arctic or refused, dbt or refused)


def _is_incremental(value: Any, config: Mapping[str, Any]) -> bool:
    return bool(value) and config.get("materialized") == "incremental"


def _is_table(value: Any, config: Mapping[str, Any]) -> bool:
    return bool(value) and config.get("materialized") != "view"


def _is_microbatch(value: Any, config: Mapping[str, Any]) -> bool:
    return bool(value) and config.get("incremental_strategy") == "microbatch"


def _excludes_values(value: Any, config: Mapping[str, Any]) -> bool:
    """Whether `value`, the columns that a merge does not update, has a column outside of the primary key."""
    key = config.get("primary_key") or config.get("unique_key") or []
    names = {str(name).lower() for name in ([key] if isinstance(key, str) else key)}
    excluded = [value] if isinstance(value, str) else value
    return any(str(name).lower() not in names for name in excluded or [])


def _changes_rows(engine: Any, config: Mapping[str, Any]) -> bool:
    """Whether a table engine of ClickHouse stores other rows than those inserted, as `SummingMergeTree()` does."""
    name = str(engine or "mergetree").split("(")[0].strip().lower()
    return _is_table(engine, config) and name.removeprefix("replicated").removeprefix("shared") not in _PLAIN_ENGINES


def _skips_table(value: Any, config: Mapping[str, Any]) -> bool:
    return str(value).lower() == "skip" and config.get("materialized") in ("table", "arctic")


def _overwrites(value: Any, config: Mapping[str, Any]) -> bool:
    return _is_incremental(value, config) and config.get("incremental_strategy") == "insert_overwrite"


_ALL_PARTITIONS: Final = "leave it out: `insert_overwrite` replaces the partitions that the query has rows of"
_PLACES: Final = "the catalog places the files of tables"
_FORMAT: Final = "every table is an Iceberg table of Parquet files"
_TABLES: Final = "tables are neither copied nor swapped, so there are no such tables beside them"
_ACCESS: Final = "access is set in the catalog or the storage"
_TAGS: Final = "there are no such tags; `meta` holds what others read"
_COMPUTE: Final = "the Spark of the profile does the work"
_PYTHON: Final = "Python models run in the process of dbt"
_REFRESHES: Final = "a model is refreshed by `dbt run`, or by `arctic run` as its `target_lag` says"
_STAYS: Final = "a table is durable, and stays until it is dropped"
_LAYOUT: Final = "`partition_by`, `sort_key` and `nodes` lay out a table"
_UPKEEP: Final = "`compaction` and `retention` say how a table is kept up"

_EXPIRES: Final = Refused(
    "deletes rows as they grow old, which tables here don't do",
    "leave the old rows out in the query, and remove the setting",
    _is_table,
)
_RESTRICTS: Final = Refused("restricts which rows readers see, which tables here can't do", _SET_ACCESS)
_WITHOUT_CHANGES: Final = "only what has changed is written"

FOREIGN_SETTINGS: Final[tuple[ForeignSetting, ...]] = (
    # Formats and places
    *_ignore_setting(_FORMAT, "Spark Databricks Trino", "file_format", ("iceberg",)),
    *_ignore_setting(_FORMAT, "Snowflake Databricks Trino", "table_format", ("iceberg", "default")),
    *_ignore_setting(_FORMAT, "Athena", "table_type", ("iceberg",)),
    *_ignore_setting(_FORMAT, "Athena DuckDB", "format", ("parquet",)),
    *_ignore_setting("`format_version` says it", "Snowflake", "iceberg_version"),
    *_ignore_setting("`tblproperties` has `write.parquet.compression-codec`", "Athena", "write_compression"),
    *_ignore_setting("`tblproperties` has Iceberg's properties", "Athena", "table_properties"),
    *_ignore_setting(
        "`tblproperties` has Iceberg's properties, and `partition_by` the partitions", "Trino", "properties"
    ),
    *_ignore_setting(_FORMAT, "Athena", "field_delimiter"),
    *_ignore_setting(_FORMAT, "Spark Databricks DuckDB", "options", dbt=_FOLLOWED),
    ForeignSetting(
        "tblproperties",
        ("Spark", "Databricks"),
        Translated(
            "`format_version` for `format-version`, if there is none; the others stay",
            translate_properties,
            {**PLAIN_VALUES, "required": ["format-version"]},
        ),
        _FOLLOWED,
    ),
    *_ignore_setting("`target_file_bytes` says it", "Snowflake", "target_file_size"),
    *_ignore_setting(_PLACES, "Spark Databricks", "location_root", dbt=_FOLLOWED),
    *_ignore_setting(_PLACES, "Databricks", "include_full_name_in_path"),
    *_ignore_setting(_PLACES, "Snowflake BigQuery Trino", "base_location_root base_location_subpath"),
    *_ignore_setting(_PLACES, "Snowflake", "external_volume"),
    *_ignore_setting(_PLACES, "BigQuery Trino", "storage_uri"),
    *_ignore_setting(_PLACES, "Trino", "omit_base_location_root"),
    *_ignore_setting(_PLACES, "Athena", "external_location s3_data_dir s3_data_naming s3_tmp_table_dir"),
    *_ignore_setting(_PLACES, "DuckDB", "location glue_register glue_database"),
    # Layout
    ForeignSetting(
        "partition_by",
        ("BigQuery", "ClickHouse"),
        _TRANSLATED_PARTITIONS,
        _TRANSLATED_PARTITIONS,
    ),
    ForeignSetting(
        "partitioned_by",
        ("Athena", "DuckDB"),
        Translated("`partition_by`, if there is none", translate_partitioned_by),
        Translated("`partition_by`, if there is none", translate_partitioned_by),
    ),
    *_suggest_sort("Snowflake BigQuery", "cluster_by"),
    *_suggest_sort("Databricks", "liquid_clustered_by zorder"),
    *_suggest_sort("Redshift", "sort"),
    *_suggest_sort("ClickHouse", "order_by"),
    *_suggest_sort("DuckDB", "sorted_by"),
    *_ignore_setting(_LAYOUT, "Spark Databricks", "clustered_by buckets"),
    *_ignore_setting(_LAYOUT, "Databricks", "auto_liquid_cluster"),
    *_ignore_setting(_LAYOUT, "Athena", "bucketed_by bucket_count"),
    *_ignore_setting(_LAYOUT, "Redshift", "dist sort_type"),
    *_ignore_setting(_LAYOUT, "ClickHouse", "sharding_key projections"),
    *_ignore_setting(_LAYOUT, "Postgres DuckDB ClickHouse", "indexes"),
    *_ignore_setting(_UPKEEP, "Snowflake", "automatic_clustering"),
    *_ignore_setting(_UPKEEP, "Databricks", "skip_optimize"),
    *_ignore_setting(_UPKEEP, "Athena", "versions_to_keep"),
    *_ignore_setting("readers may scan a whole table", "BigQuery", "require_partition_filter"),
    *_ignore_setting("every arctic table has its changes", "BigQuery", "enable_change_history"),
    *_ignore_setting(_STAYS, "Snowflake", "transient"),
    *_ignore_setting(_STAYS, "Postgres", "unlogged"),
    *_ignore_setting(_STAYS, "Redshift", "backup"),
    *_ignore_setting(_STAYS, "BigQuery", "hours_to_expiration"),
    _refuse_setting("BigQuery", "partition_expiration_days", _EXPIRES),
    _refuse_setting("ClickHouse", "ttl", _EXPIRES),
    _refuse_setting(
        "ClickHouse",
        "engine",
        Refused(
            "stores other rows than the query returns, which tables here don't do",
            "aggregate or deduplicate in the query, and remove the setting",
            _changes_rows,
            Ignored(_FORMAT),
        ),
    ),
    # Incremental runs
    *_ignore_setting("a run works out what has changed", "dbt", "incremental_strategy", dbt=_FOLLOWED),
    ForeignSetting(
        "begin",
        ("dbt",),
        Refused(
            "leaves rows before that time out of a microbatch model, and an arctic model reads all of its upstreams",
            "leave these rows out in the query, by a condition on `event_time`, and remove the setting",
            _is_microbatch,
        ),
        _FOLLOWED,
    ),
    ForeignSetting(
        "sql_header",
        ("dbt",),
        Refused("runs statements before the query, which an arctic model reads as one select", "use a `pre_hook`"),
        _FOLLOWED,
    ),
    ForeignSetting(
        "merge_update_columns", ("dbt",), Refused("keeps old values in the other columns", _KEEP_VALUES), _FOLLOWED
    ),
    ForeignSetting(
        "merge_exclude_columns",
        ("dbt",),
        Refused("keeps old values in these columns", _KEEP_VALUES, _excludes_values),
        _FOLLOWED,
    ),
    *(
        ForeignSetting(name, ("dbt",), Refused(_FROM_QUERY, _KEEP_INCREMENTAL), _FOLLOWED)
        for name in ("incremental_predicates", "predicates")
    ),
    *(
        _refuse_setting(
            "Databricks", name, Refused(_NOT_FOLLOWED, _ALIASES, _is_incremental), Ignored(_WITHOUT_CHANGES)
        )
        for name in ("target_alias", "source_alias")
    ),
    _refuse_merge("Databricks", "skip_matched_step", "use `incremental_strategy: append`; " + _ROWS_TO_UPDATE),
    _refuse_merge("Databricks", "matched_condition", _ROWS_TO_UPDATE),
    _refuse_merge("Databricks", "skip_not_matched_step", _ROWS_TO_INSERT),
    _refuse_merge("Databricks", "not_matched_condition", _ROWS_TO_INSERT),
    _refuse_merge("Databricks", "not_matched_by_source_action", _ROWS_TO_DELETE),
    _refuse_merge("Databricks", "not_matched_by_source_condition", _ROWS_TO_DELETE),
    _refuse_merge(
        "Databricks",
        "merge_with_schema_evolution",
        "use `on_schema_change: append_new_columns`",
        "remove it: `on_schema_change` says what becomes of new columns, and appends them by default",
    ),
    _refuse_merge("Athena", "update_condition", _ROWS_TO_UPDATE),
    _refuse_merge("Athena", "insert_condition", _ROWS_TO_INSERT),
    _refuse_merge("Athena", "delete_condition", _ROWS_TO_DELETE),
    _refuse_merge("Athena", "merge_update_columns_rules", _VALUES),
    _refuse_merge("Athena", "merge_update_columns_default_rule", _VALUES),
    _refuse_merge("DuckDB", "merge_update_condition", _ROWS_TO_UPDATE),
    _refuse_merge("DuckDB", "merge_insert_condition", _ROWS_TO_INSERT),
    _refuse_merge("DuckDB", "merge_update_set_expressions", _VALUES),
    _refuse_merge(
        "DuckDB", "merge_on_using_columns", "name these columns in `unique_key`", "name them in `primary_key`"
    ),
    _refuse_merge("DuckDB", "merge_returning_columns", "leave it out", "leave it out"),
    _refuse_merge("DuckDB", "merge_clauses", "leave it out; " + _ROWS_TO_UPDATE),
    _refuse_setting(
        "BigQuery",
        "partitions",
        Refused(_NOT_FOLLOWED, _ALL_PARTITIONS, _is_incremental),
        Ignored(_WITHOUT_CHANGES),
    ),
    _refuse_setting(
        "Snowflake",
        "overwrite_columns",
        Refused(_NOT_FOLLOWED, "select null as the other columns in the model's query", _overwrites),
        Refused(_FROM_QUERY, "select null as the other columns in the query, and remove the setting"),
    ),
    _refuse_setting(
        "Snowflake",
        "immutable_where",
        Refused(_FROM_QUERY, _WRITE_IN_QUERY),
        dbt=Ignored("only dynamic tables have it"),
    ),
    _refuse_setting(
        "Trino",
        "on_table_exists",
        Refused(
            "`skip` keeps the rows of an existing table",
            "leave the model out with --exclude, and remove the setting",
            _skips_table,
            Ignored("a table is replaced in one commit"),
        ),
    ),
    _refuse_setting(
        "ClickHouse",
        "inserts_only",
        Refused(_NOT_FOLLOWED, "use `incremental_strategy: append`", _is_incremental),
        Ignored(_WITHOUT_CHANGES),
    ),
    *_ignore_setting(_TABLES, "Snowflake", "tmp_relation_type"),
    *_ignore_setting(_TABLES, "Databricks Athena", "unique_tmp_table_suffix"),
    *_ignore_setting(_TABLES, "Databricks", "use_safer_relation_operations view_update_via_alter"),
    *_ignore_setting(
        "changed keys are applied as `on_configuration_change` says", "Databricks", "incremental_apply_config_changes"
    ),
    *_ignore_setting(_TABLES, "Athena", "ha temp_schema native_drop"),
    *_ignore_setting("Spark writes any number of partitions", "Athena", "force_batch partitions_limit"),
    *_ignore_setting("a contract enforces constraints", "Databricks", "persist_constraints"),
    *_ignore_setting("a view is bound to its tables by name", "Redshift", "bind"),
    # Access and tags
    _refuse_setting("Snowflake", "row_access_policy", _RESTRICTS),
    _refuse_setting("Databricks", "row_filter", _RESTRICTS),
    *_ignore_setting("an Iceberg catalog keeps no grants: " + _ACCESS, "dbt", "grants"),
    *_ignore_setting(_ACCESS, "Snowflake", "secure copy_grants"),
    *_ignore_setting(_ACCESS, "BigQuery", "grant_access_to"),
    *_ignore_setting(_ACCESS, "Athena", "lf_tags_config lf_grants lf_inherited_tags"),
    *_ignore_setting(_ACCESS, "Trino", "view_security"),
    *_ignore_setting(_ACCESS, "ClickHouse", "sql_security definer"),
    *_ignore_setting("the storage encrypts files", "BigQuery", "kms_key_name"),
    *_ignore_setting(_TAGS, "Snowflake", "copy_tags table_tag query_tag"),
    *_ignore_setting(_TAGS, "Databricks", "databricks_tags query_tags"),
    *_ignore_setting(_TAGS, "BigQuery", "labels labels_from_meta resource_tags"),
    *_ignore_setting(_TAGS, "Redshift", "query_group"),
    # Refreshes
    ForeignSetting(
        "target_lag",
        ("Snowflake",),
        Translated(
            "`target_lag`, from texts such as `10 minutes`; `downstream` is left out",
            translate_lag,
            {
                "type": "string",
                "pattern": r"^\s*(?:[0-9]+\s*(?:[Ss]econd|[Mm]inute|[Hh]our|[Dd]ay)s?|[Dd]ownstream|DOWNSTREAM)\s*$",
            },
        ),
        _FOLLOWED,
    ),
    *_ignore_setting(_REFRESHES, "Snowflake", "scheduler refresh_mode initialize"),
    *_ignore_setting(_REFRESHES, "BigQuery", "enable_refresh refresh_interval_minutes max_staleness"),
    *_ignore_setting(_REFRESHES, "BigQuery", "allow_non_incremental_definition"),
    *_ignore_setting(_REFRESHES, "Snowflake Redshift", "auto_refresh"),
    *_ignore_setting(_REFRESHES, "Redshift", "autorefresh"),
    *_ignore_setting(_REFRESHES, "Databricks", "schedule"),
    *_ignore_setting(_REFRESHES, "ClickHouse", "refreshable catchup repopulate_from_mvs_on_full_refresh"),
    *_ignore_setting(_REFRESHES, "Trino", "grace_period"),
    # Compute
    *_ignore_setting(_COMPUTE, "Snowflake", "snowflake_warehouse snowflake_initialization_warehouse refresh_warehouse"),
    *_ignore_setting(_COMPUTE, "Databricks", "databricks_compute"),
    *_ignore_setting(_COMPUTE, "BigQuery", "job_execution_timeout_seconds reservation"),
    *_ignore_setting(_COMPUTE, "Athena", "work_group skip_workgroup_check s3_staging_dir"),
    *_ignore_setting(_COMPUTE, "ClickHouse", "force_on_cluster disable_on_cluster connection_overrides"),
    *_ignore_setting(
        "`server_side_parameters` of the profile has settings of Spark", "ClickHouse", "settings query_settings"
    ),
    *_ignore_setting("Spark loads seeds", "Athena", "seed_by_insert seed_s3_upload_args"),
    *_ignore_setting(
        _PYTHON, "Databricks", "job_cluster_config python_job_config cluster_id http_path create_notebook"
    ),
    *_ignore_setting(
        _PYTHON, "Databricks", "notebook_scoped_libraries additional_libs index_url user_folder_for_python"
    ),
    *_ignore_setting(_PYTHON, "Databricks", "access_control_list notebook_access_control_list"),
    *_ignore_setting(_PYTHON, "Databricks", "environment_key environment_dependencies"),
    *_ignore_setting(_PYTHON, "BigQuery", "intermediate_format enable_list_inference notebook_template_id"),
    *_ignore_setting(_PYTHON, "BigQuery Athena Databricks", "timeout"),
    *_ignore_setting(
        _PYTHON, "Athena", "engine_config spark_encryption spark_cross_account_catalog spark_requester_pays"
    ),
)
"""All settings, in the order of the documentation; if two are translated to the same key, the first one applies."""

SETTINGS_BY_NAME: Final[Mapping[str, ForeignSetting]] = {setting.name: setting for setting in FOREIGN_SETTINGS}


def describe_foreign_settings() -> str:
    """Formats the foreign settings as a Markdown table for docs/reference/foreign-settings.md: a row per treatment."""
    rows: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for setting in FOREIGN_SETTINGS:
        rows.setdefault(_format_treatments(setting), {}).setdefault(setting.adapters, []).append(f"`{setting.name}`")
    header = "| settings | in an arctic model | in dbt's own models |\n|---|---|---|"
    return "\n".join([header, *(f"| {_format_names(names)} | {cells} |" for cells, names in rows.items())])


def _format_names(names: Mapping[tuple[str, ...], list[str]]) -> str:
    return "; ".join(f"{', '.join(adapters)}: {', '.join(settings)}" for adapters, settings in names.items())


def _format_treatments(setting: ForeignSetting) -> str:
    own = "the same" if setting.dbt == setting.arctic else format_treatment(setting.dbt)
    return f"{format_treatment(setting.arctic)} | {own}"


def format_treatment(treatment: Treatment) -> str:
    """Formats a treatment for the documentation, in Markdown."""
    match treatment:
        case Ignored():
            return f"ignored: {treatment.because}"
        case MacroSetting():
            return "as dbt has it"
        case Translated():
            return f"becomes {treatment.meaning}"
        case Refused():
            kinds = "" if treatment.applies in (is_set, _is_table) else _WHEN[treatment.applies]
            return f"**refused**{kinds}: {treatment.fix}"


_WHEN: Final[Mapping[Callable[[Any, Mapping[str, Any]], bool], str]] = {
    _is_incremental: " with `incremental`",
    _overwrites: " with `incremental` and `insert_overwrite`",
    _is_microbatch: " with `incremental_strategy: microbatch`",
    _excludes_values: " for columns outside of the key",
    _changes_rows: " for engines such as `SummingMergeTree`",
    _skips_table: " for `skip`",
}
"""Maps functions that decide whether a setting is refused to a description of the condition, for the documentation."""
