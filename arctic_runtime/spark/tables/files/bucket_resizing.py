"""Splits and merges buckets of a base table: rewrites files under a partition spec with another number of buckets.

Buckets are the nodes of a binary tree, the hash tree: a split gives a node two children, a merge removes them. The
files of a node of depth d are stored under a partition spec with 2^d buckets.
"""

from __future__ import annotations

from arctic_runtime.catalog.observation.manifests import observe_specs
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.files.compaction import ResizeBuckets, RewriteFiles, Specs
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_name, quote_number
from arctic_runtime.spark.tables.commit import perform_statement
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.files.file_rewrite import rewrite_files


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
