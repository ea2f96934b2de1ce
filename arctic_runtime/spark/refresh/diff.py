"""From new images and old ones to exact change rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.ivm.algebra.tree import HAS_AFTER, HAS_BEFORE, before
from arctic_runtime.ivm.frontend.checks import over
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
from arctic_runtime.spark.engine.statement import Sql, aliased, expression, listed, name, statement, text
from arctic_runtime.spark.tables import marks
from arctic_runtime.spark.tables.frames import NULL, all_of, typed
from arctic_runtime.spark.tables.sameness import differ

_NO, _ONE = Sql("false"), Sql("1")
_HAS_AFTER, _HAS_BEFORE, _FLAW, _TS, _SEQ = "has_after", "has_before", "flaw", "ts", "seq"


def state_changes(new: DataFrame, old: DataFrame | None, shape: Shape, keyed: bool = False) -> DataFrame:
    """Change rows that turn `old` into `new`; rows that break the key come out under an action of `FLAWS`.

    Both are joined on the key in full, so its cost follows both tables. Where no two rows of `new` can have the same
    key (`keyed`), none are looked for.
    """
    pairs, flaw = _pairs(new, old, shape, keyed)
    return _emit(pairs, shape, flaw)


def image_pairs(new: DataFrame, old: DataFrame | None, shape: Shape, keyed: bool = False) -> DataFrame:
    """The new and the old row of each key, for `image_changes`; like `state_changes`, but of unchanged rows, too."""
    pairs, flaw = _pairs(new, old, shape, keyed)
    return _with_flaw(pairs, flaw)


def image_changes(pairs: DataFrame, shape: Shape) -> DataFrame:
    """Change rows from after images a0…, before images b0…, `has_after`, `has_before`, `ts`, `seq` and `flaw`."""
    return _emit(pairs, shape, name(_FLAW))


def _pairs(new: DataFrame, old: DataFrame | None, shape: Shape, keyed: bool) -> tuple[DataFrame, Sql]:
    """New and old rows side by side, and the expression of their flaw."""
    after = new.selectExpr(*images("a", shape, new.columns), _yes(_HAS_AFTER), *_told_by_the_run(shape))
    flaw = _flaw(shape)
    if not keyed:
        after, flaw = after.selectExpr("*", aliased(_flaw(shape, _copies(shape)), _FLAW)), name(_FLAW)
    if old is None:
        return _without_before(after, shape), flaw
    before = old.selectExpr(*images("b", shape, old.columns), _yes(_HAS_BEFORE))
    of_nothing = {_HAS_AFTER: Sql("false"), _HAS_BEFORE: Sql("false"), _SEQ: _no_place(shape)}
    defaults = {own: statement("coalesce({own}, {of})", own=name(own), of=of) for own, of in of_nothing.items()}
    joined = after.join(before, _on_key(shape), "full_outer").withColumns(
        {own: F.expr(of) for own, of in defaults.items()}
    )
    return _keep_what_is_not_given(joined, shape), flaw


def delta_changes(moved: DataFrame, weight: str, shape: Shape) -> DataFrame:
    """Change rows from added (weight 1) and removed (weight -1) rows, at most one of each per key.

    `moved` has the query's columns under their names, and `weight`. The table is not read.
    """
    return image_changes(delta_images(moved, weight, shape), shape)


def delta_images(moved: DataFrame, weight: str, shape: Shape) -> DataFrame:
    """The images of `delta_changes`, for `image_changes`."""
    rest = [i for i, kept in enumerate(shape.columns) if not shape.is_key(kept.name)]
    by = {"image": struct([(_place("a", i), f"a{i}") for i in rest] or [(Sql("0"), "nothing")]), "weight": name(weight)}
    ends = (
        statement("max_by({image}, {weight}) AS after", **by),
        statement("min_by({image}, {weight}) AS before", **by),
        statement("max({weight}) > 0 AS {own}", weight=name(weight), own=name(_HAS_AFTER)),
        statement("min({weight}) < 0 AS {own}", weight=name(weight), own=name(_HAS_BEFORE)),
    )
    own = moved.selectExpr(*images("a", shape, moved.columns), name(weight))
    found = own.groupBy(*key_images(shape)).agg(*map(F.expr, ends))
    now = [_end("a", "after", i, kept, shape) for i, kept in enumerate(shape.columns)]
    was = [_end("b", "before", i, kept, shape) for i, kept in enumerate(shape.columns)]
    both = found.selectExpr(*now, *was, name(_HAS_AFTER), name(_HAS_BEFORE), *_told_by_the_run(shape))
    return _with_flaw(_keep_what_is_not_given(both, shape), _flaw(shape))


def pair_changes(pairs: DataFrame, shape: Shape) -> DataFrame:
    """Change rows from pairs of the new and the old row of each key, without a shuffle.

    `pairs` has the query's columns under their names, `before` of each, HAS_AFTER and HAS_BEFORE; the key is in both.
    """
    return image_changes(pair_images(pairs, shape), shape)


def pair_images(pairs: DataFrame, shape: Shape) -> DataFrame:
    """The images of `pair_changes`, for `image_changes`."""
    found = pairs.selectExpr(
        *images("a", shape, shape.given),
        *images("b", shape, shape.given, before),
        aliased(name(HAS_AFTER), _HAS_AFTER),
        aliased(name(HAS_BEFORE), _HAS_BEFORE),
        *_told_by_the_run(shape),
    )
    return _with_flaw(_keep_what_is_not_given(found, shape), _flaw(shape))


def _with_flaw(pairs: DataFrame, flaw: Sql) -> DataFrame:
    """Images with the flaw of those after images that exist."""
    return pairs.withColumn(_FLAW, F.when(F.col(_HAS_AFTER), F.expr(flaw)))


def _end(prefix: str, end: str, place: int, kept: Column, shape: Shape) -> Sql:
    return aliased(_place("a", place) if shape.is_key(kept.name) else name(end, f"a{place}"), f"{prefix}{place}")


def event_changes(
    net: DataFrame,
    base: DataFrame | None,
    unmerged: DataFrame | None,
    shape: Shape,
    ordered: bool,
    blend: Callable[[DataFrame, Shape], DataFrame] | None = None,
) -> DataFrame:
    """Change rows for the net event of each key, the old row looked up in the base and in unmerged changes.

    `net` is what `events.net_events` gives. `blend` makes new images of it where old rows have a part in them. Of base
    and unmerged changes, rows under other keys may be left out.
    Where events are `ordered` by a sequence, the deletion of a row that is not there is kept as well, with a null
    `_before`: an older event of that key may still arrive, and must lose.
    """
    looked_up = _look_up(net, base, unmerged, shape)
    blended = blend(looked_up, shape) if blend else looked_up
    found = _keep_what_is_not_given(blended.withColumn(_HAS_AFTER, ~F.col("deleted")), shape)
    return _emit(found, shape, _event_flaw(found, shape), Sql("true" if ordered else "false"), has_all_keys=True)


def refresh_changes(net: DataFrame, old: DataFrame | None, shape: Shape, ordered: bool, mark: str | None) -> DataFrame:
    """Change rows that turn `old` into what all events together leave behind.

    Like `event_changes`, but rows that no event speaks of are deleted; those get `mark` as their `_seq`.
    """
    if old is None:
        return event_changes(net, None, None, shape, ordered)
    before = old.selectExpr(*images("b", shape, old.columns), _yes(_HAS_BEFORE))
    joined = net.join(before, _on_key(shape), "full_outer").fillna(False, [_HAS_BEFORE])
    last = marks.latest(mark, shape.sequence_type) if ordered and mark else F.lit(None if ordered else 0)
    defaults = {
        _HAS_AFTER: F.coalesce(~F.col("deleted"), F.lit(False)),
        _SEQ: F.coalesce(_SEQ, last.cast(shape.sequence_type)),
    }
    found = _keep_what_is_not_given(joined.withColumns(defaults), shape)
    return _emit(found, shape, _event_flaw(found, shape))


def input_changes(net: DataFrame, shape: Shape) -> DataFrame:
    """Change rows straight from the events, without a lookup: `upsert` and `delete`, no `_before`."""
    action = F.when(F.col(_FLAW).isNotNull(), F.col(_FLAW)).when(F.col("deleted"), DELETE).otherwise(UPSERT)
    rows = net.withColumn(ACTION, action)
    after = [F.col(f"a{i}").alias(kept.name) for i, kept in enumerate(shape.columns)]
    tail = [F.col(ACTION), F.col(_TS).alias(TIMESTAMP), F.col(_SEQ).alias(SEQUENCE)]
    before = [F.lit(None).cast(shape.before_type).alias(BEFORE)] if shape.before_type else []
    return rows.select(*after, *tail, *before)


def _look_up(events: DataFrame, base: DataFrame | None, unmerged: DataFrame | None, shape: Shape) -> DataFrame:
    if base is None:
        return _without_before(events, shape)
    before = base.selectExpr(*images("b", shape, base.columns), _yes(_HAS_BEFORE))
    found = events.join(before, _on_key(shape), "left").fillna(False, [_HAS_BEFORE])
    if unmerged is None:
        return found
    newer = unmerged.selectExpr(*images("c", shape, unmerged.columns), aliased(name(ACTION), "unmerged"))
    on_key = all_of([F.col(f"a{i}") == F.col(f"c{i}") for i in _key_positions(shape)])
    both = found.join(newer, on_key, "left")
    is_newer = F.col("unmerged").isNotNull()
    newest = "CASE WHEN unmerged IS NOT NULL THEN {c} ELSE {b} END"
    replaced = {f"b{i}": F.expr(statement(newest, c=name(f"c{i}"), b=name(f"b{i}"))) for i in range(len(shape.columns))}
    alive = F.when(is_newer, F.col("unmerged") != DELETE).otherwise(F.col(_HAS_BEFORE))
    return both.withColumns({**replaced, _HAS_BEFORE: alive})


def fill(joined: DataFrame, shape: Shape) -> DataFrame:
    """How net events with the flags of `unsent_flag` meet rows: a value that no event sent is that of the old row."""
    unsent = [i for i in range(len(shape.columns)) if unsent_flag(i) in joined.columns]
    kept = F.col(_HAS_BEFORE) & ~F.col("reset")
    return joined.withColumns(
        {f"a{i}": F.when(kept & F.col(unsent_flag(i)), F.col(f"b{i}")).otherwise(F.col(f"a{i}")) for i in unsent}
    )


def unsent_flag(place: int) -> str:
    """The column of net events that says whether a value of the table's column at a place was not sent."""
    return f"unsent{place}"


def _event_flaw(joined: DataFrame, shape: Shape) -> Sql:
    """The flaw of rows of which a value was not sent, and no old row has it; else what a contract forbids."""
    unsent = [name(unsent_flag(i)) for i in range(len(shape.columns)) if unsent_flag(i) in joined.columns]
    if not unsent:
        return _contract_flaw(shape)
    return statement(
        "CASE WHEN {after} AND ({unsent}) AND (reset OR NOT {before}) THEN {flaw} ELSE {contract} END",
        after=name(_HAS_AFTER),
        before=name(_HAS_BEFORE),
        unsent=listed(unsent, " OR "),
        flaw=text(UNSENT_VALUE),
        contract=_contract_flaw(shape),
    )


def _emit(
    joined: DataFrame, shape: Shape, flaw: Sql, keep_tombstones: Sql = _NO, has_all_keys: bool = False
) -> DataFrame:
    """Change rows of a join that carries after images a0…, before images b0…, and which of them there are.

    `flaw` is what breaks the after images, null where nothing does. Where after images have the keys of all rows, keys
    are those, and rows stay in their order.
    """
    flags = {"after": name(_HAS_AFTER), "before": name(_HAS_BEFORE)}
    action = statement(
        "CASE WHEN {after} AND ({flaw}) IS NOT NULL THEN {flaw} WHEN {after} AND NOT {before} THEN {insert} "
        "WHEN NOT {after} AND ({before} OR {tombstones}) THEN {delete} "
        "WHEN {after} AND {before} AND ({differs}) THEN {update} END AS {own}",
        flaw=flaw,
        tombstones=keep_tombstones,
        differs=_differs(shape),
        insert=text(INSERT),
        update=text(UPDATE),
        delete=text(DELETE),
        own=name(ACTION),
        **flags,
    )
    newest = "CASE WHEN NOT {after} AND {before} THEN {b} ELSE {a} END AS {own}"
    merged = [
        aliased(_place("a", i), kept.name)
        if has_all_keys and shape.is_key(kept.name)
        else statement(newest, a=_place("a", i), b=_place("b", i), own=name(kept.name), **flags)
        for i, kept in enumerate(shape.columns)
    ]
    tail = [action, aliased(name(_TS), TIMESTAMP), aliased(name(_SEQ), SEQUENCE)]
    rest = [(_place("b", i), kept.name) for i, kept in enumerate(shape.columns) if not shape.is_key(kept.name)]
    image = statement("CASE WHEN {before} THEN {image} END", image=struct(rest), **flags)
    was = [typed(image, shape.before_type, BEFORE)] if shape.before_type else []
    return joined.selectExpr(*merged, *tail, *was).where(F.col(ACTION).isNotNull())


def _told_by_the_run(shape: Shape) -> tuple[Sql, Sql]:
    """Time and place of rows that no event brought; the commit puts the run's time in the place of none."""
    return typed(NULL, "timestamp", _TS), typed(_no_place(shape), shape.sequence_type, _SEQ)


def _no_place(shape: Shape) -> Sql:
    """The place in the order of events of rows that no event brought; 0 in tables without such an order."""
    return NULL if shape.is_ordered else Sql("0")


def _yes(own: str) -> Sql:
    return aliased(Sql("true"), own)


def _place(prefix: str, place: int) -> Sql:
    """The name of one of the table's columns among the `images` of a prefix."""
    return name(f"{prefix}{place}")


def struct(fields: Iterable[tuple[Sql, str]]) -> Sql:
    """A struct of values under names."""
    named = [aliased(value, own) for value, own in fields]
    return statement("struct({named})", named=listed(named))


def _differs(shape: Shape) -> Sql:
    """Whether any column outside the key differs."""
    rest = [(i, kept.type) for i, kept in enumerate(shape.columns) if not shape.is_key(kept.name)]
    return differ((_place("a", i), _place("b", i), kind) for i, kind in rest)


def images(prefix: str, shape: Shape, found: Sequence[str], named: Callable[[str], str] = str) -> list[Sql]:
    """The table's columns under names of their own, null where the frame has none, in the table's types.

    `found` are the columns that the frame has, which it knows as `named`. In a key -0.0 becomes 0.0, as Spark takes
    both for one key.
    """
    names = {own.lower(): name(named(own)) for own in found}
    return [
        typed(_key_value(value, kept) if shape.is_key(kept.name) else value, kept.type, f"{prefix}{i}")
        for i, kept in enumerate(shape.columns)
        for value in [names.get(kept.name.lower(), NULL)]
    ]


def _key_value(value: Sql, kept: Column) -> Sql:
    return statement("{value} + 0D", value=value) if kept.type in ("float", "double") else value


def _without_before(after: DataFrame, shape: Shape) -> DataFrame:
    nulls = {f"b{i}": F.lit(None).cast(kept.type) for i, kept in enumerate(shape.columns)}
    return after.withColumns({**nulls, _HAS_BEFORE: F.lit(False)})


def _keep_what_is_not_given(joined: DataFrame, shape: Shape) -> DataFrame:
    given = tuple(Column(own, "") for own in shape.given)
    absent = [i for i, kept in enumerate(shape.columns) if find_column(given, kept.name) is None]
    return joined.withColumns({f"a{i}": F.col(f"b{i}") for i in absent}) if absent else joined


def _flaw(shape: Shape, copies: Sql = _ONE) -> Sql:
    """The flaw of after images, of which there are so many `copies` under a key; null for sound ones."""
    return statement(
        "CASE WHEN {no_key} THEN {null_key} WHEN {copies} > 1 THEN {duplicate} ELSE {contract} END",
        no_key=_any_null(_key_positions(shape)),
        null_key=text(NULL_KEY),
        copies=copies,
        duplicate=text(DUPLICATE_KEY),
        contract=against_contract(shape),
    )


def _copies(shape: Shape) -> Sql:
    """How many after images there are under the key of one."""
    key = [_place("a", i) for i in _key_positions(shape)] or [Sql("0")]
    return statement("count(1) OVER (PARTITION BY {key})", key=listed(key))


def _contract_flaw(shape: Shape) -> Sql:
    """What a contract forbids of the after images, where there are any."""
    return statement("CASE WHEN {after} THEN {flaw} END", after=name(_HAS_AFTER), flaw=against_contract(shape))


def against_contract(shape: Shape) -> Sql:
    """The flaw of after images that a contract forbids; null for sound ones.

    As in SQL, a check whose answer is null is not broken.
    """
    guarded = [i for i, kept in enumerate(shape.columns) if is_named(kept.name, shape.not_null)]
    places = {kept.name: f"a{i}" for i, kept in enumerate(shape.columns)}
    flaws = [(_any_null(guarded), NULL_COLUMN)] if guarded else []
    flaws += [(statement("NOT ({check})", check=expression(over(of, places))), BROKEN_CHECK) for of in shape.checks]
    cases = [statement("WHEN {is_so} THEN {flaw} ", is_so=is_so, flaw=text(flaw)) for is_so, flaw in flaws]
    return statement("CASE {cases}END", cases=listed(cases, "")) if cases else Sql("CAST(NULL AS string)")


def _any_null(places: Sequence[int]) -> Sql:
    return listed([statement("{a} IS NULL", a=_place("a", i)) for i in places], " OR ") if places else Sql("false")


def key_images(shape: Shape) -> list[Expression]:
    """The key among the after images; one constant for a key without columns."""
    return [F.col(f"a{i}") for i in _key_positions(shape)] or [F.lit(0)]


def _on_key(shape: Shape) -> Expression:
    return all_of([F.col(f"a{i}") == F.col(f"b{i}") for i in _key_positions(shape)])


def _key_positions(shape: Shape) -> list[int]:
    return [i for i, kept in enumerate(shape.columns) if shape.is_key(kept.name)]
