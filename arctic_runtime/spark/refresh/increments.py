"""An incremental plan on Spark: its images registered, its trees run, and rows given back as the table has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
    before,
    scans,
    walk,
)
from arctic_runtime.ivm.render import render
from arctic_runtime.ivm.rewrite.bounds import joined
from arctic_runtime.ivm.strategies.maintain import AFFECTED
from arctic_runtime.ivm.strategies.spool import Spool
from arctic_runtime.model.columns import same_name
from arctic_runtime.model.types import has_map, read_type
from arctic_runtime.model.version import Window
from arctic_runtime.plan.increment import Increment, Upstreams
from arctic_runtime.spark.engine.statement import Sql, name
from arctic_runtime.spark.refresh import images
from arctic_runtime.spark.tables.bounds import is_scanned
from arctic_runtime.spark.tables.frames import Hold, type_of, typed
from arctic_runtime.spark.tables.sameness import net_rows
from arctic_runtime.thresholds import Thresholds


def register_images(
    spark: SparkSession,
    trees: Iterable[Node],
    upstreams: Upstreams,
    windows: Mapping[str, Window],
    thresholds: Thresholds,
    hold: Hold | None = None,
) -> None:
    """Makes the temporary views of sources that trees of a plan read.

    Where the partners of changed rows are in large tables, the changed rows get conditions that say where they are.
    Spark concludes where their partners can be, and reads these tables no further.
    """
    trees = tuple(trees)
    read = [scan for tree in trees for scan in scans(tree)]
    asked = frozenset[str]().union(*map(joined, trees)) if _reads_much(read, upstreams, thresholds) else frozenset()
    for source in dict.fromkeys(scan.source for scan in read):
        state = upstreams.states[str(source)]
        assert state is not None
        found = [scan for scan in read if scan.source == source]
        images.register(spark, found, state, windows[str(source)], thresholds, asked, hold)


def share(spark: SparkSession, values: Iterable[Spool], hold: Hold) -> None:
    """Makes the temporary views of values that trees read, computed at once, so that Spark knows how few they are."""
    for one in values:
        rows = hold(spark.sql(render(one.rows)).distinct())
        rows.count()
        rows.createOrReplaceTempView(name(one.name))


def _reads_much(read: Iterable[Scan], upstreams: Upstreams, thresholds: Thresholds) -> bool:
    states = [upstreams.states[str(scan.source)] for scan in read if scan.reads_rows]
    return any(state is not None and not is_scanned(state.rows, thresholds.pruning) for state in states)


def has_maps(query: DataFrame) -> bool:
    """Whether rows hold maps, which Spark can't compare, so that rows that came and went can't cancel out."""
    return any(has_map(read_type(type_of(field.dataType))) for field in query.schema.fields)


def moved(spark: SparkSession, changes: Node, increment: Increment, query: DataFrame) -> DataFrame:
    """The added and removed rows in the columns of the query, with their multiplicity, 1 or -1.

    Where the delta has several terms, or rows of which some come again without a partner, a row may come by one and go
    by another; those cancel out here.
    """
    found = spark.sql(render(changes))
    if any(isinstance(node, UnionAll | Explode) for node in walk(changes)):
        found = net_rows(found, MULTIPLICITY)
    return found.selectExpr(*_outputs(found, increment, query), name(MULTIPLICITY))


def paired(spark: SparkSession, pairs: Node, increment: Increment, query: DataFrame) -> DataFrame:
    """The columns of the query as they are and, named by `before`, as they were, and which of both there is."""
    found = spark.sql(render(pairs))
    was = _outputs(found, increment, query, before)
    return found.selectExpr(*_outputs(found, increment, query), *was, name(HAS_AFTER), name(HAS_BEFORE))


def affected(spark: SparkSession, keys: Node) -> DataFrame:
    """The keys of the rows that may differ."""
    return spark.sql(render(keys))


def recomputed(spark: SparkSession, new: Node, keys: DataFrame, increment: Increment, query: DataFrame) -> DataFrame:
    """The rows under affected keys as they are now, in the columns of the query."""
    keys.createOrReplaceTempView(name(AFFECTED))
    return as_query(spark.sql(render(new)), increment, query)


def as_query(rows: DataFrame, increment: Increment, query: DataFrame) -> DataFrame:
    """Rows of the tree with the names and types of the query's columns."""
    return rows.selectExpr(*_outputs(rows, increment, query))


def _outputs(rows: DataFrame, increment: Increment, query: DataFrame, named: Callable[[str], str] = str) -> list[Sql]:
    """The columns of the query, which have to be of the same number, names and types where they are rows of the tree.

    Raises NotMaintained where they are not.
    """
    fields = query.schema.fields
    if len(fields) != len(increment.outputs):
        raise NotMaintained(
            "NOT_SAME_TO_SPARK", f"the query has {len(fields)} columns, and {len(increment.outputs)} are known"
        )
    types = {field.name: type_of(field.dataType) for field in rows.schema.fields}
    pairs = list(zip(increment.outputs, fields, strict=True))
    for (known, made), field in pairs:
        kind, found = type_of(field.dataType), types[named(made)]
        if kind != found or (known and not same_name(known, field.name)):
            raise NotMaintained(
                "NOT_SAME_TO_SPARK",
                f"column {field.name} is a {kind} in the query, and {known or 'it'} is a {found} by what changed",
            )
    return [typed(name(named(made)), type_of(field.dataType), named(field.name)) for (_, made), field in pairs]
