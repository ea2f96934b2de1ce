"""Expires snapshots of a table, and sets and drops the tags that keep snapshots from expiry."""

from __future__ import annotations

from pyspark.sql import SparkSession

from arctic_runtime.model.files.expiry import DropTags, ExpireSnapshots
from arctic_runtime.model.refs import SetTag
from arctic_runtime.spark.engine.statement import fill_statement, join_parts, quote_name, quote_number, quote_text
from arctic_runtime.spark.tables.commit import drop_tags, perform_statement, set_tag
from arctic_runtime.spark.tables.context import Context


def expire_snapshots(step: ExpireSnapshots, spark: SparkSession) -> None:
    """Expires exactly the snapshots that the step lists; the age limits in the table's properties are ignored.

    By these limits, Iceberg would also expire snapshots that are still needed. A step that keeps files is for
    `expire_in_metadata`: Iceberg refuses it.
    """
    call = fill_statement(
        "CALL {catalog}.system.expire_snapshots(table => {table}, older_than => TIMESTAMP '1970-01-02 00:00:00', "
        "snapshot_ids => array({ids}))",
        catalog=quote_name(step.table.catalog),
        table=quote_text(quote_name(*step.table.parts)),
        ids=join_parts(quote_number(snapshot) for snapshot in step.snapshots),
    )
    perform_statement("expiry.snapshots", spark, call)


def drop_view_tags(step: DropTags, context: Context) -> None:
    """Drops the tags of a step, which kept snapshots for a view; it is no error if some do not exist."""
    drop_tags("expiry.drop_tag", context.spark, context.reader, step.table, step.tags)


def set_savepoint_tag(step: SetTag, context: Context) -> None:
    """Sets the tag of a savepoint to the step's snapshot, or drops the tag if that is None."""
    if step.snapshot is None:
        drop_tags("savepoint.drop_tag", context.spark, context.reader, step.table, [step.name])
    else:
        set_tag("savepoint.tag", context.spark, context.reader, step.table, step.name, step.snapshot)
