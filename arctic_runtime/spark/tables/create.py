"""Creates a model's change table and base table; renames, adds, widens and drops their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from arctic_runtime.effects import perform_effect
from arctic_runtime.model.columns import (
    ACTION,
    BEFORE,
    CHANGE_COLUMNS,
    SEQUENCE,
    TIMESTAMP,
    Column,
    SchemaChange,
    format_key,
    is_same_name,
)
from arctic_runtime.model.files.layout import (
    KEPT_METADATA,
    NEWEST_FORMAT,
    ROW_GROUP_PROPERTY,
    TARGET_PROPERTY,
    compute_node_count,
    compute_row_group_bytes,
    format_layout,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BASELINE, KEEP, KIND, LAYOUT, MODEL_TABLE, PRIMARY_KEY
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.step import (
    CreateBase,
    CreateChangeTable,
    EvolveSchema,
)
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    type_name,
)
from arctic_runtime.spark.engine.statement import write_properties as property_list
from arctic_runtime.spark.tables.capability_probe import require_branches
from arctic_runtime.spark.tables.commit import (
    build_base_summary,
    build_summary_options,
    build_summary_settings,
    perform_statement,
)
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.internal import NewColumns, create_staged, create_without_snapshot
from arctic_runtime.spark.tables.rows.frames import (
    list_frame_columns,
    read_folded_rows,
    read_table,
    to_column,
    type_of,
)
from arctic_runtime.thresholds import LayoutThresholds

_TABLE_DEFAULTS = {
    **KEPT_METADATA,
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
    # A writer tries a dictionary for each column of each row group, and gives up if that grows larger. With the many
    # small row groups here, trying Iceberg's 2 MiB takes a third of the time of a write and makes files no smaller.
    "write.parquet.dict-size-bytes": str(32 * 1024),
}


# Snapshot isolation is enough: a delete's condition excludes rows of later commits, and nobody else writes its branch.
DELETE_ISOLATION = {"write.delete.isolation-level": "snapshot"}


@dataclass(frozen=True)
class NewTable:
    """A table to create, with its first rows."""

    name: TableName
    rows: DataFrame
    """The first rows; if `is_empty`, only their columns are used."""

    properties: Mapping[str, str]
    transforms: Sequence[Transform] = ()
    """Partition transforms; empty for a table that is not partitioned."""

    summary: Mapping[str, str] = field(default_factory=dict)
    """Entries for the summary of the commit that writes the rows."""

    replaces: bool = False
    """Whether an existing table of this name is replaced."""

    is_empty: bool = False
    """Whether the table begins without rows."""


def create_change_table(step: CreateChangeTable, context: Context) -> None:
    require_branches(context)
    model = context.model
    shape = Shape(step.columns, model.config.primary_key, (), step.sequence_type)
    fields = [F.lit(None).cast(column.type).alias(column.name) for column in step.columns]
    tail = [
        F.lit(None).cast("string").alias(ACTION),
        F.lit(None).cast("timestamp").alias(TIMESTAMP),
        F.lit(None).cast(step.sequence_type).alias(SEQUENCE),
    ]
    before = [F.lit(None).cast(shape.before_type).alias(BEFORE)] if shape.before_type else []
    empty = context.spark.range(0).select(*fields, *tail, *before)
    lookups = {ROW_GROUP_PROPERTY: str(compute_row_group_bytes(0, context.thresholds.layout))}
    column = {KEEP: "all"} if model.config.keep == "all" else {}
    known = {BASELINE: step.baseline.encode()} if step.baseline else {}
    properties = {
        **lookups,
        **build_table_properties(model, "changes"),
        MODEL_TABLE: str(model.table),
        **column,
        **known,
    }
    # The rows of the baseline are those of no query, so the next run compares all of them with its query.
    run = RunSummary(run=context.token, mode="full", reason="ADOPTED") if step.baseline else RunSummary()
    new = NewTable(step.table, empty, properties, summary=run.encode(), is_empty=True)
    create_table("changes.create", context, new)


def create_base(step: CreateBase, context: Context) -> None:
    model, spark = context.model, context.spark
    assert context.state.changes is not None
    changes = read_table(spark, model.table.changes, step.version.snapshot, context.state.changes.old_column_names)
    rows = read_folded_rows(spark, model, context.state, step.version.snapshot)
    transforms = (
        *model.config.partition_by,
        *build_node_transform(model, choose_node_count(changes, step.bytes, context)),
    )
    laid_out = _lay_out_rows(rows, model, transforms)
    properties = build_base_properties(model, step.bytes, context.thresholds.layout)
    summary = build_base_summary(step.version, context.state.changes)
    new = NewTable(step.table, laid_out, properties, transforms, summary, step.replaces)
    create_table("base.create", context, new)
    set_write_order(context, step.table)


def build_base_properties(model: Model, size: int, thresholds: LayoutThresholds) -> dict[str, str]:
    """Builds the properties of a base table; `size` are the bytes of its first rows."""
    target = {TARGET_PROPERTY: str(model.config.target_file_bytes)}
    sizes = {**target, ROW_GROUP_PROPERTY: str(compute_row_group_bytes(size, thresholds))}
    own = {**sizes, **DELETE_ISOLATION, **build_table_properties(model, "base"), **_build_format_properties(model)}
    return {**own, LAYOUT: format_layout(model.config)}


def create_table(effect_name: str, context: Context, table: NewTable) -> None:
    """Creates a table with its rows in one commit, or in two if the catalog can't stage its creation.

    The first of two commits creates a table without a snapshot; if a run dies then, the next run sees that the table is
    not finished.
    """

    def create_at_once() -> None:
        _create_at_once(effect_name, context, table)

    def create_in_two_commits() -> None:
        partitioned = _write_partition_clause(table.transforms)
        columns = list_frame_columns(table.rows)
        create_without_snapshot(
            effect_name, context.spark, NewColumns(table.name, columns, table.properties, partitioned)
        )
        fill_table(effect_name, context.spark, table)

    if table.replaces:
        create_at_once()
    elif table.name in context.state.unfinished:
        create_in_two_commits()
    else:
        create_staged(context.reader, create_at_once, create_in_two_commits)


def _create_at_once(effect_name: str, context: Context, table: NewTable) -> None:
    """Creates a table with its rows in one commit.

    It uses a SQL statement, since the DataFrame API lacks the transform `truncate`, and does not quote the columns of
    transforms.
    """
    spark, view = context.spark, f"arctic_create_{context.token}"
    create = fill_statement(
        "CREATE {or_replace}TABLE {table} USING iceberg {partitioned}TBLPROPERTIES ({properties}) "
        "AS SELECT * FROM {view}",
        or_replace=Sql("OR REPLACE " if table.replaces else ""),
        table=quote_name(*table.name.parts),
        partitioned=_write_partition_clause(table.transforms),
        properties=property_list(table.properties.items()),
        view=quote_name(view),
    )
    table.rows.createOrReplaceTempView(view)
    try:
        with override_settings(
            spark, {**build_summary_settings(table.summary), "spark.sql.iceberg.distribution-mode": "none"}
        ):
            perform_effect(effect_name, lambda: spark.sql(create), f"create {table.name}", SPARK)
    finally:
        spark.catalog.dropTempView(view)


def fill_table(effect_name: str, spark: SparkSession, table: NewTable) -> None:
    """Commits the first rows of a table that has no snapshot; raises CommitConflict if another writer was faster.

    A table that begins without rows gets a snapshot without rows, on top of whatever another writer has committed.
    """
    name = quote_name(*table.name.parts)
    what = f"write the first rows of {table.name}"
    if table.is_empty:
        writer = spark.table(name).limit(0).writeTo(name).options(**build_summary_options(table.summary))
        perform_effect(effect_name, writer.append, what, SPARK)
        return
    # Without the option `validate-from-snapshot-id` every file that was ever added conflicts.
    options = {"distribution-mode": "none", "fanout-enabled": "true", "isolation-level": "serializable"}
    filled = table.rows.writeTo(name).options(**options, **build_summary_options(table.summary))
    perform_effect(effect_name, lambda: filled.overwrite(F.lit(True)), what, SPARK)


def build_table_properties(model: Model, kind: str) -> dict[str, str]:
    return {
        **_TABLE_DEFAULTS,
        **model.config.tblproperties,
        KIND: kind,
        PRIMARY_KEY: format_key(model.config.primary_key),
    }


def choose_node_count(changes: DataFrame, size: int, context: Context) -> int:
    """Computes the number of buckets per partition for a new base table of `size` bytes.

    `changes` has the rows by which the partitions of the table are counted.
    """
    config, limits = context.model.config, context.thresholds.buckets
    parallelism = int(context.spark.conf.get("spark.sql.shuffle.partitions") or 1)
    nodes = config.nodes or compute_node_count(size, parallelism, config.node_bytes, limits)
    if config.nodes or nodes == 1 or not config.partition_by:
        return nodes
    values = [transform_value(context.model.table.catalog, transform) for transform in config.partition_by]
    partitions = changes.select(*values).distinct().count()
    return compute_node_count(size // max(1, partitions), parallelism, config.node_bytes, limits)


def _build_format_properties(model: Model) -> dict[str, str]:
    """Builds the properties for the base table's format version.

    Before version 3, deletes are stored in position delete files; the properties ask for one of them per data file.
    """
    version = model.config.format_version
    return {
        "format-version": str(version),
        **({} if version == NEWEST_FORMAT else {"write.delete.granularity": "file"}),
    }


def build_node_transform(model: Model, nodes: int) -> tuple[Transform, ...]:
    return (Transform("bucket", model.config.hash_key, nodes),) if model.config.hash_key else ()


def _write_partition_clause(transforms: Sequence[Transform]) -> Sql:
    if not transforms:
        return Sql("")
    return fill_statement(
        "PARTITIONED BY ({transforms}) ", transforms=join_parts([transform_text(part) for part in transforms])
    )


def transform_text(transform: Transform) -> Sql:
    source = quote_name(transform.column)
    if transform.unit == "identity":
        return source
    if transform.parameter is None:
        return fill_statement("{unit}({c})", unit=quote_name(transform.unit), c=source)
    return fill_statement(
        "{unit}({n}, {c})", unit=quote_name(transform.unit), n=quote_number(transform.parameter), c=source
    )


def _lay_out_rows(rows: DataFrame, model: Model, transforms: Sequence[Transform]) -> DataFrame:
    """Repartitions rows by partition and bucket and sorts them, so that each task writes all files of its buckets."""
    if not transforms:
        return rows
    values = [transform_value(model.table.catalog, transform) for transform in transforms]
    order = [to_column(part) for part in (*model.config.sort_key, *model.config.primary_key)]
    return rows.repartition(*values).sortWithinPartitions(*values, *order)


def transform_value(catalog: str, transform: Transform) -> Expression:
    source = to_column(transform.column)
    if transform.unit == "identity":
        return source
    function = quote_name(catalog, "system", transform.unit)
    arguments = [source] if transform.parameter is None else [F.lit(transform.parameter), source]
    return F.call_function(function, *arguments)


def set_write_order(context: Context, table: TableName) -> None:
    """Sets the order in which writers sort the rows of a file to the model's sort key; does nothing without one."""
    key = context.model.config.sort_key
    if key:
        order = join_parts([quote_name(part) for part in key])
        template = "ALTER TABLE {table} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY {order}"
        perform_statement(
            "base.write_order", context.spark, fill_statement(template, table=quote_name(*table.parts), order=order)
        )


def evolve_columns(step: EvolveSchema, spark: SparkSession, key: Sequence[str]) -> None:
    """Changes the columns of a table, each by its own statement; `key` are the columns of the primary key.

    In a change table, the fields of `_before` are changed before the other columns. So if the process dies in between,
    the other columns show which changes remain, and the next run makes them.
    """
    schema = spark.table(quote_name(*step.table.parts)).schema
    if step.change.rename:
        for sql in _list_rename_statements(step, schema):
            perform_statement("schema.evolve", spark, sql)
        schema = spark.table(quote_name(*step.table.parts)).schema
    if step.is_change_table:
        for sql in _evolve_before(step, schema, key):
            perform_statement("schema.evolve", spark, sql)
    for sql in _list_statements(step.table, _find_remaining_change(step.change, schema)):
        perform_statement("schema.evolve", spark, sql)


def _list_rename_statements(step: EvolveSchema, schema: StructType) -> Iterator[Sql]:
    """Yields the statements that rename columns which still have their old names; fields of `_before` come first.

    If the process dies in between, other columns still have their old names, so the next run continues.
    """
    before = [((BEFORE,), cast(StructType, schema[BEFORE].dataType))] if BEFORE in schema.names else []
    for holder, fields in (*before, ((), schema)):
        names = {field_name.lower() for field_name in fields.names}
        for old, new in step.change.rename:
            if old.lower() in names:
                parts = {
                    "table": quote_name(*step.table.parts),
                    "path": quote_name(*holder, old),
                    "new": quote_name(new),
                }
                yield fill_statement("ALTER TABLE {table} RENAME COLUMN {path} TO {new}", **parts)


def _evolve_before(step: EvolveSchema, schema: StructType, key: Sequence[str]) -> tuple[Sql, ...]:
    """Builds the statements that give `_before` the fields it must have after the change: all columns outside the key.

    `_before` is added if it is missing, and dropped if it would have no fields.
    """
    change, target, before = step.change, quote_name(*step.table.parts), quote_name(BEFORE)
    types = {field.name: type_of(field.dataType) for field in schema.fields if field.name not in CHANGE_COLUMNS}
    types |= {own: column.type for own in types for column in change.widen if is_same_name(own, column.name)}
    gone = {column.lower() for column in (*change.drop, *key)}
    wanted = [Column(*column) for column in types.items() if column[0].lower() not in gone]
    wanted += [column for column in change.add if column.name.lower() not in {own.lower() for own in types}]
    if BEFORE not in schema.names:
        struct = Shape(tuple(wanted), (), ()).before_type
        return (_add_column(target, before, type_name(struct)),) if struct else ()
    if not wanted:
        return (_drop_column(target, before),)
    before_fields = cast(StructType, schema[BEFORE].dataType)
    left = {column.name.lower() for column in wanted}
    drop = tuple(column for column in before_fields.names if column.lower() not in left)
    remaining = _find_remaining_change(SchemaChange(add=tuple(wanted), widen=tuple(wanted), drop=drop), before_fields)
    return _list_statements(step.table, remaining, (BEFORE,))


def _find_remaining_change(change: SchemaChange, schema: StructType) -> SchemaChange:
    """Returns the part of `change` that was not made yet, according to the columns in `schema`."""
    types = {field.name.lower(): type_of(field.dataType) for field in schema.fields}
    return SchemaChange(
        add=tuple(column for column in change.add if column.name.lower() not in types),
        widen=tuple(column for column in change.widen if types.get(column.name.lower(), column.type) != column.type),
        drop=tuple(column for column in change.drop if column.lower() in types),
    )


def _list_statements(table: TableName, change: SchemaChange, holder: tuple[str, ...] = ()) -> tuple[Sql, ...]:
    """Builds the statements that add, widen and drop columns, or fields of the struct column `holder`."""
    target = quote_name(*table.parts)
    return (
        *(_add_column(target, quote_name(*holder, column.name), type_name(column.type)) for column in change.add),
        *(
            _write_widen_statement(target, quote_name(*holder, column.name), type_name(column.type))
            for column in change.widen
        ),
        *(_drop_column(target, quote_name(*holder, gone)) for gone in change.drop),
    )


def _add_column(table: Sql, path: Sql, kind: Sql) -> Sql:
    return fill_statement("ALTER TABLE {table} ADD COLUMN {path} {kind}", table=table, path=path, kind=kind)


def _write_widen_statement(table: Sql, path: Sql, kind: Sql) -> Sql:
    return fill_statement("ALTER TABLE {table} ALTER COLUMN {path} TYPE {kind}", table=table, path=path, kind=kind)


def _drop_column(table: Sql, path: Sql) -> Sql:
    return fill_statement("ALTER TABLE {table} DROP COLUMN {path}", table=table, path=path)
