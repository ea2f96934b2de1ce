"""Plans base rewrites: the merge of all unmerged change rows by a rewrite of the whole base table.

A rewrite is done in parts. Finished parts are kept if it is interrupted, and a later compaction continues it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from arctic_runtime.model.files.compaction import (
    BucketRange,
    FileGroup,
    Meeting,
    PartialProgress,
    RewriteBase,
    TableFiles,
    format_rewrite_branch,
)
from arctic_runtime.model.state import BaseState, ChangeTableState, TableState
from arctic_runtime.model.table import Model, Transform
from arctic_runtime.model.version import Version
from arctic_runtime.thresholds import BaseRewriteThresholds


def plan_base_rewrite(
    model: Model,
    state: TableState,
    files: TableFiles,
    is_full: bool,
    thresholds: BaseRewriteThresholds,
) -> RewriteBase | None:
    """Plans a rewrite of all files of the base that merges all unmerged change rows, or continues an interrupted one.

    Returns None if an ordinary merge is cheaper, or if the base can't be rewritten in this way: all its files must have
    the same partition spec, whose last transform is a bucket of the hash key. `is_full` is True for a full compaction.
    """
    changes, base = state.changes, state.base
    if changes is None or base is None or base.merged is None or files.snapshot != base.snapshot:
        return None
    transforms = _find_common_transforms(model, files.file_groups)
    if transforms is None:
        return None
    end, done = _find_end_version(changes, base, files.progress)
    commits = [commit for commit in changes.list_commits_after(base.merged) if commit.version.sequence <= end.sequence]
    rows = sum(commit.rows for commit in commits)
    sizes = _sum_bucket_bytes(files.file_groups, transforms[-1])
    if not rows or max(sizes) > thresholds.task_bytes:
        return None
    is_scattered = is_full and len(transforms) == 1
    if not done and not _is_worth_it(rows, base, len(sizes), is_scattered, thresholds):
        return None
    size = sum(commit.bytes for commit in commits)
    meeting: Meeting = "hash" if size // len(sizes) <= thresholds.hashed_change_bytes else "sort"
    return RewriteBase(
        table=model.base,
        expected=base.snapshot,
        start=base.merged,
        end=end,
        commits=len(commits) if changes.keeps_version(base.merged) and not changes.keeps_all else max(len(commits), 2),
        rows=rows,
        bytes=sum(sizes),
        waste=size,
        spec=files.file_groups[0].spec,
        transforms=transforms,
        ranges=tuple(_split_bucket_ranges(sizes, thresholds)),
        done=tuple(sorted(done)),
        meeting=meeting,
        order=_choose_sort_order(model, files),
        reason=f"{rows:,} changes for {base.rows:,} rows are in nearly every file",
    )


def _is_worth_it(
    rows: int, base: BaseState, buckets: int, is_scattered: bool, thresholds: BaseRewriteThresholds
) -> bool:
    """Whether `rows` change rows are enough for a rewrite: a share of the base's rows, or a number for each bucket.

    The number for each bucket counts only if `is_scattered`: if the base is divided by the hash key alone, change rows
    are spread over all buckets. With further partitions, all of them may be in the newest partition.
    """
    is_everywhere = is_scattered and rows >= thresholds.changed_rows_per_bucket * buckets
    return is_everywhere or rows >= thresholds.changed_share * base.rows


def _find_common_transforms(model: Model, nodes: Sequence[FileGroup]) -> tuple[Transform, ...] | None:
    layouts = {(node.spec, tuple(value.transform for value in node.partition)) for node in nodes}
    if len(layouts) != 1 or any(not value.type for node in nodes for value in node.partition):
        return None
    ((_, transforms),) = layouts
    return transforms if transforms and transforms[-1].is_bucket_of(model.config.hash_key) else None


def _find_end_version(
    changes: ChangeTableState, base: BaseState, progress: Sequence[PartialProgress]
) -> tuple[Version, frozenset[BucketRange]]:
    """Returns the version up to which change rows are merged, and the bucket ranges that are merged up to it already.

    If there are interrupted rewrites in `progress`, these are version and ranges of the one with the newest version;
    otherwise the change table's newest version and no ranges.
    """
    assert changes.newest is not None
    known = {commit.version.snapshot: commit.version for commit in changes.commits}
    open_ones = [
        one for one in progress if one.end in known and one.branch == format_rewrite_branch(base.snapshot, one.end)
    ]
    open_ones = [one for one in open_ones if one.done]
    if not open_ones:
        return changes.newest, frozenset()
    latest = max(open_ones, key=lambda one: known[one.end].sequence)
    return known[latest.end], latest.done


def _sum_bucket_bytes(nodes: Iterable[FileGroup], bucket: Transform) -> list[int]:
    sizes = [0] * (bucket.parameter or 1)
    for node in nodes:
        sizes[int(node.partition[-1].value or 0)] += node.bytes
    return sizes


def _split_bucket_ranges(sizes: Sequence[int], thresholds: BaseRewriteThresholds) -> Iterator[BucketRange]:
    """Divides all buckets, in their order, into ranges of limited size; `sizes` are the bytes of each bucket.

    Empty buckets are included, because the merge may add rows to them.
    """
    allowed = max(thresholds.part_bytes, sum(sizes) // thresholds.parts)
    first, size = 0, 0
    for bucket, more in enumerate(sizes):
        if bucket > first and size + more > allowed:
            yield BucketRange(first, bucket - 1)
            first, size = bucket, 0
        size += more
    yield BucketRange(first, len(sizes) - 1)


def _choose_sort_order(model: Model, files: TableFiles) -> tuple[str, ...]:
    """Returns the columns by which a rewrite sorts rows: the sort key, then the primary key.

    Without a sort key, rows are sorted only if a bucket needs several files, so that each file has a range of the
    primary key; otherwise the result is empty.
    """
    is_cut = any(node.bytes > files.target_bytes for node in files.file_groups)
    order = dict.fromkeys((*model.config.sort_key, *model.config.primary_key))
    return tuple(order) if model.config.sort_key or is_cut else ()
