"""Creates the views of a model: over a table that is merged on read, over current versions, and over change rows.

The view of a table that is merged on read *pins* one snapshot of the base table and one of the change table: it reads
these until it is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import (
    BEFORE,
    FEED_COLUMNS,
    IS_CURRENT,
    Column,
    Names,
    find_column,
    format_key,
    is_same_name,
    strip_change_columns,
)
from arctic_runtime.model.files.expiry import format_view_tag
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import (
    CHANGES_VIEW_KIND,
    CURRENT_VIEW_KIND,
    KIND,
    MODEL_TABLE,
    PINNED_BASE,
    PINNED_HEAD,
    PINNED_MERGED,
    PRIMARY_KEY,
)
from arctic_runtime.model.state import BaseState, TableState
from arctic_runtime.model.step import ReplaceChangesView, ReplaceCurrentView, ReplaceView
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS, is_view_refusal
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
    write_properties,
)
from arctic_runtime.spark.tables.commit import perform_statement, set_tag
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.frames import cast_as, list_frame_columns, read_table
from arctic_runtime.thresholds import PruningThresholds

_REPLACEABLE = {"replace.drop-dialect.allowed": "true"}
"""Property by which a run can replace a view to which somebody has added a query in the SQL of another engine.

The new version of the view has only Spark's query, so the other engine refuses the view instead of reading old rows.
"""


def replace_view(step: ReplaceView, context: Context) -> None:
    """Replaces the view of a table that is merged on read, so that it reads the snapshots of `step`, in one commit.

    Readers see the old snapshots or the new ones, never a mixture. A tag keeps the base table's snapshot from expiry.
    The tag is dropped a day after the view reads a newer snapshot, since until then a slow process may set the view
    back.
    """
    spark, model, state, pinned = context.spark, context.model, context.state, step.base_snapshot
    assert state.base is not None
    if state.view is None or state.view.base_snapshot != pinned:
        set_tag("view.tag", spark, context.reader, model.base, format_view_tag(pinned), pinned)
    columns = list_frame_columns(read_table(spark, model.base, pinned))
    statement = write_view_statement(model, state, step, columns, context.thresholds.pruning)
    perform_statement("view.replace", spark, statement)


def write_view_statement(
    model: Model, state: TableState, step: ReplaceView, pinned: tuple[Column, ...], thresholds: PruningThresholds
) -> Sql:
    """Builds the statement that creates the view over the base table's pinned snapshot and the unmerged changes.

    `pinned` are the columns that the base table has at that snapshot.
    """
    assert state.base is not None
    max_rows, changes = thresholds.broadcast_keys, state.changes
    few = step.commits > 0 and changes is not None and changes.has_at_most_rows_after(step.merged, max_rows)
    pins = {
        KIND: "view",
        PRIMARY_KEY: format_key(model.config.primary_key),
        PINNED_BASE: str(step.base_snapshot),
        PINNED_MERGED: str(step.merged.snapshot),
        PINNED_HEAD: str(step.head.snapshot),
        **_REPLACEABLE,
    }
    return fill_statement(
        "CREATE OR REPLACE VIEW {view} ({columns}){comment} TBLPROPERTIES ({pins}) AS {query}",
        view=quote_name(*model.table.parts),
        columns=_write_column_comments(model, state.base.columns),
        comment=_add_comment(Sql(""), model.comment),
        pins=write_properties(pins.items()),
        query=_write_view_query(model, state.base, pinned, step, few),
    )


def replace_current_view(spark: SparkSession, model: Model, state: TableState, step: ReplaceCurrentView) -> None:
    """Creates or replaces the view of the current versions in a table with history.

    Raises ConfigError if the catalog supports no views.
    """
    instead = "leave `current_view` out, and read `arctic_current(ref(…))` or the rows with `_is_current`"
    with _explain_refusal(model, "current_view", step.view, instead):
        perform_statement("current_view.replace", spark, _write_current_view_statement(model, state, step))


def replace_changes_view(spark: SparkSession, model: Model, state: TableState, step: ReplaceChangesView) -> None:
    """Creates or replaces the view of a table's change rows.

    Raises ConfigError if the catalog supports no views, or if the table has a column that the view adds.
    """
    instead = f"leave `changes_view` out, and read the change table {model.table.changes}"
    with _explain_refusal(model, "changes_view", step.view, instead):
        perform_statement("changes_view.replace", spark, _write_changes_view_statement(model, state, step))


@contextmanager
def _explain_refusal(model: Model, key: str, view: TableName, instead: str) -> Iterator[None]:
    """Raises ConfigError if the catalog refuses to create `view`, which the configuration key `key` asks for.

    `instead` is what the user can do without the view.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if not is_view_refusal(error):
            raise
        raise ConfigError(
            f"{model.table}: `{key}` needs a catalog with views; the rows of the table are written.",
            expected=f"the catalog {view.catalog} creates the view {view}",
            actual=str(error).strip().splitlines()[0],
            fix=instead,
        ) from error


def _write_current_view_statement(model: Model, state: TableState, step: ReplaceCurrentView) -> Sql:
    assert state.base is not None
    own = {KIND: CURRENT_VIEW_KIND, MODEL_TABLE: str(step.table), **_REPLACEABLE}
    return fill_statement(
        "CREATE OR REPLACE VIEW {view} ({described}){comment} TBLPROPERTIES ({own}) AS "
        "SELECT {columns} FROM {table} WHERE {current}",
        view=quote_name(*step.view.parts),
        described=_write_column_comments(model, state.base.columns),
        comment=_add_comment(Sql(""), model.comment),
        own=write_properties(own.items()),
        columns=join_parts(quote_name(column.name) for column in state.base.columns),
        table=quote_name(*step.table.parts),
        current=quote_name(IS_CURRENT),
    )


def _write_changes_view_statement(model: Model, state: TableState, step: ReplaceChangesView) -> Sql:
    assert state.changes is not None
    columns, added = strip_change_columns(state.changes.columns), {column.name for column in FEED_COLUMNS}
    if taken := [column.name for column in columns if column.name.lower() in added]:
        raise ConfigError(
            f"{model.table}: `changes_view` adds columns that the table has itself.",
            expected=f"no columns {', '.join(sorted(added))}",
            actual=", ".join(taken),
            fix="rename these columns of the query, or leave `changes_view` out",
        )
    own = {KIND: CHANGES_VIEW_KIND, MODEL_TABLE: str(step.table), **_REPLACEABLE}
    return fill_statement(
        "CREATE OR REPLACE VIEW {view} ({described}){comment} TBLPROPERTIES ({own}) AS "
        "SELECT {columns}, f._change_type, t.__arctic_commit AS _commit_version, t._ts AS _commit_timestamp "
        "FROM (SELECT *, _last_updated_sequence_number AS __arctic_commit FROM {changes}) t "
        "LATERAL VIEW explode({images}) f AS _change_type",
        view=quote_name(*step.view.parts),
        described=_write_column_comments(model, (*columns, *FEED_COLUMNS)),
        comment=_add_comment(Sql(""), model.comment),
        own=write_properties(own.items()),
        columns=join_parts(_write_image(column, model.config.primary_key) for column in columns),
        changes=quote_name(*step.table.changes.parts),
        images=_write_change_types(find_column(state.changes.columns, BEFORE) is not None),
    )


def _write_image(column: Column, key: Sequence[str]) -> Sql:
    """Builds the expression for a column of the view of change rows: the old value in an `update_preimage` row.

    In all other rows it is the change row's own value.
    """
    name = quote_name(column.name)
    if any(is_same_name(column.name, part) for part in key):
        return fill_statement("t.{c}", c=name)
    return fill_statement(
        "CASE WHEN f._change_type = 'update_preimage' THEN t._before.{c} ELSE t.{c} END AS {c}", c=name
    )


def _write_change_types(has_before: bool) -> Sql:
    """Builds the array of the `_change_type` values as which the view shows a change row.

    An update whose old row is known has two, `update_preimage` and `update_postimage`; all other changes have one.
    """
    images = Sql("array('update_preimage', 'update_postimage')")
    after = Sql("array('update_postimage')")
    return fill_statement(
        "CASE WHEN t._action <> 'update' THEN array(t._action) WHEN {known} THEN {images} ELSE {after} END",
        known=Sql("t._before IS NOT NULL" if has_before else "false"),
        images=images,
        after=after,
    )


def _write_column_comments(model: Model, columns: Sequence[Column]) -> Sql:
    """Builds the list of a view's columns with their comments, for the statement that creates it."""
    comments = {key.lower(): value for key, value in model.column_comments.items()}
    return join_parts(_add_comment(quote_name(column.name), comments.get(column.name.lower())) for column in columns)


def _add_comment(part: Sql, comment: str | None) -> Sql:
    return fill_statement("{part} COMMENT {comment}", part=part, comment=quote_text(comment)) if comment else part


def _write_view_query(
    model: Model, base_state: BaseState, pinned: tuple[Column, ...], step: ReplaceView, few: bool
) -> Sql:
    wanted, old_names = base_state.columns, base_state.old_column_names.get(step.base_snapshot, {})
    columns = [quote_name(column.name) for column in wanted]
    listing = join_parts([fill_statement("t.{c}", c=column) for column in columns])
    base = fill_statement(
        "SELECT {hint}{columns} FROM {base} VERSION AS OF {v} t",
        hint=Sql("/*+ BROADCAST(c) */ " if few else ""),
        columns=join_parts([_select_pinned_column(column, pinned, old_names) for column in wanted]),
        base=quote_name(*model.base.parts),
        v=quote_number(step.base_snapshot),
    )
    if not step.commits:
        return base
    return fill_statement(
        "{base} LEFT ANTI JOIN (SELECT {key} FROM {log}) c ON {on} "
        "UNION ALL SELECT {columns} FROM {newest} t WHERE t._action <> 'delete'",
        base=base,
        key=join_parts([quote_name(part) for part in model.config.primary_key] or [Sql("true")]),
        log=_write_log_read(model, step),
        on=_write_key_match(model),
        columns=listing,
        newest=_write_newest_rows(model, columns, step),
    )


def _select_pinned_column(column: Column, pinned: tuple[Column, ...], old_names: Names) -> Sql:
    """Builds the expression for `column` over the pinned snapshot of the base table, cast to the column's current type.

    It is null if the snapshot lacks the column. `pinned` are the columns of the snapshot; `old_names` maps the
    current names of renamed columns to their names in the snapshot.
    """
    stored = find_column(pinned, old_names.get(column.name, column.name))
    if stored == column:
        return fill_statement("t.{c}", c=quote_name(column.name))
    value = fill_statement("t.{c}", c=quote_name(stored.name)) if stored else Sql("NULL")
    return cast_as(value, column.type, column.name)


def _write_log_read(model: Model, step: ReplaceView) -> Sql:
    return fill_statement(
        "{changes} WITH (`start-snapshot-id` = {start}, `end-snapshot-id` = {end})",
        changes=quote_name(*model.table.changes.parts),
        start=quote_text(str(step.merged.snapshot)),
        end=quote_text(str(step.head.snapshot)),
    )


def _write_key_match(model: Model) -> Sql:
    pairs = [fill_statement("t.{c} = c.{c}", c=quote_name(part)) for part in model.config.primary_key]
    return join_parts(pairs, " AND ") if pairs else Sql("true")


def _write_newest_rows(model: Model, columns: list[Sql], step: ReplaceView) -> Sql:
    """Builds the relation with the newest unmerged change row of each key, for the view's query.

    The rows of one commit are read as they are, since it has only one change row per key.
    """
    if step.commits == 1:
        return _write_log_read(model, step)
    key = [quote_name(part) for part in model.config.primary_key] or [Sql("1")]
    return fill_statement(
        "(SELECT * FROM (SELECT {columns}, _action, lag(true) OVER (PARTITION BY {key} "
        "ORDER BY _last_updated_sequence_number DESC, _seq DESC) AS __arctic_newer FROM {log}) "
        "WHERE __arctic_newer IS NULL)",
        columns=join_parts(columns),
        key=join_parts(key),
        log=_write_log_read(model, step),
    )
