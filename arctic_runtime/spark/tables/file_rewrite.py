"""Data files are rewritten by Iceberg's procedure, without a change of rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from arctic_runtime.effects import effect
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.compaction import (
    FileGroup,
    PartitionValue,
    RewriteFiles,
)
from arctic_runtime.model.hash_tree import HashNode, bucket_node
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.model.version import Version
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.statement import Sql, listed, name, number, statement, text, type_name
from arctic_runtime.spark.tables.commit import merged_to, said, swap_in
from arctic_runtime.spark.tables.context import Context

ANY_SIZE = 2**62
ANY_COUNT = 2**31 - 1


def rewrite_files(step: RewriteFiles, context: Context) -> None:
    """Rewrites data files, in one commit on a branch that becomes main; raises CommitConflict where main moved."""
    base = context.state.base if step.table == context.model.base else None
    if base is not None and base.snapshot != step.expected:
        raise CommitConflict(
            f"{step.table} changed while its files were observed.\n  what to do: run the operation again"
        )
    call = _call(step, context)

    def write(branch: tuple[str, ...]) -> None:
        filled = statement("{call}, branch => {branch})", call=call, branch=text(branch[-1].removeprefix("branch_")))
        what = f"rewrite files of {step.table}"
        (done,) = effect("compaction.rewrite", lambda: context.spark.sql(filled).collect(), what, SPARK)
        if base is not None and done["rewritten_data_files_count"] and base.merged is not None:
            _stamp(context.spark, branch, base.merged)

    swap_in(context.attempt, step.table, step.expected, write)


def _stamp(spark: SparkSession, branch: tuple[str, ...], merged: Version) -> None:
    """Says again what the base is merged to: its newest snapshot has to, and the rewriting one can't be given it."""
    writer = spark.table(name(*branch)).limit(0).writeTo(name(*branch)).options(**said(merged_to(merged)))
    effect("compaction.stamp", writer.append, f"say what {'.'.join(branch)} is merged to", SPARK)


def _call(step: RewriteFiles, context: Context) -> Sql:
    """The call that rewrites, open at its end for the branch.

    Iceberg finds the files by the condition and takes them whole, so a condition that is too wide costs only time.
    """
    model = context.model
    order = sort_order(model) if step.table == model.base and (step.way == "sort" or model.config.sort_key) else Sql("")
    sorting = statement(", strategy => 'sort', sort_order => {order}", order=text(order)) if order else Sql("")
    condition = Sql("") if step.whole else _where(model, step)
    where = statement(", where => {where}", where=text(condition)) if condition else condition
    return statement(
        "CALL {catalog}.system.rewrite_data_files(table => {table}{sorting}{where}, options => map({options})",
        catalog=name(step.table.catalog),
        table=text(name(*step.table.parts)),
        sorting=sorting,
        where=where,
        options=listed(part for pair in _options(step).items() for part in map(text, pair)),
    )


def _options(step: RewriteFiles) -> dict[str, str]:
    under = {"target-file-size-bytes": str(step.target_bytes)}
    if step.spec is not None:
        under["output-spec-id"] = str(step.spec)
    if step.way == "sort":
        return {**under, "rewrite-all": "true"}
    return {
        **under,
        "min-file-size-bytes": str(step.small_bytes),
        "max-file-size-bytes": str(ANY_SIZE),
        "min-input-files": "2",
        "delete-ratio-threshold": "1.0",
    }


def sort_order(model: Model) -> Sql:
    """The order of rows in files of a base that are sorted anew, as Iceberg's procedure takes it."""
    columns = dict.fromkeys((*model.config.sort_key, *model.config.primary_key))
    return listed(statement("{c} ASC NULLS FIRST", c=name(column)) for column in columns)


def _where(model: Model, step: RewriteFiles) -> Sql:
    return listed([_is_in(model, node, step.buckets) for node in step.nodes], " OR ")


def _is_in(model: Model, node: FileGroup, buckets: Sequence[int]) -> Sql:
    conditions = [_is(model.table.catalog, value) for value in node.partition if value.type]
    conditions += _beside(model, node, buckets)
    return statement("({all})", all=listed(conditions, " AND ")) if conditions else Sql("true")


def _is(catalog: str, of: PartitionValue) -> Sql:
    source = name(of.transform.column)
    if of.value is None:
        return statement("{c} IS NULL", c=source)
    value = statement("CAST({value} AS {type})", value=text(of.value), type=type_name(of.type))
    if of.transform.unit == "identity":
        return statement("{c} = {value}", c=source, value=value)
    width = Sql("") if of.transform.parameter is None else statement("{n}, ", n=number(of.transform.parameter))
    return statement(
        "{function}({width}{c}) = {value}",
        function=name(catalog, "system", of.transform.unit),
        width=width,
        c=source,
        value=value,
    )


def _beside(model: Model, node: FileGroup, buckets: Sequence[int]) -> list[Sql]:
    """Conditions on a node's rows under other numbers of buckets, so that files in those buckets are found too."""
    for value in node.partition:
        is_node = value.transform.is_bucket_of(model.config.hash_key)
        own = bucket_node(value.transform.parameter or 0, int(value.value or 0)) if is_node else None
        if own is not None:
            others = (places for number in buckets if (places := _at_other_depth(own, number)))
            return [_among(model, value.transform, places) for places in others]
    return []


def _at_other_depth(own: HashNode, buckets: int) -> tuple[HashNode, ...]:
    depth = buckets.bit_length() - 1
    if depth < own.depth:
        return (own.above(depth),)
    return own.below(depth) if 0 < own.depth < depth else ()


def _among(model: Model, of: Transform, places: Sequence[HashNode]) -> Sql:
    return statement(
        "{bucket}({n}, {c}) IN ({values})",
        bucket=name(model.table.catalog, "system", "bucket"),
        n=number(places[0].buckets),
        c=name(of.column),
        values=listed(number(place.index) for place in places),
    )
