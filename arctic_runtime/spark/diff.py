"""From new images and old ones to exact change rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE, TIMESTAMP, Column, find_column, same_name
from arctic_runtime.plan.checks import over
from arctic_runtime.plan.incremental.tree import HAS_AFTER, HAS_BEFORE, before
from arctic_runtime.spark.frames import NULL, all_of, any_of, typed
from arctic_runtime.spark.statement import Sql, listed, name, statement

INSERT, UPDATE, DELETE, UPSERT = "insert", "update", "delete", "upsert"
NULL_KEY, DUPLICATE_KEY, NULL_COLUMN, BROKEN_CHECK = "!null key", "!duplicate key", "!null column", "!broken check"
FLAWS = (NULL_KEY, DUPLICATE_KEY, NULL_COLUMN, BROKEN_CHECK)

_HAS_AFTER, _HAS_BEFORE, _FLAW, _TS, _SEQ = "has_after", "has_before", "flaw", "ts", "seq"


@dataclass(frozen=True)
class Shape:
    """What change rows look like: the table's columns, its key, and what a contract says of them.

    `given` are the names of the columns that the query has; the others keep what they were.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    given: tuple[str, ...]
    sequence_type: str = "bigint"
    not_null: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    def is_key(self, name: str) -> bool:
        return _is_named(name, self.key)

    @property
    def rest(self) -> tuple[Column, ...]:
        """The columns outside the key."""
        return tuple(kept for kept in self.columns if not self.is_key(kept.name))

    @property
    def keeps_more(self) -> bool:
        """Whether the table has columns that the query does not give."""
        return any(not _is_named(kept.name, self.given) for kept in self.columns)

    @property
    def before_type(self) -> str | None:
        """The type of `_before`; None where all columns are in the key, so that nothing can be told of them."""
        fields = ",".join(f"{name(kept.name)}:{kept.type}" for kept in self.rest)
        return f"struct<{fields}>" if fields else None


def state_changes(new: DataFrame, old: DataFrame | None, shape: Shape) -> DataFrame:
    """Change rows that turn `old` into `new`; rows that break the key come out under an action of `FLAWS`.

    Both are joined on the key in full, so its cost follows both tables.
    """
    after = new.select(*images("a", shape, new.columns), F.lit(True).alias(_HAS_AFTER), _of_the_run())
    copies = F.count(F.lit(1)).over(Window.partitionBy(*key_images(shape)))
    after = after.withColumns({_FLAW: _flaw(shape, copies), _SEQ: F.lit(0).cast(shape.sequence_type)})
    if old is None:
        return _emit(_without_before(after, shape), shape)
    before = old.select(*images("b", shape, old.columns), F.lit(True).alias(_HAS_BEFORE))
    joined = after.join(before, _on_key(shape), "full_outer").fillna(False, [_HAS_AFTER, _HAS_BEFORE])
    joined = joined.withColumn(_SEQ, F.coalesce(_SEQ, F.lit(0).cast(shape.sequence_type)))
    return _emit(_keep_what_is_not_given(joined, shape), shape)


def delta_changes(moved: DataFrame, weight: str, shape: Shape) -> DataFrame:
    """Change rows from rows that came (weight 1) and went (weight -1), no more than one of each per key.

    `moved` has the query's columns under their names, and `weight`. The table is not read.
    """
    own = images("a", shape, moved.columns)
    rest = [value for value, kept in zip(own, shape.columns, strict=True) if not shape.is_key(kept.name)]
    keys = [value for value, kept in zip(own, shape.columns, strict=True) if shape.is_key(kept.name)]
    image = F.struct(*rest) if rest else F.struct(F.lit(0).alias("nothing"))
    ends = moved.groupBy(*keys or [F.lit(0)]).agg(
        F.max_by(image, weight).alias("after"),
        F.min_by(image, weight).alias("before"),
        (F.max(weight) > 0).alias(_HAS_AFTER),
        (F.min(weight) < 0).alias(_HAS_BEFORE),
    )
    found = ends.select(
        *[_end("a", "after", i, kept, shape) for i, kept in enumerate(shape.columns)],
        *[_end("b", "before", i, kept, shape) for i, kept in enumerate(shape.columns)],
        F.col(_HAS_AFTER),
        F.col(_HAS_BEFORE),
        _of_the_run(),
        F.lit(0).cast(shape.sequence_type).alias(_SEQ),
    )
    return _emit(_keep_what_is_not_given(found, shape), shape, flaw=_flaw(shape, F.lit(1)))


def pair_changes(pairs: DataFrame, shape: Shape) -> DataFrame:
    """Change rows from rows that are told together with what they were, one for each key. No row moves for that.

    `pairs` has the query's columns under their names, `before` of each, HAS_AFTER and HAS_BEFORE; the key is in both.
    """
    found = pairs.select(
        *images("a", shape, shape.given),
        *images("b", shape, shape.given, before),
        F.col(HAS_AFTER).alias(_HAS_AFTER),
        F.col(HAS_BEFORE).alias(_HAS_BEFORE),
        _of_the_run(),
        F.lit(0).cast(shape.sequence_type).alias(_SEQ),
    )
    return _emit(_keep_what_is_not_given(found, shape), shape, flaw=_flaw(shape, F.lit(1)))


def _end(prefix: str, end: str, place: int, kept: Column, shape: Shape) -> Expression:
    return F.col(f"a{place}" if shape.is_key(kept.name) else f"{end}.a{place}").alias(f"{prefix}{place}")


def event_changes(
    net: DataFrame,
    base: DataFrame | None,
    unmerged: DataFrame | None,
    shape: Shape,
    on_match: str,
    ordered: bool,
) -> DataFrame:
    """Change rows for the net event of each key, the old row looked up in the base and in unmerged changes.

    `net` is what `events.net_events` gives. Of base and unmerged changes, rows under other keys may be left out.
    Where events are `ordered` by a sequence, the deletion of a row that is not there is kept as well, with a null
    `_before`: an older event of that key may still arrive, and must lose.
    """
    looked_up = _look_up(net, base, unmerged, shape)
    joined = _ON_MATCH[on_match](looked_up, shape).withColumn(_HAS_AFTER, ~F.col("deleted"))
    found = _keep_what_is_not_given(joined, shape)
    return _emit(found, shape, F.lit(ordered), F.when(F.col(_HAS_AFTER), against_contract(shape)))


def refresh_changes(net: DataFrame, old: DataFrame | None, shape: Shape, ordered: bool, mark: str | None) -> DataFrame:
    """Change rows that turn `old` into what all events together leave behind.

    Like `event_changes`, but rows that no event speaks of are deleted; those get `mark` as their `_seq`.
    """
    if old is None:
        return event_changes(net, None, None, shape, "replace", ordered)
    before = old.select(*images("b", shape, old.columns), F.lit(True).alias(_HAS_BEFORE))
    joined = net.join(before, _on_key(shape), "full_outer").fillna(False, [_HAS_BEFORE])
    last = F.lit(mark if ordered else "0").cast(shape.sequence_type)
    told = {
        _HAS_AFTER: F.coalesce(~F.col("deleted"), F.lit(False)),
        _SEQ: F.coalesce(_SEQ, last),
    }
    found = _keep_what_is_not_given(joined.withColumns(told), shape)
    return _emit(found, shape, flaw=F.when(F.col(_HAS_AFTER), against_contract(shape)))


def input_changes(net: DataFrame, shape: Shape) -> DataFrame:
    """Change rows as the origin told them, nothing looked up: `upsert` and `delete`, no `_before`."""
    action = F.when(F.col(_FLAW).isNotNull(), F.col(_FLAW)).when(F.col("deleted"), DELETE).otherwise(UPSERT)
    rows = net.withColumn(ACTION, action)
    after = [F.col(f"a{i}").alias(kept.name) for i, kept in enumerate(shape.columns)]
    tail = [F.col(ACTION), F.col(_TS).alias(TIMESTAMP), F.col(_SEQ).alias(SEQUENCE)]
    before = [F.lit(None).cast(shape.before_type).alias(BEFORE)] if shape.before_type else []
    return rows.select(*after, *tail, *before)


def _look_up(events: DataFrame, base: DataFrame | None, unmerged: DataFrame | None, shape: Shape) -> DataFrame:
    if base is None:
        return _without_before(events, shape)
    before = base.select(*images("b", shape, base.columns), F.lit(True).alias(_HAS_BEFORE))
    found = events.join(before, _on_key(shape), "left").fillna(False, [_HAS_BEFORE])
    if unmerged is None:
        return found
    newer = unmerged.select(*images("c", shape, unmerged.columns), F.col(ACTION).alias("unmerged"))
    on_key = all_of([F.col(f"a{i}") == F.col(f"c{i}") for i in _key_positions(shape)])
    both = found.join(newer, on_key, "left")
    is_newer = F.col("unmerged").isNotNull()
    newest = "CASE WHEN unmerged IS NOT NULL THEN {c} ELSE {b} END"
    replaced = {f"b{i}": F.expr(statement(newest, c=name(f"c{i}"), b=name(f"b{i}"))) for i in range(len(shape.columns))}
    alive = F.when(is_newer, F.col("unmerged") != DELETE).otherwise(F.col(_HAS_BEFORE))
    return both.withColumns({**replaced, _HAS_BEFORE: alive})


def _replace(joined: DataFrame, shape: Shape) -> DataFrame:
    return joined


def _update(joined: DataFrame, shape: Shape) -> DataFrame:
    blend = F.col(_HAS_BEFORE) & ~F.col("reset")
    return joined.withColumns(
        {
            f"a{i}": F.when(blend, F.coalesce(F.col(f"a{i}"), F.col(f"b{i}"))).otherwise(F.col(f"a{i}"))
            for i in range(len(shape.columns))
        }
    )


def _ignore(joined: DataFrame, shape: Shape) -> DataFrame:
    keep = F.col(_HAS_BEFORE) & ~F.col("reset")
    return joined.withColumns(
        {f"a{i}": F.when(keep, F.col(f"b{i}")).otherwise(F.col(f"a{i}")) for i in range(len(shape.columns))}
    )


_ON_MATCH = {"replace": _replace, "update": _update, "ignore": _ignore}


def _emit(
    joined: DataFrame, shape: Shape, keep_tombstones: Expression | None = None, flaw: Expression | None = None
) -> DataFrame:
    """Change rows of a join that carries after images a0…, before images b0…, and which of them there are.

    Its column `flaw` is what breaks the after images, unless the expression `flaw` is.
    """
    broken = F.col(_FLAW) if flaw is None else flaw
    tombstone = F.lit(False) if keep_tombstones is None else keep_tombstones
    has_after, has_before = F.col(_HAS_AFTER), F.col(_HAS_BEFORE)
    action = (
        F.when(broken.isNotNull() & has_after, broken)
        .when(has_after & ~has_before, INSERT)
        .when(~has_after & (has_before | tombstone), DELETE)
        .when(has_after & has_before & _differs(shape), UPDATE)
    )
    rows = joined.withColumn(ACTION, action).where(F.col(ACTION).isNotNull())
    newest = "CASE WHEN NOT {after} AND {before} THEN {b} ELSE {a} END AS {own}"
    flags = {"after": name(_HAS_AFTER), "before": name(_HAS_BEFORE)}
    merged = [
        F.expr(statement(newest, a=name(f"a{i}"), b=name(f"b{i}"), own=name(kept.name), **flags))
        for i, kept in enumerate(shape.columns)
    ]
    tail = [F.col(ACTION), F.col(_TS).alias(TIMESTAMP), F.col(_SEQ).alias(SEQUENCE)]
    return rows.select(*merged, *tail, *_before(shape))


def _of_the_run() -> Expression:
    """The time of rows that no event brought: null, which the commit puts the run's in the place of."""
    return F.lit(None).cast("timestamp").alias(_TS)


def _before(shape: Shape) -> list[Expression]:
    if shape.before_type is None:
        return []
    rest = [(name(f"b{i}"), kept.name) for i, kept in enumerate(shape.columns) if not shape.is_key(kept.name)]
    known = F.col(ACTION).isin(UPDATE, DELETE) & F.col(_HAS_BEFORE)
    return [F.when(known, F.expr(struct(rest))).cast(shape.before_type).alias(BEFORE)]


def struct(fields: Iterable[tuple[Sql, str]]) -> Sql:
    """A struct of values under names."""
    named = [statement("{value} AS {own}", value=value, own=name(own)) for value, own in fields]
    return statement("struct({named})", named=listed(named))


def _differs(shape: Shape) -> Expression:
    """Whether any column outside the key differs."""
    rest = [(i, kept.type) for i, kept in enumerate(shape.columns) if not shape.is_key(kept.name)]
    return F.expr(differ((name(f"a{i}"), name(f"b{i}"), kind) for i, kind in rest))


def differ(pairs: Iterable[tuple[Sql, Sql, str]]) -> Sql:
    """Whether the two values of any pair, which are of a type, differ, nulls being equal to each other."""
    told = [
        statement("NOT ({a} <=> {b})", a=_comparable(left, kind), b=_comparable(right, kind))
        for left, right, kind in pairs
    ]
    return listed(told, " OR ") if told else Sql("false")


def _comparable(value: Sql, kind: str) -> Sql:
    """Spark compares no maps; their entries in order it does."""
    return statement("array_sort(map_entries({value}))", value=value) if kind.startswith("map<") else value


def images(prefix: str, shape: Shape, found: Sequence[str], named: Callable[[str], str] = str) -> list[Expression]:
    """The table's columns under names of their own, null where the frame has none, in the table's types.

    `found` are the columns that the frame has, which it knows as `named`.
    """
    names = {own.lower(): name(named(own)) for own in found}
    return [
        typed(names.get(kept.name.lower(), NULL), kept.type, f"{prefix}{i}") for i, kept in enumerate(shape.columns)
    ]


def _without_before(after: DataFrame, shape: Shape) -> DataFrame:
    nulls = {f"b{i}": F.lit(None).cast(kept.type) for i, kept in enumerate(shape.columns)}
    return after.withColumns({**nulls, _HAS_BEFORE: F.lit(False)})


def _keep_what_is_not_given(joined: DataFrame, shape: Shape) -> DataFrame:
    given = tuple(Column(own, "") for own in shape.given)
    absent = [i for i, kept in enumerate(shape.columns) if find_column(given, kept.name) is None]
    return joined.withColumns({f"a{i}": F.col(f"b{i}") for i in absent}) if absent else joined


def _flaw(shape: Shape, copies: Expression) -> Expression:
    null_key = any_of([key.isNull() for key in key_images(shape)])
    return F.when(null_key, NULL_KEY).when(copies > 1, DUPLICATE_KEY).otherwise(against_contract(shape))


def against_contract(shape: Shape) -> Expression:
    """The flaw of after images that a contract forbids; null for sound ones.

    As in SQL, a check whose answer is null is not broken.
    """
    guarded = [F.col(f"a{i}") for i, kept in enumerate(shape.columns) if _is_named(kept.name, shape.not_null)]
    places = {kept.name: f"a{i}" for i, kept in enumerate(shape.columns)}
    broken = [~F.expr(over(check, places)) for check in shape.checks]
    flaws = [F.when(any_of([value.isNull() for value in guarded]), NULL_COLUMN)] if guarded else []
    return F.coalesce(*flaws, *[F.when(check, BROKEN_CHECK) for check in broken], F.lit(None).cast("string"))


def key_images(shape: Shape) -> list[Expression]:
    """The key among the after images; one constant for a key without columns."""
    return [F.col(f"a{i}") for i in _key_positions(shape)] or [F.lit(0)]


def _is_named(name: str, names: Sequence[str]) -> bool:
    return any(same_name(name, other) for other in names)


def _on_key(shape: Shape) -> Expression:
    return all_of([F.col(f"a{i}") == F.col(f"b{i}") for i in _key_positions(shape)])


def _key_positions(shape: Shape) -> list[int]:
    return [i for i, kept in enumerate(shape.columns) if shape.is_key(kept.name)]
