"""Divides the file groups of a compaction into commits of limited size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from arctic_runtime.thresholds import CompactionThresholds

T = TypeVar("T")


def split_into_commits(
    items: Sequence[T],
    size_of: Callable[[T], int],
    kind_of: Callable[[T], Hashable],
    thresholds: CompactionThresholds,
) -> Iterator[list[T]]:
    """Divides items into groups, one for each commit, of consecutive items of the same kind.

    `thresholds` limit the bytes and the number of items of a group. `size_of` returns the bytes of an item, and
    `kind_of` its kind.
    """
    group: list[T] = []
    size = 0
    for item in items:
        more = size_of(item)
        is_full = size + more > thresholds.group_bytes or len(group) == thresholds.group_nodes
        if group and (is_full or kind_of(item) != kind_of(group[0])):
            yield group
            group, size = [], 0
        group.append(item)
        size += more
    if group:
        yield group
