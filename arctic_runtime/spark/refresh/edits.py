"""Computes the change rows of an edit of a model's query, from the rows of the model's own table."""

from __future__ import annotations

from pyspark.sql import DataFrame

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, list_scans, name_before
from arctic_runtime.ivm.render import name_input, render_sql
from arctic_runtime.plan.refresh.edits import EditPlan
from arctic_runtime.spark.changes.diff import build_pair_images, diff_states, emit_image_changes
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.refresh.attempt import Computed, PreparedAttempt
from arctic_runtime.spark.refresh.images import SourceWindows
from arctic_runtime.spark.refresh.increments import list_outputs
from arctic_runtime.spark.refresh.query_analysis import register_empty_sources
from arctic_runtime.spark.tables.rows.frames import cast_as, type_of


def compute_edit(attempt: PreparedAttempt, plan: EditPlan) -> Computed:
    """Computes the change rows that turn the table's rows into those of its edited query.

    Raises NotMaintained if the new query has several rows of one key.
    """
    edit, shape = plan.edit, attempt.shape
    if edit.rows is None:
        return Computed(diff_states(attempt.query.limit(0), None, shape), is_gathered=True)
    _register_rows(attempt, plan)
    if edit.repeated is not None and attempt.spark.sql(render_sql(edit.repeated)).limit(1).count():
        raise NotMaintained("QUERY_CHANGED", "rows that the query adds have the keys of other rows")
    rows = attempt.spark.sql(render_sql(edit.rows))
    stored = _list_stored_columns(rows)
    before = [quote_name(name_before(name)) for name in stored]
    pairs = rows.selectExpr(
        *list_outputs(rows, plan.outputs, attempt.query), *before, quote_name(HAS_AFTER), quote_name(HAS_BEFORE)
    )
    changes = emit_image_changes(build_pair_images(pairs, shape, stored), shape)
    # Rows that the query adds may have the keys of frozen rows that it no longer had.
    return Computed(changes, is_gathered=True, has_stored_before=False)


def _list_stored_columns(rows: DataFrame) -> list[str]:
    prefix = name_before("")
    return [name.removeprefix(prefix) for name in rows.columns if name.startswith(prefix)]


def _register_rows(attempt: PreparedAttempt, plan: EditPlan) -> None:
    """Creates the views of the sources at the versions of the last run, and of the table's own rows."""
    edit = plan.edit
    sources = SourceWindows(attempt.spark, attempt.upstreams, plan.windows, attempt.thresholds)
    own = _read_own_rows(attempt, plan)
    scans = [scan for tree in edit.trees for scan in list_scans(tree)]
    sources.register_views([scan for scan in scans if scan.source in edit.sources])
    own.createOrReplaceTempView(quote_name(name_input(edit.own, "new")))


def _read_own_rows(attempt: PreparedAttempt, plan: EditPlan) -> DataFrame:
    """Reads the table's rows, with the types that the columns had in the query of the last run.

    A table may store a column in a wider type, such as int for smallint.
    """
    register_empty_sources(attempt.spark, plan.former.tree, plan.former_sources)
    query = attempt.spark.sql(render_sql(plan.former.tree))
    types = {field.name: type_of(field.dataType) for field in query.schema.fields}
    rows = attempt.read_rows()
    assert rows is not None
    named = {column.lower(): types[made] for column, made in plan.former_columns.items()}
    return rows.selectExpr(
        *[
            cast_as(quote_name(field.name), named.get(field.name.lower(), type_of(field.dataType)), field.name)
            for field in rows.schema.fields
        ]
    )
