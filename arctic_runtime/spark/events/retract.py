"""Splits each change row of a source into an event that adds the new row and an event that takes back the old row.

Functions over the rows of a source, such as a sum, need both: an update adds its new row and subtracts its old one, and
a delete subtracts its last row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from pyspark.sql.types import MapType
from typing_extensions import LiteralString

from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import ACTION, BEFORE, POSITION, SEQUENCE, Column
from arctic_runtime.model.shape import DELETE, INSERT, UPDATE, UPSERT, is_named
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.refresh.window_rows import has_key_only_rows, has_looked_up_rows
from arctic_runtime.spark.changes.diff import build_struct
from arctic_runtime.spark.changes.equality import write_difference
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
    type_name,
)
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    format_examples,
    list_frame_columns,
    match_key,
    read_until,
    select_first_per_key,
    to_column,
    type_of,
    with_source_position,
)
from arctic_runtime.sql.types import Struct, read_type

_SIGN, _THERE, _FIRST, _EXISTED, _NEW = "sign", "__arctic_there", "__arctic_first", "__arctic_existed", "__arctic_new"


def is_retracting(model: Model, source: SourceState) -> bool:
    """Whether a model merges change rows of `source` by functions, such as a sum, which need the old rows as well."""
    return bool(model.config.merge_columns) and source.kind == "changes"


def has_positions(sources: Iterable[SourceState | None]) -> bool:
    """Whether the rows of all `sources` of a query can get a column POSITION, with equal fields, to order events by.

    The position of a row is its commit and its row number in this commit. Tables of Iceberg format version 2 keep no
    row lineage, so their rows have no position. None in `sources` stands for a source that does not exist, and is
    ignored.
    """
    states = [state for state in sources if state is not None]
    is_alone = len(states) <= 1 or not any(state.keeps_all for state in states)
    return is_alone and all(state.format_version >= 3 for state in states)


def read_event_rows(model: Model, source: SourceState, rows: DataFrame, window: Window, placed: bool) -> DataFrame:
    """Prepares `rows`, those of a source in its window, as input of the model's query.

    If `placed`, adds the column POSITION, with the commit of a row and its row number in this commit. If the model has
    `merge_columns`, POSITION also contains the sign of the row (see `sign_rows`).
    """
    if not placed:
        return rows
    if is_retracting(model, source):
        return sign_rows(rows.sparkSession, rows, source, window)
    shown = with_source_position(rows, source.keeps_all)
    # All sources get the field, since a query may unite rows of several sources.
    signs = F.col(POSITION).withField(_SIGN, F.lit(1)) if model.config.merge_columns else F.col(POSITION)
    return shown.withColumn(POSITION, signs)


def sign_rows(spark: SparkSession, rows: DataFrame, source: SourceState, window: Window) -> DataFrame:
    """Splits change rows of a source into the rows that they add (sign 1) and the rows that they take back (sign -1).

    The sign is a field of the column POSITION, and 0 if the row before the change is unknown. If change rows of the
    source were deleted, a remaining change row may be the first of its key, and is then read as an insert: after a
    changelog compaction, the newest change row of each key that the compaction kept; if only forgotten rows were
    deleted, the first change row of each key.
    """
    placed = with_source_position(rows, source.keeps_all)
    if not source.trimmed or window.start is not None:
        return _list_images(spark, placed, source, window)
    assert source.key is not None
    key = [to_column(part) for part in source.key] or [F.lit(0)]
    order = [F.col(f"{POSITION}.commit"), F.col(SEQUENCE)]
    if not source.is_compacted:
        first = F.lag(F.lit(True)).over(Over.partitionBy(*key).orderBy(*order)).isNull()
        is_update = first & (F.col(ACTION) == UPDATE)
        marked = placed.withColumn(_FIRST, is_update)
        return _list_images(spark, _count_as_inserts(marked, F.col(_FIRST)).drop(_FIRST), source, window)
    is_settled = F.col(f"{POSITION}.commit") <= source.trimmed
    settled = select_first_per_key(placed.where(is_settled), key, [part.desc() for part in order]).where(
        F.col(ACTION) != DELETE
    )
    inserts = _count_as_inserts(settled, F.lit(True))
    return _list_images(spark, inserts.unionByName(placed.where(~is_settled)), source, window)


def _count_as_inserts(rows: DataFrame, condition: Expression) -> DataFrame:
    """Turns the change rows that meet `condition` into inserts, with a null `_before`; keeps the others."""
    action = {ACTION: F.when(condition, F.lit(INSERT)).otherwise(F.col(ACTION))}
    before = {BEFORE: F.when(~condition, F.col(BEFORE))} if BEFORE in rows.columns else {}
    return rows.withColumns({**action, **before})


def add_existence(spark: SparkSession, placed: DataFrame, source: SourceState, window: Window) -> DataFrame:
    """Adds the flag column `_EXISTED` to change rows: whether a row of the key existed before the change.

    Change rows without `_before` need it, since the delete of a missing row looks like any other delete. The flag is
    computed from the previous change row of the key; if this is older than the window, it is read from the change
    table.
    """
    assert source.key is not None
    rows = placed.withColumn(_NEW, F.lit(True))
    if window.start is not None:
        deletes = placed.where(F.col(ACTION) == DELETE).select(*as_key(source.key)).distinct()
        log = with_source_position(read_until(spark, source, window.start), source.keeps_all)
        earlier = log.join(deletes, match_key(log, source.key), "left_semi").withColumn(_NEW, F.lit(False))
        kept = [*(to_column(part) for part in source.key), *map(F.col, (ACTION, SEQUENCE, POSITION, _NEW))]
        rows = rows.unionByName(earlier.select(*kept), allowMissingColumns=True)
    order = Over.partitionBy(*[to_column(part) for part in source.key] or [F.lit(0)])
    previous = F.lag(ACTION).over(order.orderBy(f"{POSITION}.commit", SEQUENCE))
    existed = F.coalesce(previous != DELETE, F.lit(False))
    return rows.withColumn(_EXISTED, existed).where(_NEW).drop(_NEW)


def _list_images(spark: SparkSession, placed: DataFrame, source: SourceState, window: Window) -> DataFrame:
    was = (
        fill_statement("{before} IS NOT NULL", before=quote_name(BEFORE))
        if BEFORE in placed.columns
        else quote_name(_EXISTED)
    )
    if BEFORE not in placed.columns or has_key_only_rows(source, window):
        placed = add_existence(spark, placed, source, window)
    if BEFORE in placed.columns and has_key_only_rows(source, window):
        place = {"commit": quote_name(POSITION, "commit"), "until": quote_number(source.key_only_until)}
        was = fill_statement(
            "({was} OR ({commit} <= {until} AND {existed}))", was=was, existed=quote_name(_EXISTED), **place
        )
    parts = {
        "action": quote_name(ACTION),
        "delete": quote_text(DELETE),
        "insert": quote_text(INSERT),
        "upsert": quote_text(UPSERT),
        "was": was,
        "untold": quote_number(0 if has_looked_up_rows(source, window) else 1),
    }
    added = fill_statement(
        "CASE WHEN {action} = {insert} OR ({action} <> {upsert} AND {was}) THEN 1 ELSE 0 END", **parts
    )
    is_added = fill_statement("{action} <> {delete}", **parts)
    taken = fill_statement("CASE WHEN {was} THEN -1 ELSE 0 END", **parts)
    # The delete of a missing row takes nothing back, unless it is unknown whether the row was missing.
    is_taken = fill_statement("{action} NOT IN ({insert}, {upsert}) AND ({was} OR {untold} = 1)", **parts)
    before = _select_image(placed, source, taken, is_taken, of_before=True)
    images = (before, _select_image(placed, source, added, is_added))
    both = placed.selectExpr(fill_statement("inline(array({images}))", images=join_parts(images)))
    return both.where(F.col(_THERE)).drop(_THERE)


def _select_image(placed: DataFrame, source: SourceState, sign: Sql, is_there: Sql, of_before: bool = False) -> Sql:
    """Builds a struct of a change row's columns after the change, or with `of_before` as they were before it.

    POSITION gets the `sign`, and a further field has the value of the condition `is_there`, whether there is such a
    row.
    """
    assert source.key is not None
    kinds = {field.name: type_of(field.dataType) for field in placed.schema.fields if field.name != _EXISTED}
    own = (*source.key, ACTION, "_ts", SEQUENCE, BEFORE)
    fields = [(quote_name(field), field) for field in kinds if field != POSITION]
    if of_before and BEFORE in kinds:
        fields = [(now if is_named(field, own) else _cast_before(field, kinds[field]), field) for now, field in fields]
    parts = ("commit", *(("sequence",) if source.keeps_all else ()), "row")
    place = [*((quote_name(POSITION, part), part) for part in parts), (sign, _SIGN)]
    return build_struct([*fields, (build_struct(place), POSITION), (is_there, _THERE)])


def _cast_before(field: str, kind: str) -> Sql:
    return fill_statement("CAST({was} AS {kind})", was=quote_name(BEFORE, field), kind=type_name(kind))


def read_sign(columns: Iterable[Column]) -> Sql:
    """Builds the expression of an event's sign: 1 if it adds a row, -1 if it takes back a row, else 0.

    0 means that the old row is unknown. The sign is always 1 if POSITION, in the events' `columns`, does not contain
    it.
    """
    position = next((column.type for column in columns if column.name == POSITION), None)
    match None if position is None else read_type(position):
        case Struct(fields) if any(field == _SIGN for field, _ in fields):
            return quote_name(POSITION, _SIGN)
    return Sql("1")


def count_retractions(events: DataFrame) -> list[Expression]:
    """Builds the aggregates `retracted`, the number of events with sign -1, and `unknown_before`, with sign 0."""
    sign = _sign(events)
    return [F.count_if(sign < 0).alias("retracted"), F.count_if(sign == 0).alias("unknown_before")]


def _sign(events: DataFrame) -> Expression:
    return F.expr(read_sign(list_frame_columns(events)))


def check_retractions(
    model: Model, events: DataFrame, retracted: int, unknown_before: int, is_delete: Expression
) -> None:
    """Raises DataError if a merge function, such as `max`, can't take back values that the source changed or deleted.

    `retracted` is the number of events that take back a row, `unknown_before` that of events whose old row is unknown.
    `is_delete` is the condition that an event deletes its row.
    """
    if unknown_before:
        _raise_unknown_before(model, events)
    strict = [
        (merged, function) for merged, function in model.config.merge_columns.items() if function not in _FOLLOWS_ALL
    ]
    if not retracted or not strict:
        return
    key = [to_column(part) for part in model.config.primary_key]
    place = [F.col(f"{POSITION}.{part}").alias(f"__arctic_{part}") for part in ("commit", "row")]
    stuck = [
        alias_as(_find_stuck(events, merged, function), f"__arctic_stuck{i}")
        for i, (merged, function) in enumerate(strict)
    ]
    alive = events.where(~is_delete).withColumn("__arctic_sign", _sign(events))
    changes = alive.groupBy(*key, *place).agg(F.min("__arctic_sign").alias("__arctic_least"), *map(F.expr, stuck))
    for i, (merged, function) in enumerate(strict):
        bad = changes.where((F.col("__arctic_least") < 0) & F.col(f"__arctic_stuck{i}"))
        rows = bad.select(*key).distinct().limit(3).collect()
        if rows:
            raise DataError(
                f"{model.table}: the source updated or deleted rows, and `merge_columns: {merged}: {function}` can't "
                "take back their old values; nothing was written.\n"
                f"{format_examples(rows)}",
                expected=(
                    "inserts, or updates that the function can follow: `max` needs a value that is not lower, `min` "
                    "one that is not higher, `union` all elements from before, `first` the same value"
                ),
                fix=(
                    "compute the column in a model with `input: state`, let `delete_when` delete the row, or choose a "
                    "function that follows all changes, such as `sum`"
                ),
            )


_FOLLOWS_ALL = ("sum", "last", "last_non_null")
"""Merge functions that can apply any change: by subtraction, or since only the newest event matters."""

_STUCK: Mapping[str, LiteralString] = {
    "max": "max({old}) IS NOT NULL AND coalesce(max({new}) < max({old}), true)",
    "min": "min({old}) IS NOT NULL AND coalesce(min({new}) > min({old}), true)",
    "union": "size(array_except(flatten(collect_list({old})), flatten(collect_list({new})))) > 0",
}
"""Condition that an old value can't be taken back, since the new value does not replace it, by the merge function.

For instance, a maximum can follow an update that raises the value, but not one that lowers it."""


def _find_stuck(events: DataFrame, merged: str, function: str) -> Sql:
    kind = events.select(to_column(merged)).schema[0].dataType
    old = fill_statement("CASE WHEN __arctic_sign < 0 THEN {own} END", own=quote_name(merged))
    new = fill_statement("CASE WHEN __arctic_sign > 0 THEN {own} END", own=quote_name(merged))
    if function == "first":
        ends = [fill_statement("first({end}, true)", end=end) for end in (old, new)]
        return write_difference([(ends[0], ends[1], type_of(kind))])
    template = "true" if isinstance(kind, MapType) else _STUCK.get(function, "true")
    return fill_statement(template, old=old, new=new)


def _raise_unknown_before(model: Model, events: DataFrame) -> None:
    key = [to_column(part) for part in model.config.primary_key]
    rows = events.where(_sign(events) == 0).select(*key).limit(3).collect()
    raise DataError(
        f"{model.table}: the source does not show rows as they were before they changed, so `merge_columns` can't "
        "take back their old values; nothing was written.\n"
        f"{format_examples(rows)}",
        expected="change rows with `_before`",
        actual="change rows of a table with `changelog: input`",
        fix="set `changelog: lookup` for the source, and run it and this model with --full-refresh",
    )
