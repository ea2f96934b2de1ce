"""Rewrites data files by Iceberg's procedure `rewrite_data_files`, without a change of rows; splits and merges buckets.

Buckets are the nodes of a binary tree, the hash tree: a split gives a node two children, a merge removes them. The
files of a node of depth d are stored under a partition spec with 2^d buckets.
"""

from __future__ import annotations

from collections.abc import Sequence

from arctic_runtime.catalog.observation.manifests import observe_specs
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.files.compaction import FileGroup, PartitionValue, ResizeBuckets, RewriteFiles, Specs
from arctic_runtime.model.files.layout import HashNode, to_hash_node
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.model.version import Version
from arctic_runtime.spark.engine.java.java_errors import SPARK, SPARK_ERRORS
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
    type_name,
)
from arctic_runtime.spark.tables.commit import build_base_summary, commit_summary, perform_statement, swap_in
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
            _stamp_merged_version(context, branch, base.merged)

    swap_in(context.attempt, step.table, step.expected, write_rewrite)


def _stamp_merged_version(context: Context, branch: tuple[str, ...], merged: Version) -> None:
    """Adds a commit without rows to a branch; its summary has the version up to which changes are merged into the base.

    The newest snapshot needs this entry, and the procedure `rewrite_data_files` can't add it to its own commit.
    """
    summary = build_base_summary(merged, context.state.changes)
    commit_summary("compaction.stamp", context.spark, branch, summary)


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


def resize_buckets(step: ResizeBuckets, context: Context) -> None:
    """Rewrites the files of a step's hash nodes under a partition spec with another number of buckets.

    The specs are prepared before the files are rewritten in one commit. If the process dies in between, new files of
    the table have another number of buckets than old files, which is correct for readers and writers. Raises
    CommitConflict if another writer was faster.
    """
    rewrite_files(_build_rewrite(step, context), context)


def _build_rewrite(step: ResizeBuckets, context: Context) -> RewriteFiles:
    """Builds the step that rewrites the files of hash nodes under a partition spec with the new number of buckets."""
    reader = context.reader
    spec = _prepare_spec(step, context, reader)
    return RewriteFiles(
        table=step.table,
        expected=step.expected,
        way="sort",
        nodes=step.nodes,
        whole=step.whole,
        files=step.files,
        bytes=step.bytes,
        waste=0,
        small_bytes=0,
        target_bytes=step.target_bytes,
        reason=step.reason,
        spec=spec,
        buckets=step.buckets,
    )


def _prepare_spec(step: ResizeBuckets, context: Context, reader: CatalogReader) -> int:
    """Returns the id of the partition spec with 2^`step.depth` buckets; creates it if it is missing.

    Afterwards the spec with 2^`step.default_depth` buckets is the table's default.
    """
    model = context.model
    for depth in (step.depth, step.default_depth):
        specs = observe_specs(reader, step.table)
        if _find_spec_of_depth(specs, depth, model) is None or depth == step.default_depth:
            _make_default(step, specs, depth, context, reader)
    spec = _find_spec_of_depth(observe_specs(reader, step.table), step.depth, model)
    if spec is None:
        raise _build_spec_conflict(step)
    return spec


def _make_default(step: ResizeBuckets, specs: Specs, depth: int, context: Context, reader: CatalogReader) -> None:
    model = context.model
    if specs.default == _find_spec_of_depth(specs, depth, model):
        return
    old = next(
        (transform for transform in specs.transforms[specs.default] if transform.is_bucket_of(model.config.hash_key)),
        None,
    )
    if old is None:
        raise _build_spec_conflict(step)
    replace = fill_statement(
        "ALTER TABLE {table} REPLACE PARTITION FIELD {old} WITH {new}",
        table=quote_name(*step.table.parts),
        old=_write_bucket(old.column, old.parameter or 1),
        new=_write_bucket(old.column, 1 << depth),
    )
    try:
        perform_statement("compaction.partition_spec", context.spark, replace)
    except SPARK_ERRORS as error:
        if observe_specs(reader, step.table) != specs:
            raise _build_spec_conflict(step) from error
        raise


def _find_spec_of_depth(specs: Specs, depth: int, model: Model) -> int | None:
    """Returns the id of the newest partition spec with 2^`depth` buckets; None if there is none.

    All fields of the spec except the bucket must be those of the default spec.
    """
    wanted = _list_other_transforms(specs, specs.default, model), 1 << depth
    matching = (
        spec
        for spec in specs.transforms
        if (_list_other_transforms(specs, spec, model), _get_bucket_count(specs, spec, model)) == wanted
    )
    return max(matching, default=None)


def _list_other_transforms(specs: Specs, spec: int, model: Model) -> list[Transform]:
    return [transform for transform in specs.transforms[spec] if not transform.is_bucket_of(model.config.hash_key)]


def _get_bucket_count(specs: Specs, spec: int, model: Model) -> int | None:
    return next(
        (transform.parameter for transform in specs.transforms[spec] if transform.is_bucket_of(model.config.hash_key)),
        None,
    )


def _write_bucket(column: str, buckets: int) -> Sql:
    return fill_statement("bucket({n}, {c})", n=quote_number(buckets), c=quote_name(column))


def _build_spec_conflict(step: ResizeBuckets) -> CommitConflict:
    return CommitConflict(
        f"{step.table}: its partition specs changed during a bucket {step.direction}.",
        fix="run the operation again",
    )
