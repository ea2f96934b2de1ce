"""Finds operators for which any change of their inputs can affect all of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arctic_runtime.ivm.algebra.tree import Aggregate, Join, Node, SemiJoin, WindowColumns, list_children
from arctic_runtime.ivm.algebra.unique import has_single_row, is_unique
from arctic_runtime.ivm.frontend.clauses.limits import is_number_of_limit
from arctic_runtime.ivm.rules.partners import has_link
from arctic_runtime.ivm.rules.terms import has_changed
from arctic_runtime.ivm.strategies.determinism import is_deterministic
from arctic_runtime.model.names import TableName

_NO_LINK = "what changed is joined, or asked for by IN or EXISTS, without an equality of columns"
_UNSURE = "a single row that others are compared to has changed, and may not be the same when it is computed again"


def walk_changing(node: Node, changed: frozenset[TableName]) -> Iterator[Node]:
    """Yields each operator with changes that a plan has to derive, from the top down.

    Operators on the right side of a semi-join with a single row, as in `amount > (select avg(amount) …)`, are left out,
    because plans compute that row in full, from the old and from the new sources.
    """
    if not has_changed(node, changed):
        return
    yield node
    is_judged = isinstance(node, SemiJoin) and has_single_row(node)
    for child in list_children(node)[: 1 if is_judged else None]:
        yield from walk_changing(child, changed)


def explain_full_invalidation(node: Node, changed: frozenset[TableName], types: Mapping[str, str]) -> str | None:
    """Explains why any change below an operator may affect all rows of its result; None if that is not so.

    `types` are the types of columns, by name.
    """
    match node:
        case Aggregate(keys=()):
            return "an aggregate without groups has changed"
        case WindowColumns(partition=(), expressions=((name, _), *_)) if is_number_of_limit(name):
            return "rows below a LIMIT have changed, which no aggregate state tells"
        case WindowColumns(partition=()):
            return "a window over all rows has changed, one without PARTITION BY"
        case SemiJoin(right=right) if has_single_row(node):
            is_open = has_changed(right, changed) and not is_deterministic(right, types)
            return _UNSURE if is_open else None
        case SemiJoin(left=left, right=right, on=on) | Join(kind="left", left=left, right=right, on=on):
            is_open = has_changed(right, changed) and not has_link(left, right, on)
            return _NO_LINK if is_open else None
        case Join(kind="full", left=left, right=right, on=on):
            return None if has_link(left, right, on) else _NO_LINK
        case Join(left=left, right=right, on=on):
            if has_link(left, right, on):
                return None
            is_open = any(has_changed(side, changed) and is_unique(side, ()) for side in (left, right))
            return "a single row that all others are joined to has changed" if is_open else None
        case _:
            return None
