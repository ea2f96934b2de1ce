"""Computes the change rows by which a table returns to an earlier version, from its change rows since then."""

from __future__ import annotations

from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, name_before
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import is_named
from arctic_runtime.plan.refresh.revert import RevertPlan
from arctic_runtime.spark.changes.diff import build_pair_images, diff_states, emit_image_changes
from arctic_runtime.spark.engine.statement import alias_as, quote_name
from arctic_runtime.spark.refresh.attempt import Computed, PreparedAttempt
from arctic_runtime.spark.refresh.images import SourceWindow


def compute_revert(attempt: PreparedAttempt, plan: RevertPlan) -> Computed:
    """Computes the change rows that take back the table's changes in the window of `plan`, and the record of its run.

    Columns that the query does not return keep their present values, as in any other run.
    """
    shape, then = attempt.shape, plan.run
    state = RunSummary(run=then.run, aggregate_state=then.aggregate_state) if then.aggregate_state else RunSummary()
    summary = then.select_row_entries().with_entries_from(state)
    if not plan.rows:
        return Computed(diff_states(attempt.query.limit(0), None, shape), summary, is_gathered=True)
    own = observe_source(attempt.context.reader, attempt.model.table)
    assert own is not None
    stored = [column.name for column in shape.columns]
    pairs = SourceWindow(attempt.spark, own, plan.own, attempt.thresholds).read_image("pair", stored)
    swapped = pairs.selectExpr(
        *[alias_as(quote_name(name_before(name)), name) for name in stored if is_named(name, shape.given)],
        *[alias_as(quote_name(name), name_before(name)) for name in stored],
        alias_as(quote_name(HAS_BEFORE), HAS_AFTER),
        alias_as(quote_name(HAS_AFTER), HAS_BEFORE),
    )
    return Computed(emit_image_changes(build_pair_images(swapped, shape, stored), shape), summary, is_gathered=True)
