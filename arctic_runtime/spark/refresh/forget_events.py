"""A table of change events as it is without events that are forgotten: its rows follow from those that are left."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.effects import retried
from arctic_runtime.errors import DataError
from arctic_runtime.ivm.frontend.reads import with_position
from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.columns import SEQUENCE, plain_columns
from arctic_runtime.model.names import TableName, changes_read, changes_view
from arctic_runtime.model.run_summary import RunSummary, last_run, offsets_of
from arctic_runtime.model.shape import shape_of
from arctic_runtime.model.state import built
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.model.table import Model
from arctic_runtime.plan.increment import Upstreams
from arctic_runtime.spark.engine.statement import name
from arctic_runtime.spark.refresh import events, truncations
from arctic_runtime.spark.refresh.diff import refresh_changes
from arctic_runtime.spark.refresh.forget_table import erase, sought
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.refresh.trace import key_of
from arctic_runtime.spark.tables.append import publish
from arctic_runtime.spark.tables.frames import (
    current_rows,
    examples,
    match,
    read_until,
    with_source_position,
)


def recompute(refresh: Refresh, keys: DataFrame, forgotten: Mapping[TableName, DataFrame]) -> None:
    """Has the rows under some keys be what the events leave behind that are not `forgotten`.

    Merge functions take back what a deleted row has brought, so their rows are right already. Raises DataError where
    rows were declared or restored, so that they follow from no events; and where rows, or versions of them, follow from
    forgotten events and others together.
    """
    if refresh.model.config.merge_columns:
        return
    attempts = refresh.table.reader.thresholds.commits.attempts
    retried(partial(_recompute, refresh, keys, forgotten), attempts)


def _recompute(refresh: Refresh, keys: DataFrame, forgotten: Mapping[TableName, DataFrame]) -> None:
    session, model = refresh.table, refresh.model
    state = session.reconciled(session.observe(), fold=True)
    changes, _ = built(state, model.table)
    last = last_run(changes)
    assert last is not None
    assert changes.head is not None
    _check(refresh, last)
    shape = shape_of(model, state, plain_columns(changes.columns))
    found, _ = sought(session, state, keys)
    rows = _left(refresh, refresh.planner.observe_upstreams(), last, forgotten)
    query = found.select(truncations.spread_over_own_keys(model, rows), model.config.entity_key)
    if model.config.has_history or not events.is_newest_event(model):
        _check_alone(model, query)
        erase(session, keys)
        return
    events.check_order(model, query)
    old = current_rows(session.spark(), model, state, session.reader.thresholds.pruning, found)
    assert old is not None
    net = events.net_events(model, query, shape)
    ordered = model.config.sequence_by is not None
    moved = refresh_changes(net.where("not deleted"), old, shape, False, None)
    moved = moved.withColumn(SEQUENCE, F.lit(None).cast(shape.sequence_type)) if ordered else moved
    commit = AppendChanges(model.table.changes, changes.head.snapshot, "full", "FORGOTTEN")
    publish(ChangeSet(commit, moved, shape, last.repeated("full", "FORGOTTEN")), session.context(state))
    session.reconciled(session.observe())


def _check(refresh: Refresh, last: RunSummary) -> None:
    was = "restored" if last.restored is not None else "declared" if last.declared and last.declared.places else ""
    if was:
        raise DataError(
            f"{refresh.model.table}: rows of it were {was}, so they don't follow from the events that are left.\n"
            f"  what to do: run it with --full-refresh, then `arctic forget` again"
        )


def _check_alone(model: Model, left: DataFrame) -> None:
    """Raises DataError where rows or their versions were made of other events as well: they can't be told apart."""
    rows = left.limit(3).collect()
    if rows:
        raise DataError(
            f"{model.table}: rows, or versions of them, were made of forgotten events and of others.\n{examples(rows)}"
            f"  what to do: `arctic reset {model.table.name} --yes`, then `arctic forget` again, and build it anew"
        )


def _left(
    refresh: Refresh, upstreams: Upstreams, last: RunSummary, forgotten: Mapping[TableName, DataFrame]
) -> DataFrame:
    """What the query gives of all events that were read, but for those that are forgotten."""
    spark, model = refresh.table.spark(), refresh.model
    read, states = offsets_of(last), {of: upstreams.states[str(of)] for of in changes_read(model.sql)}
    placed = all(state is not None and state.format_version >= 3 for state in states.values())
    for source, state in states.items():
        assert state is not None
        rows = read_until(spark, state, read.get(str(source), state.version))
        gone = forgotten.get(source)
        if gone is not None:
            rows = rows.join(gone.select(*gone.columns), match(rows, key_of(state, gone)), "left_anti")
        shown = with_source_position(rows, state.keeps_all) if placed else rows
        shown.createOrReplaceTempView(name(changes_view(source)))
    return spark.sql((with_position(model.sql) if placed else None) or model.sql)
