"""Rewrites data files by Iceberg's procedure `rewrite_data_files`, without a change of rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.files.compaction import FileGroup, PartitionValue, RewriteFiles
from arctic_runtime.model.files.layout import HashNode, to_hash_node
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.model.version import Version
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
    type_name,
)
from arctic_runtime.spark.tables.commit import build_merged_summary, commit_summary, swap_in
from arctic_runtime.spark.tables.context import Context

ANY_SIZE = 2**62
ANY_COUNT = 2**31 - 1


def rewrite_files(step: RewriteFiles, context: Context) -> None:
    """Rewrites the data files of a step on a branch, then publishes the branch.

    Raises CommitConflict if the table has changed.
    """
    base = context.state.base if step.table == context.model.base else None
    if base is not None and base.snapshot != step.expected:
        raise CommitConflict(f"{step.table} changed while its files were observed.", fix="run the operation again")
    call = _write_rewrite_call(step, context)

    def write_rewrite(branch: tuple[str, ...]) -> None:
        filled = fill_statement(
            "{call}, branch => {branch})", call=call, branch=quote_text(branch[-1].removeprefix("branch_"))
        )
        what = f"rewrite files of {step.table}"
        (done,) = perform_effect("compaction.rewrite", lambda: context.spark.sql(filled).collect(), what, SPARK)
        if base is not None and done["rewritten_data_files_count"] and base.merged is not None:
            _stamp_merged_version(context.spark, branch, base.merged)

    swap_in(context.attempt, step.table, step.expected, write_rewrite)


def _stamp_merged_version(spark: SparkSession, branch: tuple[str, ...], merged: Version) -> None:
    """Adds a commit without rows to a branch; its summary has the version up to which changes are merged into the base.

    The newest snapshot needs this entry, and the procedure `rewrite_data_files` can't add it to its own commit.
    """
    commit_summary("compaction.stamp", spark, branch, build_merged_summary(merged))


def _write_rewrite_call(step: RewriteFiles, context: Context) -> Sql:
    """Builds the call of the procedure without its closing parenthesis, so that the branch can be added.

    The step's files are selected by a condition on rows. The condition may cover other files too, whose rewrite only
    costs time.
    """
    model = context.model
    order = sort_order(model) if step.table == model.base and (step.way == "sort" or model.config.sort_key) else Sql("")
    sorting = (
        fill_statement(", strategy => 'sort', sort_order => {order}", order=quote_text(order)) if order else Sql("")
    )
    condition = Sql("") if step.whole else _write_condition(model, step)
    where = fill_statement(", where => {where}", where=quote_text(condition)) if condition else condition
    return fill_statement(
        "CALL {catalog}.system.rewrite_data_files(table => {table}{sorting}{where}, options => map({options})",
        catalog=quote_name(step.table.catalog),
        table=quote_text(quote_name(*step.table.parts)),
        sorting=sorting,
        where=where,
        options=join_parts(part for pair in _build_options(step).items() for part in map(quote_text, pair)),
    )


def _build_options(step: RewriteFiles) -> dict[str, str]:
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
    """Builds the sort order of the base table's files, by sort key and primary key, for Iceberg's procedure."""
    columns = dict.fromkeys((*model.config.sort_key, *model.config.primary_key))
    return join_parts(fill_statement("{c} ASC NULLS FIRST", c=quote_name(column)) for column in columns)


def _write_condition(model: Model, step: RewriteFiles) -> Sql:
    return join_parts([_is_in(model, node, step.buckets) for node in step.nodes], " OR ")


def _is_in(model: Model, node: FileGroup, buckets: Sequence[int]) -> Sql:
    conditions = [_write_partition_condition(model.table.catalog, value) for value in node.partition if value.type]
    conditions += _list_other_depth_conditions(model, node, buckets)
    return fill_statement("({all})", all=join_parts(conditions, " AND ")) if conditions else Sql("true")


def _write_partition_condition(catalog: str, partition_value: PartitionValue) -> Sql:
    source = quote_name(partition_value.transform.column)
    if partition_value.value is None:
        return fill_statement("{c} IS NULL", c=source)
    value = fill_statement(
        "CAST({value} AS {type})", value=quote_text(partition_value.value), type=type_name(partition_value.type)
    )
    if partition_value.transform.unit == "identity":
        return fill_statement("{c} = {value}", c=source, value=value)
    width = (
        Sql("")
        if partition_value.transform.parameter is None
        else fill_statement("{n}, ", n=quote_number(partition_value.transform.parameter))
    )
    return fill_statement(
        "{function}({width}{c}) = {value}",
        function=quote_name(catalog, "system", partition_value.transform.unit),
        width=width,
        c=source,
        value=value,
    )


def _list_other_depth_conditions(model: Model, node: FileGroup, buckets: Sequence[int]) -> list[Sql]:
    """Builds conditions that a row is in the hash node (bucket) `node`, one for each other number of buckets.

    `buckets` has the numbers of buckets with which files of the table were written. By these conditions Iceberg can
    also skip files that were written with such a number.
    """
    for value in node.partition:
        is_node = value.transform.is_bucket_of(model.config.hash_key)
        own = to_hash_node(value.transform.parameter or 0, int(value.value or 0)) if is_node else None
        if own is not None:
            others = (places for number in buckets if (places := _list_nodes_at_depth(own, number)))
            return [_write_bucket_condition(model, value.transform, places) for places in others]
    return []


def _list_nodes_at_depth(own: HashNode, buckets: int) -> tuple[HashNode, ...]:
    depth = buckets.bit_length() - 1
    if depth < own.depth:
        return (own.get_ancestor(depth),)
    return own.list_descendants(depth) if 0 < own.depth < depth else ()


def _write_bucket_condition(model: Model, transform: Transform, places: Sequence[HashNode]) -> Sql:
    return fill_statement(
        "{bucket}({n}, {c}) IN ({values})",
        bucket=quote_name(model.table.catalog, "system", "bucket"),
        n=quote_number(places[0].buckets),
        c=quote_name(transform.column),
        values=join_parts(quote_number(place.index) for place in places),
    )
