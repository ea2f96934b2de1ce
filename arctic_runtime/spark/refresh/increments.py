"""Runs an incremental plan on Spark: creates the views that its trees read, also of semi-join reducers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import or_

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    HAS_AFTER,
    HAS_BEFORE,
    MULTIPLICITY,
    Explode,
    Image,
    Node,
    Scan,
    UnionAll,
    list_columns,
    list_scans,
    name_before,
    walk_tree,
)
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.rewrite.predicate_pushdown import list_join_columns
from arctic_runtime.ivm.rewrite.semi_join_reducers import RowLookup, SemiJoinReducer
from arctic_runtime.ivm.strategies.maintain import AFFECTED, Spool
from arctic_runtime.model.columns import is_same_name
from arctic_runtime.model.files.bounds import build_bounds_condition
from arctic_runtime.plan.refresh.increment import Increment, Upstreams
from arctic_runtime.spark.changes.equality import sum_multiplicities
from arctic_runtime.spark.engine.statement import Sql, quote_name, write_expression
from arctic_runtime.spark.refresh.images import SourceWindows
from arctic_runtime.spark.tables.rows.bounds import collect_bounds, is_scanned
from arctic_runtime.spark.tables.rows.frames import Hold, as_key, cast_as, match_key, to_column, type_of
from arctic_runtime.sql.types import has_map, read_type
from arctic_runtime.thresholds import PruningThresholds, Thresholds

Outputs = Sequence[tuple[str, str]]
"""Pairs of a name of the query's columns and the name of the tree's column, as in `Analysed.outputs`."""

_FOUND = "__arctic_found_"


def register_images(sources: SourceWindows, trees: Iterable[Node], hold: Hold | None = None) -> None:
    """Creates the temporary views of sources and their changes that the operator trees `trees` read.

    If the trees read large tables, changed rows get a filter with the lowest and highest values of their join columns.
    From this, Spark derives which rows of the large tables can match, and skips files without such rows. `hold` caches
    changed rows that are read several times; None caches none.
    """
    trees = tuple(trees)
    read = [scan for tree in trees for scan in list_scans(tree)]
    is_large = _is_large_read(read, sources.upstreams, sources.thresholds)
    asked = frozenset[str]().union(*map(list_join_columns, trees)) if is_large else frozenset()
    sources.register_views(read, asked, hold)


def register_spools(spark: SparkSession, values: Iterable[Spool], hold: Hold) -> None:
    """Creates the temporary views of spools, which are parts of a plan that are computed once and read several times.

    The distinct rows of a spool are computed at once, so that Spark knows their number.
    """
    for one in values:
        rows = hold(spark.sql(render_sql(one.rows)).distinct())
        rows.count()
        rows.createOrReplaceTempView(quote_name(one.name))


def _is_large_read(read: Iterable[Scan], upstreams: Upstreams, thresholds: Thresholds) -> bool:
    states = [upstreams.states[str(scan.source)] for scan in read if scan.reads_rows]
    return any(state is not None and not is_scanned(state.rows, thresholds.pruning) for state in states)


def has_maps(query: DataFrame) -> bool:
    """Whether the query has columns with maps, which Spark can't compare.

    Without a comparison, added and removed rows that are equal can't cancel out.
    """
    return any(has_map(read_type(type_of(field.dataType))) for field in query.schema.fields)


def compute_deltas(spark: SparkSession, changes: Node, increment: Increment, query: DataFrame) -> DataFrame:
    """Computes the rows added to and removed from the query's result, with their multiplicity, 1 or -1.

    The result has the columns of `query` and the multiplicity. If one term of the plan adds a row that another term
    removes, or if `Explode` returns equal rows before and after a change, these rows cancel out.
    """
    delta_rows = spark.sql(render_sql(changes))
    if any(isinstance(node, UnionAll | Explode) for node in walk_tree(changes)):
        delta_rows = sum_multiplicities(delta_rows, MULTIPLICITY)
    return delta_rows.selectExpr(*list_outputs(delta_rows, increment.outputs, query), quote_name(MULTIPLICITY))


def compute_pairs(spark: SparkSession, pairs: Node, increment: Increment, query: DataFrame) -> DataFrame:
    """Computes pairs of a new and an old result row, after and before the changes.

    The result has the columns of `query` for the new row, the same columns named by `name_before` for the old row, and
    the flags HAS_AFTER and HAS_BEFORE, whether each of the two rows exists.
    """
    pair_rows = spark.sql(render_sql(pairs))
    was = list_outputs(pair_rows, increment.outputs, query, name_before)
    return pair_rows.selectExpr(
        *list_outputs(pair_rows, increment.outputs, query), *was, quote_name(HAS_AFTER), quote_name(HAS_BEFORE)
    )


def compute_affected_keys(spark: SparkSession, keys: Node) -> DataFrame:
    """Computes the keys of all result rows that the changes may affect, by the operator tree `keys`."""
    return spark.sql(render_sql(keys))


def recompute_affected_rows(
    spark: SparkSession, new: Node, keys: DataFrame, increment: Increment, query: DataFrame
) -> DataFrame:
    """Computes the current result rows of the affected `keys`, in the columns of `query`, by the operator tree `new`.

    It creates the temporary view of the keys that the tree reads.
    """
    keys.createOrReplaceTempView(quote_name(AFFECTED))
    return as_query(spark.sql(render_sql(new)), increment.outputs, query)


def as_query(rows: DataFrame, outputs: Outputs, query: DataFrame) -> DataFrame:
    """Casts and renames the columns of `rows`, the result of an operator tree, to those of `query`.

    `outputs` are those of the analysed query. Raises NotMaintained if number, names or types of the columns differ.
    """
    return rows.selectExpr(*list_outputs(rows, outputs, query))


def list_outputs(rows: DataFrame, outputs: Outputs, query: DataFrame, named: Callable[[str], str] = str) -> list[Sql]:
    """Builds the expressions that select the columns of `query` from `rows`, the result of an operator tree.

    `named` converts the names of both, such as to those of old rows. Raises NotMaintained if number, names or types of
    the columns differ.
    """
    fields = query.schema.fields
    if len(fields) != len(outputs):
        raise NotMaintained("NOT_SAME_TO_SPARK", f"the query has {len(fields)} columns, and {len(outputs)} are known")
    types = {field.name: type_of(field.dataType) for field in rows.schema.fields}
    pairs = list(zip(outputs, fields, strict=True))
    for (known, made), field in pairs:
        kind, tree_type = type_of(field.dataType), types[named(made)]
        if kind != tree_type or (known and not is_same_name(known, field.name)):
            raise NotMaintained(
                "NOT_SAME_TO_SPARK",
                f"column {field.name} is a {kind} in the query, and {known or 'it'} is a {tree_type} by what changed",
            )
    return [cast_as(quote_name(named(made)), type_of(field.dataType), named(field.name)) for (_, made), field in pairs]


@dataclass(frozen=True)
class _LookupValues:
    """Distinct values by which rows of a source are looked up; a row matches if its columns `fields` equal one of them.

    `values` has one row per value, with columns named as `match_key` expects; `count` is the number of its rows. Nulls
    equal each other if `null_safe`.
    """

    fields: tuple[str, ...]
    null_safe: bool
    values: DataFrame
    count: int
    thresholds: PruningThresholds

    @cached_property
    def build_nearby_condition(self) -> Expression:
        """Condition on the source that all matching rows meet, so that Iceberg can skip files without such rows."""
        known_bounds = collect_bounds(self.values.toDF(*self.fields), self.count, self.thresholds)
        return F.lit(False) if known_bounds is None else F.expr(write_expression(build_bounds_condition(known_bounds)))


def register_reducers(sources: SourceWindows, reducers: Iterable[SemiJoinReducer], hold: Hold) -> None:
    """Creates the temporary views of semi-join reducers; the views that their lookups read must exist already.

    If there are more lookup values than the threshold `reducer_values`, the views have all rows of the source that meet
    the reducer's condition.
    """
    spark, thresholds = sources.spark, sources.thresholds
    for part in reducers:
        lookup_values = tuple(_collect_lookups(spark, part.lookups, thresholds.pruning, hold))
        read = sources.get_window(part.source)
        where = write_expression(part.condition or exp.true())
        if sum(one.count for one in lookup_values) <= thresholds.incremental.reducer_values:
            fields = tuple(dict.fromkeys((*(read.source.key or ()), *list_columns(part.full_scan))))
            select = partial(_hold_matching_rows, fields=fields, where=where, lookup_values=lookup_values, hold=hold)
            rows = read.read_rows_at(read.window.end, select)
        else:
            rows = read.read_rows_at(read.window.end).where(where)
        _register_images(spark, part, rows.select(*map(to_column, list_columns(part.full_scan))))


def _collect_lookups(
    spark: SparkSession, lookups: Iterable[RowLookup], thresholds: PruningThresholds, hold: Hold
) -> Iterator[_LookupValues]:
    """Computes the values for which `lookups` search in a source; lookups by the same columns are combined to one."""
    together: dict[tuple[str, ...], list[RowLookup]] = {}
    for one in lookups:
        together.setdefault(one.fields, []).append(one)
    for fields, same_columns in together.items():
        values = reduce(DataFrame.unionAll, [spark.sql(render_sql(one.values)) for one in same_columns]).distinct()
        values = hold(values.select(*as_key(values.columns)))
        yield _LookupValues(fields, any(one.null_safe for one in same_columns), values, values.count(), thresholds)


def _hold_matching_rows(
    rows: DataFrame, fields: Iterable[str], where: Sql, lookup_values: Sequence[_LookupValues], hold: Hold
) -> DataFrame:
    """Selects `fields` of the rows that meet `where` and match a value in `lookup_values`, computes and caches them.

    They are computed at once, so that Spark knows their number, and filters the rows of a base table before it merges
    them with unmerged changes.
    """
    matching = hold(_select_matching_rows(rows.select(*map(to_column, fields)).where(where), lookup_values))
    matching.count()
    return matching


def _select_matching_rows(rows: DataFrame, lookup_values: Sequence[_LookupValues]) -> DataFrame:
    """Selects the rows that match a value in any of `lookup_values`.

    The values are broadcast, so that the rows are not shuffled.
    """
    flags = {f"{_FOUND}{number}": one for number, one in enumerate(lookup_values)}
    rows = rows.where(reduce(or_, [one.build_nearby_condition for one in flags.values()]))
    for flag, one in flags.items():
        values = one.values.withColumn(flag, F.lit(True)).hint("broadcast")
        rows = rows.join(values, match_key(rows, one.fields, one.null_safe), "left").drop(*one.values.columns)
    return rows.where(reduce(or_, [F.col(flag).isNotNull() for flag in flags])).drop(*flags)


def _register_images(spark: SparkSession, part: SemiJoinReducer, rows: DataFrame) -> None:
    """Creates the views of a reducer: the source's rows after the changes (`new`), before them (`old`), or `either`.

    They are computed from `rows`, the matching rows after the changes, and from the changes of the source.
    """
    shown: dict[Image, DataFrame] = {"new": rows}
    if part.changes is not None:
        assert part.full_scan.key is not None
        moved = spark.sql(render_sql(part.changes))
        gone = moved.where(F.col(MULTIPLICITY) < 0).drop(MULTIPLICITY)
        stayed = rows.join(moved.select(*as_key(part.full_scan.key)), match_key(rows, part.full_scan.key), "left_anti")
        shown |= {"either": rows.unionAll(gone), "old": stayed.unionAll(gone)}
    for image, view in part.images.items():
        shown[image].createOrReplaceTempView(quote_name(view))
