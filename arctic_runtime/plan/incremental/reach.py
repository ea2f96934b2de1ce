"""Operators through which any change below is one of all rows."""

from __future__ import annotations

from collections.abc import Iterator

from arctic_runtime.model.names import TableName
from arctic_runtime.plan.incremental.rules.partners import has_link
from arctic_runtime.plan.incremental.rules.terms import changes
from arctic_runtime.plan.incremental.tree import Aggregate, Join, Node, SemiJoin, Window, walk
from arctic_runtime.plan.incremental.unique import is_unique

_NO_LINK = "what changed is joined, or asked for by IN or EXISTS, without an equality of columns"


def changing(node: Node, changed: frozenset[TableName]) -> Iterator[Node]:
    """The operators whose rows may differ, from the top down."""
    return (found for found in walk(node) if changes(found, changed))


def why_all(node: Node, changed: frozenset[TableName]) -> str | None:
    """Why any change below this operator is one of all rows; None if it is not."""
    match node:
        case Aggregate(keys=()):
            return "an aggregate without groups has changed"
        case Window(partition=()):
            return "a window over all rows has changed, one without PARTITION BY"
        case SemiJoin(left=left, right=right, on=on) | Join(kind="left", left=left, right=right, on=on):
            is_open = changes(right, changed) and not has_link(left, right, on)
            return _NO_LINK if is_open else None
        case Join(kind="full", left=left, right=right, on=on):
            return None if has_link(left, right, on) else _NO_LINK
        case Join(left=left, right=right, on=on):
            if has_link(left, right, on):
                return None
            is_open = any(changes(side, changed) and is_unique(side, ()) for side in (left, right))
            return "a single row that all others are joined to has changed" if is_open else None
        case _:
            return None
