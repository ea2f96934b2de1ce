"""Performs steps of plans on a model's tables and views: calls the function for each kind of step."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import SparkSession
from typing_extensions import assert_never

from arctic_runtime.catalog.shared_files import expire_in_metadata
from arctic_runtime.model.files.compaction import ResizeBuckets, RewriteBase, RewriteFiles
from arctic_runtime.model.files.expiry import CompactChangelog, DropTags, ExpireSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import CHANGES_VIEW, CURRENT_VIEW
from arctic_runtime.model.refs import SetTag
from arctic_runtime.model.step import (
    AdoptBase,
    CreateAppended,
    CreateBase,
    CreateChangeTable,
    DropBranches,
    DropChangesView,
    DropConflictingRelation,
    DropCurrentView,
    DropRelation,
    DropTable,
    EvolveSchema,
    MergeBase,
    NoteChangesView,
    NoteCurrentView,
    ReplaceChangesView,
    ReplaceCurrentView,
    ReplaceView,
    SetLayout,
    SetProperties,
    SetWriteOrder,
    Step,
)
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name, quote_number, quote_text
from arctic_runtime.spark.tables import views
from arctic_runtime.spark.tables.adopt import adopt_base
from arctic_runtime.spark.tables.base_rewrite import rewrite_base
from arctic_runtime.spark.tables.commit import (
    drop_branches,
    drop_tags,
    perform_statement,
    set_properties,
    set_tag,
)
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.create import create_base, create_change_table, evolve_columns, set_write_order
from arctic_runtime.spark.tables.delete import compact_changelog
from arctic_runtime.spark.tables.file_rewrite import resize_buckets, rewrite_files
from arctic_runtime.spark.tables.keyless import create_keyless_table, set_layout
from arctic_runtime.spark.tables.merge import merge_base


def perform_step(step: Step, context: Context) -> None:  # noqa: C901 - one case for each step
    """Performs one step of a plan; there is no step for the commit of change rows, which `publish_changes` makes."""
    match step:
        case DropConflictingRelation(conflicting):
            perform_statement("relation.drop", context.spark, _drop_statement(conflicting.name, conflicting.kind))
        case DropTable(table):
            perform_statement("relation.drop", context.spark, _drop_statement(table, "table"))
        case DropBranches(table, branches):
            drop_branches(context.spark, context.reader, table, branches)
        case CreateChangeTable():
            create_change_table(step, context)
        case CreateAppended():
            create_keyless_table(step, context)
        case SetLayout():
            set_layout(step, context.spark)
        case EvolveSchema():
            evolve_columns(step, context.spark, context.model.config.primary_key)
        case CreateBase():
            create_base(step, context)
        case AdoptBase():
            adopt_base(step, context)
        case MergeBase():
            merge_base(step, context)
        case ReplaceView():
            views.replace_view(step, context)
        case NoteCurrentView(table, noted):
            set_properties("current_view.mark", context.spark, table, {CURRENT_VIEW: noted})
        case ReplaceCurrentView():
            views.replace_current_view(context.spark, context.model, context.state, step)
        case DropCurrentView(view):
            perform_statement("current_view.drop", context.spark, _drop_statement(view, "view"))
        case NoteChangesView(table, noted):
            set_properties("changes_view.mark", context.spark, table, {CHANGES_VIEW: noted})
        case ReplaceChangesView():
            views.replace_changes_view(context.spark, context.model, context.state, step)
        case DropChangesView(view):
            perform_statement("changes_view.drop", context.spark, _drop_statement(view, "view"))
        case SetProperties(effect, table, values):
            set_properties(effect, context.spark, table, values)
        case SetWriteOrder(table):
            set_write_order(context, table)
        case RewriteFiles():
            rewrite_files(step, context)
        case ResizeBuckets():
            resize_buckets(step, context)
        case RewriteBase():
            rewrite_base(step, context)
        case CompactChangelog():
            compact_changelog(step, context)
        case DropTags():
            drop_view_tags(step, context)
        case ExpireSnapshots(table, snapshots, True):
            expire_in_metadata(context.reader, table, snapshots)
        case ExpireSnapshots():
            expire_snapshots(step, context.spark)
        case SetTag():
            set_savepoint_tag(step, context)
        case DropRelation(relation, kind):
            perform_statement("reset.drop", context.spark, _drop_statement(relation, kind))
        case _:
            assert_never(step)


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


def _drop_statement(relation: TableName, kind: Literal["table", "view"]) -> Sql:
    template = "DROP VIEW IF EXISTS {of}" if kind == "view" else "DROP TABLE IF EXISTS {of}"
    return fill_statement(template, of=quote_name(*relation.parts))
