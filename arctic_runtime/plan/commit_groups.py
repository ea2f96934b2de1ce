"""What costs are counted in, and how work is cut into commits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

OPEN_BYTES = 4 * 1024 * 1024
"""To open a file costs a reader about as much as to read so many bytes of it; Spark counts the same."""

COMMIT_BYTES = 64 * 1024 * 1024
"""What a commit costs, however little it writes: where readers lose less than that, nothing is done unasked."""

GROUP_BYTES = 1024 * 1024 * 1024
GROUP_NODES = 50
"""At most so much is written anew in one commit; what was done before a process died stays done."""


def groups(items: Sequence[T], size_of: Callable[[T], int], kind_of: Callable[[T], Hashable]) -> Iterator[list[T]]:
    """What is written in one commit: neighbours of one kind, up to a size and a number."""
    group: list[T] = []
    size = 0
    for item in items:
        more = size_of(item)
        is_full = size + more > GROUP_BYTES or len(group) == GROUP_NODES
        if group and (is_full or kind_of(item) != kind_of(group[0])):
            yield group
            group, size = [], 0
        group.append(item)
        size += more
    if group:
        yield group
