"""The view of a table that is merged on read, and that of the current versions of a table with history."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import IS_CURRENT, Column, Names, find_column
from arctic_runtime.model.expiry import view_tag
from arctic_runtime.model.key import key_text
from arctic_runtime.model.properties import (
    CURRENT_VIEW_KIND,
    KIND,
    MODEL_TABLE,
    PINNED_BASE,
    PINNED_HEAD,
    PINNED_MERGED,
    PRIMARY_KEY,
)
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import ReplaceCurrentView, ReplaceView
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.java_errors import SPARK_ERRORS, lacks_views
from arctic_runtime.spark.engine.statement import Sql, listed, name, number, properties, statement, text
from arctic_runtime.spark.tables.commit import perform_statement, set_tag
from arctic_runtime.spark.tables.frames import columns_of, read_table, typed
from arctic_runtime.thresholds import PruningThresholds


def replace(
    spark: SparkSession, model: Model, state: TableState, step: ReplaceView, thresholds: PruningThresholds
) -> None:
    """Replaces the view in one commit: readers see the old pins or the new ones, never a mixture.

    A tag keeps the pinned snapshot of the base. Expiry drops it a day after another snapshot replaced the pinned one:
    until then a slow process may still move the view back to it.
    """
    assert state.base is not None
    if state.view is None or state.view.base_snapshot != step.base_snapshot:
        set_tag("view.tag", spark, model.base, view_tag(step.base_snapshot), step.base_snapshot)
    pinned_columns = columns_of(read_table(spark, model.base, step.base_snapshot))
    perform_statement("view.replace", spark, view_statement(model, state, step, pinned_columns, thresholds))


def view_statement(
    model: Model, state: TableState, step: ReplaceView, pinned: tuple[Column, ...], thresholds: PruningThresholds
) -> Sql:
    """`CREATE OR REPLACE VIEW` over the pinned base, which has the columns `pinned`, and the range of changes."""
    assert state.base is not None
    most, changes = thresholds.broadcast_keys, state.changes
    few = step.commits > 0 and changes is not None and changes.are_few_after(step.merged, most)
    pins = {
        KIND: "view",
        PRIMARY_KEY: key_text(model.config.primary_key),
        PINNED_BASE: str(step.base_snapshot),
        PINNED_MERGED: str(step.merged.snapshot),
        PINNED_HEAD: str(step.head.snapshot),
    }
    return statement(
        "CREATE OR REPLACE VIEW {view} ({columns}){comment} TBLPROPERTIES ({pins}) AS {query}",
        view=name(*model.table.parts),
        columns=_described(model, state.base.columns),
        comment=_commented(Sql(""), model.comment),
        pins=properties(pins.items()),
        query=_query(model, state.base.columns, pinned, state.base.formerly.get(step.base_snapshot, {}), step, few),
    )


def replace_current(spark: SparkSession, model: Model, state: TableState, step: ReplaceCurrentView) -> None:
    """Creates or replaces the view of a table's current versions; raises ConfigError where the catalog has no views."""
    try:
        perform_statement("current_view.replace", spark, _current_statement(model, state, step))
    except SPARK_ERRORS as error:
        if not lacks_views(error):
            raise
        raise ConfigError(
            f"{model.table}: `current_view` needs a catalog with views; the rows of the table are written.\n"
            f"  expected: the catalog {step.view.catalog} creates the view {step.view}\n"
            f"  found: {str(error).strip().splitlines()[0]}\n"
            "  what to do: leave `current_view` out, and read `arctic_current(ref(…))` or the rows with `_is_current`"
        ) from error


def _current_statement(model: Model, state: TableState, step: ReplaceCurrentView) -> Sql:
    assert state.base is not None
    own = {KIND: CURRENT_VIEW_KIND, MODEL_TABLE: str(step.table)}
    return statement(
        "CREATE OR REPLACE VIEW {view} ({described}){comment} TBLPROPERTIES ({own}) AS "
        "SELECT {columns} FROM {table} WHERE {current}",
        view=name(*step.view.parts),
        described=_described(model, state.base.columns),
        comment=_commented(Sql(""), model.comment),
        own=properties(own.items()),
        columns=listed(name(column.name) for column in state.base.columns),
        table=name(*step.table.parts),
        current=name(IS_CURRENT),
    )


def _described(model: Model, columns: Sequence[Column]) -> Sql:
    """The columns of a view, with their comments."""
    comments = {key.lower(): value for key, value in model.column_comments.items()}
    return listed(_commented(name(column.name), comments.get(column.name.lower())) for column in columns)


def _commented(part: Sql, comment: str | None) -> Sql:
    return statement("{part} COMMENT {comment}", part=part, comment=text(comment)) if comment else part


def _query(
    model: Model, wanted: tuple[Column, ...], pinned: tuple[Column, ...], then: Names, step: ReplaceView, few: bool
) -> Sql:
    columns = [name(column.name) for column in wanted]
    listing = listed([statement("t.{c}", c=column) for column in columns])
    base = statement(
        "SELECT {hint}{columns} FROM {base} VERSION AS OF {v} t",
        hint=Sql("/*+ BROADCAST(c) */ " if few else ""),
        columns=listed([_as_wanted(column, pinned, then) for column in wanted]),
        base=name(*model.base.parts),
        v=number(step.base_snapshot),
    )
    if not step.commits:
        return base
    return statement(
        "{base} LEFT ANTI JOIN (SELECT {key} FROM {log}) c ON {on} "
        "UNION ALL SELECT {columns} FROM {newest} t WHERE t._action <> 'delete'",
        base=base,
        key=listed([name(part) for part in model.config.primary_key] or [Sql("true")]),
        log=_log(model, step),
        on=_on(model),
        columns=listing,
        newest=_newest(model, columns, step),
    )


def _as_wanted(column: Column, pinned: tuple[Column, ...], then: Names) -> Sql:
    """A column of the pinned base, which has the columns and types of its time, and `then` other names."""
    found = find_column(pinned, then.get(column.name, column.name))
    if found == column:
        return statement("t.{c}", c=name(column.name))
    value = statement("t.{c}", c=name(found.name)) if found else Sql("NULL")
    return typed(value, column.type, column.name)


def _log(model: Model, step: ReplaceView) -> Sql:
    return statement(
        "{changes} WITH (`start-snapshot-id` = {start}, `end-snapshot-id` = {end})",
        changes=name(*model.table.changes.parts),
        start=text(str(step.merged.snapshot)),
        end=text(str(step.head.snapshot)),
    )


def _on(model: Model) -> Sql:
    pairs = [statement("t.{c} = c.{c}", c=name(part)) for part in model.config.primary_key]
    return listed(pairs, " AND ") if pairs else Sql("true")


def _newest(model: Model, columns: list[Sql], step: ReplaceView) -> Sql:
    """Within one commit each key stands once; over several the newest has to be found, which has no newer one."""
    if step.commits == 1:
        return _log(model, step)
    key = [name(part) for part in model.config.primary_key] or [Sql("1")]
    return statement(
        "(SELECT * FROM (SELECT {columns}, _action, lag(true) OVER (PARTITION BY {key} "
        "ORDER BY _last_updated_sequence_number DESC, _seq DESC) AS __arctic_newer FROM {log}) "
        "WHERE __arctic_newer IS NULL)",
        columns=listed(columns),
        key=listed(key),
        log=_log(model, step),
    )
