"""Adopts a table of other writers as the table of a model, without a copy of its rows, and undoes that."""

from __future__ import annotations

from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.plain_tables import observe_plain_table
from arctic_runtime.catalog.observation.tables import observe_own
from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.baseline import Baseline, PlainTable
from arctic_runtime.model.clone import shares_files
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import CreateChangeTable, DropRelation
from arctic_runtime.plan.refresh.adoption import check_adoptable
from arctic_runtime.spark.tables.adopt import release_base
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.create import build_base_properties
from arctic_runtime.spark.tables.rows.frames import combine_any, format_examples, read_table, to_column
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession


def adopt_table(session: TableSession) -> PlainTable:
    """Makes the table of the model's name the model's own, with the rows that it has; returns the table before that.

    No data file is written. The change table begins with the table's newest snapshot, so readers of changes read its
    rows as inserts, and the model's next run publishes the differences between these rows and its query. Goes on with
    an adoption that was interrupted. Raises ConfigError if the table can't be adopted, and DataError if the primary key
    is null or occurs twice in it.
    """
    state, model = session.observe_state(), session.model
    existing = observe_plain_table(session.reader, model.table)
    if existing is not None and state.changes is not None and state.changes.baseline is not None:
        session.reconcile_until_done(state)
        return existing
    table = check_adoptable(model, state, existing)
    context = session.build_context(state)
    _check_key(context, table)
    properties = build_base_properties(model, table.bytes, context.thresholds.layout)
    changed = [*(key for key in properties if key != "format-version"), "write.distribution-mode"]
    baseline = Baseline(
        model.table,
        table.snapshot,
        at_ms=table.at_ms,
        spec=table.spec,
        is_sorted=table.is_sorted,
        properties=tuple((key, table.properties.get(key)) for key in changed),
    )
    perform_step(CreateChangeTable(model.table.changes, table.columns, "bigint", baseline), context)
    session.reconcile_until_done(session.observe_state())
    return table


def _check_key(context: Context, table: PlainTable) -> None:
    """Raises DataError if the primary key is null in a row of the table, or if it occurs in several rows."""
    key = context.model.config.primary_key
    rows = read_table(context.spark, table.name, table.snapshot)
    columns = [to_column(part) for part in key]
    null = rows.where(combine_any([column.isNull() for column in columns]))
    counted = rows.groupBy(*columns or [F.lit(0).alias("key")]).agg(F.count(F.lit(1)).alias("rows"))
    for broken, what in ((null.select(*columns), "is null"), (counted.where("rows > 1"), "occurs more than once")):
        if examples := broken.limit(context.thresholds.reports.examples).collect():
            raise DataError(
                f"{table.name} can't be adopted: its primary key {', '.join(key) or '()'} {what}.\n"
                f"{format_examples(examples).rstrip()}",
                fix=(
                    "correct `primary_key`, or the rows; or run the model without an adoption, which builds the table "
                    "anew from its query"
                ),
            )


def undo_adoption(session: TableSession) -> Baseline:
    """Gives an adopted table back to its writers, as it was when it was adopted, and drops the rest of the model.

    Returns the baseline of the table. Goes on with an undo that was interrupted. Raises ConfigError if the model's
    table was not adopted.
    """
    state, model = session.observe_state(), session.model
    baseline = state.changes.baseline if state.changes else None
    if baseline is None or baseline.table != model.table:
        raise ConfigError(
            f"{model.table}: its table was not adopted, so there is nothing to undo.",
            fix=f"`arctic reset {model.table.name} --yes` deletes the tables of a model",
        )
    if state.changes is not None and shares_files(state.changes.properties):
        raise ConfigError(
            f"{model.table}: the clone of an adopted table can't be given back to writers.",
            fix=f"undo the adoption of its origin; `arctic reset {model.table.name} --yes` drops the clone",
        )
    release_base(baseline, session.build_context(state))
    for relation in observe_own(session.reader, model):
        perform_step(DropRelation(relation.name, relation.kind), session.build_context(TableState()))
    return baseline
