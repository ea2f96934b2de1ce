"""Makes a table of other writers the base table of a model, and releases it again; its data files stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arctic_runtime.catalog.observation.columns import UNSORTED
from arctic_runtime.catalog.observation.manifests import observe_specs
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.baseline import Baseline
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BASELINE, BASELINE_TAG_PREFIX, KIND, LAYOUT, MERGED, PRIMARY_KEY
from arctic_runtime.model.step import AdoptBase
from arctic_runtime.model.table import Transform
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
)
from arctic_runtime.spark.tables.commit import (
    build_base_summary,
    commit_summary,
    drop_tags,
    perform_statement,
    set_properties,
    set_tag,
    swap_in,
    write_properties_statement,
)
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.create import (
    build_base_properties,
    build_node_transform,
    choose_node_count,
    set_write_order,
    transform_text,
)
from arctic_runtime.spark.tables.rows.frames import read_table

_ARCTIC_PROPERTIES = (KIND, PRIMARY_KEY, LAYOUT)


def adopt_base(step: AdoptBase, context: Context) -> None:
    """Makes a table the base of a model: no data file is written, and readers see the same rows.

    Tags the snapshot of the baseline, records that no changes are merged into it, sets the partition spec and the write
    order for later files, and last the properties of a base; so a step that was interrupted is repeated as a whole.
    Raises ConfigError if another writer has changed the table since the baseline.
    """
    spark, baseline, table = context.spark, step.baseline, step.table
    head = context.reader.load_table(table.schema, table.name).current_snapshot()
    is_recorded = head is not None and head.summary is not None and MERGED in head.summary.additional_properties
    if not is_recorded and (head is None or head.snapshot_id != baseline.snapshot):
        raise _build_written_error(step, head.snapshot_id if head else None)
    set_tag("base.adopt.tag", spark, context.reader, table, baseline.tag, baseline.snapshot)
    size = int(head.summary.additional_properties.get("total-files-size", 0)) if head and head.summary else 0
    if not is_recorded:
        record = build_base_summary(step.version, context.state.changes)

        def record_merged(branch: tuple[str, ...]) -> None:
            commit_summary("base.adopt.record", spark, branch, record)

        swap_in(context.attempt, table, baseline.snapshot, record_merged)
    _set_transforms(context, table, _choose_transforms(step, context, size))
    set_write_order(context, table)
    properties = build_base_properties(context.model, size, context.thresholds.layout)
    set_properties("base.adopt.properties", spark, table, properties)


def _choose_transforms(step: AdoptBase, context: Context, size: int) -> Sequence[Transform]:
    """Returns the configured partition transforms, with the table's own buckets of the hash key if it has some."""
    config, specs = context.model.config, observe_specs(context.reader, step.table)
    own = [transform for transform in specs.transforms[specs.default] if transform.is_bucket_of(config.hash_key)]
    if own:
        return (*config.partition_by, *own)
    rows = read_table(context.spark, step.table, step.baseline.snapshot)
    return (*config.partition_by, *build_node_transform(context.model, choose_node_count(rows, size, context)))


def _set_transforms(context: Context, table: TableName, wanted: Sequence[Transform]) -> None:
    """Changes the partition spec for later files of a table to the transforms `wanted`."""
    specs, name = observe_specs(context.reader, table), quote_name(*table.parts)
    present = specs.transforms[specs.default]
    changes = [(Sql("DROP"), transform) for transform in present if transform not in wanted]
    changes += [(Sql("ADD"), transform) for transform in wanted if transform not in present]
    for verb, transform in changes:
        template = "ALTER TABLE {table} {verb} PARTITION FIELD {field}"
        statement = fill_statement(template, table=name, verb=verb, field=transform_text(transform))
        perform_statement("base.adopt.partition", context.spark, statement)


def move_baseline(context: Context) -> None:
    """Makes the newest snapshot of an adopted table its baseline, so that the former one can expire.

    Earlier versions of the model then need snapshots of the base table of their time. Does nothing for a table that was
    not adopted.
    """
    changes, base = context.state.changes, context.state.base
    former = changes.baseline if changes else None
    if former is None or base is None or base.merged is None:
        return
    moved = replace(former, snapshot=base.snapshot, at_ms=base.times[base.snapshot], sequence=base.merged.sequence)
    if former.snapshot != moved.snapshot:
        set_tag("base.adopt.tag", context.spark, context.reader, former.table, moved.tag, moved.snapshot)
        _set_baseline(context, moved)
    _drop_baseline_tags(context, former.table, keep=moved.tag)


def _set_baseline(context: Context, moved: Baseline) -> None:
    statement = write_properties_statement(context.model.table.changes, {BASELINE: moved.encode()})

    def move() -> None:
        _check_tag(context, moved)
        context.spark.sql(statement)

    perform_effect("base.adopt.move", move, f"move the baseline of {context.model.table}", SPARK)


def _check_tag(context: Context, baseline: Baseline) -> None:
    """Raises CommitConflict if another process has dropped the tag that keeps the snapshot of a new baseline."""
    refs = context.reader.load_table(baseline.table.schema, baseline.table.name).metadata.refs
    if baseline.tag not in refs:
        raise CommitConflict(
            f"{context.model.table}: another process moved the baseline of the adopted table first.",
            expected=f"the tag {baseline.tag} on {baseline.table}",
            fix="run again; nothing was moved",
        )


def _drop_baseline_tags(context: Context, table: TableName, keep: str = "") -> None:
    """Drops the tags of all baselines of a table but `keep`; a process that died may have left some."""
    refs = context.reader.load_table(table.schema, table.name).metadata.refs
    idle = [tag for tag in refs if tag.startswith(BASELINE_TAG_PREFIX) and tag != keep]
    drop_tags("base.release.tag", context.spark, context.reader, table, idle)


def release_base(baseline: Baseline, context: Context) -> None:
    """Gives a table that was adopted back to its writers, with the rows and columns from before its adoption.

    Columns and partition fields that were added since are dropped. If the process dies, the next run of the model
    adopts the table again, or another call of this function goes on.
    """
    table, spark = baseline.table, context.spark
    name = quote_name(*table.parts)
    loaded = context.reader.load_table(table.schema, table.name)
    if not baseline.is_sorted and loaded.metadata.default_sort_order_id != UNSORTED:
        statement = fill_statement("ALTER TABLE {table} WRITE UNORDERED", table=name)
        perform_statement("base.release.schema", spark, statement)
    _restore_properties(baseline, context)
    loaded = context.reader.load_table(table.schema, table.name)
    then, now = loaded.snapshot_by_id(baseline.snapshot), loaded.current_snapshot()
    if now is not None and now.snapshot_id != baseline.snapshot:
        rollback = fill_statement(
            "CALL {catalog}.system.set_current_snapshot(table => {table}, snapshot_id => {snapshot})",
            catalog=quote_name(table.catalog),
            table=quote_text(name),
            snapshot=quote_number(baseline.snapshot),
        )
        perform_statement("base.release.rollback", spark, rollback)
    specs = observe_specs(context.reader, table)
    _set_transforms(context, table, specs.transforms[baseline.spec])
    former = loaded.schemas()[then.schema_id].field_ids if then is not None and then.schema_id is not None else None
    added = [field.name for field in loaded.schema().fields if former is not None and field.field_id not in former]
    for column in added:
        drop = fill_statement("ALTER TABLE {table} DROP COLUMN {column}", table=name, column=quote_name(column))
        perform_statement("base.release.schema", spark, drop)
    _drop_baseline_tags(context, table)


def _restore_properties(baseline: Baseline, context: Context) -> None:
    table, spark = baseline.table, context.spark
    unset = [*_ARCTIC_PROPERTIES, *(key for key, value in baseline.properties if value is None)]
    statement = fill_statement(
        "ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({keys})",
        table=quote_name(*table.parts),
        keys=join_parts(map(quote_text, dict.fromkeys(unset))),
    )
    perform_statement("base.release.properties", spark, statement)
    former = {key: value for key, value in baseline.properties if value is not None}
    if former:
        set_properties("base.release.properties", spark, table, former)


def _build_written_error(step: AdoptBase, head: int | None) -> ConfigError:
    name = step.table.name
    return ConfigError(
        f"{step.table}: another writer has changed the table while it was adopted.",
        expected=f"snapshot {step.baseline.snapshot}",
        actual="no snapshot" if head is None else f"snapshot {head}",
        fix=f"stop the other writer, then run `arctic adopt {name} --undo` and `arctic adopt {name} --yes`",
    )
