"""Runs an incremental plan on Spark: creates the views that its operator trees read, and runs the trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    HAS_AFTER,
    HAS_BEFORE,
    MULTIPLICITY,
    Explode,
    Node,
    Scan,
    UnionAll,
    list_scans,
    name_before,
    walk_tree,
)
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.rewrite.predicate_pushdown import list_join_columns
from arctic_runtime.ivm.strategies.maintain import AFFECTED, Spool
from arctic_runtime.model.columns import is_same_name
from arctic_runtime.plan.refresh.increment import Increment, Upstreams
from arctic_runtime.spark.changes.equality import sum_multiplicities
from arctic_runtime.spark.engine.statement import Sql, quote_name
from arctic_runtime.spark.refresh.from_query.images import SourceWindows
from arctic_runtime.spark.tables.rows.bounds import is_scanned
from arctic_runtime.spark.tables.rows.frames import Hold, cast_as, type_of
from arctic_runtime.sql.types import has_map, read_type
from arctic_runtime.thresholds import Thresholds

Outputs = Sequence[tuple[str, str]]
"""Pairs of a name of the query's columns and the name of the tree's column, as in `Analysed.outputs`."""


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
    for source in dict.fromkeys(scan.source for scan in read):
        sources.get_window(source).register_views([scan for scan in read if scan.source == source], asked, hold)


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
    return delta_rows.selectExpr(*_list_outputs(delta_rows, increment.outputs, query), quote_name(MULTIPLICITY))


def compute_pairs(spark: SparkSession, pairs: Node, increment: Increment, query: DataFrame) -> DataFrame:
    """Computes pairs of a new and an old result row, after and before the changes.

    The result has the columns of `query` for the new row, the same columns named by `name_before` for the old row, and
    the flags HAS_AFTER and HAS_BEFORE, whether each of the two rows exists.
    """
    pair_rows = spark.sql(render_sql(pairs))
    was = _list_outputs(pair_rows, increment.outputs, query, name_before)
    return pair_rows.selectExpr(
        *_list_outputs(pair_rows, increment.outputs, query), *was, quote_name(HAS_AFTER), quote_name(HAS_BEFORE)
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
    return rows.selectExpr(*_list_outputs(rows, outputs, query))


def _list_outputs(rows: DataFrame, outputs: Outputs, query: DataFrame, named: Callable[[str], str] = str) -> list[Sql]:
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
