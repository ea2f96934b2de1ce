"""Computes change rows by comparing the new and the old row of each key.

The columns of a new row (its *after image*) are named a0, a1, …, those of the old row (its *before image*) b0, b1, …,
by the positions of the table's columns. A *flaw* is a value of `FLAWS` that says why a new row must not be written,
such as a duplicate key; it takes the place of the action in the change row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, name_before
from arctic_runtime.ivm.frontend.configured_expressions import rename_check_columns
from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE, TIMESTAMP, Column, find_column
from arctic_runtime.model.shape import (
    BROKEN_CHECK,
    DELETE,
    DUPLICATE_KEY,
    INSERT,
    NULL_COLUMN,
    NULL_KEY,
    UNSENT_VALUE,
    UPDATE,
    UPSERT,
    Shape,
    is_named,
)
from arctic_runtime.spark.changes.equality import write_difference
from arctic_runtime.spark.engine.statement import (
    Sql,
    alias_as,
    fill_statement,
    join_parts,
    quote_name,
    quote_text,
    write_expression,
)
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import NULL, StoredRows, cast_as, combine_all

_NO, _YES, _ONE = Sql("false"), Sql("true"), Sql("1")
_HAS_AFTER, _HAS_BEFORE, _FLAW, _TS, _SEQ = "has_after", "has_before", "flaw", "ts", "seq"


def diff_states(new: DataFrame, old: DataFrame | None, shape: Shape, keyed: bool = False) -> DataFrame:
    """Computes the change rows that turn the rows `old` into the rows `new`; None for `old` means no rows.

    Both are joined on the key, so the cost depends on the size of both. A row of `new` that must not be written, such
    as one with a null key, gets the reason, a value of `FLAWS`, as its action. `keyed` promises that all keys of `new`
    differ, and saves the search for duplicates.
    """
    pairs, flaw = _join_new_and_old(new, old, shape, keyed)
    return _emit_change_rows(pairs, shape, flaw)


def pair_images_by_key(new: DataFrame, old: DataFrame | None, shape: Shape, keyed: bool = False) -> DataFrame:
    """Joins the new and the old row of each key to one row (a0, …, b0, …), the input of `emit_image_changes`.

    Keys whose row is unchanged are included. None for `old` means no rows; `keyed` promises that all keys of `new`
    differ.
    """
    pairs, flaw = _join_new_and_old(new, old, shape, keyed)
    return _add_flaw(pairs, flaw)


def emit_image_changes(pairs: DataFrame, shape: Shape) -> DataFrame:
    """Computes change rows from rows that contain the new and the old row of a key; equal rows give no change row.

    The columns of `pairs` are: a0, a1, …, the columns of the new row; b0, b1, …, those of the old row; `has_after` and
    `has_before`, whether each exists; `ts`; `seq`; and `flaw`, the reason why the new row must not be written, or null.
    """
    return _emit_change_rows(pairs, shape, quote_name(_FLAW))


def _join_new_and_old(new: DataFrame, old: DataFrame | None, shape: Shape, keyed: bool) -> tuple[DataFrame, Sql]:
    """Joins new rows (as columns a0…) and old rows (b0…) on the key.

    Returns the joined rows, and the SQL expression of the reason why a new row must not be written (its flaw).
    """
    after = new.selectExpr(
        *build_images("a", shape, new.columns), _build_true(_HAS_AFTER), *_build_default_ts_and_seq(shape)
    )
    flaw = _build_flaw(shape)
    if not keyed:
        after, flaw = (
            after.selectExpr("*", alias_as(_build_flaw(shape, _count_rows_per_key(shape)), _FLAW)),
            quote_name(_FLAW),
        )
    if old is None:
        return _add_null_before(after, shape), flaw
    before = old.selectExpr(*build_images("b", shape, old.columns), _build_true(_HAS_BEFORE))
    of_nothing = {_HAS_AFTER: Sql("false"), _HAS_BEFORE: Sql("false"), _SEQ: _build_default_sequence(shape)}
    defaults = {
        own: fill_statement("coalesce({own}, {of})", own=quote_name(own), of=default)
        for own, default in of_nothing.items()
    }
    joined = after.join(before, _on_key(shape), "full_outer").withColumns(
        {own: F.expr(default) for own, default in defaults.items()}
    )
    return _keep_absent_columns(joined, shape), flaw


def diff_deltas(moved: DataFrame, weight: str, shape: Shape) -> DataFrame:
    """Computes change rows from added rows (weight 1) and removed rows (weight -1), at most one of each per key.

    `moved` has the added and removed rows, with the query's columns, and the weight in the column named `weight`. The
    table is not read.
    """
    return emit_image_changes(build_delta_images(moved, weight, shape), shape)


def build_delta_images(moved: DataFrame, weight: str, shape: Shape) -> DataFrame:
    """Joins the added and the removed row of each key to one row (a0, …, b0, …), the input of `emit_image_changes`.

    `moved` has the added rows, with 1 in the column named `weight`, and the removed rows, with -1; at most one of each
    per key.
    """
    rest = shape.rest_positions
    by = {
        "image": build_struct([(_name_image("a", i), f"a{i}") for i in rest] or [(Sql("0"), "nothing")]),
        "weight": quote_name(weight),
    }
    ends = (
        fill_statement("max_by({image}, {weight}) AS after", **by),
        fill_statement("min_by({image}, {weight}) AS before", **by),
        fill_statement("max({weight}) > 0 AS {own}", weight=quote_name(weight), own=quote_name(_HAS_AFTER)),
        fill_statement("min({weight}) < 0 AS {own}", weight=quote_name(weight), own=quote_name(_HAS_BEFORE)),
    )
    own = moved.selectExpr(*build_images("a", shape, moved.columns), quote_name(weight))
    grouped = own.groupBy(*list_key_images(shape)).agg(*map(F.expr, ends))
    now = [_select_end_image("a", "after", i, column, shape) for i, column in enumerate(shape.columns)]
    was = [_select_end_image("b", "before", i, column, shape) for i, column in enumerate(shape.columns)]
    both = grouped.selectExpr(
        *now, *was, quote_name(_HAS_AFTER), quote_name(_HAS_BEFORE), *_build_default_ts_and_seq(shape)
    )
    return _add_flaw(_keep_absent_columns(both, shape), _build_flaw(shape))


def diff_pairs(pairs: DataFrame, shape: Shape) -> DataFrame:
    """Computes change rows from rows that contain both the new and the old row of a key; nothing is shuffled.

    `pairs` has the query's columns for the new row, the same columns named by `name_before` for the old row, and the
    flags HAS_AFTER and HAS_BEFORE, whether each exists. Key columns have values in both, even if one row does not
    exist.
    """
    return emit_image_changes(build_pair_images(pairs, shape), shape)


def build_pair_images(pairs: DataFrame, shape: Shape, stored: Sequence[str] | None = None) -> DataFrame:
    """Converts `pairs`, rows with the new and the old row of a key, to the columns that `emit_image_changes` reads.

    The columns of `pairs` are described in `diff_pairs`. `stored` are the columns of the old row; if it is None, they
    are the query's.
    """
    images = pairs.selectExpr(
        *build_images("a", shape, shape.given),
        *build_images("b", shape, shape.given if stored is None else stored, name_before),
        alias_as(quote_name(HAS_AFTER), _HAS_AFTER),
        alias_as(quote_name(HAS_BEFORE), _HAS_BEFORE),
        *_build_default_ts_and_seq(shape),
    )
    return _add_flaw(_keep_absent_columns(images, shape), _build_flaw(shape))


def _add_flaw(pairs: DataFrame, flaw: Sql) -> DataFrame:
    """Adds the column `flaw`, with the value of the SQL expression `flaw`; null if there is no new row."""
    return pairs.withColumn(_FLAW, F.when(F.col(_HAS_AFTER), F.expr(flaw)))


def _select_end_image(prefix: str, end: str, place: int, column: Column, shape: Shape) -> Sql:
    return alias_as(
        _name_image("a", place) if shape.is_key(column.name) else quote_name(end, f"a{place}"), f"{prefix}{place}"
    )


def diff_events(
    net: DataFrame,
    stored: StoredRows,
    shape: Shape,
    blend: Callable[[DataFrame], DataFrame] | None = None,
    required: Sequence[int] = (),
    keeps_unchanged: bool = False,
) -> DataFrame:
    """Computes the change rows by which the net event of each key changes the stored row of the key.

    The net event is all new events of a key combined into one (see `EventRules`). `stored` needs only the rows of keys
    in `net`. `blend` computes the new rows from net events joined with stored rows; if it is None, the net event is the
    new row. If no row of a key is stored, its events must have the columns at the positions `required`, or the new row
    is flawed. In a table whose events are ordered, the delete of a missing row is kept as a tombstone, with a null
    `_before`, so that an older event of the key that arrives later is ignored. With `keeps_unchanged`, any table keeps
    such deletes, and also updates to the values that the row has.
    """
    looked_up = _look_up(net, stored, shape)
    blended = blend(looked_up) if blend else looked_up
    completed = _keep_absent_columns(blended.withColumn(_HAS_AFTER, ~F.col("deleted")), shape)
    flaw, has_tombstones = _build_event_flaw(shape, required), shape.is_ordered
    return _emit_change_rows(completed, shape, flaw, has_tombstones, keeps_unchanged, has_all_keys=True)


def refresh_changes(
    net: DataFrame,
    old: DataFrame | None,
    shape: Shape,
    mark: str | None = None,
    required: Sequence[int] = (),
    keeps_unchanged: bool = False,
) -> DataFrame:
    """Computes the change rows that turn all rows of the table, `old`, into those computed from all its events.

    `net` has the net event of each key, which combines all events that the key ever had. Rows of `old` whose key has no
    event are deleted; the `_seq` of their change rows is `mark`, a `sequence_by` value as text. None for `old` means no
    rows. Otherwise it works like `diff_events`.
    """
    if old is None:
        return diff_events(net, StoredRows(), shape, required=required, keeps_unchanged=keeps_unchanged)
    before = old.selectExpr(*build_images("b", shape, old.columns), _build_true(_HAS_BEFORE))
    joined = net.join(before, _on_key(shape), "full_outer").fillna(False, [_HAS_BEFORE])
    is_ordered = shape.is_ordered
    last = marks.read_latest(mark, shape.sequence_type) if is_ordered and mark else F.lit(None if is_ordered else 0)
    defaults = {
        _HAS_AFTER: F.coalesce(~F.col("deleted"), F.lit(False)),
        _SEQ: F.coalesce(_SEQ, last.cast(shape.sequence_type)),
    }
    completed = _keep_absent_columns(joined.withColumns(defaults), shape)
    flaw = _build_event_flaw(shape, required)
    return _emit_change_rows(completed, shape, flaw, keeps_unchanged=keeps_unchanged)


def emit_input_changes(net: DataFrame, shape: Shape) -> DataFrame:
    """Converts net events to change rows without a lookup of stored rows; the action is `upsert` or `delete`.

    `_before` is null, since the old row is not known.
    """
    action = F.when(F.col(_FLAW).isNotNull(), F.col(_FLAW)).when(F.col("deleted"), DELETE).otherwise(UPSERT)
    rows = net.withColumn(ACTION, action)
    after = [F.col(f"a{i}").alias(column.name) for i, column in enumerate(shape.columns)]
    tail = [F.col(ACTION), F.col(_TS).alias(TIMESTAMP), F.col(_SEQ).alias(SEQUENCE)]
    before = [F.lit(None).cast(shape.before_type).alias(BEFORE)] if shape.before_type else []
    return rows.select(*after, *tail, *before)


def _look_up(events: DataFrame, stored: StoredRows, shape: Shape) -> DataFrame:
    base, unmerged = stored.base, stored.unmerged
    if base is None:
        return _add_null_before(events, shape)
    before = base.selectExpr(*build_images("b", shape, base.columns), _build_true(_HAS_BEFORE))
    looked_up = events.join(before, _on_key(shape), "left").fillna(False, [_HAS_BEFORE])
    if unmerged is None:
        return looked_up
    newer = unmerged.selectExpr(*build_images("c", shape, unmerged.columns), alias_as(quote_name(ACTION), "unmerged"))
    on_key = combine_all([F.col(f"a{i}") == F.col(f"c{i}") for i in shape.key_positions])
    both = looked_up.join(newer, on_key, "left")
    is_newer = F.col("unmerged").isNotNull()
    newest = "CASE WHEN unmerged IS NOT NULL THEN {c} ELSE {b} END"
    replaced = {
        f"b{i}": F.expr(fill_statement(newest, c=quote_name(f"c{i}"), b=quote_name(f"b{i}")))
        for i in range(len(shape.columns))
    }
    alive = F.when(is_newer, F.col("unmerged") != DELETE).otherwise(F.col(_HAS_BEFORE))
    return both.withColumns({**replaced, _HAS_BEFORE: alive})


def name_provided_flag(position: int) -> str:
    """Returns the name of the flag column that says whether any event of a key has the column at `position`."""
    return f"brought{position}"


def _build_event_flaw(shape: Shape, required: Sequence[int]) -> Sql:
    """Builds the SQL expression of the reason why a new row must not be written (its flaw), or null.

    It is UNSENT_VALUE if no row of the key is stored and its events lack a `required` column, else the violation of the
    contract.
    """
    if not required:
        return _build_contract_flaw(shape)
    return fill_statement(
        "CASE WHEN {after} AND NOT ({brought}) AND (reset OR NOT {before}) THEN {flaw} ELSE {contract} END",
        after=quote_name(_HAS_AFTER),
        before=quote_name(_HAS_BEFORE),
        brought=join_parts((quote_name(name_provided_flag(i)) for i in required), " AND "),
        flaw=quote_text(UNSENT_VALUE),
        contract=_build_contract_flaw(shape),
    )


def _emit_change_rows(
    joined: DataFrame,
    shape: Shape,
    flaw: Sql,
    has_tombstones: bool = False,
    keeps_unchanged: bool = False,
    has_all_keys: bool = False,
) -> DataFrame:
    """Computes change rows from `joined`, whose columns are those of `emit_image_changes`, without `flaw`.

    `flaw` is the SQL expression of a new row's flaw, null if the row is sound. With `has_tombstones` deletes of missing
    rows are kept, and with `keeps_unchanged` also updates to the values that the row has. `has_all_keys` promises that
    the key columns of a0… have values even without a new row; using them preserves the rows' sort order by key.
    """
    flags = {"after": quote_name(_HAS_AFTER), "before": quote_name(_HAS_BEFORE)}
    action = fill_statement(
        "CASE WHEN {after} AND ({flaw}) IS NOT NULL THEN {flaw} WHEN {after} AND NOT {before} THEN {insert} "
        "WHEN NOT {after} AND ({before} OR {tombstones}) THEN {delete} "
        "WHEN {after} AND {before} AND ({differs}) THEN {update} END AS {own}",
        flaw=flaw,
        tombstones=_YES if has_tombstones or keeps_unchanged else _NO,
        differs=_YES if keeps_unchanged else _build_difference(shape),
        insert=quote_text(INSERT),
        update=quote_text(UPDATE),
        delete=quote_text(DELETE),
        own=quote_name(ACTION),
        **flags,
    )
    newest = "CASE WHEN NOT {after} AND {before} THEN {b} ELSE {a} END AS {own}"
    merged = [
        alias_as(_name_image("a", i), column.name)
        if has_all_keys and shape.is_key(column.name)
        else fill_statement(newest, a=_name_image("a", i), b=_name_image("b", i), own=quote_name(column.name), **flags)
        for i, column in enumerate(shape.columns)
    ]
    tail = [action, alias_as(quote_name(_TS), TIMESTAMP), alias_as(quote_name(_SEQ), SEQUENCE)]
    rest = [
        (_name_image("b", i), column.name) for i, column in enumerate(shape.columns) if not shape.is_key(column.name)
    ]
    image = fill_statement("CASE WHEN {before} THEN {image} END", image=build_struct(rest), **flags)
    was = [cast_as(image, shape.before_type, BEFORE)] if shape.before_type else []
    return joined.selectExpr(*merged, *tail, *was).where(F.col(ACTION).isNotNull())


def _build_default_ts_and_seq(shape: Shape) -> tuple[Sql, Sql]:
    """Builds the columns `ts` and `seq` of rows that come from a query of rows, not of events.

    `ts` is null; the commit replaces it by the time of the run.
    """
    return cast_as(NULL, "timestamp", _TS), cast_as(_build_default_sequence(shape), shape.sequence_type, _SEQ)


def _build_default_sequence(shape: Shape) -> Sql:
    """Builds the `seq` of rows that come from no event: null if the table's events are ordered, else 0."""
    return NULL if shape.is_ordered else Sql("0")


def _build_true(own: str) -> Sql:
    return alias_as(Sql("true"), own)


def _name_image(prefix: str, place: int) -> Sql:
    """Returns the quoted name of `prefix` and a column's position in the table, such as a0 for the first column."""
    return quote_name(f"{prefix}{place}")


def build_struct(fields: Iterable[tuple[Sql, str]]) -> Sql:
    """Builds a SQL struct from pairs of a value and a field name."""
    named = [alias_as(value, own) for value, own in fields]
    return fill_statement("struct({named})", named=join_parts(named))


def _build_difference(shape: Shape) -> Sql:
    """Builds the condition that new row (a0…) and old row (b0…) differ in any column outside the key."""
    rest = shape.rest_positions
    return write_difference((_name_image("a", i), _name_image("b", i), shape.columns[i].type) for i in rest)


def build_images(
    prefix: str, shape: Shape, frame_columns: Sequence[str], named: Callable[[str], str] = str
) -> list[Sql]:
    """Builds expressions for all of the table's columns from a frame that has some of them.

    They are cast to the table's types, and named by `prefix` and position, such as a0; columns that the frame lacks are
    null. `frame_columns` are the table's names of the columns that the frame has; `named` converts these to the frame's
    names. In key columns -0.0 becomes 0.0, since Spark treats both as the same key.
    """
    names = {own.lower(): quote_name(named(own)) for own in frame_columns}
    return [
        cast_as(
            _normalize_key_value(value, column) if shape.is_key(column.name) else value, column.type, f"{prefix}{i}"
        )
        for i, column in enumerate(shape.columns)
        for value in [names.get(column.name.lower(), NULL)]
    ]


def _normalize_key_value(value: Sql, column: Column) -> Sql:
    return fill_statement("{value} + 0D", value=value) if column.type in ("float", "double") else value


def _add_null_before(after: DataFrame, shape: Shape) -> DataFrame:
    nulls = {f"b{i}": F.lit(None).cast(column.type) for i, column in enumerate(shape.columns)}
    return after.withColumns({**nulls, _HAS_BEFORE: F.lit(False)})


def _keep_absent_columns(joined: DataFrame, shape: Shape) -> DataFrame:
    given_columns = tuple(Column(own, "") for own in shape.given)
    absent = [i for i, column in enumerate(shape.columns) if find_column(given_columns, column.name) is None]
    return joined.withColumns({f"a{i}": F.col(f"b{i}") for i in absent}) if absent else joined


def _build_flaw(shape: Shape, copies: Sql = _ONE) -> Sql:
    """Builds the SQL expression of the flaw of a new row: a null key, a duplicate key or a broken contract, or null.

    `copies` is the expression of the number of new rows with the same key.
    """
    return fill_statement(
        "CASE WHEN {no_key} THEN {null_key} WHEN {copies} > 1 THEN {duplicate} ELSE {contract} END",
        no_key=_build_any_null(shape.key_positions),
        null_key=quote_text(NULL_KEY),
        copies=copies,
        duplicate=quote_text(DUPLICATE_KEY),
        contract=find_contract_violation(shape),
    )


def _count_rows_per_key(shape: Shape) -> Sql:
    """Builds the window expression that counts the new rows with the same key."""
    key = [_name_image("a", i) for i in shape.key_positions] or [Sql("0")]
    return fill_statement("count(1) OVER (PARTITION BY {key})", key=join_parts(key))


def _build_contract_flaw(shape: Shape) -> Sql:
    """Builds the SQL expression of the contract violation of a new row; null if there is no new row or no violation."""
    return fill_statement(
        "CASE WHEN {after} THEN {flaw} END", after=quote_name(_HAS_AFTER), flaw=find_contract_violation(shape)
    )


def find_contract_violation(shape: Shape) -> Sql:
    """Builds the SQL expression of the flaw by which a new row a0… violates the contract; null if it does not.

    The flaws are a null in a column that must not have any, and a check that is false; as in SQL, a check whose result
    is null counts as passed.
    """
    guarded = [i for i, column in enumerate(shape.columns) if is_named(column.name, shape.not_null)]
    places = {column.name: f"a{i}" for i, column in enumerate(shape.columns)}
    flaws = [(_build_any_null(guarded), NULL_COLUMN)] if guarded else []
    flaws += [
        (
            fill_statement("NOT ({check})", check=write_expression(rename_check_columns(check_text, places))),
            BROKEN_CHECK,
        )
        for check_text in shape.checks
    ]
    cases = [fill_statement("WHEN {is_so} THEN {flaw} ", is_so=is_so, flaw=quote_text(flaw)) for is_so, flaw in flaws]
    return fill_statement("CASE {cases}END", cases=join_parts(cases, "")) if cases else Sql("CAST(NULL AS string)")


def _build_any_null(places: Sequence[int]) -> Sql:
    return (
        join_parts([fill_statement("{a} IS NULL", a=_name_image("a", i)) for i in places], " OR ")
        if places
        else Sql("false")
    )


def list_key_images(shape: Shape) -> list[Expression]:
    """Returns the new row's key columns (a0…), to group by; one constant for a key without columns."""
    return list(map(F.expr, key_names(shape)))


def key_names(shape: Shape) -> list[Sql]:
    """Returns the quoted names of the new row's key columns (a0…), to group by.

    For a key without columns it is one constant.
    """
    return [_name_image("a", i) for i in shape.key_positions] or [Sql("true")]


def _on_key(shape: Shape) -> Expression:
    return combine_all([F.col(f"a{i}") == F.col(f"b{i}") for i in shape.key_positions])
